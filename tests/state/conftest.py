"""The store that the tests of its calls run against, on each engine."""

from collections.abc import Iterator

import pytest
from store_places import ENGINES, new_place

from hermes_state.sql.store_sql import Store


@pytest.fixture(params=ENGINES)
def where(request: pytest.FixtureRequest) -> Iterator[str]:
    """Where an empty store is: a file, or a database by its address."""
    with new_place(request.param) as place:
        yield place


@pytest.fixture
def store(where: str) -> Iterator[Store]:
    made = Store(where)
    yield made
    made.close()
