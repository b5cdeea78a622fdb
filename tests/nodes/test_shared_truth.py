"""What one gateway is told holds on all that share its database: people, approvals, spend (I4)."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_nodes import Node, Nodes, run_hermes, running_nodes
from gateway_process import Person
from postgres_server import get_server
from processes import find_processes, sleep_for_a_day
from waiting import wait_until

from hermes_base.inbound import QUESTION
from hermes_lab.server import LabServer

#: What a command says that may reach the network is foreign text, and what follows it is asked for each time.
ASKING = {"approvals": {"mode": "ask"}, "terminal": {"network": False}, "titles": {"enabled": False}}


@pytest.fixture
def two(tmp_path: Path, lab: LabServer) -> Iterator[Nodes]:
    database = get_server().make_database()
    with running_nodes(tmp_path, lab, database, "a", "b", **ASKING, people=4) as nodes:
        yield nodes


def find_id(node: Node, sender: int) -> str:
    for person in node.operate("people.list")["people"]:
        if any(identity["sender"] == str(sender) for identity in person["identities"]):
            return str(person["id"])
    raise AssertionError(f"nobody is {sender}")


def find_places(nodes: Nodes, person: int) -> tuple[Node, Node]:
    """The gateway that works on the conversation of a person, and another one."""
    ((owner,),) = nodes.read(f"select owner from conversation where id like '%/{person}' or id like '%:{person}'")
    by_node = {node.node: node for node in nodes.nodes.values()}
    return by_node[str(owner)], next(node for id, node in by_node.items() if id != owner)


def begin_turn(nodes: Nodes, person: int) -> tuple[Node, Node]:
    """A turn that does not end by itself: where it runs, and another gateway."""
    nodes.telegram.say(person, "m1.stalls [[say a]] [[stall 600]] [[say never]]")
    wait_until(lambda: any(node.operate("status")["working"] for node in nodes.nodes.values()))
    return find_places(nodes, person)


@pytest.mark.parametrize("how", ["remove", "forget", "unlink"])
def test_who_loses_access_on_one_gateway_has_none_on_the_other(two: Nodes, how: str) -> None:
    """I4, G3: a turn of theirs that the other one runs is stopped, and what they say next is not answered."""
    ben = two.people[1]
    two.ask(ben, "m1.1 [[say answer one]]", "answer one")
    there, here = begin_turn(two, ben)
    given = {"platform": "telegram", "sender": str(ben)} if how == "unlink" else {}
    here.operate(f"people.{how}", id=find_id(here, ben), **given)
    wait_until(lambda: not there.operate("status")["working"])
    two.telegram.say(ben, "m1.3 [[say answer three]]")
    two.ask(two.people[0], "m0.1 [[say to the owner]]", "to the owner")  # who said it later
    assert "answer three" not in two.seen(ben)
    assert "never" not in "".join(two.seen(ben))


@pytest.mark.parametrize("how", ["remove", "forget"])
def test_what_somebody_left_running_ends_with_their_access(tmp_path: Path, lab: LabServer, how: str) -> None:
    """I4, G3: also on the gateway that was not told, and when nothing in the store says any more whose it was."""
    sleep = sleep_for_a_day()
    command = json.dumps({"action": "start", "command": sleep})
    settings = {"approvals": {"mode": "auto"}}
    with running_nodes(tmp_path, lab, get_server().make_database(), "a", "b", **settings) as two:
        ben = two.people[1]
        two.ask(ben, f"m1.1 [[tool process {command}]] [[then]] [[say it runs]]", "it runs")
        there, here = find_places(two, ben)
        assert find_processes(sleep)
        here.operate(f"people.{how}", id=find_id(here, ben))
        wait_until(lambda: not find_processes(sleep))
        assert not there.is_dead


def test_a_role_holds_on_all_gateways(two: Nodes) -> None:
    """I4: who was made an admin beside the gateway that has their conversation is obeyed there at once."""
    ben = two.people[1]
    two.ask(ben, "m1.1 [[say answer one]]", "answer one")
    there, here = find_places(two, ben)
    before = len(two.seen(ben))
    two.telegram.say(ben, "/people")
    wait_until(lambda: len(two.seen(ben)) == before + 1)
    assert str(ben) not in two.seen(ben)[-1]
    here.operate("people.role", id=find_id(here, ben), role="admin")
    two.telegram.say(ben, "/people")
    wait_until(lambda: len(two.seen(ben)) == before + 2)
    assert find_id(there, ben) in two.seen(ben)[-1]


def test_an_approval_that_is_kept_on_one_gateway_holds_on_the_other_and_ends_there(two: Nodes, tmp_path: Path) -> None:
    """I4, G4: for exactly the same command in the same folder nobody is asked again; revoked on either, they are."""
    here, there = two.nodes.values()
    folder = tmp_path / "work"
    folder.mkdir()
    words = json.dumps({"command": "touch made && echo done"})
    ann, ada = (Person(node.home, name, folder=str(folder)) for node, name in ((here, "ann"), (there, "ada")))

    def list_asked(person: Person) -> list[str]:
        return [one.outgoing.question for one in person.shown if one.outgoing.kind == QUESTION]

    def ask(node: Node, person: Person, word: str) -> bool:
        """Say something that takes an approval; whether it was asked for. The answer is kept."""
        before = list_asked(person)
        said = person.say(f"m1.{word} [[tool terminal {words}]] [[then]] [[say done {word}]]")
        wait_until(lambda: person.is_dealt(said) or list_asked(person) != before)
        asked = list_asked(person) != before
        if asked:
            answer = {"question": list_asked(person)[-1], "text": "always"}
            assert node.post("/web/answer", conversation=person.conversation, **answer) == {"ok": True}
        person.wait_dealt(said)
        person.wait_shown(f"done {word}")
        return asked

    try:
        assert ask(here, ann, "one")
        assert not ask(there, ada, "two")
        (rule,) = there.operate("approvals.list")["approvals"]
        assert there.operate("approvals.revoke", id=rule["id"]) == {"revoked": 1}
        assert ask(here, ann, "three")
    finally:
        ann.close()
        ada.close()


def test_what_was_spent_anywhere_is_told_everywhere(two: Nodes) -> None:
    """I4, A10: the ledger is one."""
    here, there = two.nodes.values()
    people = [Person(node.home, name) for node, name in ((here, "ann"), (there, "ada"))]
    try:
        for person in people:
            person.ask(f"m1.{person.name} [[say hello]]")
        told = [json.loads(run_hermes(node, "usage", "--json")) for node in (here, there)]
        assert told[0] == told[1]
        assert told[0]["total"]["calls"] == 2
    finally:
        for person in people:
            person.close()
