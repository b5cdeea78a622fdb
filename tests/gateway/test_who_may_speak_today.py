"""What the settings say of people today holds, whatever was stored before: who the owner is, and who is let in."""

import re
from pathlib import Path
from typing import Any

import pytest
from house import House, Visitor
from two_apps import OTHER, TwoApps, two_apps

from hermes_lab.server import LabServer

NOT_KNOWN = "I do not know you yet"
CODE = r"\b([A-Z2-9]{8})\b"


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


def change(house: House, **pretend: Any) -> None:
    house.write_settings(pretend=pretend)


# --- the owner


@pytest.mark.parametrize("first", ["olga", "ben"])
def test_another_owner_in_the_settings_is_another_person(home: Path, lab: LabServer, first: str) -> None:
    """G2, G3: who was the owner is what the settings say now, with their own chat; the new owner is somebody else."""
    with House(home, lab.base_url, pretend={"owner": "olga"}) as house:
        olga, ben = house.person("olga"), house.person("ben")
        olga.ask("[[say the secret of olga]]")
        id = read_people(house)["pretend:olga"][0]
        change(house, owner="ben", allow=["olga"])
        said = {"olga": lambda: olga.ask("/people")[-1], "ben": lambda: ben.ask("/people")[-1]}
        answers = {name: said[name]() for name in (first, *({"olga", "ben"} - {first}))}
        assert "higher role" in answers["olga"]
        assert "Olga" in answers["ben"]
        people = read_people(house)
        assert people["pretend:olga"] == (id, "member")
        assert people["pretend:ben"][0] != id
        assert people["pretend:ben"][1] == "owner"
        assert "no earlier conversation" in ben.ask("/resume")[-1]
        assert "the secret of olga" in olga.ask("/resume")[-1]


def test_an_owner_by_command_is_not_unmade_by_the_settings(home: Path, lab: LabServer) -> None:
    """What was said on the machine holds until it is said otherwise there."""
    with House(home, lab.base_url, pretend={"allow": ["ann"]}) as house:
        ann = house.person("ann")
        ann.ask("/help")
        house.operate("people.role", id=read_people(house)["pretend:ann"][0], role="owner")
        assert "Ann" in ann.ask("/people")[-1]
        assert read_people(house)["pretend:ann"][1] == "owner"


def test_an_identity_that_is_no_owners_any_more_parts_from_the_owner(home: Path, lab: LabServer) -> None:
    """The owner goes on in the other app; who is a member here now has nothing of theirs."""
    with two_apps(home, lab.base_url, pretend={"owner": "olga"}, other={"owner": "4711"}) as house:
        olga, there = house.person("olga"), house.there("4711")
        olga.ask("[[say hello]]")
        there.ask("[[say hello]]")
        before = read_people(house)
        assert before["pretend:olga"] == before[f"{OTHER}:4711"]
        change(house, owner="ben", allow=["olga"])
        assert "higher role" in olga.ask("/people")[-1]
        house.person("ben").ask("/help")
        people = read_people(house)
        assert people[f"{OTHER}:4711"] == people["pretend:ben"] == before["pretend:olga"]
        assert people["pretend:olga"][0] != before["pretend:olga"][0]
        assert people["pretend:olga"][1] == "member"


def test_an_identity_that_the_owner_joined_by_a_code_stays_the_owners(home: Path, lab: LabServer) -> None:
    """They said themselves that it is theirs, also where the settings list it as a member."""
    with two_apps(home, lab.base_url, pretend={"owner": "olga"}, other={"allow": ["4711"]}) as house:
        olga, there = house.person("olga"), house.there("4711")
        there.ask("/help")
        there.ask(f"/link {ask_code(olga)}")
        assert "Olga" in there.ask("/people")[-1]


# --- who was taken out of the settings


@pytest.fixture
def houses(home: Path, lab: LabServer) -> Any:
    with two_apps(home, lab.base_url, pretend={"owner": "olga", "allow": ["ann"]}) as made:
        yield made


def test_a_code_of_somebody_who_was_taken_out_lets_nobody_in(houses: TwoApps, lab: LabServer) -> None:
    """G3: neither the account that asked for it, nor another one."""
    ann, there = houses.person("ann"), houses.there("4711")
    ann.ask("[[say hello]]")
    code = ask_code(ann)
    change(houses, owner="olga")
    calls = len(lab.requests)
    assert NOT_KNOWN in ann.ask(f"/link {code}")[-1]
    assert NOT_KNOWN in there.ask(f"/link {code}")[-1]
    assert f"{OTHER}:4711" not in read_people(houses)
    assert ann.ask("[[say hello]]") == []
    assert len(lab.requests) == calls


