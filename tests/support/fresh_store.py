"""A store for one test: a real one, in a place of its own unless a path is given. It is closed with the test."""

import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

from other_engine import IS_POSTGRES
from store_places import POSTGRES, SQLITE, new_place

from hermes_state.sql.store_sql import Store


def fresh_store(clock: Callable[[], float] = time.time, path: Path | None = None) -> Store:
    place: Path | str = path or _made.enter_context(new_place(POSTGRES if IS_POSTGRES else SQLITE))
    store = Store(place, clock=clock)
    _made.callback(store.close)
    return store


def close_fresh_stores() -> None:
    """An open store has descriptors, and hundreds of them would be too many for one process."""
    _made.close()


_made = ExitStack()
