"""The sign that a message was taken: for what was written to us, once, and never at the cost of what is said."""

from pathlib import Path

import pytest
from house import House
from pretending import QUICK
from waiting import wait_until

from gateway.platforms.pretend.service import PretendRules, ServiceError
from gateway.service import gateway
from hermes_lab.server import LabServer

PEOPLE = {"owner": "olga", "allow": ["ann"], "groups": {"g": {}}}


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gateway.delivery.delivery.Pace", lambda: QUICK)
    monkeypatch.setattr(gateway, "GRACE_SECONDS", 0.2)


def test_a_message_is_marked_once_when_it_is_taken(home: Path, lab: LabServer) -> None:
    """C1: a message that comes again is not marked again; commands and buttons have their own answer."""
    with House(home, lab.base_url, PretendRules(has_receipts=True), pretend=PEOPLE) as house:
        first = house.call(lambda: house.service.say("chat-ann", "[[pause 0.1]] hello", "ann"))
        wait_until(lambda: house.service.marked == [first.id])
        second = house.call(lambda: house.service.say("chat-ann", "and more", "ann"))
        house.call(lambda: house.service.repeat(first))
        house.call(lambda: house.service.say("chat-ann", "/status", "ann"))
        house.wait_quiet()
        wait_until(lambda: len(house.service.marked) == 2)
        assert house.service.marked == [first.id, second.id]


def test_what_is_not_for_us_is_not_marked(home: Path, lab: LabServer) -> None:
    """G1: neither talk of a group nor a stranger sees that we read."""
    with House(home, lab.base_url, PretendRules(has_receipts=True), pretend=PEOPLE) as house:
        house.call(lambda: house.service.say("g", "between us", "ann", kind="group"))
        house.call(lambda: house.service.say("chat-eve", "hello?", "eve"))
        house.wait_quiet()
        spoken = house.call(lambda: house.service.say("g", "you there", "ann", kind="group", mentioned=True))
        wait_until(lambda: house.service.marked == [spoken.id])
        house.wait_quiet()


def test_a_mark_that_fails_costs_nothing(home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch) -> None:
    with House(home, lab.base_url, PretendRules(has_receipts=True), pretend=PEOPLE) as house:

        async def refuse(chat: str, message_id: str) -> None:
            del chat, message_id
            raise ServiceError(400, "no such sign")

        monkeypatch.setattr(type(house.service), "mark", lambda _, chat, message_id: refuse(chat, message_id))
        ann = house.person("ann")
        ann.say("hello")
        house.wait_quiet()
        assert len(house.service.seen("chat-ann")) == 1


def test_nothing_is_marked_where_there_is_no_sign(home: Path, lab: LabServer) -> None:
    with House(home, lab.base_url, pretend=PEOPLE) as house:
        house.person("ann").say("hello")
        house.wait_quiet()
        assert "mark" not in {call.kind for call in house.service.calls}
