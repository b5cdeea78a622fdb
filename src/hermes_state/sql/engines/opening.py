"""Which engine a store has: its place says so."""

import time
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hermes_base.errors import StoreFailure
from hermes_base.store_place import is_address
from hermes_state.sql.engines.engine import Engine
from hermes_state.sql.engines.sqlite import SqliteEngine


def open_engine(
    place: Path | str, patience: float, *, readonly: bool, clock: Callable[[], float] | None = None
) -> Engine:
    if is_address(place):
        postgres = _load_postgres()
        opened: Engine = postgres.PostgresEngine(str(place), patience=patience, readonly=readonly, clock=clock)
        return opened
    return SqliteEngine(Path(place), busy_timeout=patience, readonly=readonly, clock=clock or time.time)


def _load_postgres() -> Any:
    """Late: its client is an extra, and takes 200 ms to load."""
    if find_spec("psycopg") is None or find_spec("psycopg_pool") is None:
        raise StoreFailure(
            "store.url names a PostgreSQL database, and the client for it is not installed.",
            kept="Nothing was changed.",
            fix="In the folder of Hermes: pip install -e '.[postgres]'",
        )
    return import_module("hermes_state.sql.engines.postgres")
