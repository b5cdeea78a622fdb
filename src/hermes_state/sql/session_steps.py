"""The steps of the calls on the store, inside their transaction: sessions, rows, usage, and reading them.

What a call writes is made as statements first, from what it has read, and then handed to the engine together."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from hermes_base.inbound import as_fields
from hermes_base.turn.journal import MADE, PART_PLACES, Row, Transcript, UsageRow, whole_rounds
from hermes_state import paging, records
from hermes_state.damage import as_head, as_object, decode
from hermes_state.sql import search_index, statements
from hermes_state.sql.damage_sql import check_blob
from hermes_state.sql.engines.engine import Sql, Transaction
from hermes_state.store import NewSession, PagedRow, SessionInfo
from hermes_state.texts import clean
from hermes_state.turns import Written


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
    index: str | None  # how far the search index reaches
    last_row: int  # of all sessions


@dataclass(frozen=True, slots=True)
class TurnMark:
    """Whose turn a row belongs to: the turn's message and the epoch of the claim it was written under."""

    seq: int | None = None  # None: to no turn
    epoch: int = 0


NO_TURN = TurnMark()
Rows = Sequence[records.WrittenRow]


def find_info(db: Transaction, query: str, key: str) -> SessionInfo | None:
    found = db.execute(query, (key,)).first
    return None if found is None else SessionInfo(*found)


def get_info(db: Transaction, session: str) -> SessionInfo:
    info = find_info(db, statements.GET_SESSION, session)
    if info is None:
        raise records.missing(session)
    return info


def look_at(session: str) -> Sql:
    """Where the session stands, for `Head`."""
    return Sql(statements.GET_HEAD, (session,), partial(records.missing, session))


def get_head(db: Transaction, session: str) -> Head:
    return Head(*db.run(look_at(session))[0].rows[0])


def add_session(db: Transaction, new: NewSession, task: str) -> str:
    """Insert the session and, if missing, its conversation; an id that the store chose is chosen until it is new."""
    while True:
        session = clean(new.id) or records.make_session_id(db.now())
        it = records.complete_session(new, session, task)
        columns = (it.id, it.conversation, it.task, it.parent, it.platform, it.model, it.title)
        conversation = Sql(statements.ADD_CONVERSATION, (it.conversation,))
        if db.run(conversation, Sql(statements.ADD_SESSION, columns))[1].changed:
            return session
        if new.id:
            raise records.taken(session)


def keep_encoded(db: Transaction, session: str, version: int, frozen: Sequence[tuple[int, str, bytes]]) -> list[Sql]:
    """Keep the encoded forms of parts or rows. What one takes the place of goes if nobody uses it."""
    for place, _, _ in frozen:
        records.check_place(place, version, session)
    known = db.run(*(Sql(statements.GET_SENT_HASH, (session, place, dialect)) for place, dialect, _ in frozen))
    batch: list[Sql] = []
    for (place, dialect, body), former in zip(frozen, known, strict=True):
        digest = records.digest(body)
        batch.append(Sql(statements.ADD_BLOB, (digest, body)))
        if former.first != (digest,):
            batch.append(Sql(statements.SET_SENT, (session, place, dialect, digest)))
            batch += (Sql(statements.DROP_UNUSED_BLOB, row) for row in former.rows)
    return batch


def append_rows(
    db: Transaction,
    head: Head,
    written: Written,
    rows: Rows,
    usage: Sequence[UsageRow] = (),
    mark: TurnMark = NO_TURN,
) -> list[Sql]:
    """Add rows, what was encoded and their calls if the transcript stands where the writer left it."""
    session = written.session
    records.check_base(session, head.version, written.base, head.successor)
    owner = {"conversation": head.conversation, "session": session, "task": head.task}
    return [
        *(keep_encoded(db, session, head.version, written.frozen) if written.frozen else ()),
        *(add_rows(db, session, head, written.writer, rows, mark) if rows else ()),
        *(add_usage(owner, usage, mark) if usage else ()),
    ]


