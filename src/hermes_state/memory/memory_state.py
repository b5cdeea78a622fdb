"""What the store in memory holds, and the steps of its calls under its one lock."""

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from hermes_base.errors import StoreFailure
from hermes_base.journal import Row, UsageRow, visible
from hermes_state import records
from hermes_state.key_store import KeyRow
from hermes_state.memory.turn_tables import TurnTables
from hermes_state.people_store import QuestionRow
from hermes_state.store import BreakRow, NewSession, SessionInfo
from hermes_state.texts import clean

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MemoryRow:
    """A row in memory; `order` counts all rows of the store."""

    order: int
    position: int
    created: float
    row: records.WrittenRow


@dataclass(slots=True)
class Kept:
    """A session in memory."""

    info: SessionInfo
    writer: str = ""
    successor: str | None = None
    messages: list[MemoryRow] = field(default_factory=list)
    sent: dict[tuple[int, str], bytes] = field(default_factory=dict)  # place and dialect -> digest


@dataclass(frozen=True, slots=True)
class Charge:
    """A call in the ledger, which outlives its session."""

    session: str
    task: str
    call: UsageRow
    conversation: str = ""


class MemoryState:
    """Shared by the faces of one store; `locked` guards every call."""

    def __init__(self, clock: Callable[[], float] = time.time) -> None:
        self.clock = clock
        self.lock = threading.RLock()
        self.closed = False
        self.sessions: dict[str, Kept] = {}
        self.current: dict[str, str] = {}
        self.persons: dict[str, str] = {}  # conversation -> whose it is; the owner's where there is none
        self.blobs: dict[bytes, bytes] = {}
        self.ledger: list[Charge] = []
        self.breaks: list[tuple[str, BreakRow]] = []  # with their tasks
        self.order = 0
        self.searchable = True
        self.turns = TurnTables()
        self.questions: dict[str, QuestionRow] = {}
        self.keys: dict[str, KeyRow] = {}  # by digest

    def get(self, session: str) -> Kept:
        kept = self.sessions.get(session)
        if kept is None:
            raise records.missing(session)
        return kept

    def add_session(self, new: NewSession, task: str) -> Kept:
        session = clean(new.id) or records.make_session_id()
        while not new.id and session in self.sessions:
            session = records.make_session_id()
        if session in self.sessions:
            raise records.taken(session)
        it, now = records.complete_session(new, session, task), self.clock()
        info = SessionInfo(
            id=session,
            conversation=it.conversation,
            task=it.task,
            parent=it.parent,
            platform=it.platform,
            model=it.model,
            title=it.title,
            started=now,
            updated=now,
            ended=None,
            end_reason=None,
            version=0,
            messages=0,
            preview="",
            person=self.assign(it.conversation, new.person),
        )
        self.sessions[session] = kept = Kept(info)
        return kept

    def assign(self, conversation: str, person: str) -> str:
        """Give a conversation that is nobody's to a person; whose it is now."""
        self.persons[conversation] = person = self.persons.get(conversation) or person
        for kept in self.sessions.values():
            if kept.info.conversation == conversation:
                kept.info = replace(kept.info, person=person)
        return person

    def revoke_keys(self, person: str, now: float) -> None:
        """The keys of a person who was removed hold no more."""
        for digest, key in self.keys.items():
            if key.person == person and key.revoked is None:
                self.keys[digest] = replace(key, revoked=now)

    def add_child(self, kept: Kept) -> Kept:
        info = kept.info
        new = NewSession(
            info.conversation,
            parent=info.id,
            task=info.task,
            platform=info.platform,
            model=info.model,
            title=info.title,
        )
        child = self.add_session(new, info.task)
        child.sent = {key: digest for key, digest in kept.sent.items() if key[0] < 0}
        return child

    def copy_session(self, old: Kept, before: int | None, conversation: str) -> Kept:
        """A new session with the rows that stand in the old one, and the bytes that they were sent as."""
        info = old.info
        title = info.title if before is None else ""
        new = NewSession(conversation, platform=info.platform, model=info.model, title=title, person=info.person)
        copy = self.add_session(new, "")
        copy.sent = {key: digest for key, digest in old.sent.items() if key[0] < 0}
        rows = [row for row in visible(self.read_rows(old)) if before is None or row.position < before]
        if rows:
            self.add_rows(copy, records.make_writer_id(), records.write_batch(rows))
        return copy

    def go_on_in(self, session: str, conversation: str) -> SessionInfo:
        """Open the session again and make it the current one."""
        kept = self.get(session)
        if kept.info.conversation != conversation:
            raise records.foreign(session, conversation)
        kept.info = replace(kept.info, ended=None, end_reason=None)
        kept.successor = None
        self.current[conversation] = session
        return kept.info

    def append_batch(self, batch: records.Batch, place: records.WriterPosition, usage: Sequence[UsageRow]) -> int:
        """Add rows and their calls if the transcript stands where the writer left it; the new version."""
        kept = self.get(place.session)
        records.check_base(place.session, kept.info.version, place.base, kept.successor)
        if batch.rows:
            self.add_rows(kept, place.writer, batch)
        self.add_usage(place.session, kept.info.task, usage)
        return kept.info.version

    def rotate_session(self, batch: records.Batch, place: records.WriterPosition, reason: str) -> SessionInfo:
        """End the session and open its child with these rows, current in its place."""
        kept = self.get(place.session)
        records.check_base(place.session, kept.info.version, place.base, kept.successor)
        records.check_open(place.session, kept.info.ended, kept.info.end_reason)
        child = self.add_child(kept)
        self.add_rows(child, place.writer, batch)
        self.close_session(kept, reason)
        kept.successor = child.info.id
        self.move_current(kept.info, child.info.id)
        return child.info

    def add_rows(self, kept: Kept, writer: str, batch: records.Batch) -> None:
        now, info = self.clock(), kept.info
        for position, row in enumerate(batch.written, info.version):
            self.order += 1
            kept.messages.append(MemoryRow(self.order, position, now, row))
            for dialect, digest, body in row.sent:
                self.keep_sent(kept, position, dialect, digest, body)
        summary = records.extend_summary(records.Summary(info.messages, info.preview), batch.rows)
        if summary is None:
            summary = records.summarize(self.read_rows(kept))
        kept.info = replace(
            info, version=len(kept.messages), updated=now, messages=summary.messages, preview=summary.preview
        )
        kept.writer = writer

    def add_usage(self, session: str, task: str, usage: Sequence[UsageRow]) -> None:
        now = self.clock()
        kept = self.sessions.get(session)
        conversation = "" if kept is None else kept.info.conversation
        self.ledger += [Charge(session, task, replace(call, created=now), conversation) for call in usage]

    def list_calls(self, session: str | None, task: str | None, since: float, person: str | None) -> list[UsageRow]:
        return [
            charge.call
            for charge in self.ledger
            if session in (None, charge.session) and task in (None, charge.task) and charge.call.created >= since
            if person is None or (charge.conversation and self.persons.get(charge.conversation, "") == person)
        ]

    def close_session(self, kept: Kept, reason: str) -> None:
        if kept.info.ended is None:
            kept.info = replace(kept.info, ended=self.clock(), end_reason=clean(reason))

    def move_current(self, info: SessionInfo, successor: str | None) -> None:
        if self.current.get(info.conversation) == info.id:
            del self.current[info.conversation]
            if successor is not None:
                self.current[info.conversation] = successor

    def keep_encoded(self, kept: Kept, place: int, dialect: str, body: bytes) -> str:
        """Keep the encoded form of a part or a row; its content hash."""
        former, digest = kept.sent.get((place, dialect)), records.digest(body)
        self.keep_sent(kept, place, dialect, digest, body)
        if former is not None:
            self.drop_unused({former})
        return digest.hex()

    def keep_sent(self, kept: Kept, place: int, dialect: str, digest: bytes, body: bytes) -> None:
        self.blobs.setdefault(digest, bytes(body))
        kept.sent[place, dialect] = digest

    def drop_unused(self, digests: set[bytes]) -> None:
        for kept in self.sessions.values():
            digests = digests.difference(kept.sent.values())
        for digest in digests:
            del self.blobs[digest]

    def list_sent(self, kept: Kept) -> Iterator[tuple[int, str, bytes]]:
        return ((place, dialect, self.blobs[digest]) for (place, dialect), digest in kept.sent.items())

    def read_rows(self, kept: Kept) -> list[Row]:
        _, sent = records.split_sent(self.list_sent(kept))
        return [read_message(message, sent.get(message.position)) for message in kept.messages]


def read_message(message: MemoryRow, sent: Mapping[str, bytes] | None = None) -> Row:
    row = message.row
    return Row(json.loads(row.body), row.shown, sent or {}, row.kind, message.position)


class HasState(Protocol):
    @property
    def _state(self) -> MemoryState: ...


S = TypeVar("S", bound=HasState)


def locked(call: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[S, P], T]:
    """One call at a time, and none after `close`."""

    @wraps(call)
    def run(self: S, /, *args: P.args, **kwargs: P.kwargs) -> T:
        state = self._state
        with state.lock:
            if state.closed:
                raise StoreFailure("The store in memory is closed.", kept="Nothing of this call was stored.")
            return call(self, *args, **kwargs)

    return run
