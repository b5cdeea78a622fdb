"""The file of a store, looked at and made beside the store: plans of its statements, and layouts of other versions."""

import re
import sqlite3
import time
from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from hermes_state.sql import schema
from hermes_state.sql.engines.sqlite import SqliteTransaction, phrase
from hermes_state.sql.schema import Migration


def explain(path: Path, statement: str) -> list[str]:
    """The steps of the plan that SQLite makes for a statement of the store."""
    text = phrase(statement)
    wanted: Any = dict.fromkeys(re.findall(r":(\w+)", text), 1) or (1,) * text.count("?")
    with closing(sqlite3.connect(path)) as db:
        db.create_function("clock", 0, time.time, deterministic=True)
        return [str(row[3]) for row in db.execute(f"explain query plan {text}", wanted)]


def migrate_file(path: Path, migrations: Sequence[Migration]) -> None:
    """Bring a file to the last of these layouts, or leave it as it is."""
    with closing(sqlite3.connect(path, isolation_level=None)) as db, db:
        db.execute("begin immediate")
        schema.migrate(SqliteTransaction(db, time.time), migrations)
