"""What is made of pieces that are lost, doubled, late or of a claim that holds no more, and of looks at the store."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.delivery.live_following import Following, PieceVerdict
from gateway.delivery.live_pieces import LivePiece, read_picture, read_piece, write_picture, write_piece
from gateway.platforms.face import Asking, Begun, Dealt, Heard, Judged, Taken
from gateway.platforms.hub import Picture, Sent
from hermes_base.chat import Question, ReasoningDelta, TextDelta, TextEnded, ToolEnded, ToolStarted
from hermes_base.inbound import Address, FileRef, Inbound, Outgoing
from hermes_base.turn.consent import Deed
from hermes_state.turns import ConversationStand

KEY = "agent:main:web:dm:x"
ADDRESS = Address("web", "web", KEY)


def piece(number: int, *events: object, epoch: int = 1, after: int | None = None, turn: int = 1) -> LivePiece:
    return LivePiece(KEY, epoch, turn, number, number - 1 if after is None else after, tuple(events))  # type: ignore[arg-type]


def test_pieces_are_taken_in_order() -> None:
    """C7"""
    following = Following()
    assert following.judge(piece(5, Begun((1,)), after=0)) is PieceVerdict.TAKE
    assert following.judge(piece(6, TextDelta("a"))) is PieceVerdict.TAKE
    assert following.judge(piece(7, Dealt((1,)))) is PieceVerdict.TAKE
    assert following.open == set()


def test_a_doubled_and_a_late_piece_are_dropped() -> None:
    """C7"""
    following = Following()
    for number in (1, 2, 3):
        following.judge(piece(number))
    assert following.judge(piece(3)) is PieceVerdict.DROP
    assert following.judge(piece(2)) is PieceVerdict.DROP
    assert following.judge(piece(4)) is PieceVerdict.TAKE


def test_a_gap_is_noticed_and_what_follows_waits_for_the_picture() -> None:
    """C7"""
    following = Following()
    following.judge(piece(1))
    assert following.judge(piece(3)) is PieceVerdict.MISSING
    assert following.judge(piece(4)) is PieceVerdict.MISSING
    look = LivePiece(KEY, 1, 1, 5, 4, look=True)
    assert following.judge(look) is PieceVerdict.LOOK
    assert following.catch_up(1, 5)
    assert following.judge(piece(6)) is PieceVerdict.TAKE
    assert following.judge(look) is PieceVerdict.DROP
    assert not following.catch_up(1, 5 - 1)


def test_a_fenced_claim_says_nothing_any_more() -> None:
    """B6, B7: also when the new claim is known from the store alone."""
    following = Following()
    following.judge(piece(1, epoch=3))
    assert following.judge(piece(2, epoch=4, after=0)) is PieceVerdict.TAKE
    assert following.judge(piece(2, epoch=3)) is PieceVerdict.DROP
    following.look(ConversationStand(5), hears=True)
    assert following.judge(piece(3, epoch=4)) is PieceVerdict.DROP


def test_who_begins_to_listen_in_the_middle_of_a_turn_has_missed_something() -> None:
    """C7: but not between two turns, nor when the turn begins."""
    assert Following().judge(piece(9, TextDelta("a"))) is PieceVerdict.MISSING
    assert Following().judge(piece(9, Begun((1,)))) is PieceVerdict.TAKE
    assert Following().judge(piece(9, Dealt((1,)), turn=0)) is PieceVerdict.TAKE


def test_what_nobody_tells_is_found_by_looking() -> None:
    """C7: who hears waits from one look to the next for the word; who does not hear looks at once."""
    following = Following()
    assert following.look(ConversationStand(1), hears=True)
    following.judge(piece(1, Heard(7, say("x")), Begun((7,)), after=0))
    under_way, over = ConversationStand(1, frozenset({7}), 1), ConversationStand(1, frozenset(), 2)
    assert not following.look(under_way, hears=True)
    assert not following.look(over, hears=True)  # the word may be on its way
    assert following.look(over, hears=True)
    assert not following.look(over, hears=True)
    assert following.look(under_way, hears=False)
    assert not following.look(under_way, hears=False)


def test_what_is_told_is_not_looked_for() -> None:
    following = Following()
    following.look(ConversationStand(1), hears=True)
    following.judge(piece(1, Heard(7, say("x")), Begun((7,)), after=0))
    assert not following.look(ConversationStand(1, frozenset({7}), 1), hears=True)
    following.judge(piece(2, Dealt((7,))))
    for version in range(3):
        assert not following.look(ConversationStand(1, frozenset(), 2, "s", version), hears=True)


def test_what_is_told_beside_all_claims_counts() -> None:
    following = Following()
    following.look(ConversationStand(4), hears=True)
    assert following.judge(LivePiece(KEY, events=[Heard(7, say("x"))])) is PieceVerdict.TAKE
    assert following.open == {7}
    assert not following.is_told


@given(st.integers(0, 2**32))
def test_whatever_the_line_does_nothing_is_taken_twice_or_out_of_order(seed: int) -> None:
    """C7: pieces are lost, doubled and late as a die says; each is taken once, in order, and after a picture goes on
    behind it."""
    die = random.Random(seed)
    sent = [piece(number, TextDelta(str(number)), turn=1) for number in range(1, 30)]
    line = [one for one in sent if die.random() > 0.1]
    line += die.choices(sent, k=5)
    following, taken = Following(), []
    for one in sorted(line, key=lambda one: one.number + die.choice((0, 0, 0, 3.5))):
        verdict = following.judge(one)
        if verdict is PieceVerdict.TAKE or (verdict is PieceVerdict.MISSING and following.catch_up(1, one.number)):
            taken.append(one.number)
    assert taken == sorted(set(taken))


def say(text: str) -> Inbound:
    return Inbound(ADDRESS, "m", "owner", text, files=(FileRef("/x", "x"),), conversation=KEY, received=1.5)


EVENTS = (
    Heard(1, say("hello")),
    Judged(1),
    Begun((1, 2), 3.25),
    Taken((1,)),
    TextDelta("ä \ud800"),
    ReasoningDelta("…"),
    TextEnded(kept=True),
    ToolStarted("c", "terminal", "ls"),
    ToolEnded("c", "terminal", ok=False, seconds=0.5, preview="no"),
    Sent(5, Outgoing(ADDRESS, "note", "note", origins=("web",))),
    Asking(Question("approval", "rm x?", ("approve", "deny"), 10.0, "why", KEY, "t", id="q")),
    Asking(None),
    Dealt((1, 2)),
)


def test_a_piece_is_read_as_it_was_written() -> None:
    written = LivePiece(KEY, 3, 1, 9, 8, EVENTS)
    read = read_piece(write_piece(written))
    assert read is not None
    assert (read.epoch, read.turn, read.number, read.after, read.look) == (3, 1, 9, 8, False)
    assert [type(event) for event in read.events] == [type(event) for event in EVENTS]
    expected = [event for event in EVENTS if not isinstance(event, TextDelta)]
    assert [event for event in read.events if not isinstance(event, TextDelta)] == expected


def test_without_a_claim_only_what_the_store_has_is_told() -> None:
    """B7"""
    told = read_piece(write_piece(LivePiece(KEY, events=[TextDelta("wrong"), Heard(1, say("x")), Dealt((1,))])))
    assert told is not None
    assert told.events == [Heard(1, say("x"))]


def test_what_a_kept_yes_is_about_stays_with_who_asks() -> None:
    """G4"""
    deed = Deed("command", "/", "host", "work", "rm secret", "rm secret")
    asked = Question("approval", "rm?", id="q", deed=deed)
    assert "secret" not in write_piece(LivePiece(KEY, events=[Asking(asked)]))


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", "[1,2,3,4,5,6,7]", '["k",1,1,1,0,false,[["Nothing",{}]]]', "[" * 9999]
)
def test_what_is_no_piece_is_none(text: str) -> None:
    assert read_piece(text) is None


def test_a_picture_is_read_as_it_was_written() -> None:
    """C7: also in the middle of a second text."""
    picture = Picture((4, 5), 7.5, rows=3)
    for event in (
        Taken((4,)),
        ReasoningDelta("hm"),
        TextDelta("one"),
        TextEnded(kept=True),
        ToolStarted("c", "terminal", "ls"),
        ToolEnded("c", "terminal", ok=True, seconds=1.0, preview="x"),
        TextDelta("two"),
    ):
        picture.add(event)
    read, number = read_picture(write_picture(picture, 12))
    assert number == 12
    assert (read.begun, read.rows) == (7.5, 3)
    assert write_picture(read, 12) == write_picture(picture, 12)
    for each in (read, picture):
        each.add(TextDelta(" three"))
    assert (read.text.kept, read.text.open) == (picture.text.kept, picture.text.open)
    told = write_picture(picture, 12)
    del told["rows"]  # as a version before this one writes it
    assert read_picture(told)[0].rows == 0


def test_where_nobody_has_spoken_the_first_look_has_nothing_more() -> None:
    """C7: a page that opens a new conversation is shown it once, however late the look at the store comes."""
    assert not Following().look(ConversationStand(), hears=True)
    assert Following().look(ConversationStand(epoch=1, row=2), hears=True)
    following = Following()
    following.look(ConversationStand(), hears=False)
    assert following.look(ConversationStand(epoch=1), hears=False)
