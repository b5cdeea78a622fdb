"""A tool's thread that fails or was stopped ends its round: nobody waits for a result that never comes."""

import asyncio
import json
import sys
import threading
from typing import Any

import pytest
from moody_model import HEAD, MoodyModel, answer, call, call_once, end, say

from agent.turn import parallel
from agent.turn.parallel import run_in_order
from hermes_base.errors import Fenced, HermesError
from hermes_base.turn.cancel import CancelToken
from hermes_constants import get_hermes_home
from run_agent import AIAgent
from tools.registry import ToolRegistry, registry


@pytest.mark.timeout(30)
def test_what_a_thread_of_a_round_raises_reaches_the_turn() -> None:
    """C4, H8: such as a store that is full, or that belongs to another process now."""

    def run(call: int) -> str:
        if call:
            raise Fenced("another process owns it")
        return "done"

    taken: list[str] = []
    with pytest.raises(Fenced, match="another process"):
        run_in_order([0, 1], run, lambda _, result: taken.append(result), CancelToken())


@pytest.mark.timeout(60)
@pytest.mark.parametrize("raised", [SystemExit("bye"), asyncio.CancelledError(), KeyboardInterrupt()], ids=repr)
@pytest.mark.parametrize("count", [1, 2], ids=["alone", "beside another"])
def test_a_tool_that_would_end_the_program_is_a_failed_call(raised: BaseException, count: int) -> None:
    """C4, H8: the model reads what happened, and the turn goes on."""

    def end(args: dict[str, Any]) -> str:
        raise raised

    registry.register("end_it", "ending", {"description": "Ends.", "parameters": {"type": "object"}}, end)
    get_hermes_home().mkdir(exist_ok=True)
    try:
        with MoodyModel() as model:
            model.mood = call_once(*[("end_it", {})] * count, then=answer("still here"))
            agent = AIAgent(model="m", base_url=model.base_url, api_key="k", enabled_toolsets=["ending"])
            done = agent.run_conversation("go")
    finally:
        registry.deregister("end_it")
    assert done["final_response"] == "still here"
    results = [message["content"] for message in done["messages"] if message["role"] == "tool"]
    assert len(results) == count
    assert all(f"end_it failed: {type(raised).__name__}" in result for result in results)


@pytest.mark.timeout(30)
def test_what_would_end_a_program_ends_the_round_only() -> None:
    """C4: also when it comes from outside of the tool, such as a callback of the host."""

    def run(call: int) -> str:
        sys.exit("bye")

    with pytest.raises(HermesError, match="SystemExit: bye"):
        run_in_order([0], run, lambda *_: None, CancelToken())


@pytest.mark.timeout(30)
def test_a_check_that_would_end_the_program_leaves_its_tool_out() -> None:
    """H8."""
    made = ToolRegistry()
    made.register("odd", "ending", {}, lambda args: "", check_fn=lambda: sys.exit("bye"))
    assert made.is_available("odd") is False


@pytest.mark.timeout(60)
def test_a_stopped_call_has_its_result_though_its_id_came_before(monkeypatch: pytest.MonkeyPatch) -> None:
    """C4: servers that give the same ids in every answer. A strict one refuses a call without a result for good."""
    monkeypatch.setattr(parallel, "GRACE_SECONDS", 0.1)
    schema = {"description": "x", "parameters": {"type": "object"}}
    begun, over = threading.Event(), threading.Event()
    registry.register("quick", "ending", schema, lambda args: "{}")
    registry.register("deaf", "ending", schema, lambda args: (begun.set(), str(over.wait(60)))[1])
    get_hermes_home().mkdir(exist_ok=True)
    said = HEAD + say("fine") + end()
    replies = iter([call(("quick", {})), said, call(("deaf", {})), said])
    try:
        with MoodyModel() as model:
            model.mood = lambda request: iter([next(replies)])
            agent = AIAgent(model="m", base_url=model.base_url, api_key="k", enabled_toolsets=["ending"])
            agent.run_conversation("one")
            stopping = threading.Thread(target=lambda: begun.wait(60) and agent.interrupt())
            stopping.start()
            assert agent.run_conversation("two")["interrupted"]
            agent.run_conversation("three")
            stopping.join()
    finally:
        over.set()
        registry.deregister("quick")
        registry.deregister("deaf")
    sent = json.loads(model.requests[-1])["messages"]
    roles = "".join(message["role"][0] for message in sent)
    assert roles == "suatauatau"
    ids = [made["id"] for message in sent for made in message.get("tool_calls", ())]
    assert ids == [message["tool_call_id"] for message in sent if message["role"] == "tool"]
    assert len(set(ids)) == 2
