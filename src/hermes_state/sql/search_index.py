"""The full-text index of the store: derived data that is kept up with each row, dropped and rebuilt online.

While it is rebuilt, a row is in the index if its id is at most `done` or above `until`; all writers keep to that rule,
so a row is never indexed twice and never taken out without having been in.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice

from hermes_base.journal import Row
from hermes_state.damage import as_object, decode
from hermes_state.records import no_index, read_text
from hermes_state.sql import statements
from hermes_state.sql.engine import Sql, Transaction
from hermes_state.store import TITLE, TITLES_LOOKED_AT, SearchHit
from hermes_state.texts import cut_excerpt, mark_title, match_title, space_letters, split_query

BATCH = 50


@dataclass(frozen=True, slots=True)
class IndexState:
    """How far the index reaches."""

    done: int
    until: int

    def holds(self, row_id: int) -> bool:
        return row_id <= self.done or row_id > self.until


def read_state(db: Transaction) -> IndexState | None:
    """How far the index reaches; None: it was dropped."""
    row = db.execute(statements.GET_META, ("search",)).first
    return None if row is None else _read_state(row[0])


def _read_state(stored: str) -> IndexState:
    done, until = stored.split()
    return IndexState(int(done), int(until))


def add_text(index: str | None, session: str, position: int, text: str) -> list[Sql]:
    """Index the text of a new row; `index` is how far the index reaches, as stored."""
    if index is None or not text:
        return []
    state = _read_state(index)
    named = {"session": session, "position": position, "done": state.done, "until": state.until}
    return [Sql(statements.ADD_NEW_SEARCH, {**named, "text": space_letters(text)})]


def take_session(db: Transaction, session: str) -> None:
    """Take the rows of a session out of the index, before they are deleted."""
    state = read_state(db)
    if state is None:
        return
    texts = _read_texts(db.execute(statements.MESSAGES_OF_SESSION, (session,)).rows)
    held = [(row_id, space_letters(text)) for row_id, text in texts if text and state.holds(row_id)]
    db.run(*(Sql(statements.TAKE_SEARCH, row) for row in held))


def find(db: Transaction, words: str, limit: int, person: str | None = None) -> list[SearchHit]:
    """The newest titles, then the newest messages in which all words occur; with `person`, in their conversations."""
    if read_state(db) is None:
        raise no_index()
    runs = split_query(words)
    if not runs:
        return []
    titles = db.execute(statements.TITLES, (person, person, TITLES_LOOKED_AT)).rows
    named = ((session, title, at) for session, title, at in titles if match_title(runs, title))
    hits = [SearchHit(session, -1, TITLE, mark_title(runs, title), at) for session, title, at in islice(named, limit)]
    wanted = (db.write_match(runs), person, person, limit - len(hits))
    for row_id, session, position, kind, raw, shown, created in db.execute(statements.SEARCH, wanted).rows:
        row = Row(decode("message", (row_id,), raw, as_object), shown, kind=kind)
        excerpt = cut_excerpt(runs, read_text(row))
        hits.append(SearchHit(session, position, str(row.message.get("role", "")), excerpt, created))
    return hits


def drop(db: Transaction) -> None:
    db.execute(statements.DROP_SEARCH)
    db.execute(statements.STOP_SEARCH)


def restart(db: Transaction) -> IndexState:
    """An empty index that new rows enter at once and the present ones by `extend`."""
    drop(db)
    db.execute(statements.CREATE_SEARCH)
    (last,) = db.execute(statements.LAST_MESSAGE).one
    return _keep(db, IndexState(0, last))


def extend(db: Transaction, state: IndexState) -> tuple[IndexState, int]:
    """Index the next rows; the state after it (done = until: nothing left) and how many texts went in."""
    if read_state(db) != state:  # dropped meanwhile: whoever did it has the last word
        return IndexState(state.until, state.until), 0
    rows = db.execute(statements.MESSAGES_BETWEEN, (state.done, state.until, BATCH)).rows
    held = [(row_id, space_letters(text)) for row_id, text in _read_texts(rows) if text]
    db.run(*(Sql(statements.ADD_SEARCH, row) for row in held))
    done = rows[-1][0] if len(rows) == BATCH else state.until
    return _keep(db, IndexState(done, state.until)), len(held)


def _read_texts(rows: Iterable[tuple[int, str, bytes, str | None]]) -> Iterator[tuple[int, str]]:
    """The texts of rows, by id."""
    for row_id, kind, raw, shown in rows:
        yield row_id, read_text(Row(decode("message", (row_id,), raw, as_object), shown, kind=kind))


def _keep(db: Transaction, state: IndexState) -> IndexState:
    db.execute(statements.SET_META, ("search", f"{state.done} {state.until}"))
    return state
