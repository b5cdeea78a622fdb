"""C4: a stop that comes right behind its message, before the turn has begun, is not lost."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest
from local_gateway import LocalHouse
from raw_client import RawClient, Stop, Stopped
from waiting import wait_until

from gateway.core.route import NOTHING_RUNS
from gateway.turns.sender import Senders
from hermes_base import local_wire as wire
from hermes_lab.server import LabServer


def say(client: RawClient, name: str, text: str) -> None:
    client.send(wire.Say(name, text))
    wait_until(lambda: bool(client.find(wire.Stored, lambda line: line.id == name)))


@pytest.mark.parametrize("how", ["button", "/stop"])
@pytest.mark.parametrize("late", [0.0, 0.02])
def test_a_stop_right_behind_its_message_is_heard(house: LocalHouse, lab: LabServer, how: str, late: float) -> None:
    """Nothing is paid for it, and the next message is answered."""
    client = house.client()
    say(client, "a", "[[stall 60]][[say too late]]")
    time.sleep(late)
    if how == "button":
        client.send(Stop("s"))
        wait_until(lambda: bool(client.find(Stopped, lambda line: line.ok)))
        assert not house.gateway.turns.open_seqs(client.welcome.conversation), "confirmed, and a kill would undo it"
    else:
        say(client, "s", "/stop")
    wait_until(lambda: not house.gateway.turns.open_seqs(client.welcome.conversation))
    say(client, "b", "[[say next]]")
    wait_until(lambda: bool(client.find(wire.Deliver, lambda line: line.outgoing.text == "next")))
    assert not client.find(wire.Deliver, lambda line: NOTHING_RUNS in line.outgoing.text)
    assert sum("too late" in str(request.json()) for request in lab.requests) <= 2  # the history of the next turn


def test_a_stop_while_the_lane_looks_at_the_store_is_heard(
    house: LocalHouse, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    looks, may_go_on, look = threading.Event(), threading.Event(), Senders.look

    def look_slowly(self: Senders, *args: Any, **more: Any) -> Any:
        looks.set()
        assert may_go_on.wait(60)
        return look(self, *args, **more)

    monkeypatch.setattr(Senders, "look", look_slowly)
    client = house.client()
    say(client, "a", "[[say too late]]")
    assert looks.wait(60)
    client.send(Stop("s"))
    wait_until(lambda: any(lane._next_stop.reason for lane in list(house.gateway.lanes.at_work.values())))
    may_go_on.set()
    wait_until(lambda: bool(client.find(Stopped)))
    assert client.find(Stopped, lambda line: line.ok)
    assert lab.requests == ()


def test_a_stop_where_nothing_waits_changes_nothing(house: LocalHouse, home: Path) -> None:
    """C5: the message that comes after it is answered."""
    del home
    client = house.client()
    say(client, "s", "/stop")
    say(client, "b", "[[say next]]")
    wait_until(lambda: bool(client.find(wire.Deliver, lambda line: line.outgoing.text == "next")))
    assert client.find(wire.Deliver, lambda line: NOTHING_RUNS in line.outgoing.text)
