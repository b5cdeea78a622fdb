"""The event loop is never held: whatever a callback does, it takes less than 50 ms of its thread's time."""

from typing import Any

import pytest
from local_gateway import LocalHouse
from loop_watch import watch_loop
from raw_client import RawClient
from waiting import wait_until

from hermes_base import local_wire as wire
from hermes_lab.server import LabServer


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return watch_loop(monkeypatch)


def test_no_callback_holds_the_loop(house: LocalHouse, lab: LabServer, slow: list[str]) -> None:
    """F5: many at once, long texts both ways, commands, and somebody who comes back to a long conversation."""
    people = [house.client(f"p{number}") for number in range(12)]
    for client in people:
        client.say("x" * 300_000 + " [[chunks 400]]", "1")
    for number, client in enumerate(people):
        client.say("/usage", "2")
        client.say(f"[[say {number}]] " + "long words " * 5_000, "3")
    wait_until(lambda: all(_is_done(client) for client in people), 60)
    first: Any = people[0].welcome
    late = house.client("late", conversation=first.conversation, after=wire.Cursor())
    wait_until(lambda: len(late.answers()) >= 2)
    assert not slow


def _is_done(client: RawClient) -> bool:
    dealt = {seq for line in client.find(wire.DealtWith) for seq in line.seqs}
    return {1, 2, 3} <= dealt
