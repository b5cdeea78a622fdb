"""The steps of the calls on the store, inside their transaction: sessions, rows, usage, and reading them."""

import sqlite3
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import count, repeat
from typing import Any

from hermes_base.journal import PART_PLACES, Row, Transcript, UsageRow, visible, whole_rounds
from hermes_state import paging, records
from hermes_state.damage import as_head, as_object, decode
from hermes_state.sql import search_index, statements
from hermes_state.sql.damage_sql import check_blob
from hermes_state.store import NewSession, PagedRow, SessionInfo
from hermes_state.texts import clean


@dataclass(frozen=True, slots=True)
class Head:
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


@dataclass(frozen=True, slots=True)
class TurnMark:
    """Whose turn a row belongs to: the turn's message and the epoch of the claim it was written under."""

    seq: int
    epoch: int


Mark = TurnMark | None


def find_info(db: sqlite3.Connection, query: str, key: str) -> SessionInfo | None:
    found = db.execute(query, (key,)).fetchone()
    return None if found is None else SessionInfo(*found)


def get_info(db: sqlite3.Connection, session: str) -> SessionInfo:
    info = find_info(db, statements.GET_SESSION, session)
    if info is None:
        raise records.missing(session)
    return info


def find_head(db: sqlite3.Connection, session: str) -> Head | None:
    found = db.execute(statements.GET_HEAD, (session,)).fetchone()
    return None if found is None else Head(*found)


def get_head(db: sqlite3.Connection, session: str) -> Head:
    head = find_head(db, session)
    if head is None:
        raise records.missing(session)
    return head


def add_session(db: sqlite3.Connection, new: NewSession, task: str) -> str:
    """Insert the session and, if missing, its conversation; an id that the store chose is chosen until it is new."""
    db.execute(statements.ADD_CONVERSATION, (clean(new.conversation),))
    while True:
        session = clean(new.id) or records.make_session_id()
        it = records.complete_session(new, session, task)
        columns = (it.id, it.conversation, it.task, it.parent, it.platform, it.model, it.title)
        if db.execute(statements.ADD_SESSION, columns).rowcount:
            return session
        if new.id:
            raise records.taken(session)


def keep_encoded(db: sqlite3.Connection, session: str, place: int, dialect: str, body: bytes) -> str:
    """Keep the encoded form of a part or a row; its content hash. What it takes the place of goes if nobody uses it."""
    digest = records.digest(body)
    records.check_place(place, get_head(db, session).version, session)
    former = db.execute(statements.GET_SENT_HASH, (session, place, dialect)).fetchone()
    db.execute(statements.ADD_BLOB, (digest, body))
    if former is None or former[0] != digest:
        db.execute(statements.SET_SENT, (session, place, dialect, digest))
    if former is not None and former[0] != digest:
        db.execute(statements.DROP_UNUSED_BLOB, former)
    return digest.hex()


def append_batch(
    db: sqlite3.Connection,
    batch: records.Batch,
    place: records.WriterPosition,
    usage: Sequence[UsageRow] = (),
    *,
    mark: Mark = None,
) -> int:
    """Add rows and their calls if the transcript stands where the writer left it; the new version."""
    head = get_head(db, place.session)
    records.check_base(place.session, head.version, place.base, head.successor)
    if batch.rows:
        add_rows(db, place.session, head, place.writer, batch, mark)
    if usage:
        add_usage(db, place.session, head, usage, mark)
    return place.base + len(batch.rows)


def rotate_session(
    db: sqlite3.Connection, batch: records.Batch, place: records.WriterPosition, reason: str, *, mark: Mark = None
) -> SessionInfo:
    """End the session and open its child with the same frozen tools and system and these rows, current in its place."""
    session, head = place.session, get_head(db, place.session)
    records.check_base(session, head.version, place.base, head.successor)
    records.check_open(session, head.ended, head.end_reason)
    new = NewSession(
        head.conversation, parent=session, task=head.task, platform=head.platform, model=head.model, title=head.title
    )
    child = add_session(db, new, head.task)
    db.execute(statements.COPY_PARTS, (child, session))
    add_rows(db, child, get_head(db, child), place.writer, batch, mark)
    db.execute(statements.END_SESSION, (clean(reason), session))
    db.execute(statements.SET_SUCCESSOR, (child, session))
    db.execute(statements.MOVE_CURRENT, (child, head.conversation, session))
    return get_info(db, child)


