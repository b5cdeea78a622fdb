"""The store in memory: the twin of `SqliteStore` for libraries and tests, with the same answers and no file."""

import math
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from hermes_base.errors import StoreFailure
from hermes_base.journal import Row, Transcript, UsageRow, visible
from hermes_state import records
from hermes_state.interface import BreakRow, Hit, NewSession, SessionInfo, UsageGroup, UsageSum
from hermes_state.texts import clean, cut_excerpt, match_query, split_query

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class _Message:
    """A row in memory; `order` counts all rows of the store."""

    order: int
    position: int
    created: float
    row: records.WrittenRow


@dataclass(slots=True)
class _Kept:
    """A session in memory."""

    info: SessionInfo
    writer: str = ""
    successor: str | None = None
    messages: list[_Message] = field(default_factory=list)
    sent: dict[tuple[int, str], bytes] = field(default_factory=dict)  # place and dialect -> digest


@dataclass(frozen=True, slots=True)
class _Charge:
    """A call in the ledger, which outlives its session."""

    session: str
    task: str
    call: UsageRow


def _locked(call: Callable[Concatenate["MemoryStore", P], T]) -> Callable[Concatenate["MemoryStore", P], T]:
    """One call at a time, and none after `close`."""

    @wraps(call)
    def run(self: "MemoryStore", /, *args: P.args, **kwargs: P.kwargs) -> T:
        with self._lock:
            if self._closed:
                raise StoreFailure("The store in memory is closed.", kept="Nothing of this call was stored.")
            return call(self, *args, **kwargs)

    return run


