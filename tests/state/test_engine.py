"""The port to the database engine: what a batch promises, and that nothing but its own file knows what an engine is."""

import re
import tokenize
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from hermes_base.errors import StoreFailure
from hermes_state.sql import statements
from hermes_state.sql.engines import sqlite
from hermes_state.sql.engines.engine import Database, NothingDone, Sql
from hermes_state.sql.engines.opening import open_engine

SET = statements.SET_META
GET = statements.GET_META


@pytest.fixture
def database(where: str) -> Iterator[Database]:
    with closing(open_engine(where, 5.0, readonly=False, clock=lambda: 1234.5)) as engine:
        yield Database(engine)


def test_a_batch_is_one_transaction_and_tells_what_came_of_each(database: Database) -> None:
    added, changed, found = database.run(Sql(SET, ("a", "1")), Sql(SET, ("a", "2")), Sql(GET, ("a",)))
    assert (added.changed, changed.changed, found.rows, found.rows[0]) == (1, 1, [("2",)], ("2",))
    assert database.find(GET, ("b",)) == []


@pytest.mark.parametrize("statement", ["update meta set value = '3' where key = 'none'", "select 1 from node"])
def test_a_statement_that_finds_nothing_refuses_the_whole_batch(database: Database, statement: str) -> None:
    """B7: a fence stands before or behind what it guards; nothing of the transaction is written."""
    with pytest.raises(NothingDone):
        database.run(Sql(SET, ("a", "1")), Sql(statement, (), NothingDone), Sql(SET, ("b", "1")))
    assert database.find("select key from meta where key in ('a', 'b')") == []


def test_the_time_is_the_one_clock_that_was_handed_in(database: Database) -> None:
    assert database.write(lambda db: (*db.execute("select clock()").rows[0], db.now())) == (1234.5, 1234.5)


def test_what_the_engine_cannot_do_is_a_sentence(database: Database) -> None:
    """H8"""
    with pytest.raises(StoreFailure, match="refused a call"):
        database.run(Sql("select what is this"))


# --- one set of statements

#: What SQLite alone would understand.
SQLITE_ONLY = re.compile(
    r"\bpragma |sqlite_|insert or |replace into|(?<!without )\browid|json_|strftime|datetime|unixepoch|\binstr\("
    r"|\bchar\(|ifnull|as blob\)|nocase| match |\?\d|\b(max|min)\([^()]*,|\bsum\([^()]*=| is not [a-z]+\.",
)
FOLDER = Path(sqlite.__file__).parents[1]


@pytest.mark.parametrize("name", sorted(str(path.relative_to(FOLDER)) for path in FOLDER.rglob("*.py")))
def test_no_statement_is_of_one_engine_alone(name: str) -> None:
    """One set of statements: what engines say differently is a word of `engine.py`, which `sqlite.py` says its way."""
    if name in ("engines/engine.py", "engines/sqlite.py", "engines/postgres.py", "engines/opening.py"):
        return
    with (FOLDER / name).open("rb") as file:
        tokens = list(tokenize.tokenize(file.readline))
    assert "sqlite3" not in {token.string for token in tokens}
    said = [token.string for token in tokens if token.type == tokenize.STRING]
    assert [text for text in said if SQLITE_ONLY.search(text)] == []
