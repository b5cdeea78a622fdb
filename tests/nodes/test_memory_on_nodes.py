"""Memory and skills on several gateways: what a turn has written is there for the next one, wherever that runs."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_nodes import Node, Nodes
from gateway_process import Person
from postgres_server import get_server
from talkers import EACH_ALONE
from waiting import wait_until

from hermes_lab.server import LabServer

OWNERS = "select id, owner from conversation where owner is not null"
SKILL = "---\ndescription: How tea is brewed\n---\n# Brew\n"


@pytest.fixture
def two(tmp_path: Path, lab: LabServer) -> Iterator[Nodes]:
    roots = [str(tmp_path / name / "skills") for name in "ab"]
    with Nodes(tmp_path, lab, get_server().make_database(), files={"roots": roots}, **EACH_ALONE) as nodes:
        nodes.start("a", "b")
        yield nodes


def remember(note: str) -> str:
    return f"[[tool memory {json.dumps({'action': 'add', 'content': note})}]]"


def read_memory(node: Node) -> list[str]:
    path = node.home / "memories" / "MEMORY.md"
    return path.read_text().splitlines() if path.exists() else []


def read_prompt(lab: LabServer, word: str) -> str:
    """The system prompt of the conversation that was asked this."""
    asked = next(request.json()["messages"] for request in reversed(lab.requests) if word in request.body.decode())
    return str(asked[0]["content"])


def test_memory_and_skills_outlive_the_gateway_that_wrote_them(two: Nodes, lab: LabServer) -> None:
    """I1, C10: the agent on one writes both; that gateway is killed and its disk is gone. The next conversation on the
    other has them in its prompt, and reads the skill."""
    a, b = two.nodes["a"], two.nodes["b"]
    ann = Person(b.home, "ann")
    try:
        path = b.home / "skills" / "brew" / "SKILL.md"
        write = f"[[tool write_file {json.dumps({'path': str(path), 'content': SKILL})}]]"
        ann.ask(f"m.1 {remember('Ann drinks tea')} [[then]] {write} [[then]] [[say done]]")
        assert path.read_text() == SKILL
    finally:
        ann.close()
    b.kill()
    shutil.rmtree(b.home)
    bob = Person(a.home, "bob")
    try:
        bob.ask('m.2 [[tool skills {"action": "read", "name": "brew"}]] [[then]] [[say read it]]')
        prompt = read_prompt(lab, "m.2")
        assert "- Ann drinks tea" in prompt
        assert "brew: How tea is brewed" in prompt
        assert "# Brew" in lab.requests[-1].body.decode()
    finally:
        bob.close()


def test_notes_of_a_turn_that_broke_off_are_there_when_it_goes_on(two: Nodes, lab: LabServer) -> None:
    """C10: the tool has ended, and its result is stored; whoever goes on finds what it wrote, and writes it once."""
    a, b = two.nodes["a"], two.nodes["b"]
    ann = Person(b.home, "ann")
    try:
        ann.wait_stored(ann.say(f"m.1 {remember('Ann drinks tea')} [[then]] [[stall 600]] [[say never]]"))
        wait_until(lambda: any(request.json()["messages"][-1]["role"] == "tool" for request in lab.requests))
        b.kill()
    finally:
        ann.close()
    wait_until(lambda: read_memory(a) == ["- Ann drinks tea"])


def test_two_conversations_on_two_gateways_lose_no_note(two: Nodes) -> None:
    """I2: of one person, at the same time, again and again."""
    people = {node: Person(node.home, f"person-{node.name}") for node in two.nodes.values()}
    try:
        said = [
            (person, person.say(f"m.{number} {remember(f'note {number} of {node.name}')} [[then]] [[say ok]]"))
            for number in range(5)
            for node, person in people.items()
        ]
        for person, one in said:
            person.wait_dealt(one)
        for person in people.values():
            person.ask("m.9 [[say all there]]")
    finally:
        for person in people.values():
            person.close()
    expected = {f"- note {number} of {name}" for number in range(5) for name in "ab"}
    a, b = two.nodes.values()
    assert set(read_memory(a)) == expected
    assert sorted(read_memory(a)) == sorted(read_memory(b))
    assert len(dict(two.read(OWNERS)).values()) == 2


def test_a_gateway_that_was_taken_for_dead_brings_nothing_in(two: Nodes) -> None:
    """I2, B7: it stood still in the middle of a turn, which the other one then did. What it writes when it wakes does
    not count, now or later; it is put aside."""
    a, b = two.nodes["a"], two.nodes["b"]
    ann = Person(b.home, "ann")
    try:
        said = ann.say(f"m.1 [[stall 4]] {remember('of the turn')} [[then]] [[say done]]")
        ann.wait_stored(said)
        wait_until(lambda: bool(b.operate("status")["working"]))
        with b.standing_still():
            wait_until(lambda: read_memory(a) == ["- of the turn"])
            wait_until(lambda: two.read("select count(*) from inbox where done_epoch is null") == [(0,)])
            (b.home / "memories").mkdir(exist_ok=True)
            (b.home / "memories" / "MEMORY.md").write_text("- of a stale turn\n")
        wait_until(lambda: read_memory(b) == ["- of the turn"])
    finally:
        ann.close()
    for node in (b, a):
        person = Person(node.home, f"later-{node.name}")
        try:
            person.ask("m.2 [[say later]]")
        finally:
            person.close()
        assert read_memory(node) == ["- of the turn"]
    put_aside = [path.read_text() for path in (b.home / "laid-out").rglob("MEMORY.md")]
    assert any("- of a stale turn" in text for text in put_aside)