def go_on_in(db: sqlite3.Connection, session: str, conversation: str, statement: str) -> None:
    """Open the session again and make it the current one; AtWork when the statement finds that it may not be."""
    if get_head(db, session).conversation != conversation:
        raise records.foreign(session, conversation)
    db.execute(statements.REOPEN_SESSION, (session,))
    if not db.execute(statement, (session, conversation)).rowcount:
        raise records.at_work(conversation)


def copy_session(db: sqlite3.Connection, old: SessionInfo, before: int | None, conversation: str) -> SessionInfo:
    """A new session with the rows that stand in the old one, and the bytes that they were sent as."""
    new = NewSession(
        conversation,
        platform=old.platform,
        model=old.model,
        title=old.title if before is None else "",
        person=old.person,
    )
    copy = add_session(db, new, "")
    db.execute(statements.ASSIGN, (clean(old.person), conversation))
    db.execute(statements.COPY_PARTS, (copy, old.id))
    rows = whole_rounds(read_transcript(db, old.id).rows, before)
    if rows:
        add_rows(db, copy, get_head(db, copy), records.make_writer_id(), records.write_batch(rows))
    return get_info(db, copy)


def end_session(db: sqlite3.Connection, session: str, conversation: str, reason: str) -> None:
    db.execute(statements.END_SESSION, (clean(reason), session))
    db.execute(statements.MOVE_CURRENT, (None, conversation, session))


def add_rows(
    db: sqlite3.Connection, session: str, head: Head, writer: str, batch: records.Batch, mark: Mark = None
) -> None:
    """Add rows; those of a turn are numbered after the ones that it has already."""
    texts = []
    numbers: Iterator[tuple[int | None, int | None, int]] = repeat((None, None, 0))  # turn, number in it, epoch
    if mark is not None:
        last = db.execute(statements.LAST_ROW_OF_TURN, (head.conversation, mark.seq)).fetchone()[0]
        numbers = zip(repeat(mark.seq), count(last + 1), repeat(mark.epoch), strict=False)
    for position, row in enumerate(batch.written, head.version):
        columns = (session, position, head.conversation, *next(numbers), writer, row.kind, row.body, row.shown)
        row_id = db.execute(statements.ADD_MESSAGE, columns).lastrowid
        if row.text and row_id is not None:
            texts.append((row_id, row.text))
        for dialect, digest, body in row.sent:
            db.execute(statements.ADD_BLOB, (digest, body))
            db.execute(statements.SET_SENT, (session, position, dialect, digest))
    if texts:
        search_index.add_texts(db, texts)
    version = head.version + len(batch.written)
    summary = records.extend_summary(records.Summary(head.messages, head.preview), batch.rows)
    if summary is None:
        summary = _summarize_anew(db, session, head, version)
    db.execute(statements.ADVANCE_SESSION, (version, writer, summary.messages, summary.preview, session))


def _summarize_anew(db: sqlite3.Connection, session: str, head: Head, version: int) -> records.Summary:
    """The list entry after something was taken back; only that is read, and the first question that still stands."""
    heads = _read_heads(db, session)
    before = paging.find_standing(head.version, [taken for taken in heads if taken[0] < head.version])
    after = paging.find_standing(version, heads)
    gone, come = (records.summarize(_read_runs(db, session, runs)) for runs in paging.compare(before, after))
    first = next((row for row in _read_runs(db, session, after) if records.summarize([row]).preview), None)
    return records.Summary(
        head.messages - gone.messages + come.messages, "" if first is None else records.summarize([first]).preview
    )


