"""Copies all rows of a store into an empty one, whichever engine either has, and compares what arrived.

The copy is one transaction: it is there whole, or nothing of it is. It bears a mark of what it holds, so that a copy
that nobody has used since is known, and may be made anew.
"""

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any, NamedTuple

from hermes_base.errors import StoreFailure
from hermes_state.sql import search_index, statements
from hermes_state.sql.engines.engine import Engine, Sql, Transaction
from hermes_state.sql.schema import MIGRATIONS, SCHEMA_VERSION, check_readable

BATCH = 500  # rows of one call
_CREATED = [
    created for step in MIGRATIONS for said in step.statements if (created := re.match(r"create table (\w+) ", said))
]
META, MESSAGE = "meta", "message"
#: In the order in which they were made: a row that another one refers to comes first.
TABLES = tuple(created[1] for created in _CREATED if created[1] != META)
#: Whose rows the engine numbers.
NUMBERED = frozenset(
    created[1] for created in _CREATED if re.match(r"create table \w+ \(\s*id integer primary key", created.string)
)
#: A store that was started once has some of these, and holds nothing.
_PASSING = frozenset({"node", "lease"})
_OF_FILES = frozenset({"kept_file", "kept_part", "kept_folder", "blob"})
#: Rows of `meta` that say something of one place.
COPIED = "copied"
_OF_THE_PLACE = frozenset({"schema", "min_reader", "search", COPIED})

_COLUMNS = "select name, type from stored_columns(?) order by place"
_LIVING = "select id, address from node where expires > clock() order by id"
_LOCK = "select value from meta where key = 'schema' for update"


class TableSum(NamedTuple):
    """How many rows a table has, and the sum of their hashes, which knows no order."""

    rows: int
    hashes: int


TableSums = Mapping[str, TableSum]


class Column(NamedTuple):
    name: str
    is_text: bool


def copy_store(source: Engine, target: Engine) -> TableSums:
    """What was copied; StoreFailure when the target holds something else, or when not the same has arrived."""
    copied = target.write(lambda db: source.read(lambda given: _copy_all(given, db)))
    arrived = target.read(count_all)
    wrong = [table for table in TABLES if copied[table] != arrived[table]]
    if wrong:
        raise StoreFailure(
            f"What arrived is not what was sent: {', '.join(wrong)}.",
            kept="The store is where it was.",
            fix="Try again.",
        )
    return copied


def check_free(target: Engine) -> None:
    """StoreFailure when something would be lost there."""
    target.read(_check_free)


def find_living(engine: Engine) -> list[str]:
    """The gateways that work on a store now."""
    return [" at ".join(filter(None, map(str, node))) for node in engine.find(_LIVING)]


def count_all(db: Transaction) -> dict[str, TableSum]:
    db.take_time()
    return {table: _count(_read(db, table, _list_columns(db, table))) for table in TABLES}


# --- the steps, inside their transactions


def _copy_all(given: Transaction, db: Transaction) -> dict[str, TableSum]:
    given.take_time()
    db.take_time()
    if max(check_readable(given), check_readable(db)) > SCHEMA_VERSION:
        raise StoreFailure(
            "A newer version of Hermes has added to this store what a copy by this one would leave out.",
            kept="Nothing was changed.",
            fix="Update Hermes here, too.",
        )
    db.execute(_LOCK)  # of two that come at the same time, the second finds the first one's rows
    _check_free(db)
    indexed = search_index.find_reach(given) is not None
    if indexed:
        search_index.restart(db)
    else:
        search_index.drop(db)
    for table in reversed(TABLES):
        db.execute(f"empty {table}")
    tallies = {table: _copy_table(given, db, table, indexed=indexed and table == MESSAGE) for table in TABLES}
    if indexed:
        search_index.end_at(db, int(db.execute(statements.LAST_MESSAGE).rows[0][0]))
    for key, value in given.execute("select key, value from meta").rows:
        if key not in _OF_THE_PLACE:
            db.execute(statements.SET_META, (key, value))
    db.execute(statements.SET_META, (COPIED, _name(tallies)))
    return tallies


