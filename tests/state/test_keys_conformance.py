"""What the store of API keys does."""

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from hermes_base.errors import StoreFailure
from hermes_state.key_store import USED_SECONDS
from hermes_state.people_store import MEMBER
from hermes_state.sql.store_sql import Store

Store = Store | Store


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def store(where: str, clock: Clock) -> Iterator[Store]:
    made = Store(where, clock=clock)
    yield made
    made.close()


def test_a_key_is_found_by_its_digest_alone(store: Store) -> None:
    """G11: a key is known by its digest; its id, its name, or a part of the digest open nothing."""
    key = store.keys.add("  laptop\n one ", "", "d1")
    assert (key.name, key.person, key.created, key.last_used, key.revoked) == ("laptop one", "", 1000.0, None, None)
    assert store.keys.find("d1") == key
    for other in ("", "d", "d11", "D1", key.id, key.name):
        assert store.keys.find(other) is None


def test_a_revoked_key_is_not_found_but_listed(store: Store, clock: Clock) -> None:
    """G11: from the moment it is revoked a key opens nothing, and its digest cannot come back as another key."""
    first = store.keys.add("one", "", "d1")
    clock.now += 1
    second = store.keys.add("two", "p-1", "d2")
    assert store.keys.revoke(first.id)
    assert store.keys.find("d1") is None
    assert store.keys.keys() == [replace(first, revoked=1001.0), second]
    clock.now += 1
    assert not store.keys.revoke(first.id)
    assert not store.keys.revoke("k-none")
    assert store.keys.keys()[0].revoked == 1001.0
    with pytest.raises(StoreFailure):
        store.keys.add("again", "", "d1")
    assert store.keys.find("d2") == second


@pytest.mark.parametrize("digest", ["", "  ", "a\0b", "\ud800"])
def test_a_key_without_a_digest_is_refused(store: Store, digest: str) -> None:
    with pytest.raises(StoreFailure):
        store.keys.add("none", "", digest)
    assert store.keys.keys() == []


def test_two_keys_have_different_ids_and_a_name(store: Store) -> None:
    made = [store.keys.add("", "", f"d{n}") for n in range(20)]
    assert len({key.id for key in made}) == 20
    assert all(key.name == key.id for key in made)


def test_the_last_use_is_known_to_the_minute(store: Store, clock: Clock) -> None:
    key = store.keys.add("one", "", "d1")
    store.keys.used(key.id)
    clock.now += USED_SECONDS / 2
    store.keys.used(key.id)
    assert store.keys.keys()[0].last_used == 1000.0
    clock.now += USED_SECONDS
    store.keys.used(key.id)
    store.keys.used("k-none")
    assert store.keys.keys()[0].last_used == clock.now


def test_keys_of_a_removed_person_hold_no_more(store: Store) -> None:
    """G3: who is removed has no way in left; the keys of others go on."""
    ann = store.people.add("Ann", MEMBER, "chat", "42")
    bob = store.people.add("Bob", MEMBER, "chat", "43")
    store.keys.add("a", ann.id, "d1")
    store.keys.add("b", bob.id, "d2")
    store.people.remove(ann.id)
    assert store.keys.find("d1") is None
    kept = store.keys.keys()
    assert {key.name: key.revoked for key in kept} == {"a": 1000.0, "b": None}
    assert store.keys.find("d2") is not None


def test_keys_of_a_forgotten_person_are_gone(store: Store) -> None:
    """G12: nothing that names them is left."""
    ann = store.people.add("Ann", MEMBER, "chat", "42")
    store.keys.add("a", ann.id, "d1")
    owners = store.keys.add("o", "", "d2")
    store.people.forget(ann.id)
    assert store.keys.keys() == [owners]


def test_keys_survive_a_restart_and_are_found_by_index(tmp_path: Path) -> None:
    path = tmp_path / "store.db"
    with closing(Store(path)) as first:
        kept = first.keys.add("one", "", "d1")
    with closing(Store(path)) as second:
        assert second.keys.find("d1") == kept
    with closing(sqlite3.connect(path)) as db:
        plan = db.execute("explain query plan select id from api_key where digest = 'd1'").fetchall()
    assert "USING INDEX" in plan[0][3]
