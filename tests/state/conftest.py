"""The stores that the conformance tests run against."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_state.interface import Store
from hermes_state.memory import MemoryStore
from hermes_state.sqlite import SqliteStore


@pytest.fixture(params=["sqlite", "memory"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Store]:
    made: Store = SqliteStore(tmp_path / "store.db") if request.param == "sqlite" else MemoryStore()
    yield made
    made.close()