def _check_free(db: Transaction) -> None:
    if db.execute(_LIVING).rows:
        raise StoreFailure("A gateway works on that store now.", kept="Nothing was changed.", fix="Name another place.")
    if any(db.execute(f"select 1 from {table} limit 1").rows for table in TABLES if table not in _PASSING):
        mark = db.execute(statements.GET_META, (COPIED,)).first
        if mark is None or mark[0] != _name(count_all(db)):
            ((sessions,),) = db.execute("select count(*) from session").rows
            raise StoreFailure(
                f"That place holds a store already, with {sessions} sessions.",
                kept="Nothing was changed.",
                fix="Name an empty database; `createdb` makes one.",
            )


def _copy_table(given: Transaction, db: Transaction, table: str, *, indexed: bool) -> TableSum:
    columns = _list_columns(given, table)
    if set(columns) != set(_list_columns(db, table)):
        raise StoreFailure(
            f"The table {table} is of another version.", kept="Nothing was changed.", fix="Update Hermes."
        )
    if table in NUMBERED:
        ((last,),) = given.execute(f"select coalesce(max(id), 0) from {table}").rows
        last = max(last, given.execute(statements.LAST_NUMBER, (table,)).rows[0][0])
        if last:
            db.execute(statements.GO_ON_AFTER, (table, last))
    names = [column.name for column in columns]
    insert = f"insert into {table} ({', '.join(names)}) values ({', '.join('?' * len(names))})"
    rows, total = _read(given, table, columns), TableSum(0, 0)
    while batch := list(islice(rows, BATCH)):
        texts = search_index.list_entries(_pick(batch, names)) if indexed else []
        db.run(*(Sql(insert, row) for row in batch), *texts)
        total = _add(total, _count(batch))
    return total


def _pick(batch: Sequence[Sequence[Any]], names: Sequence[str]) -> Iterator[tuple[int, str, bytes, str | None]]:
    places = [names.index(name) for name in ("id", "kind", "body", "shown")]
    for row in batch:
        number, kind, body, shown = (row[place] for place in places)
        yield number, kind, body.encode(), shown


def _list_columns(db: Transaction, table: str) -> list[Column]:
    return [Column(str(name), str(kind) == "text") for name, kind in db.execute(_COLUMNS, (table,)).rows]


def _read(db: Transaction, table: str, columns: Sequence[Column]) -> Iterator[tuple[Any, ...]]:
    """All rows, texts decoded here: an engine would make something else of what is no text."""
    wanted = (f"bytes_of({column.name})" if column.is_text else column.name for column in columns)
    for row in db.each(f"select {', '.join(wanted)} from {table}"):
        try:
            yield tuple(
                bytes(value).decode() if column.is_text and value is not None else value
                for column, value in zip(columns, row, strict=True)
            )
        except UnicodeDecodeError as error:
            raise StoreFailure(
                f"A text in the table {table} is damaged.", kept="Nothing was changed.", fix="See `hermes doctor`."
            ) from error


def _count(rows: Iterable[tuple[Any, ...]]) -> TableSum:
    found, hashes = 0, 0
    for row in rows:
        found += 1
        hashes += int.from_bytes(hashlib.sha256(repr(row).encode()).digest()[:16])
    return TableSum(found, hashes % (1 << 128))


def _add(one: TableSum, other: TableSum) -> TableSum:
    return TableSum(one.rows + other.rows, (one.hashes + other.hashes) % (1 << 128))


def _name(tallies: TableSums) -> str:
    """Files come into a copy after its rows: they are no use of it."""
    tallies = {table: tally for table, tally in tallies.items() if table not in _OF_FILES}
    return hashlib.sha256(repr(sorted(tallies.items())).encode()).hexdigest()
