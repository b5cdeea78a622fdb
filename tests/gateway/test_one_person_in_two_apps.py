"""One person over several apps: joined by a code, with one memory and conversations that can be brought over."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from house import House, Visitor
from two_apps import TwoApps, two_apps
from waiting import wait_until

from hermes_lab.server import LabServer

PEOPLE = {"owner": "olga", "allow": ["ann", "ben"]}


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[TwoApps]:
    with two_apps(home, lab.base_url, pretend=PEOPLE) as made:
        yield made


def read_people(house: House) -> dict[str, tuple[str, str]]:
    """By identity: who it is, and as what."""
    listed = house.operate("people.list")["people"]
    return {
        f"{one['platform']}:{one['sender']}": (person["id"], person["role"])
        for person in listed
        for one in person["identities"]
    }


def ask_code(person: Visitor) -> str:
    found = re.search(r"/link (\w{8})", person.ask("/link")[-1])
    assert found
    return found[1]


def join(house: TwoApps, here: str, there: str) -> tuple[Visitor, Visitor]:
    ann, elsewhere = house.person(here), house.there(there)
    ann.ask("[[say hello]]")
    elsewhere.ask(f"/link {ask_code(ann)}")
    return ann, elsewhere


def test_a_code_joins_a_stranger_to_the_person_who_asked_for_it(house: TwoApps, lab: LabServer) -> None:
    """G1, G2: who is let in by nobody but says the code is that person there, once; both places are told; nothing of
    it reaches a model."""
    ann, there = house.person("ann"), house.there("4711", name="Somebody")
    ann.ask("[[say hello]]")
    calls = len(lab.requests)
    code = ask_code(ann)
    told = there.ask(f"/link {code[:4].lower()} {code[4:]}")[-1]
    id = read_people(house)["pretend:ann"][0]
    assert f"You are Ann ({id}) here, too" in told
    assert read_people(house)["other:4711"] == (id, "member")
    ann.wait_seen("4711 on other is you from now on")
    assert len(lab.requests) == calls
    thief = house.there("666", name="Ann")
    assert "I do not know you yet" in thief.ask(f"/link {code}")[-1]
    assert "other:666" not in read_people(house)
    assert there.ask("[[say it works]]") == ["it works"]


@pytest.mark.parametrize("said", ["/link", "/link WRONGWRO", "link {code}", "/link {code} x"])
def test_a_wrong_code_is_a_strangers_word(house: TwoApps, said: str) -> None:
    """G1: they get a pairing code, once, and nothing else."""
    ann, there = house.person("ann"), house.there("4711")
    ann.ask("[[say hello]]")
    code = ask_code(ann)
    assert "I do not know you yet" in there.ask(said.format(code=code))[-1]
    assert "other:4711" not in read_people(house)


def test_in_a_group_no_code_is_given_or_taken(house: TwoApps) -> None:
    room = house.person("ann", "room", "group")
    assert "direct chat" in room.ask("/link")[-1]
    ann = house.person("ann")
    ann.ask("[[say hello]]")
    assert house.there("4711", "room", "group").ask(f"/link {ask_code(ann)}") == []
    assert "other:4711" not in read_people(house)


def test_who_was_removed_is_not_brought_back_by_a_code(house: TwoApps) -> None:
    """G3."""
    ann, there = join(house, "ann", "4711")
    house.operate("people.unlink", id=read_people(house)["pretend:ann"][0], platform="other", sender="4711")
    assert "I do not know you yet" in there.ask(f"/link {ask_code(ann)}")[-1]
    assert "other:4711" not in read_people(house)


def test_somebody_with_nothing_to_lose_moves(home: Path, lab: LabServer) -> None:
    """The one who asked for the code keeps id and role; the other is gone."""
    with two_apps(home, lab.base_url, pretend=PEOPLE, other={"allow": ["4711"]}) as house:
        ann, there = house.person("ann"), house.there("4711")
        ann.ask("[[say hello]]")
        there.ask("/help")
        before = read_people(house)
        assert before["other:4711"] != before["pretend:ann"]
        assert "here, too" in there.ask(f"/link {ask_code(ann)}")[-1]
        assert read_people(house)["other:4711"] == before["pretend:ann"]
        assert "already" in there.ask(f"/link {ask_code(ann)}")[-1]


def test_two_people_with_data_are_refused(home: Path, lab: LabServer) -> None:
    """What belongs to somebody is not lost by a code; the operator is named."""
    with two_apps(home, lab.base_url, pretend=PEOPLE, other={"allow": ["4711"]}) as house:
        ann, there = house.person("ann"), house.there("4711")
        ann.ask("[[say hello]]")
        there.ask("[[say hello]]")
        before = read_people(house)
        told = there.ask(f"/link {ask_code(ann)}")[-1]
        assert "hermes people remove" in told
        assert f"hermes people link {before['pretend:ann'][0]}" in told
        assert read_people(house) == before


def test_nobody_gives_up_rights_by_a_code(house: TwoApps) -> None:
    """The owner who says the code of a member stays the owner."""
    ann, olga = house.person("ann"), house.person("olga")
    olga.ask("/help")
    ann.ask("[[say hello]]")
    assert "somebody already" in olga.ask(f"/link {ask_code(ann)}")[-1]
    assert read_people(house)["pretend:olga"][1] == "owner"


def test_an_identity_that_is_taken_back_ends_what_it_began(house: TwoApps, lab: LabServer) -> None:
    """G3: its turn stops, its chat is no home any more, and its next message is a stranger's; the person stays."""
    ann, there = join(house, "ann", "4711")
    there.ask("/sethome")
    there.say("[[stall 30]]never")
    wait_until(lambda: lab.in_flight == 1)
    id = read_people(house)["pretend:ann"][0]
    house.operate("people.unlink", id=id, platform="other", sender="4711")
    wait_until(lambda: lab.in_flight == 0)
    house.wait_quiet()
    assert house.gateway.store.habits.get(id).home is None
    assert there.count("never") == 0
    there.ask("hello?")
    assert there.count("I do not know you yet") == 1
    assert ann.ask("[[say still me]]") == ["still me"]


