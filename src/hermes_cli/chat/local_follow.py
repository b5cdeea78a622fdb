"""What a client of the local socket knows: which of its messages are dealt with, what it has shown, where it stands.

Pure: lines of the gateway in, events for the chat and lines for the gateway out. Nothing is shown twice, however often
it comes, and nothing that was not stored is forgotten.
"""

from collections import OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from hermes_base import local_wire as wire
from hermes_base.chat import Asked, Closed, Event, FileSent, Idle, Notice, Question, Said, TextEnded, TurnEnded
from hermes_base.inbound import ANSWER, FILE, NOTE, QUESTION, FileRef, Outgoing

_MOST_REMEMBERED = 10_000  # rows and messages; older ones do not come again
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")
_QUESTION_KINDS = frozenset({"approval", "clarification", "confirmation"})


@dataclass(slots=True)
class OpenMessage:
    """A message of ours that is not dealt with, as far as we know."""

    say: wire.Say
    stored: bool = False
    seq: int | None = None
    due: int | None = None  # it is dealt with once this row has come; None: it is not yet


@dataclass(frozen=True, slots=True)
class FollowUp:
    """What follows from a line."""

    events: tuple[Event, ...] = ()
    replies: tuple[wire.FromClient, ...] = ()


class Follower:
    """One chat's view of its conversation, over any number of connections."""

    def __init__(self, hello: wire.Hello) -> None:
        self._hello = hello
        self._count = 0
        self._pending: dict[str, OpenMessage] = {}
        self._last_rows: OrderedDict[int, int] = OrderedDict()  # seq -> row, also of messages that we do not know yet
        self._shown: OrderedDict[int | str, None] = OrderedDict()
        self._words: set[int] = set()  # messages that we know, beyond the cursor
        self._parts: dict[int, str] = {}  # beginnings of long rows, by row
        self._old_row = 0  # rows up to here were there before we came
        self._cursor = wire.Cursor()
        self.conversation = ""

    # --- what we say

    def hello(self) -> wire.Hello:
        """The line that opens the conversation, or comes back to it."""
        if not self.conversation:
            return self._hello
        back = replace(self._hello, resume="", continue_last=False, model="", provider="")
        return replace(back, conversation=self.conversation, after=self._cursor)

    def say(self, text: str, files: tuple[FileRef, ...] = ()) -> wire.Say:
        self._count += 1
        say = wire.Say(str(self._count), text, files)
        self._pending[say.id] = OpenMessage(say)
        return say

    # --- what we are told

    def take(self, line: wire.FromGateway) -> FollowUp:
        handle = _HANDLERS.get(type(line))
        taken = handle(self, line) if handle is not None else FollowUp()
        return replace(taken, events=(*taken.events, *self._settle()))

    def _take_welcome(self, welcome: wire.Welcome) -> FollowUp:
        came_back = bool(self.conversation)
        self._parts.clear()  # the row comes again, from its beginning
        if not came_back:
            self._cursor = welcome.cursor
        self.conversation = welcome.conversation
        self._old_row = welcome.cursor.outbox
        for pending in self._pending.values():
            if pending.seq is not None and pending.seq not in welcome.open:
                pending.due = welcome.cursor.outbox
        replies = tuple(pending.say for pending in self._pending.values() if not pending.stored)
        # Nobody knows how a text goes on that was cut with the connection; the answer comes whole.
        return FollowUp((TextEnded(kept=False),) if came_back else (), replies)

    def _take_stored(self, stored: wire.Stored) -> FollowUp:
        pending = self._pending.get(stored.id)
        if pending is None:
            return FollowUp()
        pending.stored, pending.seq = True, stored.seq
        if stored.seq is None:
            pending.due = 0  # nobody knows what became of it: do not wait
        else:
            self._note_word(stored.seq)
            pending.due = stored.outbox if stored.done else self._last_rows.get(stored.seq)
        return FollowUp()

    def _take_refused(self, refused: wire.NotStored) -> FollowUp:
        pending = self._pending.get(refused.id)
        if pending is None:
            return FollowUp()
        pending.stored, pending.due = True, 0
        return FollowUp((Notice(refused.reason, "error"),))

    def _take_event(self, happened: wire.Happened) -> FollowUp:
        event = happened.event
        if isinstance(event, Idle | Closed):
            return FollowUp()  # we know better
        if isinstance(event, Said) and happened.seq and not self._note_word(happened.seq):
            return FollowUp()
        return FollowUp((event,))

    def _take_part(self, part: wire.DeliverPart) -> FollowUp:
        self._parts[part.row] = self._parts.get(part.row, "") + part.text
        return FollowUp()

    def _take_row(self, deliver: wire.Deliver) -> FollowUp:
        reply = (wire.Got(deliver.row),)
        outgoing = replace(deliver.outgoing, text=self._parts.pop(deliver.row, "") + deliver.outgoing.text)
        name = deliver.row if deliver.row > 0 else deliver.key
        seen = name in self._shown
        _remember(self._shown, name, None)
        self._cursor = replace(self._cursor, outbox=max(self._cursor.outbox, deliver.row))
        stale = deliver.outgoing.kind == QUESTION and 0 < deliver.row <= self._old_row
        if stale or (seen and deliver.key):
            return FollowUp(replies=reply)
        event = _EVENTS[outgoing.kind](outgoing)
        if isinstance(event, TurnEnded) and outgoing.level == "error":  # it has no answer: why is told beside its end
            return FollowUp((Notice(outgoing.text, "error"), replace(event, answer="")), reply)
        return FollowUp((event,), reply)

    def _take_done(self, dealt: wire.DealtWith) -> FollowUp:
        for seq in dealt.seqs:
            _remember(self._last_rows, seq, dealt.outbox)
        for pending in self._pending.values():
            if pending.seq in dealt.seqs:
                pending.due = dealt.outbox
        return FollowUp()

    def _take_moved(self, moved: wire.MovedTo) -> FollowUp:
        """What we said in the old conversation is not ours to wait for any more."""
        self.conversation, self._cursor, self._old_row = moved.conversation, moved.cursor, moved.cursor.outbox
        self._words.clear()
        self._last_rows.clear()
        for pending in self._pending.values():
            if pending.stored:
                pending.due = 0
        return FollowUp()

    # --- what we know

    def _note_word(self, seq: int) -> bool:
        """Remember a message, and move the cursor over all that we know without a gap; False when it was known."""
        if seq <= self._cursor.seq or seq in self._words:
            return False
        self._words.add(seq)
        newest = self._cursor.seq
        while newest + 1 in self._words:
            newest += 1
            self._words.remove(newest)
        self._cursor = replace(self._cursor, seq=newest)
        return True

    def _settle(self) -> tuple[Event, ...]:
        """Drop what is dealt with and has all its rows; Idle when nothing is left."""
        row = self._cursor.outbox
        ended = [id for id, pending in self._pending.items() if pending.due is not None and pending.due <= row]
        for id in ended:
            del self._pending[id]
        return (Idle(),) if ended and not self._pending else ()


def _remember(known: OrderedDict[_Key, _Value], key: _Key, value: _Value) -> None:
    known[key] = value
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
    wire.DeliverPart: Follower._take_part,
    wire.Deliver: Follower._take_row,
    wire.DealtWith: Follower._take_done,
    wire.MovedTo: Follower._take_moved,
    wire.Trouble: lambda _, trouble: FollowUp((Notice(trouble.text, "error"),)),
}
