"""The tables of the store and the steps that lead from an older layout to this one.

A migration only adds (tables, columns with defaults, indexes), so the program one version older still works on the
migrated store: the store says in `min_reader` which is the oldest layout a program may know to use it.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from hermes_base.errors import StoreFailure
from hermes_state.sql import statements
from hermes_state.sql.engine import Sql, Transaction
from hermes_state.sql.schema import schema_daily, schema_damage, schema_people, schema_turns

STORE_FILE = "hermes-store.db"


@dataclass(frozen=True, slots=True)
class Migration:
    """One step of the layout; `min_reader` is the oldest layout whose program still works after it."""

    version: int
    min_reader: int
    statements: tuple[str, ...]


# The columns seq, n, epoch and call are empty where no claim owns the turn; their unique indexes come with layout 3.
_TABLES = (
    "create table meta (key text primary key, value text not null) without rowid",
    """create table conversation (
        id text primary key,
        current text,
        epoch integer not null default 0
    ) without rowid""",
    """create table session (
        id text primary key,
        conversation text not null references conversation(id),
        task text not null,
        parent text,
        successor text,
        platform text not null,
        model text not null,
        title text not null,
        started real not null,
        updated real not null,
        ended real,
        end_reason text,
        version integer not null default 0,
        writer text not null default '',
        messages integer not null default 0,
        preview text not null default ''
    ) without rowid""",
    """create table message (
        id integer primary key,
        session text not null references session(id) on delete cascade,
        position integer not null,
        conversation text not null,
        seq integer,
        n integer,
        epoch integer not null default 0,
        writer text not null,
        kind text not null,
        body text not null,
        shown text,
        created real not null,
        unique (session, position)
    )""",
    "create table blob (hash blob primary key, body blob not null)",
    """create table sent (
        session text not null references session(id) on delete cascade,
        place integer not null,
        dialect text not null,
        hash blob not null references blob(hash),
        primary key (session, place, dialect)
    ) without rowid""",
    """create table usage (
        id integer primary key,
        conversation text not null,
        session text not null,
        task text not null,
        seq integer,
        call integer,
        provider text not null,
        model text not null,
        kind text not null,
        input_tokens integer not null,
        cache_read_tokens integer not null,
        cache_write_tokens integer not null,
        output_tokens integer not null,
        reasoning_tokens integer not null,
        cost real,
        settled integer not null,
        created real not null
    )""",
)

_INDEXES = (
    "create index session_recent on session(updated, id) where messages > 0",
    "create index session_of_conversation on session(conversation, updated, id) where messages > 0",
    "create index sent_hash on sent(hash)",
    "create index usage_session on usage(session, created)",
    "create index usage_task on usage(task, created)",
    "create index usage_created on usage(created)",
)

_TURNS_AND_BREAKS = (
    "alter table usage add column turn text",
    "alter table usage add column saved real",
    """create table prefix_break (
        id integer primary key,
        conversation text not null,
        session text not null,
        task text not null,
        reason text not null,
        position integer not null,
        created real not null
    )""",
    "create index break_session on prefix_break(session, created)",
    "create index break_task on prefix_break(task, created)",
    "create index break_created on prefix_break(created)",
)

_FIRST_TEXTS = ("create index session_first_text on session(preview, updated, id) where messages > 0",)

MIGRATIONS: tuple[Migration, ...] = (
    Migration(1, 1, (*_TABLES, *_INDEXES, statements.CREATE_SEARCH, statements.START_SEARCH)),
    Migration(2, 1, _TURNS_AND_BREAKS),
    Migration(3, 1, schema_turns.STATEMENTS),
    Migration(4, 1, schema_people.STATEMENTS),
    Migration(5, 1, schema_daily.STATEMENTS),
    Migration(6, 1, schema_damage.STATEMENTS),
    Migration(7, 1, _FIRST_TEXTS),
)
SCHEMA_VERSION = MIGRATIONS[-1].version


def check_readable(db: Transaction) -> int:
    """The layout version of the store (0: no tables yet); StoreFailure when this program is too old for it."""
    if not db.execute(statements.HAS_META).rows:
        return 0
    min_reader = _read_number(db, "min_reader")
    if min_reader > SCHEMA_VERSION:
        raise StoreFailure(
            f"The store was written by a newer version of Hermes: it needs layout {min_reader}, "
            f"and this program knows up to {SCHEMA_VERSION}.",
            kept="Nothing was changed.",
            fix="Update Hermes, or point HERMES_HOME to another folder.",
        )
    return _read_number(db, "schema")


def migrate(db: Transaction, migrations: Sequence[Migration] = MIGRATIONS) -> None:
    """Bring the store to the newest layout, inside a writing transaction."""
    version = check_readable(db)
    for migration in migrations:
        if migration.version > version:
            db.run(*(Sql(statement) for statement in migration.statements))
            db.execute(statements.SET_META, ("schema", str(migration.version)))
            db.execute(statements.SET_META, ("min_reader", str(migration.min_reader)))


def _read_number(db: Transaction, key: str) -> int:
    row = db.execute(statements.GET_META, (key,)).first
    if row is None or not str(row[0]).isdigit():
        raise StoreFailure(
            "This file is not a store of Hermes, or its description is damaged.",
            kept="Nothing was changed.",
            fix=f"Move {STORE_FILE} away to start with an empty store, or restore a backup.",
        )
    return int(row[0])