def rotate_session(
    db: Transaction, head: Head, written: Written, rows: Rows, reason: str, mark: TurnMark = NO_TURN
) -> SessionInfo:
    """End the session and open its child with the same frozen tools and system and these rows, current in its place."""
    session = written.session
    records.check_base(session, head.version, written.base, head.successor)
    records.check_open(session, head.ended, head.end_reason)
    new = NewSession(
        head.conversation, parent=session, task=head.task, platform=head.platform, model=head.model, title=head.title
    )
    child = add_session(db, new, head.task)
    moved = partial(records.written_meanwhile, session)
    db.run(
        *keep_encoded(db, session, head.version, written.frozen),
        Sql(statements.COPY_PARTS, (child, session)),
        *add_rows(db, child, replace(get_head(db, child), preview=head.preview), written.writer, rows, mark),
        Sql(statements.SET_SUCCESSOR, (child, session, head.version), moved),
        Sql(statements.END_SESSION, (clean(reason), session), moved),
        Sql(statements.MOVE_CURRENT, {"next": child, "session": session}),
    )
    return get_info(db, child)


def go_on_in(session: str, conversation: str, statement: str) -> list[Sql]:
    """Open the session again and make it the current one; AtWork when the statement finds that it may not be."""
    return [
        look_at(session),
        Sql(statements.REOPEN_SESSION, (session, conversation), partial(records.foreign, session, conversation)),
        Sql(statement, (session, conversation), partial(records.at_work, conversation)),
    ]


def copy_session(db: Transaction, old: SessionInfo, before: int | None, conversation: str) -> str:
    """A new session with the rows that stand in the old one, and the bytes that they were sent as."""
    new = NewSession(
        conversation,
        platform=old.platform,
        model=old.model,
        title=old.title if before is None else "",
        person=old.person,
    )
    copy = add_session(db, new, "")
    rows = [records.write_row(row) for row in whole_rounds(_read_at(db, old.id, before), before)]
    db.run(
        Sql(statements.ASSIGN, (clean(old.person), conversation)),
        Sql(statements.COPY_PARTS, (copy, old.id)),
        *(add_rows(db, copy, get_head(db, copy), records.make_writer_id(), rows) if rows else []),
    )
    return copy


def _read_at(db: Transaction, session: str, before: int | None) -> list[Row]:
    """What stands before a position, or all, with the bytes that it was sent as; in a copy, search finds all of it."""
    version = get_head(db, session).version
    runs = paging.find_at(version, _read_heads(db, session), before)
    rows = (row for first, last in _ends(runs) for row in read_rows(db, session, first, last))
    return [replace(row, kind=records.MESSAGE) if row.kind == MADE else row for row in rows]


def end_session(session: str, reason: str) -> list[Sql]:
    leave = Sql(statements.MOVE_CURRENT, {"next": None, "session": session})
    return [Sql(statements.END_SESSION, (clean(reason), session)), Sql(statements.END_RULES, (session,)), leave]


def add_rows(db: Transaction, session: str, head: Head, writer: str, rows: Rows, mark: TurnMark = NO_TURN) -> list[Sql]:
    """Add rows; those of a turn are numbered after the ones that it has already."""
    indexing = search_index.index_rows(
        db, head.index, head.last_row, (session, head.version), [row.row for row in rows]
    )
    named = {"session": session, "conversation": head.conversation, "writer": clean(writer), **as_fields(mark)}
    made: list[Sql] = []
    for position, row in enumerate(rows, head.version):
        columns = {"position": position, "kind": row.row.kind, "body": row.body, "shown": row.shown}
        made.append(Sql(statements.ADD_MESSAGE, {**named, **columns}))
        for dialect, digest, body in row.sent:
            made.append(Sql(statements.ADD_BLOB, (digest, body)))
            made.append(Sql(statements.SET_SENT, (session, position, dialect, digest)))
    given = [row.row for row in rows]
    if any(row.kind == records.HEAD for row in given):
        summary = _summarize_anew(db, session, head, given)
    else:
        summary = records.summarize(given, records.Summary(head.messages, head.preview))
    shown = {"messages": summary.messages, "preview": summary.preview}
    versions = {"version": head.version + len(rows), "base": head.version}
    moved = partial(records.written_meanwhile, session)
    return [*made, *indexing, Sql(statements.ADVANCE_SESSION, {**named, **shown, **versions}, moved)]


def _summarize_anew(db: Transaction, session: str, head: Head, added: Sequence[Row]) -> records.Summary:
    """The list entry after something is taken back; only that is read, and the first question that still stands."""
    heads = _read_heads(db, session)
    new = [read_taken_back(at, row.message) for at, row in enumerate(added, head.version) if row.kind == records.HEAD]
    before = paging.find_said(head.version, heads)
    after = paging.find_said(head.version + len(added), [*heads, *new])

    def read(runs: Sequence[range]) -> Iterator[Row]:
        """The rows at these positions, a hundred at a time."""
        for run in runs:
            for start in range(run.start, min(run.stop, head.version), 100):
                yield from read_messages(db, session, start, min(start + 100, run.stop, head.version), {})
            yield from added[max(run.start - head.version, 0) : max(run.stop - head.version, 0)]

    gone, come = (records.summarize(read(runs)) for runs in paging.compare(before, after))
    messages = head.messages - gone.messages + come.messages
    first = next((row for row in read(after) if records.summarize([row]).preview), None)
    return records.Summary(messages, "" if first is None else records.summarize([first]).preview)


