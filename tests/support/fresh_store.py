"""A store for one test: a real one, in a folder of its own unless a path is given. It is closed with the test."""

import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from hermes_state.sql.store_sql import Store


def fresh_store(clock: Callable[[], float] = time.time, path: Path | None = None) -> Store:
    path = path or Path(_made.enter_context(tempfile.TemporaryDirectory())) / "store.db"
    store = Store(path, clock=clock)
    _made.callback(store.close)
    return store


def close_fresh_stores() -> None:
    """An open store has descriptors, and hundreds of them would be too many for one process."""
    _made.close()


_made = ExitStack()
