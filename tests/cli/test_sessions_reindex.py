"""`hermes sessions reindex` as a process of its own, beside an owner that reads and writes."""

import os
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from gateway_process import HERMES
from warm_python import WarmProcess

from hermes_base.errors import StoreFailure
from hermes_base.store_place import find_place
from hermes_base.turn.journal import Row
from hermes_cli.main import main
from hermes_constants import STORE_FILE
from hermes_state.home_lock import HomeLock
from hermes_state.sql.engines.engine import Sql
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession

OLD = 900


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    made = Store(find_place(home))
    for _ in range(3):
        say(made, *(f"old word {n}" for n in range(OLD // 3)))
    yield made
    made.close()


def say(store: Store, *texts: str) -> str:
    session = store.open_session(NewSession("agent:main:local:dm:1")).id
    store.append(session, "w", 0, [Row({"role": "user", "content": text}) for text in texts])
    return session


@pytest.mark.file_store
def test_the_index_is_made_anew_while_the_owner_writes(store: Store, home: Path) -> None:
    """F8: nothing is missing afterwards, nothing is found twice, and no write of the owner failed."""
    store.drop_search()
    with HomeLock(home), WarmProcess([HERMES, "sessions", "reindex"], stderr=2, env=os.environ) as child:
        fresh = 0
        while child.poll() is None or fresh < 20:
            session = say(store, f"fresh word {fresh}")
            if fresh % 3 == 2:
                store.delete(session)
                say(store, f"fresh word {fresh}")
            fresh += 1
            time.sleep(0.01)  # or SQLite gives the owner the turn again and again
        told = child.stdout.read()
        assert child.wait() == 0
    words = told.split()
    count = int(words[words.index("messages") - 1])
    assert 0 < count <= OLD + fresh  # writers index, too
    found = [(hit.session, hit.position) for hit in store.search("word", limit=100_000)]
    assert len(found) == len(set(found)) == OLD + fresh
    store._db.run(Sql("insert into search (search) values ('integrity-check')"))


def test_two_at_once_leave_one_whole_index(store: Store) -> None:
    """F8: the later one has the last word."""
    command = [HERMES, "sessions", "reindex"]
    children = [WarmProcess(command, stderr=2, env=os.environ) for _ in range(2)]
    for child in children:
        with child:
            assert child.wait() == 0
    assert len(store.search("word", limit=100_000)) == OLD


def test_it_says_how_many(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """F8"""
    store.drop_search()
    with pytest.raises(StoreFailure):
        store.search("word")
    assert main(["sessions", "reindex"]) == 0
    assert capsys.readouterr().out == f"The search index is new: {OLD} messages went into it.\n"
    assert len(store.search("word", limit=100_000)) == OLD


@pytest.mark.file_store
def test_without_a_store_nothing_is_made(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H8"""
    assert main(["sessions", "reindex"]) == 0
    assert "no sessions yet" in capsys.readouterr().out
    assert not (home / STORE_FILE).exists()


@pytest.mark.file_store
def test_an_index_with_holes_is_whole_again(store: Store) -> None:
    """F8: what is damaged in the index is no loss."""
    with closing(Store(store.engine._path)) as other:
        other._db.run(Sql("delete from search_data where id > 10"))
    assert main(["sessions", "reindex"]) == 0
    assert len(store.search("word", limit=100_000)) == OLD
