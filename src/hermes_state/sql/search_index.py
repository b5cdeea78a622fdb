"""The full-text index of the store: derived data that follows the rows, is dropped and rebuilt online.

It reaches up to the number of a row; the rows behind that are looked through one by one. Whoever adds rows indexes what
is behind when there is a batch of it, since a batch costs a fraction of its rows' single entries.

Two numbers are stored: how far it reaches, and ALL. With another second number an older program kept it: then it holds
the rows up to the first and those above the second, all of them if the two are the same.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from hermes_base.turn.journal import LOST, Row
from hermes_state.damage import DamagedRow, as_object, decode
from hermes_state.records import no_index, read_text
from hermes_state.sql import statements
from hermes_state.sql.engines.engine import Sql, Transaction
from hermes_state.store import TITLE, TITLES_LOOKED_AT, SearchHit
from hermes_state.texts import cut_excerpt, mark_title, match_text, match_title, space_letters, split_query

BATCH = 50  # rows
BATCH_CHARS = 200_000  # of their text; the batch ends with the row that has the last of them
LOOKED_THROUGH = 5_000  # of the rows that are behind
ALL = 2**63 - 1


def find_reach(db: Transaction) -> int | None:
    """Up to which row the index reaches; None: it was dropped."""
    row = db.execute(statements.GET_META, ("search",)).first
    if row is None:
        return None
    reach, others = map(int, row[0].split())
    return reach if others == ALL else ALL


def index_rows(
    db: Transaction, stored: str | None, last: int, place: tuple[str, int], rows: Sequence[Row]
) -> list[Sql]:
    """What is to be done for the index when these rows are there, from a place (session and position) on."""
    if not db.indexes_at_once:
        return keep_up(db, stored, last, rows)
    session, first = place
    texts = () if stored is None else enumerate(map(read_text, rows), first)
    return [Sql(statements.ADD_SEARCH_AT, (text, session, position)) for position, text in texts if text]


def keep_up(db: Transaction, stored: str | None, last: int, added: Sequence[Row] = ()) -> list[Sql]:
    """Before rows are added behind the last one, with the numbers as they are stored; what is to be done when they are
    there. Many at once are indexed at once.

    The numbers of rows that were deleted are given again, so the index reaches no further than the last row. One that
    an older program was rebuilding is given up: nobody knows what it holds.
    """
    if stored is None:
        return []
    reach, others = map(int, stored.split())
    if others not in (ALL, reach):
        db.execute(statements.STOP_SEARCH)
        return []
    if others != ALL or last < reach:
        reach = last
        _keep(db, last)
    while last - reach >= (BATCH if len(added) < BATCH else 1) and last - reach < LOOKED_THROUGH:
        reach, _ = extend(db)
        if len(added) < BATCH:
            break
    if len(added) < BATCH or reach < last:
        return []
    texts = [(number, space_letters(text)) for number, row in enumerate(added, last + 1) if (text := read_text(row))]
    done = Sql(statements.SET_META, ("search", f"{last + len(added)} {ALL}"))
    return [*(Sql(statements.ADD_SEARCH, text) for text in texts), done]


def take_session(db: Transaction, session: str) -> None:
    """Take the rows of a session out of the index, before they are deleted."""
    stored = None if db.indexes_at_once else db.execute(statements.GET_META, ("search",)).first
    if stored is None:  # there is no index, or its entries go with their rows
        return
    keep_up(db, stored[0], int(db.execute(statements.LAST_MESSAGE).rows[0][0]))
    reach = find_reach(db) or 0
    texts = _read_texts(db.execute(statements.MESSAGES_OF_SESSION, (session,)).rows)
    held = [(row_id, space_letters(text)) for row_id, text in texts if text and row_id <= reach]
    db.run(*(Sql(statements.TAKE_SEARCH, row) for row in held))


def find(db: Transaction, words: str, limit: int, person: str | None = None) -> list[SearchHit]:
    """The newest titles, then the newest messages in which all words occur; with `person`, in their conversations."""
    reach = find_reach(db)
    if reach is None:
        raise no_index()
    runs = split_query(words)
    if not runs:
        return []
    titles = db.execute(statements.TITLES, (person, person, TITLES_LOOKED_AT)).rows
    named = ((session, title, at) for session, title, at in titles if match_title(runs, title))
    hits = [SearchHit(session, -1, TITLE, mark_title(runs, title), at) for session, title, at in islice(named, limit)]
    behind = db.execute(statements.MESSAGES_BEHIND, (reach, person, person, LOOKED_THROUGH)).rows
    texts = _read_texts((row_id, kind, raw, shown) for row_id, _, _, kind, raw, shown, _ in behind)
    matching = (row for row, (_, text) in zip(behind, texts, strict=True) if match_text(runs, text))
    found = list(islice(matching, limit - len(hits)))
    known = {row[0] for row in found}  # while the index is made anew, what is behind may be in it already
    wanted = (db.write_match(runs), person, person, limit - len(hits))
    found += [row for row in db.execute(statements.SEARCH, wanted).rows if row[0] not in known]
    for row_id, session, position, kind, raw, shown, created in found[: limit - len(hits)]:
        row = Row(decode("message", (row_id,), raw, as_object), shown, kind=kind)
        excerpt = cut_excerpt(runs, read_text(row))
        hits.append(SearchHit(session, position, str(row.message.get("role", "")), excerpt, created))
    return hits


def drop(db: Transaction) -> None:
    db.execute(statements.DROP_SEARCH)
    db.execute(statements.STOP_SEARCH)


def restart(db: Transaction) -> int:
    """An empty index, and the last row that is there now."""
    drop(db)
    db.execute(statements.CREATE_SEARCH)
    _keep(db, 0)
    return int(db.execute(statements.LAST_MESSAGE).rows[0][0])


def finish(db: Transaction) -> None:
    """All that was there is indexed; where each row goes in with its text, so is all that comes."""
    if db.indexes_at_once and find_reach(db) is not None:
        _keep(db, ALL)


def extend(db: Transaction) -> tuple[int, int]:
    """Index the next rows; how far the index reaches now (ALL: nothing is left), and how many texts went in. Of one
    that was dropped nothing is left to do: whoever did it has the last word."""
    reach = find_reach(db)
    if reach is None:
        return ALL, 0
    texts: list[tuple[int, str]] = []
    size = 0
    rows = db.execute(statements.MESSAGES_AFTER, (reach, BATCH)).rows
    if not rows:
        return ALL, 0
    for row_id, text in _read_texts(rows):
        reach, size = row_id, size + len(text)
        texts += [(row_id, space_letters(text))] if text else []
        if size >= BATCH_CHARS:
            break
    db.run(*(Sql(statements.ADD_SEARCH, text) for text in texts))
    _keep(db, reach)
    return reach, len(texts)


def list_entries(rows: Iterable[tuple[int, str, bytes, str | None]]) -> list[Sql]:
    """What puts the texts of rows into the index, for whoever adds rows with their numbers."""
    return [Sql(statements.ADD_SEARCH, (number, space_letters(text))) for number, text in _read_texts(rows) if text]


def end_at(db: Transaction, last: int) -> None:
    """All rows up to the last one are indexed."""
    _keep(db, last)
    finish(db)


def _read_texts(rows: Iterable[tuple[int, str, bytes, str | None]]) -> Iterator[tuple[int, str]]:
    """The texts of rows, by id. One that is damaged is for those to set aside who read it; what was shown is left."""
    for row_id, kind, raw, shown in rows:
        try:
            message = decode("message", (row_id,), raw, as_object)
        except DamagedRow:
            message, kind = {}, LOST
        yield row_id, read_text(Row(message, shown, kind=kind))


def _keep(db: Transaction, reach: int) -> None:
    db.execute(statements.SET_META, ("search", f"{reach} {ALL}"))
