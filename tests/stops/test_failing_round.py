"""A tool's thread that fails ends its round: nobody waits for a result that never comes."""

import asyncio
import sys
from typing import Any

import pytest
from moody_model import MoodyModel, answer, call_once

from agent.turn.parallel import run_in_order
from hermes_base.cancel import CancelToken
from hermes_base.errors import Fenced, HermesError
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
