"""`/undo` and `/retry` take back a whole exchange, never a summary, and count what is left."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ends_house import current, ends_house, read_told
from house import House, Visitor
from queries_house import QueriesHouse
from waiting import wait_until

from gateway.turns.commands.session_commands import COMPACTED_AWAY, NOT_YOUR_FILES, NOT_YOUR_QUESTION
from hermes_base.inbound import FileRef
from hermes_base.turn.journal import text_of
from hermes_cli import config
from hermes_lab.server import LabServer

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c489"
    "0000000d49444154789c626001000000ffff03000006000557bfabd40000000049454e44ae426082"
)


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with ends_house(home, lab.base_url) as made:
        yield made


def read_texts(house: House, session: str) -> list[str]:
    return [text_of(row.message).split("\n\n[")[0] for row in house.gateway.store.load(session).rows]


def test_steering_goes_with_the_question_that_it_was_put_into(house: House, lab: LabServer) -> None:
    """B9: the question, what was put into its turn and the answer are one exchange."""
    ann = house.person("ann")
    ann.ask("[[say before]]")
    ann.say('[[tool clarify {"question": "which one?"}]]')
    question = ann.wait_question("which one?")
    ann.say("/steer [[say both]]")
    lane = house.gateway.lanes.at_work[ann.conversation]
    wait_until(lambda: bool(lane._steered))
    ann.say("the first", question=question.question)
    house.wait_quiet()
    assert "[[say both]]" in read_texts(house, current(ann).id)
    assert '"steered"' not in lab.requests[-1].body.decode()
    told = ann.ask("/undo")[-1]
    assert "Taken back: [[tool clarify" in told
    assert read_texts(house, current(ann).id) == ["[[say before]]", "before"]


def test_what_is_left_is_counted_after_an_undo(house: House, home: Path) -> None:
    """E4: whether the conversation has to become shorter is not decided by a count of what was taken back."""
    ann = house.person("ann")
    ann.ask("[[say one]]")
    ann.ask("[[say two]] " + "long " * 8_000)
    ann.ask("[[say three]]")
    with_it = read_told(home, "asked")[-1]["tokens"]
    ann.ask("/undo")
    ann.ask("/undo")
    ann.ask("[[say four]]")
    without = read_told(home, "asked")[-1]["tokens"]
    assert 0 < without < with_it - 8_000


def test_each_undo_tells_the_size_of_what_is_left(house: House) -> None:
    """A12: not the size of what the last request was."""
    ann = house.person("ann")
    for number in range(3):
        ann.ask(f"[[say {number}]] " + "long " * 2_000)
    told = [int(re.findall(r"about ([\d,]+) tokens", ann.ask("/undo")[-1])[0].replace(",", "")) for _ in range(2)]
    assert told[0] - told[1] > 2_000


def test_a_summary_is_not_taken_back(house: House, lab: LabServer) -> None:
    """B9, E1: once only a summary is left, the person is told so, and it stays."""
    ann = house.person("ann")
    for word in ("one", "two", "three"):
        ann.ask(f"[[say {word}]]")
    ann.ask("/compress")
    assert "Taken back: [[say three]]" in ann.ask("/undo")[-1]
    assert ann.ask("/undo") == [COMPACTED_AWAY]
    assert ann.ask("/retry") == [COMPACTED_AWAY]
    assert read_texts(house, current(ann).id) == ["[the summary]"]
    ann.ask("[[say four]]")
    assert '"compacted"' not in lab.requests[-1].body.decode()
    assert "Taken back: [[say four]]" in ann.ask("/undo")[-1]


def test_a_compacted_conversation_is_listed_once_and_by_what_was_said(house: House) -> None:
    """B9: not beside its own earlier part, and not by the words of the engine."""
    ann = house.person("ann")
    for word in ("one", "two", "three"):
        ann.ask(f"[[say {word}]]")
    ann.ask("/compress")
    ann.ask("[[say four]]")
    *lines, _ = ann.ask("/resume")[-1].splitlines()
    assert len(lines) == 1
    assert "summary" not in lines[0]
    assert "[[say one]]" in lines[0]


def test_in_a_group_only_the_asker_or_an_admin_takes_a_question_back(house: House) -> None:
    """C16"""
    ann, ben, olga = (house.person(name, "room", "group") for name in ("ann", "ben", "olga"))
    ann.ask("[[say one]]")
    ann.ask("[[say two]]")
    for command in ("/undo", "/retry"):
        assert NOT_YOUR_QUESTION in ben.ask(command)[-1]
    assert len(read_texts(house, current(ann).id)) == 4
    assert "Taken back" in ann.ask("/undo")[-1]
    assert "Taken back" in olga.ask("/undo")[-1]
    assert read_texts(house, current(ann).id) == []


def test_asking_again_sends_the_images_again(home: Path, lab: LabServer, tmp_path: Path) -> None:
    """B9: what came along with the question comes along with it again, and still counts as foreign (G9)."""
    config.set_value("model.base_url", lab.base_url)
    config.set_value("model.default", "lab-model")
    config.set_value("titles.enabled", "false")
    picture = tmp_path / "dot.png"
    picture.write_bytes(PIXEL)
    house = QueriesHouse(home)
    try:
        talk = house.open()
        house.say(talk, "[[say a dot]]", files=(FileRef(str(picture), "dot.png", "image", len(PIXEL)),))
        wait_until(lambda: not house.gateway.turns.open_seqs(talk))
        house.say(talk, "/retry")
        wait_until(lambda: not house.gateway.turns.open_seqs(talk))
        first, again = (find_user(request) for request in lab.requests)
        assert [part["type"] for part in again["content"]] == ["text", "image_url"]
        assert again["content"][1] == first["content"][1]
        current = house.gateway.store.current(talk)
        assert current is not None
        assert house.gateway.store.load(current.id).rows[0].message["foreign"] == ["a file that was sent along"]
    finally:
        house.stop()


def test_everybody_is_asked_before_their_files_are_restored(house: House) -> None:
    """G4: also when the command has the same number in the conversations of two people."""
    for name in ("ann", "ben"):
        person = house.person(name)
        person.ask('[[tool write_file {"path": "a.txt", "content": "x"}]]')
        person.say("/undo files")
        person.press(person.wait_question("This would be undone"), "undo")
        person.wait_seen("Restored")
        house.wait_quiet()


def test_in_a_group_only_whose_turn_changed_files_takes_that_back(house: House) -> None:
    """C16, G12: or an admin. What the others wrote stays, and they are asked about nothing."""
    ann, ben, olga = (house.person(name, "room", "group") for name in ("ann", "ben", "olga"))
    ann.ask('[[tool write_file {"path": "plan.txt", "content": "of Ann"}]]')
    (plan,) = house.home.rglob("plan.txt")
    assert NOT_YOUR_FILES in ben.ask("/undo files")[-1]
    assert plan.read_text().strip() == "of Ann"
    for person in (ann, olga):
        person.ask('[[tool write_file {"path": "plan.txt", "content": "of Ann, anew", "overwrite": true}]]')
        ben.ask('[[tool write_file {"path": "other.txt", "content": "of Ben", "overwrite": true}]]')
        undo_files(ben)
        assert NOT_YOUR_FILES in ben.ask("/undo files")[-1]
        undo_files(person)
        assert plan.read_text().strip() == "of Ann"


def undo_files(person: Visitor) -> None:
    person.say("/undo files")
    wait_until(lambda: bool(person.wait_question("This would be undone").choices))
    person.press(person.wait_question("This would be undone"), "undo")
    person.house.wait_quiet()


def find_user(request: Any) -> dict[str, Any]:
    return next(message for message in reversed(request.json()["messages"]) if message["role"] == "user")


def test_a_command_that_is_cut_off_before_it_has_begun_is_kept(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """C2, B6: its conversation is taken away just when it has claimed the agent. The message is not answered with a
    word on that; it is done by whoever goes on, who finds the conversation free."""
    ann, gateway = house.person("ann"), house.gateway
    ann.ask("[[say one]]")
    claim, cut = gateway.runner.claim_agent, []

    def claim_and_be_cut(key: str, *more: Any, **facts: Any) -> Any:
        agent = claim(key, *more, **facts)
        if not cut:
            cut.append(key)
            house.call(lambda: gateway.lanes.at_work[key].suspend("another process works on this conversation"))
        return agent

    monkeypatch.setattr(gateway.runner, "claim_agent", claim_and_be_cut)
    ann.say("/undo")
    wait_until(lambda: bool(cut) and ann.conversation not in gateway.lanes.at_work)
    ann.say("[[say two]]")
    ann.wait_seen("two")
    house.wait_quiet()
    assert ann.seen == ["one", "Taken back: [[say one]]", "two"]
