"""The store that the tests of its calls run against."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_state.sql.store_sql import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    made = Store(tmp_path / "store.db")
    yield made
    made.close()
