"""Two pages on two gateways look at one conversation: both see what happens, whoever works on it."""

import json
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest
from gateway_nodes import Node, Nodes
from gateway_process import Person
from pooler import pool
from postgres_server import get_server
from psycopg import sql
from waiting import wait_until
from web_house import Stream, Visitor

from gateway.delivery.live_pieces import read_piece, write_piece
from gateway.delivery.live_relay import name_topic
from gateway.platforms.face import Begun, Dealt
from gateway.turns.lanes import name_topic as name_node_topic
from hermes_base.chat import TextDelta
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
        began = time.monotonic()
        for key in (watched, alone):
            a.say(key, "[[chunks 300]] [[pause 0.01]] [[say " + "word " * 300 + "]]")
        for stream in (here, alone_here, there):
            stream.wait_until(lambda state: len(state.texts("assistant")) == 1)
        seconds = time.monotonic() - began
        came = [read_piece(one.payload) for one in line.notifies(timeout=1.0)]
    pieces = [piece for piece in came if piece is not None]
    assert {piece.conversation for piece in pieces} == {watched}
    numbers = [piece.number for piece in pieces if piece.epoch]
    assert numbers == sorted(set(numbers))
    begun, ended = (next(p for p in pieces if any(isinstance(e, kind) for e in p.events)) for kind in (Begun, Dealt))
    between = pieces[pieces.index(begun) : pieces.index(ended)]
    assert len(between) <= 10 * seconds


def begin_elsewhere(nodes: Nodes, visitors: tuple[Visitor, Visitor], text: str) -> tuple[Stream, Stream, Visitor, str]:
    """A turn with this text; the streams of both pages, the page of the gateway that does not work on it, its key."""
    a, b = visitors
    key = a.open()
    here, there = a.watch(key), b.watch(key)
    a.say(key, text)
    for stream in (here, there):
        stream.wait_until(lambda state: state.live is not None)
    return here, there, b if find_owner(nodes, key).name == "a" else a, key


def test_a_turn_is_stopped_from_the_page_of_the_other_gateway(two: Nodes, visitors: tuple[Visitor, Visitor]) -> None:
    """B8, C4: its owner is told to look at once; whoever asks is told when its end is stored; both pages see it end."""
    here, there, other, key = begin_elsewhere(two, visitors, "[[chunks 9]] [[pause 60]] [[say never ends at all]]")
    with psycopg.connect(two.address, autocommit=True) as line:
        channel = name_channel(name_node_topic(find_owner(two, key).node))
        line.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        assert other.post("/web/stop", conversation=key) == {"stopped": True}
        assert "" in [one.payload for one in line.notifies(timeout=1.0)]
    for stream in (here, there):
        stream.wait_until(lambda state: state.live is None and not state.waiting)
        assert stream.wait_for("settled")["interrupted"]
    assert other.post("/web/stop", conversation=key) == {"stopped": False}


def test_what_is_said_into_a_turn_reaches_it_from_the_other_gateway(
    two: Nodes, visitors: tuple[Visitor, Visitor]
) -> None:
    """B8: it is taken in by the turn under way; both pages see that it was."""
    wait = json.dumps({"command": "sleep 2"})
    text = f"[[tool terminal {wait}]] [[then]] [[say done]]"
    here, there, other, key = begin_elsewhere(two, visitors, text)
    for stream in (here, there):
        stream.wait_for("tool_started")
    seq = other.say(key, "and another thing", mode="steer")
    for stream in (here, there):
        stream.wait_until(lambda state: state.live is None and not state.waiting)
        assert any(seq in event["seqs"] for event in stream.of("taken"))
    assert here.state.texts() == there.state.texts()


def test_a_command_is_approved_on_the_page_of_the_other_gateway(two: Nodes, visitors: tuple[Visitor, Visitor]) -> None:
    """B8, G4: it is asked on both pages, with its reason, also of one that comes later; one answer counts."""
    risky = json.dumps({"command": "rm -rf ~/no-such-folder-of-ours && echo gone"})
    text = f"[[tool terminal {risky}]] [[then]] [[say done]]"
    here, there, other, key = begin_elsewhere(two, visitors, text)
    asked = []
    for stream in (here, there):
        stream.wait_until(lambda state: state.question is not None)
        asked.append(stream.state.question)
    later = other.watch(key).state.question
    assert later is not None
    for one in (*asked, later):
        assert one is not None
        assert (one["id"], one["text"], one["reason"]) == (later["id"], later["text"], later["reason"])
    assert later["reason"]
    (listed,) = (thread for thread in other.get("/web/threads")["threads"] if thread["conversation"] == key)
    assert listed["working"]
    assert listed["asking"]
    assert other.post("/web/answer", question=later["id"], text="approve") == {"ok": True}
    for stream in (here, there):
        stream.wait_until(lambda state: state.texts("assistant") == ["done"])
        assert stream.state.question is None
    assert other.post("/web/answer", question=later["id"], text="approve") == {"ok": False}


