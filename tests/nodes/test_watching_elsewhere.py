"""Two pages on two gateways look at one conversation: both see what happens, whoever works on it."""

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from gateway_nodes import Node, Nodes
from postgres_server import get_server
from psycopg import sql
from waiting import wait_until
from web_house import Stream, Visitor

from gateway.delivery.live_pieces import read_piece
from gateway.delivery.live_relay import name_topic
from gateway.platforms.face import Begun, Dealt
from hermes_lab.server import LabServer
from hermes_state.sql.engines.postgres_hints import name_channel


@pytest.fixture
def two(tmp_path: Path, lab: LabServer) -> Iterator[Nodes]:
    with Nodes(tmp_path, lab, get_server().make_database()) as nodes:
        nodes.serve_pages("a", "b")
        yield nodes


@pytest.fixture
def visitors(two: Nodes) -> Iterator[tuple[Visitor, Visitor]]:
    a, b = two.nodes["a"].visit(), two.nodes["b"].visit()
    with closing(a), closing(b):
        yield a, b


def find_owner(nodes: Nodes, conversation: str) -> Node:
    """Who works there."""
    found: list[str] = []

    def look() -> bool:
        found[:] = [owner for (owner,) in nodes.read(f"select owner from conversation where id = '{conversation}'")]
        return bool(found and found[0])

    wait_until(look)
    return next(node for node in nodes.nodes.values() if node.node == found[0])


def list_told(stream: Stream) -> list[str]:
    return [event["type"] for event in list(stream.events)]


def test_a_turn_is_seen_live_on_the_other_gateway(two: Nodes, visitors: tuple[Visitor, Visitor]) -> None:
    """C7, I2: the text grows there too, tools are shown, the end comes by itself, and once."""
    a, b = visitors
    key = a.open()
    here, there = a.watch(key), b.watch(key)
    a.say(key, "[[chunks 12]] [[pause 0.2]] [[say one two three four five six]]")
    for stream in (here, there):
        stream.wait_until(lambda state: "one two" in state.live_text)
    for stream in (here, there):
        stream.wait_until(lambda state: "six" in "".join(state.texts("assistant")))
        assert stream.state.live is None
        assert stream.state.texts("assistant") == ["one two three four five six"]
        assert stream.state.waiting == {}
    assert find_owner(two, key).name == "a"
    b.say(key, '[[tool terminal {"command": "echo ok"}]] [[then]] [[say seven]]')
    for stream in (here, there):
        stream.wait_until(lambda state: state.texts("assistant")[-1:] == ["seven"])
        assert "tool_started" in list_told(stream)
        assert "tool_ended" in list_told(stream)
    assert here.state.texts() == there.state.texts()


def test_who_comes_in_the_middle_sees_what_was_shown(two: Nodes, visitors: tuple[Visitor, Visitor]) -> None:
    """C7: the text so far is in no row of the transcript; its owner hands it over, also when it is long."""
    a, b = visitors
    key, long = a.open(), " ".join(f"word{number}" for number in range(4000))
    here = a.watch(key)
    a.say(key, f"[[chunks 4]] [[pause 3]] [[say {long}]]")
    here.wait_until(lambda state: "word5 " in state.live_text)
    there = b.watch(key)
    there.wait_until(lambda state: state.live_text.startswith("word0 word1 "))
    for stream in (here, there):
        stream.wait_until(lambda state: state.texts("assistant") == [long])
        assert stream.state.live is None
    assert two.read("select count(*) from turn_step") == [(0,)]


def test_what_is_too_long_for_a_word_between_gateways_is_shown_all_the_same(
    two: Nodes, visitors: tuple[Visitor, Visitor]
) -> None:
    """C7: pieces of 10,000 characters, and a message that is longer; a question is answered from the other page."""
    a, b = visitors
    key, long = a.open(), "x" * 30_000
    here, there = a.watch(key), b.watch(key)
    asked = '[[tool clarify {"question": "Which one?", "choices": ["red", "blue"]}]]'
    a.say(key, f"[[chunks 3]] [[pause 1.5]] [[say {long} first]] {long}")
    for stream in (here, there):
        stream.wait_until(lambda state: any(long in text for text in state.waiting.values()))
    for stream in (here, there):
        stream.wait_until(lambda state: 0 < len(state.live_text) < 30_000)
    for stream in (here, there):
        stream.wait_until(lambda state: state.texts("assistant") == [f"{long} first"])
    a.say(key, f"{asked} [[then]] [[say second]]")
    for stream in (here, there):
        stream.wait_until(lambda state: state.question is not None)
    question = there.state.question
    assert question is not None
    assert question["choices"] == ["red", "blue"]
    assert b.post("/web/answer", question=question["id"], text="blue") == {"ok": True}
    for stream in (here, there):
        stream.wait_until(lambda state: state.texts("assistant")[-1:] == ["second"])
        stream.wait_until(lambda state: state.question is None)


def test_the_answer_is_the_same_once_though_its_owner_dies(two: Nodes, visitors: tuple[Visitor, Visitor]) -> None:
    """C7, C10, I2: killed in mid-answer; both pages end with the one answer that stands, and the text of the dead turn
    is gone. The page of the dead gateway goes to the other one."""
    a, b = visitors
    key = a.open()
    here, there = a.watch(key), b.watch(key)
    a.say(key, "[[chunks 12]] [[pause 0.4]] [[say one two three four five six]]")
    for stream in (here, there):
        stream.wait_until(lambda state: "one two" in state.live_text)
    owner = find_owner(two, key)
    other = next(node for node in two.nodes.values() if node is not owner)
    owner.kill()
    stayed = there if owner.name == "a" else here
    again = other.visit()
    with closing(again):
        came = again.watch(key)
        for stream in (stayed, came):
            stream.wait_until(lambda state: state.texts("assistant") == ["one two three four five six"])
            assert stream.state.live is None
            assert stream.state.waiting == {}
    assert two.read("select count(*) from outbox where body like '%four five six%'") == [(1,)]


def test_nothing_is_told_of_what_nobody_watches(two: Nodes, visitors: tuple[Visitor, Visitor]) -> None:
    """C8: between gateways, too; and of what is watched at most ten pieces a second."""
    a, b = visitors
    watched, alone = a.open(), a.open()
    here, alone_here, there = a.watch(watched), a.watch(alone), b.watch(watched)
    with psycopg.connect(two.address, autocommit=True) as line:
        for key in (watched, alone):
            line.execute(sql.SQL("listen {}").format(sql.Identifier(name_channel(name_topic(key)))))
        for key in (watched, alone):
            a.say(key, "[[chunks 300]] [[pause 0.01]] [[say " + "word " * 300 + "]]")
        for stream in (here, alone_here, there):
            stream.wait_until(lambda state: len(state.texts("assistant")) == 1)
        came = [(time.monotonic(), read_piece(one.payload)) for one in line.notifies(timeout=1.0)]
    pieces = [piece for _, piece in came if piece is not None]
    assert {piece.conversation for piece in pieces} == {watched}
    numbers = [piece.number for piece in pieces if piece.epoch]
    assert numbers == sorted(set(numbers))
    begun, ended = (next(p for p in pieces if any(isinstance(e, kind) for e in p.events)) for kind in (Begun, Dealt))
    between = pieces[pieces.index(begun) : pieces.index(ended)]
    assert len(between) < 300 / 4
