"""The store in one SQLite file: every call is one transaction, written through before it returns."""

import logging
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self

from hermes_base.journal import PART_PLACES, Row, Transcript, UsageRow, visible
from hermes_state import queries, records, search_index
from hermes_state.connection import Database
from hermes_state.interface import BreakRow, Hit, NewSession, SessionInfo, UsageGroup, UsageSum
from hermes_state.texts import clean

BUSY_TIMEOUT = 5.0
PAGE = 200
REBUILD_PAUSE = 0.001
# Statements on the ledger, by whether a session and whether a task is asked for.
_SUMS = {
    (False, False): queries.SUM_USAGE,
    (True, False): queries.SUM_USAGE_OF_SESSION,
    (False, True): queries.SUM_USAGE_OF_TASK,
    (True, True): queries.SUM_USAGE_OF_BOTH,
}
_SPLITS = {
    (False, False): queries.SPLIT_USAGE,
    (True, False): queries.SPLIT_USAGE_OF_SESSION,
    (False, True): queries.SPLIT_USAGE_OF_TASK,
    (True, True): queries.SPLIT_USAGE_OF_BOTH,
}
_BREAKS = {
    (False, False): queries.GET_BREAKS,
    (True, False): queries.GET_BREAKS_OF_SESSION,
    (False, True): queries.GET_BREAKS_OF_TASK,
    (True, True): queries.GET_BREAKS_OF_BOTH,
}


@dataclass(frozen=True, slots=True)
class _Head:
    """Where a session stands, as read inside the transaction that moves it."""

    conversation: str
    task: str
    version: int
    writer: str
    ended: float | None
    end_reason: str | None
    successor: str | None
    messages: int
    preview: str
    platform: str
    model: str
    title: str


log = logging.getLogger(__name__)


