"""A turn that does not come back is left behind, and what it does later touches nobody."""

import threading
from collections.abc import Callable

import pytest
from local_gateway import LocalHouse
from stalling import SERVED_SECONDS
from waiting import wait_until

from gateway.turns import lane as lanes
from hermes_base import local_wire as wire

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
    wait_until(lambda: conversation in runner._running_agents)
    wait_until(lambda: bool(client.find(wire.Happened)))  # the tool has begun
    client.send(wire.Stop("s"))
    wait_until(lambda: any("Interrupted" in text for text in client.answers()), SERVED_SECONDS)
    client.say("[[stall 60]]", "2")
    wait_until(lambda: conversation in runner._agent_cache and conversation in runner._running_agents)
    successor = runner.cached_agent(conversation)
    left.join(SERVED_SECONDS)
    assert not left.is_alive()
    assert runner._running_agents.get(conversation) is successor
    over.set()
    client.send(wire.Stop("s"))


def find_turns(conversation: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == f"turn {conversation[-40:]}"]
