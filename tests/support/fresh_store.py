"""A store for one test: a real one, in a folder of its own. Both go when the test is over."""

import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from hermes_state.sql.store_sql import Store


def fresh_store(clock: Callable[[], float] = time.time) -> Store:
    folder = tempfile.TemporaryDirectory()
    store = Store(Path(folder.name) / "store.db", clock=clock)
    _made.append((store, folder))
    return store


def close_fresh_stores() -> None:
    """An open store has descriptors, and hundreds of them would be too many for one process."""
    while _made:
        store, folder = _made.pop()
        store.close()
        folder.cleanup()


_made: list[tuple[Store, "tempfile.TemporaryDirectory[str]"]] = []
