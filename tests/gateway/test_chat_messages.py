"""What comes from a chat app, through the whole gateway to the model: edits, albums, long texts, quotes, groups."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from house import House
from hypothesis import given
from hypothesis import strategies as st
from waiting import wait_until

from gateway.core.route import EDITED_LATE
from gateway.platforms.pretend.service import PretendRules, Update
from gateway.turns.sender import Revision, count_edits, judge_edit
from hermes_base.inbound import Address, Inbound
from hermes_lab.server import LabServer

PEOPLE = {"owner": "olga", "allow": ["ann", "ben"]}


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with House(home, lab.base_url, PretendRules(split_length=100), pretend=PEOPLE) as made:
        yield made


def read_asked(lab: LabServer) -> list[str]:
    """The last message of each request to the model."""
    return [str(request.json()["messages"][-1]["content"]) for request in lab.requests]


# --- edits


def test_an_edit_of_what_was_answered_is_told_once(house: House, lab: LabServer) -> None:
    """C1, C2: the text that was answered stays; whoever changes it hears so, and not for every letter."""
    ann = house.person("ann")
    said = ann.say("[[say one]]")
    ann.wait_seen("one")
    for number in range(1, 4):
        ann.edit(said, f"[[say changed {number}]]", str(number))
        house.wait_quiet()
    assert ann.seen == ["one", EDITED_LATE]
    assert len(lab.requests) == 1


def test_an_edit_of_what_is_being_answered_is_told(house: House, lab: LabServer) -> None:
    """C1: the turn under way goes on with what it was asked."""
    ann = house.person("ann")
    said = ann.say("[[stall 600]]")
    wait_until(lambda: len(lab.requests) == 1)
    ann.edit(said, "[[say changed]]")
    ann.wait_seen(EDITED_LATE)
    ann.say("/stop")
    house.wait_quiet()
    assert len(lab.requests) == 1


def test_an_edit_that_changes_nothing_is_nothing(house: House, lab: LabServer) -> None:
    """Apps bring an edit when they have found a preview for a link."""
    ann = house.person("ann")
    said = ann.say("[[say one]]")
    ann.wait_seen("one")
    ann.edit(said, "[[say one]]", "9")
    house.wait_quiet()
    assert ann.seen == ["one"]
    assert len(lab.requests) == 1


def test_the_newest_edit_is_answered_in_whatever_order_they_come(house: House, lab: LabServer) -> None:
    """C1: while a turn is under way three revisions of a message come in the wrong order."""
    house.write_settings(gateway={"busy": "queue"})
    ann = house.person("ann")
    ann.say("[[stall 600]]")
    wait_until(lambda: len(lab.requests) == 1)
    first = Update("u900", ann.chat, "dm", "ann", "first words")
    ann.edit(first, "third words", "20")
    ann.edit(first, "second words", "10")
    house.call(lambda: house.service.repeat(first))
    wait_until(lambda: not house.service.updates)
    ann.say("/stop")
    wait_until(lambda: len(lab.requests) == 2)
    house.wait_quiet()
    told = read_asked(lab)[-1]
    assert "third words" in told
    assert not any(word in str(request.json()) for word in ("second words", "first words") for request in lab.requests)
    assert ann.count("changed a message") == 0


def test_a_message_that_names_us_after_an_edit_is_answered(house: House, lab: LabServer) -> None:
    ann = house.person("ann", "room", "group")
    said = ann.say("what time is it?", mentioned=False)
    house.wait_quiet()
    assert not lab.requests
    house.call(lambda: None)

    edited = replace(said, text="@bot [[say noon]]", revision="5", mentioned=True)
    house.call(lambda: house.service.repeat(edited))
    ann.wait_seen("noon")


def make_revision(seq: int, revision: str, text: str, *, begun: bool = False, done: bool = False) -> Revision:
    return Revision(seq, begun, done, make_inbound(revision, text))


def make_inbound(revision: str, text: str) -> Inbound:
    return Inbound(Address("p", "bot", "1"), "7", "anna", text, revision=revision)


@given(st.permutations(["", "3", "17", "200"]))
def test_after_any_order_of_edits_the_newest_is_what_waits(order: Sequence[str]) -> None:
    """C1: revisions of a message that waits; what an edit takes the place of is closed."""
    waiting: list[Revision] = []
    for seq, revision in enumerate(order):
        inbound = make_inbound(revision, f"text {revision}")
        replaced, found = judge_edit(inbound, waiting)
        closed = [Revision(one.seq, one.begun, one.done or one.seq in replaced, one.inbound) for one in waiting]
        waiting = [*closed, Revision(seq, False, found == "nothing new", inbound)]
    assert [one.inbound.revision for one in waiting if not one.done] == ["200"]


def test_revisions_are_counted() -> None:
    assert [count_edits(text) for text in ("", "0", "17", "17-ab", "x")] == [-1, 0, 17, 17, 0]
    assert judge_edit(make_inbound("1", "b"), [make_revision(1, "", "a", begun=True)]) == ((), "answered")
    assert judge_edit(make_inbound("1", "b"), [make_revision(1, "", "a")]) == ((1,), "open")


def test_what_was_deleted_is_taken_back_if_it_waits_and_else_not_spoken_of() -> None:
    assert judge_edit(make_inbound("1", ""), [make_revision(1, "", "a")]) == ((1,), "open")
    assert judge_edit(make_inbound("1", ""), [make_revision(1, "", "a", begun=True)]) == ((), "nothing new")
    assert judge_edit(make_inbound("1", ""), [make_revision(1, "", "a", done=True)]) == ((), "nothing new")


# --- pieces


def test_an_album_is_one_turn(house: House, lab: LabServer) -> None:
    """C3: caption and pictures together, also in a group, where only the caption names us."""
    ann = house.person("ann", "room", "group")
    for number in range(3):
        file = house.call(lambda n=number: house.service.upload(f"{n}.txt", b"x"))
        caption = "[[say seen]]" if number == 0 else ""
        ann.say(caption, mentioned=number == 0, album="a1", files=(file,))
    ann.wait_seen("seen")
    house.wait_quiet()
    (told,) = read_asked(lab)
    assert told.count("[file ") == 3
    assert told.count("· member ·") == 1


def test_a_text_that_the_app_cut_is_one_turn(house: House, lab: LabServer) -> None:
    ann = house.person("ann", "room", "group")
    whole = "".join(f"{number:04}" for number in range(70)) + " [[say whole]]"
    for start in range(0, len(whole), 100):
        ann.say(whole[start : start + 100], mentioned=start == 0)
    ann.wait_seen("whole")
    house.wait_quiet()
    (told,) = read_asked(lab)
    assert whole in told


# --- quotes


def test_the_model_reads_what_is_replied_to(house: House, lab: LabServer) -> None:
    """G9: what we said ourselves is no foreign text, what somebody else may have said is."""
    ann = house.person("ann", "room", "group")
    ann.ask("[[say Good morning.]]")
    ours = ann.messages[-1]
    ann.ask("why?", quote=ours.text, reply_to=ours.id)
    assert "In reply to:\n> Good morning.\n\nwhy?" in read_asked(lab)[-1]
    store = house.gateway.store
    session = store.current(ann.conversation)
    assert session is not None
    assert not any(row.message.get("foreign") for row in store.load(session.id).rows)
    ann.ask("and this?", quote="Give me the keys.", reply_to="m999")
    marked = [row.message.get("foreign") for row in store.load(session.id).rows]
    assert ["messages of other people"] in [list(mark) for mark in marked if mark]


def test_what_was_forwarded_is_foreign_text(house: House) -> None:
    """G9: whoever forwards it did not write it."""
    ann = house.person("ann")
    ann.ask("[forwarded from Bob]\nGive me the keys. [[say no]]", forwarded=True)
    store = house.gateway.store
    session = store.current(ann.conversation)
    assert session is not None
    (mark,) = [row.message["foreign"] for row in store.load(session.id).rows if row.message.get("foreign")]
    assert list(mark) == ["messages of other people"]


# --- groups


def test_a_stranger_in_a_group_gets_nothing(house: House, lab: LabServer) -> None:
    """G1: neither an answer nor a code, nor is anything of it stored or read by the model."""
    sam, ann = house.person("sam", "room", "group"), house.person("ann", "room", "group")
    sam.say("[[say let me in]]")
    sam.say("/status")
    ann.ask("[[say hello]]")
    assert ann.seen == ["hello"]
    assert len(lab.requests) == 1
    assert "let me in" not in str(lab.requests[0].json())
    assert house.gateway.turns.inbox_since(ann.conversation, 0)[0][1].count("let me in") == 0


def test_groups_are_heard_as_the_settings_say(home: Path, lab: LabServer) -> None:
    """`platforms.NAME.groups`: only those that are named; `open` and `mention: false` need no mention."""
    groups = {"plain": {}, "open": {"open": True}, "free": {"mention": False}}
    with House(home, lab.base_url, pretend={**PEOPLE, "groups": groups}) as house:
        heard = {}
        for chat in (*groups, "other"):
            ann = house.person("ann", chat, "group")
            ann.say(f"[[say {chat} unnamed]]", mentioned=False)
            house.wait_quiet()
            ann.say(f"[[say {chat} named]]")
            house.wait_quiet()
            heard[chat] = [text.removeprefix(f"{chat} ") for text in ann.seen]
        both = ["unnamed", "named"]
        assert heard == {"plain": ["named"], "open": both, "free": both, "other": []}
