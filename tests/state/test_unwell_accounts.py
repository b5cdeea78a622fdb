"""Accounts that all gateways leave alone for a while (I4, D3)."""

from contextlib import closing

from hermes_state.sql.shared.news_sql import HEALTH
from hermes_state.sql.store_sql import Store


def test_an_account_is_left_alone_until_its_time_and_the_longest_word_holds(where: str) -> None:
    times = [1000.0]
    with closing(Store(where, clock=lambda: times[0])) as store:
        store.unwell.note("one", 30.0)
        store.unwell.note("one", 10.0)
        store.unwell.note("two", 60.0)
        assert store.unwell.every() == [("one", 30.0), ("two", 60.0)]
        assert store.news.numbers() == {HEALTH: 3}
        times[0] += 30.0
        assert store.unwell.every() == [("two", 30.0)]