def test_who_cannot_be_reached_is_said_so_on_the_page(two: Nodes, visitors: tuple[Visitor, Visitor]) -> None:
    """B8: the gateway with the turn stands still; what was not taken is not done later either. Then the other one has
    the turn, and both pages end with its answer."""
    text = "[[chunks 12]] [[pause 0.5]] [[say one two three four five six]]"
    here, there, other, key = begin_elsewhere(two, visitors, text)
    with find_owner(two, key).standing_still():
        told = other.post("/web/stop", conversation=key, status=422)
        assert "did not take it in time" in told["error"]["message"]
        assert "Nothing was done" in told["error"]["message"]
        other_stream = there if other is visitors[1] else here
        other_stream.wait_until(lambda state: state.texts("assistant") == ["one two three four five six"])
    for stream in (here, there):
        stream.wait_until(lambda state: state.texts("assistant") == ["one two three four five six"])
        stream.wait_until(lambda state: state.live is None and not state.waiting)
    assert two.read("select count(*) from outbox where body like '%four five six%'") == [(1,)]


def test_a_terminal_beside_another_gateway_sees_the_turn_and_its_end(
    two: Nodes, visitors: tuple[Visitor, Visitor]
) -> None:
    """C7: what was asked on one gateway is dealt with at the terminal of the other, and shown there once."""
    _, b = visitors
    key = "agent:main:local:dm:ann"
    page = b.watch(key)
    b.say(key, "m1.1 [[say answer one]]")
    page.wait_until(lambda state: state.texts("assistant") == ["answer one"])
    assert find_owner(two, key).name == "b"
    near, far = Person(two.nodes["a"].home, "ann"), Person(two.nodes["b"].home, "ann")
    try:
        near.wait_dealt(near.say("m1.2 [[say answer two]]"))
        for person in (near, far):
            person.wait_shown("answer two")
        page.wait_until(lambda state: state.texts("assistant") == ["answer one", "answer two"])
        assert find_owner(two, key).name == "b"
    finally:
        near.close()
        far.close()
    assert len([one for one in near.shown if one.outgoing.text == "answer two"]) == 1
    assert (near.repeats, far.repeats) == (0, 0)


def test_words_that_come_twice_late_or_from_nowhere_change_nothing(
    two: Nodes, visitors: tuple[Visitor, Visitor]
) -> None:
    """C7, B7: each piece is sent once more, and between them pieces of a fenced claim and such as follow on nothing."""
    wanted = "one two three four five six"
    here, there, _, key = begin_elsewhere(two, visitors, f"[[chunks 12]] [[pause 0.4]] [[say {wanted}]]")
    channel = name_channel(name_topic(key))
    with (
        psycopg.connect(two.address, autocommit=True) as line,
        psycopg.connect(two.address, autocommit=True) as meddler,
    ):
        line.execute(sql.SQL("listen {}").format(sql.Identifier(channel)))
        pieces, ours = 0, meddler.info.backend_pid
        for one in line.notifies(timeout=30.0):
            piece = None if one.pid == ours else read_piece(one.payload)
            if piece is None or not piece.epoch:
                continue
            if any(isinstance(event, Dealt) for event in piece.events):
                break
            pieces += 1
            wrong = [TextDelta(" wrong ")]
            fenced = replace(piece, epoch=piece.epoch - 1, number=piece.number + 1, after=piece.number, events=wrong)
            nowhere = replace(piece, number=piece.number + 7, after=piece.number + 6, events=wrong)
            for told in (one.payload, write_piece(fenced), *([write_piece(nowhere)] if pieces == 3 else []), "nothing"):
                meddler.execute("select pg_notify(%s, %s)", (channel, told))
    assert pieces > 3
    for stream in (here, there):
        stream.wait_until(lambda state: state.texts("assistant") == [wanted])
        assert "wrong" not in "".join(event["text"] for event in stream.of("text"))


def test_behind_a_pooler_the_page_looks_by_itself(tmp_path: Path, lab: LabServer) -> None:
    """C7: no word comes through there; the store is looked at once a second."""
    address = get_server().make_database()
    with pool(address) as pooled, Nodes(tmp_path, lab, address) as nodes:
        port = urlsplit(pooled).port
        assert port is not None
        nodes.through["b"] = port
        nodes.serve_pages("a", "b")
        wait_until(lambda: bool(nodes.nodes["b"].operate("nodes")["hints"]))
        a, b = (node.visit() for node in nodes.nodes.values())
        with closing(a), closing(b):
            key = a.open()
            here, there = a.watch(key), b.watch(key)
            a.say(key, '[[tool terminal {"command": "sleep 3"}]] [[then]] [[say done]]')
            there.wait_until(lambda state: bool(state.waiting))
            for stream in (here, there):
                stream.wait_until(lambda state: state.texts("assistant") == ["done"])
                stream.wait_until(lambda state: state.live is None and not state.waiting)
