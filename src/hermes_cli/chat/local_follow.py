"""What a terminal knows of its conversation: which of its messages are dealt with, what it has shown, where it stands.

Pure: what the gateway tells in, events for the chat and rows to confirm out. Nothing is shown twice, however often it
comes, and nothing that was not stored is forgotten.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hermes_base import local_wire as wire
from hermes_base.chat import (
    Asked,
    Event,
    FileSent,
    Idle,
    Notice,
    Question,
    ReasoningDelta,
    Said,
    TextDelta,
    TextEnded,
    TurnEnded,
)
from hermes_base.inbound import ANSWER, FILE, NOTE, QUESTION, FileRef, Outgoing

_MOST_REMEMBERED = 10_000  # rows and messages; older ones do not come again
_Key = TypeVar("_Key")
_QUESTION_KINDS = frozenset({"approval", "clarification", "confirmation"})


@dataclass(slots=True)
class OpenMessage:
    """A message of ours that is not dealt with, as far as we know."""

    say: wire.Say
    said_in: str = ""  # the conversation that it was last said in
    stored: bool = False
    seq: int | None = None
    due: int | None = None  # it is dealt with once this row has come; None: it is not yet


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What follows from what we are told: events to show, and then rows to confirm."""

    events: tuple[Event, ...] = ()
    shown: tuple[int, ...] = ()


class Follower:
    """One chat's view of its conversation, over any number of connections."""

    def __init__(self, hello: wire.Hello) -> None:
        self._name = hello.client
        self._count = 0
        self._pending: dict[str, OpenMessage] = {}
        self._dealt: OrderedDict[int, None] = OrderedDict()  # also messages that we do not know yet
        self._shown: OrderedDict[int, None] = OrderedDict()
        self._words: set[int] = set()  # messages that we know, beyond the cursor
        self._own: OrderedDict[int, None] = OrderedDict()  # messages of ours
        self._moves: dict[int, str] = {}  # where messages of ours lead
        self._asked: set[str] = set()  # questions that this connection has told us
        self._old_row = 0  # rows up to here were there before we came
        self._cursor = hello.after
        self.conversation = hello.conversation
        self._is_open = False  # a text is under way

    # --- what we say

    @property
    def cursor(self) -> wire.Cursor | None:
        """How far we have seen the conversation; None: we are new there."""
        return self._cursor

    def enter(self, conversation: str) -> None:
        """A connection is being made: questions that are still open will be told again."""
        self.conversation = conversation
        self._asked.clear()

    def say(self, text: str, files: tuple[FileRef, ...] = ()) -> wire.Say:
        self._count += 1
        say = wire.Say(f"{self._name}-{self._count}", text, files)
        self._pending[say.id] = OpenMessage(say)
        return say

    def say_next(self) -> wire.Say | None:
        """The first message that is not stored: it is said now, in this conversation."""
        for pending in self._pending.values():
            if not pending.stored:
                pending.said_in = self.conversation
                return pending.say
        return None

    # --- what we are told

    def take(self, told: wire.Told | wire.Stored | wire.NotStored) -> FollowUp:
        taken = _HANDLERS[type(told)](self, told)
        return replace(taken, events=(*taken.events, *self._settle()))

    def _take_welcome(self, welcome: wire.Welcome) -> FollowUp:
        events: list[Event] = [TextEnded(kept=False)] if self._is_open else []  # it comes again, from its start
        self._is_open = bool(welcome.text or welcome.reasoning)
        if self._cursor is None:
            self._cursor = welcome.cursor
        self._old_row = welcome.cursor.outbox
        for pending in self._pending.values():
            known = pending.seq is not None and pending.seq <= welcome.cursor.seq
            if known and pending.said_in == self.conversation and pending.seq not in welcome.open:
                pending.due = welcome.cursor.outbox
        events += [ReasoningDelta(welcome.reasoning)] if welcome.reasoning else []
        events += [TextDelta(welcome.text)] if welcome.text else []
        return FollowUp((*events, *self._ask(welcome.question)))

    def _ask(self, question: Question | None) -> tuple[Event, ...]:
        if question is None or question.id in self._asked:
            return ()
        self._asked.add(question.id)
        return (Asked(question),)

    def _take_stored(self, stored: wire.Stored) -> FollowUp:
        pending = self._pending.get(stored.id)
        if pending is None:
            return FollowUp()
        pending.stored, pending.seq = True, stored.seq
        if stored.seq is None or pending.said_in != self.conversation:
            pending.due = 0  # nobody knows what became of it, or we have left: do not wait
        else:
            self._note_word(stored.seq)
            pending.due = stored.outbox if stored.done else 0 if stored.seq in self._dealt else None
        return FollowUp()

    def _take_refused(self, refused: wire.NotStored) -> FollowUp:
        pending = self._pending.get(refused.id)
        if pending is None:
            return FollowUp()
        pending.stored, pending.due = True, 0
        return FollowUp((Notice(refused.reason, "error"),))

    def _take_event(self, happened: wire.Happened) -> FollowUp:
        event = happened.event
        if isinstance(event, Said):
            own = happened.id.rpartition("-")[0] == self._name
            if own:
                _remember(self._own, happened.seq)
            if not self._note_word(happened.seq) or own:
                return FollowUp()
        self._is_open = isinstance(event, TextDelta | ReasoningDelta) or (
            self._is_open and not isinstance(event, TextEnded)
        )
        return FollowUp((event,))

    def _take_row(self, deliver: wire.Deliver) -> FollowUp:
        shown, outgoing = ((deliver.row,) if deliver.waits else ()), deliver.outgoing
        seen = deliver.row in self._shown
        _remember(self._shown, deliver.row)
        cursor = self._cursor or wire.Cursor()
        self._cursor = replace(cursor, outbox=max(cursor.outbox, deliver.row))
        if seen or (outgoing.kind == QUESTION and deliver.row <= self._old_row):
            return FollowUp(shown=shown)
        event = _EVENTS[outgoing.kind](outgoing)
        self._is_open = self._is_open and not isinstance(event, TurnEnded)
        if isinstance(event, Asked):
            return FollowUp(self._ask(event.question), shown)
        if isinstance(event, TurnEnded) and outgoing.level == "error":  # it has no answer: why is told beside its end
            return FollowUp((Notice(outgoing.text, "error"), replace(event, answer="")), shown)
        return FollowUp((event,), shown)

    def _take_done(self, dealt: wire.DealtWith) -> FollowUp:
        for seq in dealt.seqs:
            _remember(self._dealt, seq)
        for pending in self._pending.values():
            if pending.seq in dealt.seqs and pending.said_in == self.conversation:
                pending.due = 0
        target = next((self._moves.pop(seq) for seq in dealt.seqs if seq in self._moves), "")
        if target:
            self._move(target)
        return FollowUp()

    def _take_move(self, moved: wire.MovedTo) -> FollowUp:
        if moved.seq in self._own:
            self._moves[moved.seq] = moved.conversation
        return FollowUp()

    def _move(self, target: str) -> None:
        """We are new in another conversation; what we said in the old one is not ours to wait for any more."""
        self.conversation, self._cursor = target, None
        for known in (self._words, self._dealt, self._own, self._moves):
            known.clear()
        for pending in self._pending.values():
            if pending.stored:
                pending.due = 0

    # --- what we know

    def _note_word(self, seq: int) -> bool:
        """Remember a message, and move the cursor over all that we know without a gap; False when it was known."""
        cursor = self._cursor or wire.Cursor()
        if seq <= cursor.seq or seq in self._words:
            return False
        self._words.add(seq)
        newest = cursor.seq
        while newest + 1 in self._words:
            newest += 1
            self._words.remove(newest)
        self._cursor = replace(cursor, seq=newest)
        return True

    def _settle(self) -> tuple[Event, ...]:
        """Drop what is dealt with and has all its rows; Idle when nothing is left."""
        row = self._cursor.outbox if self._cursor is not None else 0
        ended = [id for id, pending in self._pending.items() if pending.due is not None and pending.due <= row]
        for id in ended:
            del self._pending[id]
        return (Idle(),) if ended and not self._pending else ()


