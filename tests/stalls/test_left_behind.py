"""A turn that does not come back is left behind, and what it does later touches nobody."""

import json
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from gateway_process import read_store
from local_gateway import LocalHouse
from moody_model import HEAD, MoodyModel, call, end, say
from raw_client import Stop
from stalling import SERVED_SECONDS
from waiting import wait_until

from agent.formats.repair import UNKNOWN_OUTCOME
from agent.turn import parallel
from agent.turn.driver import TOOL_ENDED, TOOL_STARTED
from gateway.service import gateway as gateways
from gateway.turns import lane as lanes
from hermes_base import local_wire as wire
from hermes_base.chat import ToolEnded
from hermes_base.errors import StoreFailure
from hermes_base.turn.tool_context import ToolContext
from hermes_cli import config
from hermes_lab.server import LabServer
from hermes_state.turns import Claim

AddTool = Callable[[str, Callable[..., str]], None]


def test_the_late_end_of_a_turn_does_not_unregister_its_successor(
    house: LocalHouse, add_tool: AddTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F2, C4: a hanging turn is stopped and left behind; the next one runs when the first ends after all. The agent of
    the next one still counts as running, so nobody sheds it in mid-turn."""
    monkeypatch.setattr(lanes, "STOP_PATIENCE", 0.1)  # the turn itself gives its tools longer than that
    over = threading.Event()
    add_tool("hang", lambda args: str(over.wait(60)))
    client = house.client()
    conversation, runner = client.welcome.conversation, house.gateway.runner
    client.say("[[tool hang {}]]", "1")
    wait_until(lambda: bool(find_turns(conversation)))
    [left] = find_turns(conversation)
    name = left.name
    wait_until(lambda: conversation in runner._running_agents)
    wait_until(lambda: bool(client.find(wire.Happened)))  # the tool has begun
    client.send(Stop("s"))
    wait_until(lambda: any("Interrupted" in text for text in client.answers()), SERVED_SECONDS)
    client.say("[[stall 60]]", "2")
    wait_until(lambda: conversation in runner._agent_cache and conversation in runner._running_agents)
    successor = runner.cached_agent(conversation)
    wait_until(lambda: left.name != name, SERVED_SECONDS)  # it has come back from its work
    assert runner._running_agents.get(conversation) is successor
    over.set()
    client.send(Stop("s"))


def test_a_call_that_was_cut_has_no_result_of_an_earlier_round(
    settings: None, home: Path, add_tool: AddTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C10: servers that give the same ids in every answer. After a restart the outcome of what ran is unknown, and
    what had ended beside it is kept."""
    monkeypatch.setattr(gateways, "GRACE_SECONDS", 0.1)
    begun, over = threading.Event(), threading.Event()
    add_tool("pay", lambda args: "paid the first")
    add_tool("pay_slowly", lambda args: (begun.set(), str(over.wait(60)))[1])
    add_tool("note", lambda args: "noted")
    said = HEAD + say("fine") + end()
    replies = iter([call(("pay", {}), ("note", {})), call(("pay_slowly", {}), ("note", {}))])
    with MoodyModel() as model, ExitStack() as stack:
        model.mood = lambda request: iter([next(replies, said)])
        config.set_value("model.base_url", model.base_url)
        house = LocalHouse(home)
        stack.callback(house.stop)
        stack.callback(over.set)
        house.client().say("pay both", "1")
        wait_until(begun.is_set)
        wait_until(lambda: len(read_store(home, "select n from turn_step where kind = 'tool_ended'")) == 3)
        house.stop()
        house.start()
        wait_until(lambda: len(model.requests) == 3)
    results = [message["content"] for message in json.loads(model.requests[2])["messages"] if message["role"] == "tool"]
    assert results == ["paid the first", "noted", UNKNOWN_OUTCOME, "noted"]


def test_a_turn_that_fails_ends_the_other_calls_of_its_round(
    house: LocalHouse, lab: LabServer, add_tool: AddTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C10: the store fails for one call. The turn is tried again, and no tool of the first try works beside it."""
    asked_when_it_ended: list[int] = []

    def work(args: dict[str, Any], *, context: ToolContext) -> str:
        context.cancel.wait(60)
        asked_when_it_ended.append(len(lab.requests))
        return "ended"

    add_tool("slow", work)
    add_tool("quick", lambda args: "done")
    turns, failed = house.gateway.turns, threading.Event()
    step = turns.step

    def fail_once(claim: Claim, seq: int, n: int, kind: str, body: Mapping[str, Any]) -> None:
        if kind == TOOL_ENDED and not failed.is_set():
            failed.set()
            raise StoreFailure("The store is locked by another process.")
        step(claim, seq, n, kind, body)

    monkeypatch.setattr(turns, "step", fail_once)
    house.client().say("[[tool slow {}]][[tool quick {}]]", "1")
    wait_until(failed.is_set)
    wait_until(lambda: len(lab.requests) == 2)
    assert asked_when_it_ended == [1]


def test_a_call_that_was_left_behind_tells_the_next_turn_nothing(
    house: LocalHouse, home: Path, add_tool: AddTool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C4: a stopped turn leaves a deaf tool behind. When that ends in the middle of the next turn, neither the store
    nor anybody who looks on hears of it."""
    monkeypatch.setattr(parallel, "GRACE_SECONDS", 0.1)
    over, left, steps = threading.Event(), list[threading.Thread](), list[Any]()

    def wait(args: dict[str, Any]) -> str:
        left.append(threading.current_thread())
        return str(over.wait(60))

    def release(args: dict[str, Any]) -> str:
        over.set()
        left[0].join(SERVED_SECONDS)
        steps.extend(read_store(home, "select kind from turn_step"))
        return "released"

    add_tool("deaf", wait)
    add_tool("quick", lambda args: "done")
    add_tool("release", release)
    client = house.client()

    def find_ended() -> list[str]:
        events = [happened.event for happened in client.find(wire.Happened)]
        return [event.name for event in events if isinstance(event, ToolEnded)]

    client.say("[[tool deaf {}]][[tool quick {}]]", "1")
    wait_until(lambda: bool(left) and find_ended() == ["quick"])
    client.send(Stop("s"))
    wait_until(lambda: any("Interrupted" in text for text in client.answers()), SERVED_SECONDS)
    client.say("[[tool release {}]]", "2")
    wait_until(lambda: len(client.answers()) == 2, SERVED_SECONDS)
    assert find_ended() == ["quick", "release"]
    assert steps == [(TOOL_STARTED,)]


def find_turns(conversation: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"turn {conversation[-40:]}"]
