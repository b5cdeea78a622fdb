"""A session in memory: its messages, and the bytes each was sent as, one list for each dialect.

A message is encoded once for a dialect and kept; a request is the join of what is kept, and it is known before it
leaves whether it starts with the bytes of the one before. Nothing here is rendered again while the conversation goes
on.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from agent.formats.reply import without_own_data
from hermes_base.text.foreign import FOREIGN, SAID_BY, Marks
from hermes_base.turn.journal import (
    COMPACTED,
    LEFT_OUT,
    SYSTEM,
    TOOLS,
    Journal,
    Row,
    Transcript,
    begins_exchange,
    copy_messages,
    placed,
    rough_bytes,
    shown_text,
)

Encode = Callable[[Mapping[str, Any]], bytes]
#: Field of an assistant message: which provider and model wrote it. Never sent.
WRITTEN_BY = "by"
#: Field of a user message: the facts of the turn that it told beside its text. Never sent.
TOLD = "told"
#: A break of the prefix that nobody in this process caused: another writer of the store did.
STORE_CHANGED = "store_changed"


@dataclass(frozen=True, slots=True)
class PrefixBreak:
    """Why a request does not start with the bytes of the last one, and from which message on (-1: tools or system)."""

    reason: str
    position: int


class PrefixWatch:
    """What one dialect has sent in one conversation: a running hash, so the work grows with what is new. Everyone who
    moves a byte that was sent says why, so that a break has a name before the request leaves."""

    def __init__(self) -> None:
        self._root = b""
        self._chain: list[bytes] = []  # the hash up to and with each fragment
        self._sent = 0  # how many fragments the last request had
        self._sent_hash = b""
        self._moved: PrefixBreak | None = None

    def move(self, reason: str, position: int) -> None:
        """Fragments from this position on are not what they were; the first cause that reaches furthest back counts."""
        del self._chain[position:]
        if self._moved is None or position < self._moved.position:
            self._moved = PrefixBreak(reason, position)

    def check(self, tools: bytes, system: bytes, fragments: Sequence[bytes]) -> PrefixBreak | None:
        """The break that the coming request makes, if it makes one; afterwards it counts as sent."""
        root = hashlib.sha256(tools + b"\0" + system).digest()
        if root != self._root:
            changed = bool(self._root)
            self._root = root
            self._chain.clear()
            if changed and self._sent:
                self.move("prompt_repaired", -1)
        del self._chain[len(fragments) :]
        last = self._chain[-1] if self._chain else root
        for place in range(len(self._chain), len(fragments)):
            last = hashlib.sha256(last + fragments[place]).digest()
            self._chain.append(last)
        # What was moved and put back, or never sent, breaks nothing.
        kept = len(self._chain) >= self._sent and (not self._sent or self._chain[self._sent - 1] == self._sent_hash)
        broken = None if kept else self._moved or PrefixBreak(STORE_CHANGED, 0)
        self._sent, self._sent_hash, self._moved = len(self._chain), last, None
        return broken


@dataclass(frozen=True, slots=True)
class Exchange:
    """The last question of a person, with which its turn began."""

    place: int
    text: str  # as people see it
    parts: tuple[Mapping[str, Any], ...]  # images that came along, also those that are not sent any more
    asked_by: str  # the person's id; empty: it is not known
    foreign: tuple[str, ...]  # whose words came along

    @classmethod
    def of(cls, place: int, row: Row) -> "Exchange":
        message, content = row.message, row.message.get("content")
        given = message.get(LEFT_OUT) or (content if isinstance(content, list) else ())
        parts = tuple(part for part in given if part.get("type") != "text")
        asked_by = next(iter(message.get(SAID_BY, ())), "")
        return cls(place, shown_text(row), parts, asked_by, tuple(message.get(FOREIGN, ())))


class Conversation:
    """Messages are live dicts: plugins may edit them in place, which `refresh` turns into a named prefix break."""

    def __init__(self, transcript: Transcript, began_with: PrefixBreak | None = None) -> None:
        """`began_with`: the break that made this transcript begin otherwise than the one before; it is recorded."""
        self._began_with = [] if began_with is None else [began_with]
        self.session = transcript.session
        self.task = transcript.task
        self.conversation = transcript.conversation
        self.version = transcript.version
        self.messages: list[dict[str, Any]] = []
        self.frozen = dict(transcript.frozen)
        self.grown_bytes = 0  # what came since the provider last counted
        self.bytes = sum(map(len, self.frozen.values()))  # roughly what it takes in memory
        self.marks = Marks()
        self.told = ""  # the facts of a turn that the model was told last
        self.call_ids: set[str] = set()  # of its calls, also of what was taken back: no other gets one
        self._rows: list[Row] = []
        self._sizes: list[int] = []  # of the messages, roughly
        self._edited: dict[int, Mapping[str, Any]] = {}  # by place: what a plugin made of a message that was sent
        self._sent: dict[str, list[bytes]] = {}
        self._watches: dict[str, PrefixWatch] = {}
        self._take(transcript.rows)
        self._writer = self._last_writer()

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def rows(self) -> Sequence[Row]:
        return self._rows

    def list_said(self) -> list[dict[str, Any]]:
        """The messages as people said them, without what the house told the model beside it: of those, copies."""
        return [said_alone(row, message) for row, message in zip(self._rows, self.messages, strict=True)]

    def take_break(self) -> list[PrefixBreak]:
        """The break that it began with, if there is one, for the one turn that made it."""
        taken, self._began_with = self._began_with, []
        return taken

    def note(self, rows: Sequence[Row], version: int) -> None:
        """Take rows that the journal has stored."""
        self._take(placed(rows, version - len(rows)))
        self.version = version

    def forget_after(self, keep: int, version: int, reason: str = "undo") -> None:
        """That what came after the first messages is taken back was stored."""
        for dialect in set(self._watches).union(*(row.sent for row in self._rows[:1])):
            self._watch(dialect).move(reason, keep)
        del self.messages[keep:], self._rows[keep:], self._sizes[keep:]
        self._edited = {place: edited for place, edited in self._edited.items() if place < keep}
        for fragments in self._sent.values():
            del fragments[keep:]
        self.marks, self.told = Marks(), ""
        for row in self._rows:
            self.marks.take(row.message)
            self.told = row.message.get(TOLD, self.told)
        self.version = version

    def replace_tools(self, tools: Mapping[str, bytes]) -> None:
        """Another array of tools, because a person wants it: whatever was sent is read anew by the provider."""
        for dialect in set(self._watches).union(*(row.sent for row in self._rows[:1])):
            self._watch(dialect).move("tools_reloaded", -1)
        kept = {key: body for key, body in self.frozen.items() if key[0] != TOOLS}
        self.frozen = kept | {(TOOLS, dialect): body for dialect, body in tools.items()}

    def find_last_exchange(self) -> Exchange | None:
        """What a person asked last; None when there is nothing, or when what came after it was compacted."""
        for place in reversed(range(len(self._rows))):
            if self._rows[place].message.get(COMPACTED):
                return None
            if begins_exchange(self._rows[place]):
                return Exchange.of(place, self._rows[place])
        return None

    @property
    def is_compacted(self) -> bool:
        return any(row.message.get(COMPACTED) for row in self._rows)

    def fragments(self, dialect: str, encode: Encode, journal: Journal) -> list[bytes]:
        """The bytes of every message in this dialect; what it never sent is encoded now and kept."""
        sent = self._sent.setdefault(dialect, [])
        for place in range(len(sent), len(self.messages)):
            row = self._rows[place]
            body = row.sent.get(dialect)
            if body is None:
                body = encode(self.messages[place])
                journal.freeze(str(row.position), dialect, body)
            sent.append(body)
        return sent

    def refresh(self, dialect: str, encode: Encode) -> None:
        """Encode again what a plugin edited in place. Costs a walk over the history."""
        sent, watch = self._sent.get(dialect, []), self._watch(dialect)
        edited = False
        for place, kept in enumerate(sent):
            message = self.messages[place]
            # What a provider signed does not hold behind a message that was changed.
            body = encode(without_own_data(message) if edited else message)
            if body != kept:
                sent[place] = body
                self._edited[place] = copy_messages([message])[0]
                self._sizes[place] = rough_bytes(message)
                watch.move("plugin_edit", place)
                edited = True

    def count_same(self, messages: Sequence[Mapping[str, Any]], start: int = 0) -> int:
        """How many messages are what was sent, if the first of these stands at `start`: by value, since `self.messages`
        are in other hands, too. No call for each of them: histories are long."""
        rows, edited, place = self._rows[start:], self._edited, start
        for row, message in zip(rows, messages, strict=False):
            if message != (row.message if not edited else edited.get(place, row.message)):
                return place
            place += 1
        return place

    def say_again(self, keep: int) -> list[Mapping[str, Any]]:
        """The first messages as they were sent."""
        return [self._edited.get(place, row.message) for place, row in enumerate(self._rows[:keep])]

    def check_prefix(self, dialect: str, writer: str, tools: bytes, system: bytes) -> PrefixBreak | None:
        """The break that the coming request makes, if it makes one; `writer` is who will answer it."""
        broken = (self._watches.get(dialect) or self._watch(dialect)).check(tools, system, self._sent.get(dialect, []))
        before, self._writer = self._writer, writer
        if before and before != writer:
            same_provider = before.partition("/")[0] == writer.partition("/")[0]
            return PrefixBreak("model_changed" if same_provider else "provider_changed", -1)
        return broken

    def _watch(self, dialect: str) -> PrefixWatch:
        """What was sent in this dialect; after a rebuild, by what the store says: all rows before the last answer."""
        watch = self._watches.get(dialect)
        if watch is None:
            watch = self._watches[dialect] = PrefixWatch()
            answers = [place for place, message in enumerate(self.messages) if message.get("role") == "assistant"]
            sent = [row.sent.get(dialect) for row in self._rows[: answers[-1] if answers else 0]]
            known = [body for body in sent if body is not None]
            if known and len(known) == len(sent):
                watch.check(self.frozen.get((TOOLS, dialect), b""), self.frozen.get((SYSTEM, dialect), b""), known)
        return watch

    def was_sent_in(self, dialect: str) -> bool:
        return bool(self._last_writer()) and dialect in self._rows[0].sent

    def estimate_bytes(self, keep: int | None = None) -> int:
        """A rough size of all messages, or of the first ones with the parts before them, for when no provider has
        counted them."""
        if keep is None:
            return sum(self._sizes)
        return sum(self._sizes[:keep]) + sum(map(len, self.frozen.values()))

    def _last_writer(self) -> str:
        wrote = (message.get(WRITTEN_BY) for message in reversed(self.messages) if message.get("role") == "assistant")
        return str(next(wrote, "") or "")

    def _take(self, rows: Sequence[Row]) -> None:
        for row, message in zip(rows, copy_messages([row.message for row in rows]), strict=True):
            self._rows.append(row)
            self.marks.take(message)
            self.told = message.get(TOLD, self.told)
            if "tool_calls" in message:
                self.call_ids.update([call["id"] for call in message["tool_calls"]])
            self.messages.append(message)
            size = rough_bytes(message)
            self._sizes.append(size)
            self.grown_bytes += size
            self.bytes += 2 * size + 1024  # the message, its encoded form, and their objects
            for dialect, sent in self._sent.items():
                # Only a list that is complete so far may grow; a dialect left behind catches up in `fragments`.
                if dialect in row.sent and len(sent) == len(self.messages) - 1:
                    sent.append(row.sent[dialect])


def said_alone(row: Row, message: dict[str, Any]) -> dict[str, Any]:
    """A person's message with its own text alone; every other one, also one that a plugin has edited, as it is."""
    if message.get("role") != "user" or row.shown is None or row.message.get("content") != message.get("content"):
        return message
    content = message["content"]
    if isinstance(content, str):
        return {**message, "content": row.shown}
    first, *parts = content
    return {**message, "content": [{**first, "text": row.shown}, *parts]}