class SqliteStore:
    """Implements `Store`; opening creates the file, with its folder, or brings an older one up to date."""

    def __init__(self, path: Path | str, *, busy_timeout: float = BUSY_TIMEOUT, readonly: bool = False) -> None:
        self._db = Database(Path(path), busy_timeout=busy_timeout, readonly=readonly)
        self._rebuild_lock = threading.Lock()

    @classmethod
    def open_readonly(cls, path: Path | str, *, busy_timeout: float = BUSY_TIMEOUT) -> Self:
        """The store for reading beside its owner; creates no file, and a call that writes raises StoreFailure."""
        return cls(path, busy_timeout=busy_timeout, readonly=True)

    # --- sessions

    def open_session(self, new: NewSession) -> SessionInfo:
        with self._db.write() as db:
            task = _get_head(db, new.parent).task if new.parent else ""
            session = _add_session(db, new, task)
            db.execute(queries.SET_CURRENT, (session, clean(new.conversation)))
            return _get_info(db, session)

    def current(self, conversation: str) -> SessionInfo | None:
        return self._db.read(lambda db: _find_info(db, queries.GET_CURRENT, clean(conversation)))

    def session(self, session: str) -> SessionInfo | None:
        return self._db.read(lambda db: _find_info(db, queries.GET_SESSION, session))

    def sessions(self, *, limit: int = 50, conversation: str | None = None) -> list[SessionInfo]:
        query = queries.RECENT_SESSIONS if conversation is None else queries.RECENT_OF_CONVERSATION
        wanted = (limit,) if conversation is None else (clean(conversation), limit)
        return self._db.read(lambda db: [SessionInfo(*found) for found in db.execute(query, wanted)])

    def resume(self, conversation: str, session: str) -> SessionInfo:
        with self._db.write() as db:
            if _get_head(db, session).conversation != clean(conversation):
                raise records.foreign(session, conversation)
            db.execute(queries.REOPEN_SESSION, (session,))
            db.execute(queries.SET_CURRENT, (session, clean(conversation)))
            return _get_info(db, session)

    def end(self, session: str, reason: str) -> None:
        with self._db.write() as db:
            conversation = _get_head(db, session).conversation
            db.execute(queries.END_SESSION, (time.time(), clean(reason), session))
            db.execute(queries.MOVE_CURRENT, (None, conversation, session))

    def set_title(self, session: str, title: str) -> None:
        with self._db.write() as db:
            if db.execute(queries.SET_TITLE, (clean(title), session)).rowcount == 0:
                raise records.missing(session)

    def delete(self, session: str) -> bool:
        with self._db.write() as db:
            info = _find_info(db, queries.GET_SESSION, session)
            if info is None:
                return False
            search_index.take_session(db, session)
            hashes = db.execute(queries.GET_HASHES, (session,)).fetchall()
            db.execute(queries.MOVE_CURRENT, (None, info.conversation, session))
            db.execute(queries.DELETE_SESSION, (session,))
            db.executemany(queries.DROP_UNUSED_BLOB, hashes)
            return True

    # --- transcripts

    def load(self, session: str) -> Transcript:
        return self._db.read(lambda db: _read_transcript(db, session))

    def history(self, session: str) -> Iterator[Row]:
        version = self._db.read(lambda db: _get_head(db, session).version)
        return self._page_history(session, version)

    def append(self, session: str, writer: str, base: int, rows: Sequence[Row], usage: Sequence[UsageRow] = ()) -> int:
        batch = records.write_batch(rows)
        with self._db.write() as db:
            head = _get_head(db, session)
            records.check_base(session, head.version, base, head.successor)
            if rows:
                _add_rows(db, session, head, clean(writer), batch)
            if usage:
                _add_usage(db, session, head, usage)
        return base + len(rows)

    def freeze(self, session: str, place: int, dialect: str, body: bytes) -> str:
        digest = records.digest(body)
        with self._db.write() as db:
            records.check_place(place, _get_head(db, session).version, session)
            former = db.execute(queries.GET_SENT_HASH, (session, place, dialect)).fetchone()
            db.execute(queries.ADD_BLOB, (digest, body))
            if former is None or former[0] != digest:
                db.execute(queries.SET_SENT, (session, place, dialect, digest))
            if former is not None and former[0] != digest:
                db.execute(queries.DROP_UNUSED_BLOB, former)
        return digest.hex()

    def rotate(self, session: str, writer: str, base: int, reason: str, rows: Sequence[Row]) -> SessionInfo:
        batch = records.write_batch(rows)
        with self._db.write() as db:
            head = _get_head(db, session)
            records.check_base(session, head.version, base, head.successor)
            records.check_open(session, head.ended, head.end_reason)
            child = _add_child(db, session, head)
            _add_rows(db, child, _get_head(db, child), clean(writer), batch)
            db.execute(queries.END_SESSION, (time.time(), clean(reason), session))
            db.execute(queries.SET_SUCCESSOR, (child, session))
            db.execute(queries.MOVE_CURRENT, (child, head.conversation, session))
            return _get_info(db, child)

    # --- ledger

    def charge(self, session: str, usage: Sequence[UsageRow]) -> None:
        with self._db.write() as db:
            _add_usage(db, session, _find_head(db, session), usage)

    def usage(self, *, session: str | None = None, task: str | None = None, since: float = 0.0) -> UsageSum:
        rows = self._read_ledger(_SUMS, session, task, since)
        return UsageSum(*rows[0])

    def usage_by(
        self, group: str, *, session: str | None = None, task: str | None = None, since: float = 0.0
    ) -> list[UsageGroup]:
        flags = records.find_flags(group)
        rows = self._read_ledger(_SPLITS, session, task, since, flags)
        return [UsageGroup(records.pick_keys(flags, row[:4]), UsageSum(*row[5:]), row[4]) for row in rows]

    def note_break(self, session: str, reason: str, position: int) -> None:
        said = records.check_reason(reason)
        with self._db.write() as db:
            owner = _own(session, _find_head(db, session))
            db.execute(queries.ADD_BREAK, (*owner, said, position, time.time()))

    def breaks(self, *, session: str | None = None, task: str | None = None, since: float = 0.0) -> list[BreakRow]:
        return [BreakRow(*row) for row in self._read_ledger(_BREAKS, session, task, since)]

    # --- search

    def search(self, words: str, *, limit: int = 20) -> list[Hit]:
        return self._db.read(lambda db: search_index.find(db, words, limit))

    def drop_search(self) -> None:
        with self._db.write() as db:
            search_index.drop(db)

    def rebuild_search(self) -> int:
        with self._rebuild_lock:
            with self._db.write() as db:
                state = search_index.restart(db)
            total = 0
            while state.done < state.until:
                with self._db.write() as db:
                    state, indexed = search_index.extend(db, state)
                total += indexed
                time.sleep(REBUILD_PAUSE)  # a lock is not fair: without a pause the waiting writers would not get it
            return total

    def close(self) -> None:
        self._db.close()

    def _read_ledger(
        self,
        statements: Mapping[tuple[bool, bool], str],
        session: str | None,
        task: str | None,
        since: float,
        flags: tuple[bool, ...] = (),
    ) -> list[tuple[Any, ...]]:
        wanted = (*flags, *(value for value in (session, task) if value is not None), since)
        query = statements[session is not None, task is not None]
        return self._db.read(lambda db: db.execute(query, wanted).fetchall())

    def _page_history(self, session: str, version: int) -> Iterator[Row]:
        """Rows never change, so pages read one by one fit together, and no reader is held meanwhile."""
        for first in range(0, version, PAGE):
            last = min(first + PAGE, version)
            yield from self._db.read(partial(_read_rows, session=session, first=first, last=last))


# --- the steps of those calls, inside their transaction


