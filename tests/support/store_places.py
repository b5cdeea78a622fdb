"""Where a test's store is, on either engine, and what stands there, read past the store."""

import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import psycopg
from hypothesis import given, settings
from hypothesis.strategies import SearchStrategy
from postgres_server import get_server
from quick_folder import QUICK_FOLDER
from waiting import wait_until

from hermes_base.store_place import is_address
from hermes_constants import STORE_FILE
from hermes_state.sql.schema import MIGRATIONS, SCHEMA_VERSION

SQLITE, POSTGRES = "sqlite", "postgres"
ENGINES = (SQLITE, POSTGRES)


@contextmanager
def new_place(engine: str) -> Iterator[str]:
    """An empty store's file, or the address of its database, which is used again when it is empty again."""
    if engine == SQLITE:
        with tempfile.TemporaryDirectory(dir=QUICK_FOLDER) as folder:
            yield str(Path(folder) / STORE_FILE)
        return
    server = get_server()
    address = _free.pop() if _free else server.make_database()
    yield address
    if _empty(address):
        _free.append(address)


def try_many(engine: str, usual: int, check: Callable[[Any], None], drawn: SearchStrategy[Any]) -> None:
    """Check what must always hold on many drawn examples, on a few where each begins with connections to a server."""

    @settings(max_examples=usual if engine == SQLITE else max(3, usual // 10), deadline=None)
    @given(drawn)
    def run(example: Any) -> None:
        check(example)

    run()


def read_rows(place: str | Path, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """What a query finds, asked of the engine itself."""
    if is_address(place):
        with psycopg.connect(str(place)) as connection:
            return connection.execute(_say_for_postgres(query), values or None).fetchall()
    with closing(sqlite3.connect(f"file:{place}?mode=ro", uri=True, timeout=60.0)) as db:
        return db.execute(query, values).fetchall()


def wait_let_go(place: str | Path) -> None:
    """Until nobody has a session on the database any more: what a process that was killed had sent comes to its end."""
    if is_address(place):
        others = "select 1 from pg_stat_activity where datname = current_database() and pid <> pg_backend_pid()"
        wait_until(lambda: not read_rows(place, others))


def find_tables_with(place: str | Path, word: str) -> list[str]:
    """Those that hold it in any column of any row; bytes are looked into as they are written."""
    tables = "select tablename from pg_tables where schemaname = 'public'"
    if not is_address(place):
        tables = "select name from sqlite_master where type = 'table' and name not like 'search%'"
    return [
        str(table)
        for (table,) in read_rows(place, tables)
        if any(word in repr(value) for row in read_rows(place, f"select * from {table}") for value in row)
    ]


def _say_for_postgres(statement: str) -> str:
    for ours, theirs in (
        ("cast(? as text)", "convert_from(?, 'UTF8')"),
        ("?", "%s"),
        ("unixepoch()", "extract(epoch from clock_timestamp())"),
    ):
        statement = statement.replace(ours, theirs)
    return statement


def write_rows(place: str | Path, statement: str, *values: Any) -> int:
    """Past the store; `cast(? as text)` makes a text of the bytes. How many rows it changed."""
    if is_address(place):
        with psycopg.connect(str(place)) as connection:
            return connection.execute(_say_for_postgres(statement), values or None).rowcount
    with closing(sqlite3.connect(place)) as db, db:
        return db.execute(statement, values).rowcount


def _empty(address: str) -> bool:
    """Empty the tables; False when they are not those of a fresh store."""
    with psycopg.connect(address) as connection:
        tables = [name for (name,) in connection.execute("select tablename from pg_tables where schemaname = 'public'")]
        if "meta" not in tables or "search" not in tables:
            return False
        connection.execute(f"truncate {', '.join(tables)} restart identity cascade")  # type: ignore[arg-type]
        for row in _META:
            connection.execute("insert into meta (key, value) values (%s, %s)", row)
    return True


_META = (("schema", str(SCHEMA_VERSION)), ("min_reader", str(MIGRATIONS[-1].min_reader)), ("search", "0 0"))
_free: list[str] = []
