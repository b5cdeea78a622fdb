"""Files of people on several gateways, each with a home of its own: what came to one is read by the other, and what one
has sent is delivered by the other."""

import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from gateway_nodes import Node, Nodes
from gateway_process import Person
from postgres_server import get_server
from waiting import wait_until
from web_house import Visitor

from gateway.core.fair_share import SLACK
from hermes_lab.server import LabServer

TEXT = "amsel: 17 figures"
OWNERS = "select id, owner from conversation where owner is not null"


@pytest.fixture
def two(tmp_path: Path, lab: LabServer) -> Iterator[Nodes]:
    with Nodes(tmp_path, lab, get_server().make_database()) as nodes:
        nodes.serve_pages("a", "b")
        yield nodes


def find_owner(nodes: Nodes, conversation: str) -> Node:
    owner = dict(nodes.read(OWNERS))[conversation]
    return next(node for node in nodes.nodes.values() if node.node == owner)


def read_asked(lab: LabServer, word: str) -> str:
    """The newest message of a person with this word, as the model got it."""
    for request in reversed(lab.requests):
        for message in reversed(request.json().get("messages", [])):
            if message["role"] == "user" and word in str(message["content"]):
                return str(message["content"])
    raise AssertionError(f"the model was never asked {word!r}")


def read_last(lab: LabServer, word: str) -> list[dict[str, Any]]:
    """The messages of the newest request with this word."""
    bodies = [request.json().get("messages", []) for request in lab.requests]
    return next(messages for messages in reversed(bodies) if word in json.dumps(messages))


def read_results(lab: LabServer) -> str:
    """What tools gave back, as the model got it last."""
    return "\n".join(str(one["content"]) for one in lab.requests[-1].json()["messages"] if one["role"] == "tool")


def read_with_tool(path: str, then: str) -> str:
    return f"[[tool read_file {json.dumps({'path': path})}]] [[then]] [[say {then}]]"


def find_path(asked: str, name: str) -> Path:
    found = re.search(rf"\[\w+ {re.escape(name)}[^:]*: ([^\]]+)\]", asked)
    assert found, asked
    return Path(found[1])


class PageChat:
    """A conversation of the page whose turns run on this gateway."""

    def __init__(self, node: Node) -> None:
        self.visitor = node.visit()
        self.conversation = self.visitor.open()
        self._stream = self.visitor.watch(self.conversation)
        self.say(self.visitor, "m.0 [[say begun]]", "begun")

    def say(self, visitor: Visitor, text: str, answer: str, **more: Any) -> None:
        """By this page or another one, until it is answered."""
        visitor.say(self.conversation, text, **more)
        self._stream.wait_until(lambda state: answer in state.texts())

    def find_urls(self) -> list[str]:
        return [file["url"] for entry in self._stream.state.entries for file in entry["files"]]


@pytest.fixture
def visitors() -> Iterator[list[Visitor]]:
    """They leave at the end."""
    came: list[Visitor] = []
    yield came
    for visitor in came:
        visitor.close()


def test_an_upload_is_read_by_the_turn_on_another_gateway(two: Nodes, lab: LabServer, visitors: list[Visitor]) -> None:
    """I1: it came to the page of one; the turn runs on the other, and its tools read it. Both pages hand it out."""
    here, there = two.nodes["a"], two.nodes["b"]
    chat, at_a = PageChat(there), here.visit()
    visitors += [chat.visitor, at_a]
    upload = at_a.http.post("/web/upload?name=notes.txt", content=TEXT.encode()).json()
    chat.say(at_a, "m.1 [[say got it]]", "got it", files=[upload["id"]])
    assert find_owner(two, chat.conversation) is there
    path = find_path(read_asked(lab, "m.1"), "notes.txt")
    assert path.is_relative_to(there.home)
    assert path.read_text() == TEXT
    chat.say(at_a, f"m.2 {read_with_tool(str(path), 'read it')}", "read it")
    assert TEXT in read_results(lab)
    assert chat.find_urls() == [f"/web/files/{upload['id']}"]
    for visitor in visitors:
        assert visitor.http.get(f"/web/files/{upload['id']}").content == TEXT.encode()


