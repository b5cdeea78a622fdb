"""A store for one test: a real one, in a folder that goes when nobody has the store any more."""

import shutil
import tempfile
import time
import weakref
from collections.abc import Callable
from pathlib import Path

from hermes_state.sql.store_sql import Store


def fresh_store(clock: Callable[[], float] = time.time) -> Store:
    folder = tempfile.mkdtemp()
    store = Store(Path(folder) / "store.db", clock=clock)
    weakref.finalize(store, shutil.rmtree, folder, ignore_errors=True)
    return store
