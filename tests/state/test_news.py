"""What all processes of a store are told to look at again (I4)."""

from contextlib import closing

from hermes_state.people_store import ADMIN
from hermes_state.sql.shared.news_sql import PEOPLE
from hermes_state.sql.store_sql import Store


def test_who_loses_access_is_news_and_who_gets_it_is_not(store: Store) -> None:
    """I4, G3: a number that only grows, counted with the change itself."""
    assert store.news.numbers() == {}
    ann = store.people.add("Ann", "member", "chat", "a")
    store.people.link(ann.id, "mail", "a@b.org")
    store.people.set_role(ann.id, ADMIN)
    assert store.news.numbers() == {}
    store.people.unlink(ann.id, "mail", "a@b.org")
    assert store.news.numbers() == {PEOPLE: 1}
    store.people.remove(ann.id)
    assert store.news.numbers() == {PEOPLE: 2}
    store.people.forget(ann.id)
    assert store.news.numbers() == {PEOPLE: 3}


def test_news_are_there_for_whoever_opens_the_store_later(where: str) -> None:
    with closing(Store(where)) as store:
        store.people.remove(store.people.add("Ann", "member", "chat", "a").id)
    with closing(Store(where)) as store:
        assert store.news.numbers() == {PEOPLE: 1}