def test_a_file_of_a_terminal_goes_along_to_another_gateway(
    two: Nodes, lab: LabServer, visitors: list[Visitor]
) -> None:
    """I1: a terminal and an editor write what is piped in or attached into their home; the message takes it along."""
    here, there = two.nodes["a"], two.nodes["b"]
    chat = PageChat(there)
    visitors.append(chat.visitor)
    path = here.home / "uploads" / ("0" * 32) / "piped.txt"
    path.parent.mkdir(parents=True, mode=0o700)
    path.write_text(TEXT)
    file = {"path": str(path), "name": "piped.txt"}
    here.post("/web/say", conversation=chat.conversation, id="1", text="m.1 [[say piped]]", files=[file])
    wait_until(lambda: any("m.1" in request.body.decode() for request in lab.requests))
    found = find_path(read_asked(lab, "m.1"), "piped.txt")
    assert found.is_relative_to(there.home)
    assert found.read_text() == TEXT


def chats_by_owner(nodes: Nodes, node: Node) -> list[int]:
    """People whose chat with the bot this gateway works on."""
    owned = [str(key) for key, owner in nodes.read(OWNERS) if owner == node.node]
    return [person for person in nodes.people if any(key.endswith(f"/{person}") for key in owned)]


def find_chat_beside_the_bot(nodes: Nodes) -> tuple[int, Node]:
    """A person whose turns run beside the gateway that has the bot, and that other gateway."""
    holder = nodes.wait_holder()
    other = next(node for node in nodes.nodes.values() if node is not holder)

    most = len(nodes.people) // 2 + SLACK
    for number in (1, 2):  # whoever has taken too many gives some up, and the other takes them
        for person in nodes.people:
            nodes.telegram.say(person, f"m{person}.{number} [[say hello {number}]]")
        wait_until(lambda answer=f"hello {number}": all(answer in nodes.seen(one) for one in nodes.people))  # type: ignore[misc]
        wait_until(lambda: max(Counter(owner for _, owner in nodes.read(OWNERS)).values()) <= most)
    return chats_by_owner(nodes, other)[0], other


def test_a_file_of_a_chat_is_fetched_by_the_gateway_that_has_the_bot(two: Nodes, lab: LabServer) -> None:
    """I3: the turn runs elsewhere, and reads it there; only one gateway ever speaks for the bot."""
    person, other = find_chat_beside_the_bot(two)
    two.telegram.send(person, "document", TEXT.encode(), "plan.txt", "m.1 [[say seen]]")
    wait_until(lambda: "seen" in two.seen(person))
    path = find_path(read_asked(lab, "m.1"), "plan.txt")
    assert path.is_relative_to(other.home)
    assert path.read_text() == TEXT
    assert two.telegram.complaints == []


def test_what_a_platform_does_not_hand_over_is_told_with_its_reason(two: Nodes, lab: LabServer) -> None:
    """I3, H8: the gateway that has the bot says why, and the turn goes on without the file."""
    person, _ = find_chat_beside_the_bot(two)
    two.telegram.send(person, "document", b"x", "large.bin", "m.1 [[say without]]", size=60 * 1024 * 1024)
    wait_until(lambda: "without" in two.seen(person))
    assert any("large.bin could not be fetched" in text for text in two.seen(person))
    assert "large.bin: not here" in read_asked(lab, "m.1")


def test_a_file_that_the_agent_sends_leaves_by_the_gateway_that_has_the_bot(two: Nodes) -> None:
    """I3: as it was when it was sent, once; nothing of it stays anywhere."""
    person, other = find_chat_beside_the_bot(two)
    wrote = f"[[tool write_file {json.dumps({'path': 'report.txt', 'content': TEXT})}]]"
    sent = '[[tool send_file {"path": "report.txt", "caption": "here"}]]'
    two.telegram.say(person, f"m.1 {wrote} [[then]] {sent} [[then]] [[say sent]]")
    wait_until(lambda: {"report.txt", "sent"} <= set(two.seen(person)))
    assert two.seen(person).count("report.txt") == 1
    assert [path.read_text() for path in other.home.rglob("workspace/report.txt")] == [TEXT]
    wait_until(lambda: two.read("select count(*) from kept_file") == [(0,)])
    for node in two.nodes.values():
        assert [path for path in node.home.rglob("outbox/*/*") if path.is_file()] == []


def test_a_terminal_elsewhere_opens_what_the_agent_hands_over(two: Nodes) -> None:
    """The file is named by a path of the machine that the terminal is on."""
    here, there = two.nodes["a"], two.nodes["b"]
    wrote = f"[[tool write_file {json.dumps({'path': 'report.txt', 'content': TEXT})}]]"
    sent = '[[tool send_file {"path": "report.txt", "caption": "here"}]]'
    for node in (there, here):  # the second one comes when all is over, and reads what was said
        ann = Person(node.home, "ann")
        try:
            if node is there:
                ann.ask(f"m.1 {wrote} [[then]] {sent} [[then]] [[say sent]]")
                assert find_owner(two, ann.conversation) is there
            ann.wait_shown("here")
            (file,) = (one.outgoing.file for one in ann.shown if one.outgoing.file is not None)
            assert Path(file.path).is_relative_to(node.home)
            assert Path(file.path).read_text() == TEXT
        finally:
            ann.close()