def _find_info(db: sqlite3.Connection, query: str, key: str) -> SessionInfo | None:
    found = db.execute(query, (key,)).fetchone()
    return None if found is None else SessionInfo(*found)


def _get_info(db: sqlite3.Connection, session: str) -> SessionInfo:
    info = _find_info(db, queries.GET_SESSION, session)
    if info is None:
        raise records.missing(session)
    return info


def _find_head(db: sqlite3.Connection, session: str) -> _Head | None:
    found = db.execute(queries.GET_HEAD, (session,)).fetchone()
    return None if found is None else _Head(*found)


def _get_head(db: sqlite3.Connection, session: str) -> _Head:
    head = _find_head(db, session)
    if head is None:
        raise records.missing(session)
    return head


def _add_session(db: sqlite3.Connection, new: NewSession, task: str) -> str:
    """Insert the session and, if missing, its conversation; an id that the store chose is chosen until it is new."""
    now = time.time()
    db.execute(queries.ADD_CONVERSATION, (clean(new.conversation),))
    while True:
        session = clean(new.id) or records.make_session_id()
        it = records.complete_session(new, session, task)
        columns = (it.id, it.conversation, it.task, it.parent, it.platform, it.model, it.title, now, now)
        if db.execute(queries.ADD_SESSION, columns).rowcount:
            return session
        if new.id:
            raise records.taken(session)


def _add_child(db: sqlite3.Connection, session: str, head: _Head) -> str:
    """Insert the session that follows `session`, with the same frozen tools and system."""
    new = NewSession(
        head.conversation, parent=session, task=head.task, platform=head.platform, model=head.model, title=head.title
    )
    child = _add_session(db, new, head.task)
    db.execute(queries.COPY_PARTS, (child, session))
    return child


def _add_rows(db: sqlite3.Connection, session: str, head: _Head, writer: str, batch: records.Batch) -> None:
    now, texts = time.time(), []
    for position, row in enumerate(batch.written, head.version):
        columns = (session, position, head.conversation, writer, row.kind, row.body, row.shown, now)
        row_id = db.execute(queries.ADD_MESSAGE, columns).lastrowid
        if row.text and row_id is not None:
            texts.append((row_id, row.text))
        for dialect, digest, body in row.sent:
            db.execute(queries.ADD_BLOB, (digest, body))
            db.execute(queries.SET_SENT, (session, position, dialect, digest))
    if texts:
        search_index.add_texts(db, texts)
    version = head.version + len(batch.written)
    summary = records.extend_summary(records.Summary(head.messages, head.preview), batch.rows)
    if summary is None:
        summary = records.summarize(_read_messages(db, session, 0, version, {}))
    db.execute(queries.ADVANCE_SESSION, (version, writer, summary.messages, summary.preview, now, session))


def _add_usage(db: sqlite3.Connection, session: str, head: _Head | None, usage: Sequence[UsageRow]) -> None:
    owner, now = _own(session, head), time.time()
    db.executemany(queries.ADD_USAGE, [(*owner, *records.write_usage(call), now) for call in usage])


def _own(session: str, head: _Head | None) -> tuple[str, str, str]:
    """Conversation, session and task of a ledger row: what was paid is there even if its session is gone."""
    return ("", session, "") if head is None else (head.conversation, session, head.task)


def _read_transcript(db: sqlite3.Connection, session: str) -> Transcript:
    head = _get_head(db, session)
    frozen, sent = records.split_sent(_read_sent(db, session, min(PART_PLACES.values()), head.version))
    return Transcript(
        session=session,
        conversation=head.conversation,
        task=head.task,
        version=head.version,
        writer=head.writer,
        frozen=frozen,
        rows=visible(_read_messages(db, session, 0, head.version, sent)),
    )


def _read_rows(db: sqlite3.Connection, session: str, first: int, last: int) -> list[Row]:
    _, sent = records.split_sent(_read_sent(db, session, first, last))
    return list(_read_messages(db, session, first, last, sent))


def _read_sent(db: sqlite3.Connection, session: str, first: int, last: int) -> Iterator[tuple[int, str, bytes]]:
    """What was sent, as long as it is what its hash says; what the disk damaged is encoded anew by who needs it."""
    for place, dialect, body, known in db.execute(queries.GET_SENT, (session, first, last)):
        if records.digest(body) == known:
            yield place, dialect, body
        else:
            log.warning("the stored bytes of %s, place %d (%s) are damaged and are made anew", session, place, dialect)


def _read_messages(
    db: sqlite3.Connection, session: str, first: int, last: int, sent: Mapping[int, Mapping[str, bytes]]
) -> Iterator[Row]:
    for position, kind, body, shown in db.execute(queries.GET_MESSAGES, (session, first, last)):
        yield records.read_row(kind, body, shown, position, sent.get(position))
