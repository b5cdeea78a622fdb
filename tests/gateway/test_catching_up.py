"""After an absence: what was said in an app with a history is read from the last stored message on."""

import time
from pathlib import Path

from house import ACCOUNT, House

from gateway.platforms.pretend.service import PretendRules
from hermes_base.inbound import Address
from hermes_lab.server import LabServer

PEOPLE = {"owner": "olga", "allow": ["ann", "ben"]}


def test_nothing_that_was_said_while_we_were_away_is_lost_or_read_twice(home: Path, lab: LabServer) -> None:
    """C1: also after the rows of the messages themselves are gone."""
    with House(home, lab.base_url, PretendRules(has_history=True), pretend=PEOPLE) as house:
        ann, ben = house.person("ann"), house.person("ben", "room", "group")
        ann.ask("[[say one]]")
        ben.ask("[[say two]]")
        turns = house.gateway.turns
        assert turns.sweep(time.time() + 3600, 1000) > 0
        assert turns.inbox_since(ann.conversation, 0) == []
        house.stop()
        ann.say("[[say three]]")
        ann.say("/help")
        ben.say("[[say four]]")
        house.start()
        ann.wait_seen("three")
        ann.wait_seen("/new")
        ben.wait_seen("four")
        house.wait_quiet()
        assert (ann.seen.count("one"), ann.seen.count("three"), ann.count("/new")) == (1, 1, 1)
        assert ben.seen == ["two", "four"]
        assert len(lab.requests) == 4


def test_strangers_and_edits_leave_no_mark(home: Path, lab: LabServer) -> None:
    """An edit is of an old message, and of strangers nothing is stored (G1)."""
    with House(home, lab.base_url, PretendRules(has_history=True), pretend=PEOPLE) as house:
        ann, sam = house.person("ann"), house.person("sam")
        first = ann.say("[[say one]]")
        ann.wait_seen("one")
        second = ann.say("[[say two]]")
        ann.wait_seen("two")
        ann.edit(first, "changed")
        sam.say("hello")
        house.wait_quiet()
        place = Address("pretend", ACCOUNT, ann.chat)
        assert house.gateway.turns.find_last(place.account_key) == {place: second.id}


def test_forgotten_people_leave_no_mark(home: Path, lab: LabServer) -> None:
    """G12"""
    with House(home, lab.base_url, PretendRules(has_history=True), pretend=PEOPLE) as house:
        house.person("ann").ask("[[say one]]")
        (person,) = [one["id"] for one in house.operate("people.list")["people"]]
        house.operate("people.forget", id=person)
        assert house.gateway.turns.find_last(f"pretend:{ACCOUNT}") == {}