def test_a_takeover_says_what_is_there_and_what_is_not(two: Nodes, lab: LabServer, visitors: list[Visitor]) -> None:
    """I2: the gateway that had the conversation is killed. The turn on the other one tells model and person that the
    working folder was on another machine; what was uploaded is laid out there, and once is enough."""
    here, there = two.nodes["a"], two.nodes["b"]
    chat, at_a = PageChat(there), here.visit()
    visitors += [chat.visitor, at_a]
    upload = chat.visitor.http.post("/web/upload?name=notes.txt", content=TEXT.encode()).json()
    wrote = f"[[tool write_file {json.dumps({'path': 'report.txt', 'content': TEXT})}]]"
    chat.say(chat.visitor, f"m.1 {wrote} [[then]] [[say written]]", "written", files=[upload["id"]])
    path = find_path(read_asked(lab, "m.1"), "notes.txt")
    there.kill()
    stream = at_a.watch(chat.conversation)
    at_a.say(chat.conversation, "m.2 [[say here now]]")
    stream.wait_until(lambda state: "here now" in state.texts())
    asked = read_asked(lab, "m.2")
    assert "goes on on another machine" in asked
    assert str(there.home) in asked
    assert f"The working folder is {here.home / 'workspace'} now" in asked
    assert (here.home / path.relative_to(there.home)).read_text() == TEXT
    assert not (here.home / "workspace" / "report.txt").exists()
    assert any("goes on on another machine" in notice for notice in stream.state.notices)
    at_a.say(chat.conversation, "m.3 [[say still here]]")
    stream.wait_until(lambda state: "still here" in state.texts())
    assert "another machine" not in read_asked(lab, "m.3")


def test_a_takeover_in_mid_turn_is_told_to_its_model(two: Nodes, lab: LabServer, visitors: list[Visitor]) -> None:
    """A1, A3, C10, I2: the turn that goes on hears of the other machine once, with the result of the call that was cut,
    behind all that it was sent before, which stays as it was sent."""
    here, there = two.nodes["a"], two.nodes["b"]
    chat, at_a = PageChat(there), here.visit()
    visitors += [chat.visitor, at_a]
    stream = at_a.watch(chat.conversation)
    at_a.say(chat.conversation, 'm.1 [[tool terminal {"command": "sleep 600"}]] [[then]] [[say gone on]]')
    stream.wait_for("tool_started")
    wait_until(lambda: two.read("select 1 from turn_step where kind = 'tool_started'") != [])
    before = read_last(lab, "m.1")
    there.kill()
    stream.wait_until(lambda state: "gone on" in state.texts())
    after = read_last(lab, "m.1")
    assert after[: len(before)] == before
    assert [message["role"] for message in after[len(before) :]] == ["assistant", "tool"]
    result = after[-1]["content"]
    assert "outcome unknown" in result
    assert "goes on on another machine" in result
    assert f"The working folder is {here.home / 'workspace'} now" in result
    at_a.say(chat.conversation, "m.2 [[say still here]]")
    stream.wait_until(lambda state: "still here" in state.texts())
    assert "another machine" not in read_asked(lab, "m.2")
    stream.wait_until(lambda state: state.live is None)
    (tool,) = (entry for entry in stream.state.entries if entry["kind"] == "tool")
    assert (tool["ok"], "another machine" in json.dumps(tool)) == (False, False)  # that is the model's alone


def test_a_folder_of_a_terminal_elsewhere_is_not_pretended(two: Nodes, lab: LabServer, tmp_path: Path) -> None:
    """What a terminal works in is on its machine: where it is not, the model is told, and works in its own folder."""
    here = two.nodes["a"]
    ann = Person(here.home, "ann", folder=str(tmp_path / "gone"))
    try:
        ann.ask("m.1 [[say hello]]")
    finally:
        ann.close()
    assert f"The folder {tmp_path / 'gone'} is not on this machine" in read_asked(lab, "m.1")
    assert f"working folder {here.home / 'workspace'}" in read_asked(lab, "m.1")
