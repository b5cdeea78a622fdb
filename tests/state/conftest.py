"""The stores that the conformance tests run against."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_state.memory.memory_store import MemoryStore
from hermes_state.sql.sqlite import SqliteStore
from hermes_state.store import Store


@pytest.fixture(params=["sqlite", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = SqliteStore(tmp_path / "store.db") if request.param == "sqlite" else MemoryStore()
    yield made
    made.close()