def _remember(known: OrderedDict[_Key, None], key: _Key) -> None:
    known[key] = None
    while len(known) > _MOST_REMEMBERED:
        known.popitem(last=False)


def _read_answer(outgoing: Outgoing) -> TurnEnded:
    """Who interrupted a turn stands at the end of its text; here it is told apart."""
    answer = outgoing.text.removesuffix(f"({outgoing.reason})").rstrip() if outgoing.reason else outgoing.text
    return TurnEnded(answer, outgoing.completed, outgoing.interrupted, outgoing.reason)


def _read_question(outgoing: Outgoing) -> Asked:
    """`level` says what kind of question it is."""
    usual = "approval" if outgoing.choices else "clarification"
    kind = outgoing.level if outgoing.level in _QUESTION_KINDS else usual
    return Asked(
        Question(
            kind, outgoing.text, outgoing.choices, reason=outgoing.reason, turn=outgoing.turn, id=outgoing.question
        )
    )


def _read_file(outgoing: Outgoing) -> Event:
    if outgoing.file is None:
        return Notice(outgoing.text)
    return FileSent(outgoing.file.path, outgoing.file.name, outgoing.text)


_EVENTS: Mapping[str, Callable[[Outgoing], Event]] = {
    ANSWER: _read_answer,
    NOTE: lambda outgoing: Notice(outgoing.text, outgoing.level),
    QUESTION: _read_question,
    FILE: _read_file,
}
_HANDLERS: Mapping[type, Callable[[Follower, Any], FollowUp]] = {
    wire.Welcome: Follower._take_welcome,
    wire.Stored: Follower._take_stored,
    wire.NotStored: Follower._take_refused,
    wire.Happened: Follower._take_event,
    wire.Deliver: Follower._take_row,
    wire.DealtWith: Follower._take_done,
    wire.MovedTo: Follower._take_move,
    wire.Closing: lambda _, closing: FollowUp(),
}
