"""H7: what is needed day by day works from a chat, for those who may, and tells nothing to others."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House, Visitor
from waiting import wait_until

from hermes_base.inbound import Address, Inbound
from hermes_cli.logs import keep_log
from hermes_lab.server import LabServer

PEOPLE = {"owner": "olga", "admins": ["adam"], "allow": ["ann"]}


@pytest.fixture
def house(home: Path, lab: LabServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[House]:
    monkeypatch.chdir(tmp_path)
    with keep_log(home), House(home, lab.base_url, pretend=PEOPLE, approvals={"mode": "ask"}) as made:
        yield made


def find_code(person: Visitor) -> str:
    found = re.search(r"approve (\w{8})", person.wait_seen("I do not know you yet").text)
    assert found
    return found[1]


def find_id(house: House, sender: str) -> str:
    people = house.operate("people.list")["people"]
    return next(one["id"] for one in people if any(who["sender"] == sender for who in one["identities"]))


def test_daily_needs_work_from_chat(house: House) -> None:
    """H7: status, usage, model, stop, resume, approvals, people and logs, one after the other."""
    olga = house.person("olga")
    olga.ask("[[say hello]]")
    assert "Turns under way" in olga.ask("/status")[-1]
    assert "Today:" in olga.ask("/usage")[-1]
    assert "lab (" in olga.ask("/model")[-1]
    olga.say("[[stall 30]]")
    wait_until(lambda: any(lane.slot is not None and lane.slot.is_turn for lane in house.gateway.lanes.values()))
    assert any("Interrupted" in said for said in olga.ask("/stop"))
    olga.ask("/new")
    listed = olga.ask("/resume")[-1]
    assert "hello" in listed
    assert "Going on with" in olga.ask(f"/resume {listed.split()[0]}")[-1]
    olga.say('[[tool terminal {"command": "touch made"}]]')
    olga.wait_question("touch made")
    olga.say("yes")
    house.wait_quiet()
    assert "the turn completed" in olga.ask("/logs 40")[-1]
    assert "owner" in olga.ask("/people")[-1]


def test_somebody_is_seen_and_removed_from_chat(house: House) -> None:
    """H7, G1, G3: a request is seen from any chat, approved on the machine alone, and a person removed from chat."""
    olga, sam = house.person("olga"), house.person("sam")
    sam.say("Hello?")
    code = find_code(sam)
    assert code in olga.ask("/people")[-1]
    assert "on the machine itself" in olga.ask(f"/people approve {code}")[-1]
    assert not any("You said" in said for said in sam.ask("Now?"))
    house.operate("people.approve", code=code)
    assert "You said: Now?" in sam.ask("Now?")[-1]
    assert "may not speak any more" in olga.ask(f"/people remove {find_id(house, 'sam')}")[-1]
    before = len(sam.seen)
    sam.ask("And now?")
    assert not any("You said" in said for said in sam.seen[before:])


@pytest.mark.parametrize(
    "said", ["/people approve", "/people remove", "/people list all", "/people nonsense", "/logs x"]
)
def test_a_wrong_use_says_the_right_one(house: House, said: str) -> None:
    """H8"""
    assert "Say " in house.person("olga").ask(said)[-1]


@pytest.mark.parametrize("said", ["/logs", "/people", "/status"])
def test_members_are_refused(house: House, said: str) -> None:
    """G12: the house is not theirs."""
    [answer] = house.person("ann").ask(said)
    assert "Turns under way" not in answer
    assert "olga" not in answer


def test_a_group_is_not_told(house: House) -> None:
    """G12: the owner asks in front of everybody."""
    olga = house.person("olga", chat="group-1", kind="group")
    for said in ("/logs", "/people"):
        assert "not shown in a group" in olga.ask(said)[-1]


def test_somebody_is_let_in_from_the_page(house: House) -> None:
    """H7, G1: the page of this machine is the machine."""
    sam = house.person("sam")
    sam.say("Hello?")
    talk = "agent:main:web:dm:one"
    said = Inbound(Address("web", "web", talk), "1", "owner", f"/people approve {find_code(sam)}", conversation=talk)
    house.wait_for(house.gateway.take(said))
    house.wait_quiet()
    assert "You said: Now?" in sam.ask("Now?")[-1]
