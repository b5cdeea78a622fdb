"""One clock in one store: everything that the store dates itself, it dates by the clock that it was given."""

from collections.abc import Iterator

import pytest

from hermes_base.turn.journal import Row, UsageRow
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession

LONG_AGO = 1_000_000.0


class Hand:
    """A clock that stands where it is put."""

    now = LONG_AGO

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clocked(where: str) -> Iterator[tuple[Store, Hand]]:
    hand = Hand()
    store = Store(where, clock=hand)
    yield store, hand
    store.close()


def test_sessions_rows_and_calls_are_dated_by_the_one_clock(clocked: tuple[Store, Hand]) -> None:
    store, hand = clocked
    session = store.open_session(NewSession("c")).id
    hand.now += 1
    store.append(session, "w", 0, [Row({"role": "user", "content": "hello"})], [UsageRow("p", "m")])
    hand.now += 1
    child = store.rotate(session, "w", 1, "compression", [Row({"role": "user", "content": "short"})])
    hand.now += 1
    store.end(child.id, "new")
    before, after = store.session(session), store.session(child.id)
    assert before is not None
    assert after is not None
    assert (before.started, before.updated, before.ended) == (LONG_AGO, LONG_AGO + 1, LONG_AGO + 2)
    assert (after.started, after.updated, after.ended) == (LONG_AGO + 2, LONG_AGO + 2, LONG_AGO + 3)
    assert [paged.created for paged in store.page(session)] == [LONG_AGO + 1]
    assert [store.usage(since=LONG_AGO + late).calls for late in (1, 2)] == [1, 0]