def test_who_was_joined_by_a_code_goes_with_who_asked_for_it(houses: TwoApps, lab: LabServer) -> None:
    """G3: an account that came by a code is worth no more than the one in the settings; it comes back with it."""
    ann, there = houses.person("ann"), houses.there("4711")
    ann.ask("[[say hello]]")
    there.ask(f"/link {ask_code(ann)}")
    assert there.ask("[[say it works]]") == ["it works"]
    change(houses, owner="olga")
    calls = len(lab.requests)
    assert NOT_KNOWN in there.ask("[[say still here]]")[-1]
    third = houses.there("815")
    assert NOT_KNOWN in third.ask("hello")[-1]
    assert len(lab.requests) == calls
    change(houses, owner="olga", allow=["ann"])
    assert there.ask("[[say back]]") == ["back"]


def test_a_code_of_another_app_does_not_bring_back_who_was_taken_out(houses: TwoApps) -> None:
    """G3: a person who is let in elsewhere by approval stays in there, and only there."""
    ann, there = houses.person("ann"), houses.there("4711")
    ann.ask("[[say hello]]")
    id = read_people(houses)["pretend:ann"][0]
    houses.operate("people.link", id=id, platform=OTHER, sender="4711")
    change(houses, owner="olga")
    assert there.ask("[[say it works]]") == ["it works"]
    assert NOT_KNOWN in ann.ask(f"/link {ask_code(there)}")[-1]
    assert ann.ask("[[say hello]]") == []
    assert there.ask("[[say it works]]") == ["it works"]


def test_whoever_runs_it_lets_a_joined_identity_in_for_good(houses: TwoApps) -> None:
    """An operator's word makes it an identity of its own."""
    ann, there = houses.person("ann"), houses.there("4711")
    ann.ask("[[say hello]]")
    there.ask(f"/link {ask_code(ann)}")
    id = read_people(houses)["pretend:ann"][0]
    houses.operate("people.link", id=id, platform=OTHER, sender="4711")
    change(houses, owner="olga")
    assert there.ask("[[say it works]]") == ["it works"]
    assert NOT_KNOWN in ann.ask("[[say hello]]")[-1]


@pytest.mark.parametrize("setting", ["owner", "allow"])
def test_who_was_taken_out_of_the_settings_gets_a_code_and_comes_back_by_it(
    home: Path, lab: LabServer, setting: str
) -> None:
    """G1, G3: they are a stranger again, and the list says so; approved, they are who they were."""
    with House(home, lab.base_url, pretend={setting: "olga"}) as house:
        olga = house.person("olga")
        assert olga.ask("[[say the secret of olga]]") == ["the secret of olga"]
        [known] = house.operate("people.list")["people"]
        assert (known["let_in"], known["role"]) == (True, {"owner": "owner", "allow": "member"}[setting])
        change(house)
        calls = len(lab.requests)
        told = olga.ask("[[say hello]]")
        found = re.search(CODE, told[-1])
        assert NOT_KNOWN in told[-1]
        assert found
        assert olga.ask("[[say hello]]") == []  # one code is enough
        assert len(lab.requests) == calls
        [listed] = house.operate("people.list")["people"]
        assert (listed["let_in"], listed["role"]) == (False, "member")
        assert [one["lets_in"] for one in listed["identities"]] == [False]
        house.operate("people.approve", code=found[1])
        assert olga.ask("[[say back]]")[-1] == "back"
        assert "the secret of olga" in olga.ask("/resume")[-1]
        [listed] = house.operate("people.list")["people"]
        assert (listed["id"], listed["let_in"], listed["role"]) == (known["id"], True, "member")


def test_one_of_several_identities_that_was_taken_out_comes_back_as_somebody_else(home: Path, lab: LabServer) -> None:
    """G2, G3: the settings say that it is the owner's no more; a code does not make it that again."""
    with two_apps(home, lab.base_url, pretend={"owner": "olga"}, other={"owner": "4711"}) as house:
        olga, there = house.person("olga"), house.there("4711")
        olga.ask("/help")
        there.ask("/help")
        before = read_people(house)
        assert before["pretend:olga"] == before[f"{OTHER}:4711"]
        change(house)
        found = re.search(CODE, olga.ask("hello")[-1])
        assert found
        house.operate("people.approve", code=found[1])
        people = read_people(house)
        assert people[f"{OTHER}:4711"] == before["pretend:olga"]
        assert people["pretend:olga"][0] != before["pretend:olga"][0]
        assert people["pretend:olga"][1] == "member"