# --- what they share


def test_the_same_memory_and_their_own_conversations(house: TwoApps, lab: LabServer) -> None:
    """G12: what is noted in one app is in the prompt of the other; a conversation stays in its chat."""
    ann, there = join(house, "ann", "4711")
    ann.ask('[[tool memory {"action": "add", "content": "likes heliotrope"}]]')
    there.ask("[[say hi]]")
    asked = lab.requests[-1].json()["messages"]
    assert "likes heliotrope" in str(asked[0])
    assert len(asked) == 2
    assert ann.conversation != there.conversation


def test_a_conversation_is_brought_over(house: TwoApps, lab: LabServer) -> None:
    """G12: begun in one app, gone on with in the other, as it was sent (A1); the first stays as it is; nobody else
    finds it."""
    ann, there = join(house, "ann", "4711")
    ann.ask("[[say about heliotropes]]")
    session = house.gateway.store.current(ann.conversation)
    assert session is not None
    before = lab.requests[-1].json()["messages"]
    listed = there.ask("/resume")[-1]
    assert session.id in listed
    assert "(Pretend)" in listed
    assert "in a copy here" in there.ask(f"/resume {session.id}")[-1]
    there.ask("[[say and begonias]]")
    after = lab.requests[-1].json()["messages"]
    assert after[: len(before)] == before
    assert "begonias" in str(after[-1])
    unchanged = house.gateway.store.session(session.id)
    assert unchanged is not None
    assert unchanged.version == session.version
    ann.ask("[[say more]]")
    assert "begonias" not in str(lab.requests[-1].json()["messages"])
    ben, stranger = house.person("ben"), house.there("777")
    ben.ask("[[say hello]]")
    assert "heliotropes" not in ben.ask("/resume")[-1]
    assert "There is no session" in ben.ask(f"/resume {session.id}")[-1]
    assert "heliotropes" not in str(stranger.ask("/resume"))


def test_a_group_goes_on_with_its_own(house: TwoApps) -> None:
    """G12: what somebody said to us alone is not brought into a group."""
    ann, room = house.person("ann"), house.person("ann", "room", "group")
    ann.ask("[[say about heliotropes]]")
    session = house.gateway.store.current(ann.conversation)
    assert session is not None
    room.ask("[[say hello]]")
    assert "heliotropes" not in room.ask("/resume")[-1]
    assert "There is no session" in room.ask(f"/resume {session.id}")[-1]


def test_removing_the_person_ends_both(house: TwoApps) -> None:
    """G3."""
    ann, there = join(house, "ann", "4711")
    there.ask("[[say hi]]")
    house.operate("people.remove", id=read_people(house)["pretend:ann"][0])
    for each in (ann, there):
        each.say("still there?")
        wait_until(lambda person=each: person.count("I do not know you yet") == 1)