def _read_runs(db: sqlite3.Connection, session: str, runs: Sequence[range]) -> Iterator[Row]:
    """The rows at these positions, a hundred at a time."""
    for run in runs:
        for start in range(run.start, run.stop, 100):
            yield from read_messages(db, session, start, min(start + 100, run.stop), {})


def add_usage(
    db: sqlite3.Connection, session: str, head: Head | None, usage: Sequence[UsageRow], mark: Mark = None
) -> None:
    """Put calls into the ledger; those of a turn are numbered after the ones that it has there already."""
    owner = own(session, head)
    numbers: Iterator[tuple[int | None, int | None]] = repeat((None, None))
    if mark is not None:
        last = db.execute(statements.LAST_CALL_OF_TURN, (owner[0], mark.seq)).fetchone()[0]
        numbers = zip(repeat(mark.seq), count(last + 1), strict=False)
    db.executemany(statements.ADD_USAGE, [(*owner, *next(numbers), *records.write_usage(call)) for call in usage])


def own(session: str, head: Head | None) -> tuple[str, str, str]:
    """Conversation, session and task of a ledger row: what was paid is there even if its session is gone."""
    return ("", session, "") if head is None else (head.conversation, session, head.task)


def read_transcript(db: sqlite3.Connection, session: str) -> Transcript:
    head = get_head(db, session)
    frozen, sent = records.split_sent(read_sent(db, session, min(PART_PLACES.values()), head.version))
    return Transcript(
        session=session,
        conversation=head.conversation,
        task=head.task,
        version=head.version,
        writer=head.writer,
        frozen=frozen,
        rows=visible(read_messages(db, session, 0, head.version, sent)),
    )


def read_rows(db: sqlite3.Connection, session: str, first: int, last: int) -> list[Row]:
    _, sent = records.split_sent(read_sent(db, session, first, last))
    return list(read_messages(db, session, first, last, sent))


def read_page(db: sqlite3.Connection, session: str, before: int | None, limit: int) -> list[PagedRow]:
    """The last visible rows before a position; of the others only those that take back are read."""
    version = get_head(db, session).version
    heads = _read_heads(db, session)
    return [
        PagedRow(Row(read_body(row, kind, raw), shown, kind=kind, position=position), created)
        for run in paging.pick_last(paging.find_standing(version, heads), before, limit)
        for row, position, kind, raw, shown, created in _fetch(db, statements.GET_PAGE, session, run.start, run.stop)
    ]


def _read_heads(db: sqlite3.Connection, session: str) -> list[tuple[int, int]]:
    """The rows that take back: position, and how many visible rows are kept."""
    return [
        (position, int(read_body(row, records.HEAD, raw)["keep"]))
        for row, position, raw in db.execute(statements.GET_HEADS, (session,)).fetchall()
    ]


def read_sent(db: sqlite3.Connection, session: str, first: int, last: int) -> Iterator[tuple[int, str, bytes]]:
    """What was sent; what the disk damaged is set aside and encoded anew by who needs it."""
    for place, dialect, body, known in _fetch(db, statements.GET_SENT, session, first, last):
        yield place, dialect, check_blob(known, body)


def read_messages(
    db: sqlite3.Connection, session: str, first: int, last: int, sent: Mapping[int, Mapping[str, bytes]]
) -> Iterator[Row]:
    for row, position, kind, raw, shown in _fetch(db, statements.GET_MESSAGES, session, first, last):
        yield Row(read_body(row, kind, raw), shown, sent.get(position) or {}, kind, position)


def _fetch(db: sqlite3.Connection, query: str, session: str, first: int, last: int) -> list[Any]:
    """All at once: a query that a damaged row breaks off would keep its connection at the old state of the store."""
    return db.execute(query, (session, first, last)).fetchall()


def read_body(row: int, kind: str, raw: bytes) -> Mapping[str, Any]:
    """The message of a transcript's row, by its number in the table."""
    return decode("message", (row,), raw, as_head if kind == records.HEAD else as_object)
