"""The settings for all in the store: each change has a number; who has not seen the last one changes nothing (I4)."""

import threading
from collections.abc import Iterator
from contextlib import closing

import pytest

from hermes_state.sql.shared.news_sql import SETTINGS
from hermes_state.sql.shared.settings_sql import SettingStore, StoredSettings
from hermes_state.sql.store_sql import Store


@pytest.fixture
def settings(where: str) -> Iterator[SettingStore]:
    with closing(Store(where, clock=lambda: 1000.0)) as store:
        yield store.settings


def read(settings: SettingStore) -> tuple[int, dict[str, str]]:
    found = settings.read()
    return found.number, {key: one.value for key, one in found.settings.items()}


def test_settings_are_put_changed_and_dropped(settings: SettingStore) -> None:
    assert settings.read() == StoredSettings(0, {})
    assert settings.write(0, {"a": "1", "b": '"ä\U0001f600"'}, (), "here") == 1
    assert read(settings) == (1, {"a": "1", "b": '"ä\U0001f600"'})
    assert settings.write(1, {"a": "2"}, ["b", "never"], "there") == 2
    assert read(settings) == (2, {"a": "2"})
    (one,) = settings.read().settings.values()
    assert (one.changed, one.changed_by) == (1000.0, "there")
    assert settings.write(2, {}, (), "there") == 3


def test_who_has_not_seen_the_last_change_changes_nothing(settings: SettingStore) -> None:
    assert settings.write(1, {"a": "1"}, (), "early") is None
    assert settings.read() == StoredSettings(0, {})
    assert settings.write(0, {"a": "1"}, (), "first") == 1
    assert settings.write(0, {"a": "2", "b": "2"}, (), "late") is None
    assert read(settings) == (1, {"a": "1"})


def test_a_change_is_news(where: str) -> None:
    with closing(Store(where)) as store:
        store.settings.write(0, {"a": "1"}, (), "here")
        assert store.news.numbers() == {SETTINGS: 1}


def test_of_two_at_the_same_moment_one_has_to_look_again(where: str) -> None:
    with closing(Store(where)) as one, closing(Store(where)) as other:
        begin, numbers = threading.Barrier(2), list[int | None]()

        def change(store: Store, key: str) -> None:
            begin.wait()
            numbers.append(store.settings.write(0, {key: "1"}, (), key))

        threads = [threading.Thread(target=change, args=given) for given in ((one, "a"), (other, "b"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(numbers, key=str) == [1, None]
        assert len(one.settings.read().settings) == 1