def add_usage(owner: Mapping[str, str], usage: Sequence[UsageRow], mark: TurnMark = NO_TURN) -> list[Sql]:
    """Put calls into the ledger; those of a turn are numbered after the ones that it has there already."""
    named = {**owner, **as_fields(mark)}
    return [Sql(statements.ADD_USAGE, {**named, **records.write_usage(call)}) for call in usage]


def find_owner(db: Transaction, session: str) -> dict[str, str]:
    """Conversation, session and task of a ledger row: what was paid is there even if its session is gone."""
    conversation, task = (db.execute(statements.GET_HEAD, (session,)).first or ("", ""))[:2]
    return {"conversation": conversation, "session": session, "task": task}


def read_transcript(db: Transaction, session: str) -> Transcript:
    head = get_head(db, session)
    parts = (min(PART_PLACES.values()), 0)
    runs = paging.find_standing(head.version, _read_heads(db, session))
    frozen, sent = records.split_sent(
        row for first, last in (parts, *_ends(runs)) for row in read_sent(db, session, first, last)
    )
    return Transcript(
        session=session,
        conversation=head.conversation,
        task=head.task,
        version=head.version,
        writer=head.writer,
        frozen=frozen,
        rows=tuple(row for first, last in _ends(runs) for row in read_messages(db, session, first, last, sent)),
    )


def _ends(runs: Iterable[range]) -> list[tuple[int, int]]:
    return [(run.start, run.stop) for run in runs]


def read_rows(db: Transaction, session: str, first: int, last: int) -> list[Row]:
    _, sent = records.split_sent(read_sent(db, session, first, last))
    return list(read_messages(db, session, first, last, sent))


def read_page(
    db: Transaction, session: str, before: int | None, limit: int, *, standing: bool = False
) -> list[PagedRow]:
    """The last rows of what was said, or of what the model gets, before a position; of the others only those that take
    back are read."""
    version = get_head(db, session).version
    runs = (paging.find_standing if standing else paging.find_said)(version, _read_heads(db, session))
    return [
        PagedRow(Row(read_body(row, kind, raw), shown, kind=kind, position=position), created, turn, place)
        for run in paging.pick_last(runs, before, limit)
        for row, position, kind, raw, shown, created, turn, place in _fetch(
            db, statements.GET_PAGE, session, run.start, run.stop
        )
    ]


def _read_heads(db: Transaction, session: str) -> list[paging.TakenBack]:
    """The rows that take back."""
    return [
        read_taken_back(position, read_body(row, records.HEAD, raw))
        for row, position, raw in db.execute(statements.GET_HEADS, (session,)).rows
    ]


def read_taken_back(position: int, body: Mapping[str, Any]) -> paging.TakenBack:
    return paging.TakenBack(position, int(body["keep"]), int(body.get("made", 0)))


def read_sent(db: Transaction, session: str, first: int, last: int) -> Iterator[tuple[int, str, bytes]]:
    """What was sent; what the disk damaged is set aside and encoded anew by who needs it."""
    for place, dialect, body, known in _fetch(db, statements.GET_SENT, session, first, last):
        yield place, dialect, check_blob(known, body)


def read_messages(
    db: Transaction, session: str, first: int, last: int, sent: Mapping[int, Mapping[str, bytes]]
) -> Iterator[Row]:
    for row, position, kind, raw, shown in _fetch(db, statements.GET_MESSAGES, session, first, last):
        yield Row(read_body(row, kind, raw), shown, sent.get(position) or {}, kind, position)


def _fetch(db: Transaction, query: str, session: str, first: int, last: int) -> list[Any]:
    """All at once: a query that a damaged row breaks off would keep its connection at the old state of the store."""
    return db.execute(query, (session, first, last)).rows


def read_body(row: int, kind: str, raw: bytes) -> Mapping[str, Any]:
    """The message of a transcript's row, by its number in the table."""
    return decode("message", (row,), raw, as_head if kind == records.HEAD else as_object)