class MemoryStore:
    """Implements `Store`."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._closed = False
        self._sessions: dict[str, _Kept] = {}
        self._current: dict[str, str] = {}
        self._blobs: dict[bytes, bytes] = {}
        self._ledger: list[_Charge] = []
        self._breaks: list[tuple[str, BreakRow]] = []  # with their tasks
        self._order = 0
        self._searchable = True

    # --- sessions

    @_locked
    def open_session(self, new: NewSession) -> SessionInfo:
        task = self._get(new.parent).info.task if new.parent else ""
        info = self._add_session(new, task).info
        self._current[info.conversation] = info.id
        return info

    @_locked
    def current(self, conversation: str) -> SessionInfo | None:
        session = self._current.get(clean(conversation))
        return None if session is None else self._sessions[session].info

    @_locked
    def session(self, session: str) -> SessionInfo | None:
        kept = self._sessions.get(session)
        return None if kept is None else kept.info

    @_locked
    def sessions(self, *, limit: int = 50, conversation: str | None = None) -> list[SessionInfo]:
        wanted = None if conversation is None else clean(conversation)
        infos = [
            kept.info
            for kept in self._sessions.values()
            if kept.info.messages and wanted in (None, kept.info.conversation)
        ]
        return sorted(infos, key=lambda info: (info.updated, info.id), reverse=True)[:limit]

    @_locked
    def resume(self, conversation: str, session: str) -> SessionInfo:
        kept = self._get(session)
        if kept.info.conversation != clean(conversation):
            raise records.foreign(session, conversation)
        kept.info = replace(kept.info, ended=None, end_reason=None)
        kept.successor = None
        self._current[kept.info.conversation] = session
        return kept.info

    @_locked
    def end(self, session: str, reason: str) -> None:
        kept = self._get(session)
        self._close_session(kept, reason)
        self._move_current(kept.info, None)

    @_locked
    def set_title(self, session: str, title: str) -> None:
        kept = self._get(session)
        kept.info = replace(kept.info, title=clean(title))

    @_locked
    def delete(self, session: str) -> bool:
        kept = self._sessions.pop(session, None)
        if kept is None:
            return False
        self._move_current(kept.info, None)
        self._drop_unused(set(kept.sent.values()))
        return True

    # --- transcripts

    @_locked
    def load(self, session: str) -> Transcript:
        kept = self._get(session)
        frozen, _ = records.split_sent(self._list_sent(kept))
        return Transcript(
            session=session,
            conversation=kept.info.conversation,
            task=kept.info.task,
            version=kept.info.version,
            writer=kept.writer,
            frozen=frozen,
            rows=visible(self._read_rows(kept)),
        )

    @_locked
    def history(self, session: str) -> Iterator[Row]:
        return iter(self._read_rows(self._get(session)))

    @_locked
    def append(self, session: str, writer: str, base: int, rows: Sequence[Row], usage: Sequence[UsageRow] = ()) -> int:
        batch = records.write_batch(rows)
        kept = self._get(session)
        records.check_base(session, kept.info.version, base, kept.successor)
        if rows:
            self._add_rows(kept, clean(writer), batch)
        self._add_usage(session, kept.info.task, usage)
        return kept.info.version

    @_locked
    def freeze(self, session: str, place: int, dialect: str, body: bytes) -> str:
        kept = self._get(session)
        records.check_place(place, kept.info.version, session)
        former = kept.sent.get((place, dialect))
        self._keep_sent(kept, place, dialect, records.digest(body), body)
        if former is not None:
            self._drop_unused({former})
        return records.digest(body).hex()

    @_locked
    def rotate(self, session: str, writer: str, base: int, reason: str, rows: Sequence[Row]) -> SessionInfo:
        batch = records.write_batch(rows)
        kept = self._get(session)
        records.check_base(session, kept.info.version, base, kept.successor)
        records.check_open(session, kept.info.ended, kept.info.end_reason)
        child = self._add_child(kept)
        self._add_rows(child, clean(writer), batch)
        self._close_session(kept, reason)
        kept.successor = child.info.id
        self._move_current(kept.info, child.info.id)
        return child.info

    # --- ledger

    @_locked
    def charge(self, session: str, usage: Sequence[UsageRow]) -> None:
        kept = self._sessions.get(session)
        self._add_usage(session, "" if kept is None else kept.info.task, usage)

    @_locked
    def usage(self, *, session: str | None = None, task: str | None = None, since: float = 0.0) -> UsageSum:
        return _sum_calls(self._list_calls(session, task, since))

    @_locked
    def usage_by(
        self, group: str, *, session: str | None = None, task: str | None = None, since: float = 0.0
    ) -> list[UsageGroup]:
        flags = records.find_flags(group)
        groups: dict[tuple[str, ...], list[UsageRow]] = {}
        for call in sorted(self._list_calls(session, task, since), key=lambda call: call.created):
            groups.setdefault(records.pick_keys(flags, _name_groups(call)), []).append(call)
        return [UsageGroup(keys, _sum_calls(calls), calls[0].created) for keys, calls in groups.items()]

    @_locked
    def note_break(self, session: str, reason: str, position: int) -> None:
        kept = self._sessions.get(session)
        row = BreakRow(session, records.check_reason(reason), position, time.time())
        self._breaks.append(("" if kept is None else kept.info.task, row))

    @_locked
    def breaks(self, *, session: str | None = None, task: str | None = None, since: float = 0.0) -> list[BreakRow]:
        return [
            row
            for own, row in self._breaks
            if session in (None, row.session) and task in (None, own) and row.created >= since
        ]

    # --- search

    @_locked
    def search(self, words: str, *, limit: int = 20) -> list[Hit]:
        if not self._searchable:
            raise records.no_index()
        runs = split_query(words)
        if not runs:
            return []
        found = [
            (message, kept.info.id)
            for kept in self._sessions.values()
            for message in kept.messages
            if match_query(runs, message.row.text)
        ]
        found.sort(key=lambda pair: pair[0].order, reverse=True)
        return [_make_hit(runs, message, session) for message, session in found[:limit]]

    @_locked
    def drop_search(self) -> None:
        self._searchable = False

    @_locked
    def rebuild_search(self) -> int:
        self._searchable = True
        return sum(bool(message.row.text) for kept in self._sessions.values() for message in kept.messages)

    def close(self) -> None:
        with self._lock:
            self._closed = True

    # --- the steps of those calls, under the lock

    def _get(self, session: str) -> _Kept:
        kept = self._sessions.get(session)
        if kept is None:
            raise records.missing(session)
        return kept

    def _add_session(self, new: NewSession, task: str) -> _Kept:
        session = clean(new.id) or records.make_session_id()
        while not new.id and session in self._sessions:
            session = records.make_session_id()
        if session in self._sessions:
            raise records.taken(session)
        it, now = records.complete_session(new, session, task), time.time()
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
        )
        self._sessions[session] = kept = _Kept(info)
        return kept

    def _add_child(self, kept: _Kept) -> _Kept:
        info = kept.info
        new = NewSession(
            info.conversation,
            parent=info.id,
            task=info.task,
            platform=info.platform,
            model=info.model,
            title=info.title,
        )
        child = self._add_session(new, info.task)
        child.sent = {key: digest for key, digest in kept.sent.items() if key[0] < 0}
        return child

    def _add_rows(self, kept: _Kept, writer: str, batch: records.Batch) -> None:
        now, info = time.time(), kept.info
        for position, row in enumerate(batch.written, info.version):
            self._order += 1
            kept.messages.append(_Message(self._order, position, now, row))
            for dialect, digest, body in row.sent:
                self._keep_sent(kept, position, dialect, digest, body)
        summary = records.extend_summary(records.Summary(info.messages, info.preview), batch.rows)
        if summary is None:
            summary = records.summarize(self._read_rows(kept))
        kept.info = replace(
            info, version=len(kept.messages), updated=now, messages=summary.messages, preview=summary.preview
        )
        kept.writer = writer

    def _add_usage(self, session: str, task: str, usage: Sequence[UsageRow]) -> None:
        now = time.time()
        self._ledger += [_Charge(session, task, replace(call, created=now)) for call in usage]

    def _list_calls(self, session: str | None, task: str | None, since: float) -> list[UsageRow]:
        return [
            charge.call
            for charge in self._ledger
            if session in (None, charge.session) and task in (None, charge.task) and charge.call.created >= since
        ]

    def _close_session(self, kept: _Kept, reason: str) -> None:
        if kept.info.ended is None:
            kept.info = replace(kept.info, ended=time.time(), end_reason=clean(reason))

    def _move_current(self, info: SessionInfo, successor: str | None) -> None:
        if self._current.get(info.conversation) == info.id:
            del self._current[info.conversation]
            if successor is not None:
                self._current[info.conversation] = successor

    def _keep_sent(self, kept: _Kept, place: int, dialect: str, digest: bytes, body: bytes) -> None:
        self._blobs.setdefault(digest, bytes(body))
        kept.sent[place, dialect] = digest

    def _drop_unused(self, digests: set[bytes]) -> None:
        for kept in self._sessions.values():
            digests = digests.difference(kept.sent.values())
        for digest in digests:
            del self._blobs[digest]

    def _list_sent(self, kept: _Kept) -> Iterator[tuple[int, str, bytes]]:
        return ((place, dialect, self._blobs[digest]) for (place, dialect), digest in kept.sent.items())

    def _read_rows(self, kept: _Kept) -> list[Row]:
        _, sent = records.split_sent(self._list_sent(kept))
        return [_read_message(message, sent.get(message.position)) for message in kept.messages]


def _read_message(message: _Message, sent: Mapping[str, bytes] | None = None) -> Row:
    return records.read_row(message.row.kind, message.row.body, message.row.shown, message.position, sent)


def _sum_calls(calls: Sequence[UsageRow]) -> UsageSum:
    return UsageSum(
        calls=len(calls),
        input_tokens=sum(call.input_tokens for call in calls),
        cache_read_tokens=sum(call.cache_read_tokens for call in calls),
        cache_write_tokens=sum(call.cache_write_tokens for call in calls),
        output_tokens=sum(call.output_tokens for call in calls),
        reasoning_tokens=sum(call.reasoning_tokens for call in calls),
        cost=math.fsum(call.cost or 0.0 for call in calls),
        unpriced=sum(call.cost is None for call in calls),
        unsettled=sum(not call.settled for call in calls),
        saved=math.fsum(call.saved or 0.0 for call in calls),
    )


def _name_groups(call: UsageRow) -> tuple[str, str, str, str]:
    day = time.strftime("%Y-%m-%d", time.localtime(call.created))
    return day, clean(call.provider), clean(call.model), clean(call.turn)


def _make_hit(runs: list[list[str]], message: _Message, session: str) -> Hit:
    role = str(_read_message(message).message.get("role", ""))
    return Hit(session, message.position, role, cut_excerpt(runs, message.row.text), message.created)
