"""H7: what is needed day by day works from a chat, for those who may, and tells nothing to others."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House, Visitor
from raw_client import RawClient
from waiting import wait_until

from hermes_base import local_wire as wire
from hermes_base.inbound import Address, Inbound
from hermes_cli.config.logs import keep_log
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
    wait_until(
        lambda: any(lane.slot is not None and lane.slot.is_turn for lane in house.gateway.lanes.at_work.values())
    )
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
    refused = olga.ask(f"/people approve {code}")[-1]
    assert "on the machine itself" in refused
    assert "The request stays open." in refused
    unknown = olga.ask("/people approve 00000000")[-1]
    assert "no open request with this code" in unknown
    assert "stays open" not in unknown
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


# --- while the settings name no model that can be found


NO_MODEL = {"provider": "custom"}  # without an address


def test_a_new_conversation_is_begun_although_no_model_can_be_found(house: House) -> None:
    """H7, H8: what was chosen ends with the conversation, and what is wrong with the usual model is said along."""
    ann = house.person("ann")
    ann.ask("[[say one]]")
    ann.ask("/model openrouter some/model")
    house.write_settings(model=NO_MODEL)
    [answer] = ann.ask("/new")[-1:]
    assert "A new conversation." in answer
    assert "The provider 'custom' has no address." in answer
    assert house.gateway.store.current(ann.conversation) is None
    assert "model" not in house.gateway.turns.choices(ann.conversation)


@pytest.mark.parametrize(
    ("command", "answer"),
    [
        ("/model openrouter some/model", "some/model (OpenRouter)"),
        ("/reasoning", "Reasoning:"),
        ("/usage", "Window: 256,000 tokens; how full it is"),
        ("/resume", "[[say one]]"),
        ("/undo", "Taken back: [[say one]]"),
    ],
)
def test_commands_work_although_no_model_can_be_found(house: House, command: str, answer: str) -> None:
    """H7: what needs no model does not fail for want of one; and one can be chosen then."""
    ann = house.person("ann")
    ann.ask("[[say one]]")
    house.write_settings(model=NO_MODEL)
    house.gateway.runner._evict_cached_agent(ann.conversation)
    assert answer in ann.ask(command)[-1]


def test_a_terminal_opens_although_no_model_can_be_found(house: House) -> None:
    """H1, H8: its banner says what is wrong, and there the person puts it right."""
    house.write_settings(model=NO_MODEL)
    terminal = RawClient(house.home, "terminal")
    assert "The provider 'custom' has no address." in terminal.banner
    terminal.say("/model openrouter some/model", "choose")
    terminal.wait(wire.Deliver, lambda line: "some/model (OpenRouter)" in line.outgoing.text)
    terminal.close()


def test_a_terminal_that_asks_for_a_wrong_model_changes_nothing(house: House) -> None:
    """H8: an earlier conversation is gone on with only when the model that was named for it can be found."""
    ann = house.person("olga")
    ann.ask("[[say one]]")
    first = house.gateway.store.current(ann.conversation)
    assert first is not None
    ann.ask("/new")
    terminal = RawClient(house.home)
    terminal.send(wire.Hello("terminal", resume=first.id, provider="nobody"))
    wait_until(lambda: any("nobody" in str(line) for line in terminal.lines))
    assert house.gateway.store.current(ann.conversation) is None
    terminal.close()
