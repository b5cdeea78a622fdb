"""A store is copied between engines, and back: every row of every table arrives, or nothing counts."""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from postgres_server import get_server
from store_places import ENGINES, new_place, read_rows, write_rows

from hermes_base.errors import StoreFailure
from hermes_base.turn.journal import Row
from hermes_constants import STORE_FILE
from hermes_state.sql.engines.opening import open_engine
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.transfer.copying import META, NUMBERED, TABLES, TableSums, copy_store, count_all
from hermes_state.transfer.moving import ARRIVING, ASIDE, move_store
from hermes_state.turns import NodeInfo

#: Kept by the engine itself, or made anew from the messages.
OWN = {META, "search", "sqlite_sequence", "search_data", "search_idx", "search_docsize", "search_config"}


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / STORE_FILE


@pytest.fixture
def database() -> Iterator[str]:
    with new_place("postgres") as address:
        yield address


def say(place: str | Path, *texts: str, conversation: str = "c") -> None:
    with closing(Store(place)) as store:
        session = store.current(conversation) or store.open_session(NewSession(conversation))
        for text in texts:
            version = store.load(session.id).version
            store.append(session.id, "w", version, [Row({"role": "user", "content": text})])


def carry(source: str | Path, target: str | Path) -> TableSums:
    """All rows as they are, also those that no store would have written."""
    with (
        closing(open_engine(source, 5.0, readonly=True)) as old,
        closing(open_engine(target, 5.0, readonly=False)) as new,
    ):
        return copy_store(old, new)


def make_row(file: Path, table: str, number: int) -> list[Any]:
    """A value for each column; texts and blobs are the same in all tables, so that what refers to a row finds it."""
    with closing(sqlite3.connect(file)) as db:
        columns = db.execute('select type, "notnull" or pk from pragma_table_info(?)', (table,)).fetchall()
    made = {"text": f"k{number} ü\U0001f600", "integer": number, "real": number + 0.1, "blob": b"k\0\xff%d" % number}
    return [made[kind.lower()] if needed or number < 3 else None for kind, needed in columns]


def fill_all(file: Path) -> None:
    """Three rows in each table; in the third, everything is empty that may be."""
    Store(file).close()
    for table in TABLES:
        for number in (1, 2, 3):
            values = make_row(file, table, number)
            with closing(sqlite3.connect(file)) as db, db:
                db.execute(f"insert into {table} values ({', '.join('?' * len(values))})", values)


@pytest.mark.parametrize("engine", ENGINES)
def test_every_table_is_one_that_is_copied(engine: str) -> None:
    """I1: a table that a new layout brings is not forgotten, nor one whose rows are numbered."""
    with new_place(engine) as place:
        Store(place).close()
        with closing(open_engine(place, 5.0, readonly=True)) as opened:
            stored = {str(name) for (name,) in opened.find("select name from stored_tables")}
            assert stored - OWN == set(TABLES)
            for table in NUMBERED:
                assert opened.find(f"select count(id) from {table}") == [(0,)]


def test_every_value_of_every_table_arrives_and_comes_back(file: Path, database: str, tmp_path: Path) -> None:
    """I1: on the other engine, and from there in a file again."""
    fill_all(file)
    tallies = carry(file, database)
    assert {table: tally.rows for table, tally in tallies.items()} == dict.fromkeys(TABLES, 3)
    back = tmp_path / "back" / STORE_FILE
    back.parent.mkdir()
    assert carry(database, back) == tallies
    for table in TABLES:
        rows = [sorted(read_rows(place, f"select * from {table}"), key=repr) for place in (file, database, back)]
        assert rows[0] == rows[1] == rows[2], table


def test_numbers_go_on_above_those_that_were_given(file: Path, database: str, tmp_path: Path) -> None:
    """C7: a place that a client was told to go on from is never another row's, also when that row is gone."""
    add = (
        "insert into outbox (conversation, seq, n, account, chat, body, state, created) "
        "select 'c', coalesce(max(seq), 0) + 1, 1, 't:b', 'chat', '{}', 'sent', 1 from outbox"
    )
    Store(file).close()
    for _ in range(5):
        write_rows(file, add)
    write_rows(file, "delete from outbox where id > 2")
    back = tmp_path / "back" / STORE_FILE
    back.parent.mkdir()
    carry(file, database)
    carry(database, back)
    for place in (database, back):
        write_rows(place, add)
        assert read_rows(place, "select max(id) from outbox") == [(6,)]


def test_what_was_said_is_found_afterwards_and_more_can_be_said(file: Path, database: str, tmp_path: Path) -> None:
    """E2, F8"""
    say(file, *(f"apple{number:03} grows" for number in range(120)))
    back = tmp_path / "back" / STORE_FILE
    back.parent.mkdir()
    move_store(file, database)
    say(database, "a pear grows")
    move_store(database, back)
    for place in (database, back):
        with closing(Store(place)) as store:
            assert [len(store.search(word)) for word in ("apple007", "apple119", "pear")] == [1, 1, 1]
    say(back, "plums grow")
    with closing(Store(back)) as store:
        assert len(store.search("plums")) == 1


def test_an_index_that_was_given_up_stays_so(file: Path, database: str) -> None:
    say(file, "apple")
    with closing(Store(file)) as store:
        store.drop_search()
    move_store(file, database)
    with closing(Store(database)) as store, pytest.raises(StoreFailure, match="index"):
        store.search("apple")


# --- what stands in the way


def test_a_place_that_holds_something_is_left_alone(file: Path, database: str) -> None:
    """H8, I6"""
    say(file, "mine")
    say(database, "theirs")
    with pytest.raises(StoreFailure, match=r"holds a store already, with 1 sessions. Nothing was changed"):
        move_store(file, database)
    assert read_rows(database, "select preview from session") == [("theirs",)]


def test_a_copy_that_nobody_used_since_is_made_anew_and_one_in_use_is_not(file: Path, database: str) -> None:
    """A move that was killed before it was over can be given again."""
    say(file, "one")
    move_store(file, database)
    say(file, "two")
    move_store(file, database)
    assert read_rows(database, "select count(*) from message") == [(2,)]
    say(database, "three")
    with pytest.raises(StoreFailure, match="holds a store already"):
        move_store(file, database)
    assert read_rows(database, "select count(*) from message") == [(3,)]


def test_while_another_gateway_works_on_it_nothing_is_moved(
    file: Path, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """B6, I2: neither away from under it, nor over it."""
    monkeypatch.setattr("hermes_state.transfer.moving.LEASE_SECONDS", -1.0)
    with closing(Store(database)) as store:
        node = store.turns.join(NodeInfo("1", address="there"))
        say(file, "x")
        with pytest.raises(StoreFailure, match=f"Another gateway works on the store postgresql://.*{node}.*Stop all"):
            move_store(database, file)
        with pytest.raises(StoreFailure, match="A gateway works on that store now"):
            move_store(file, database)
        store.turns.leave(node)
    move_store(file, database)


def test_a_file_that_is_there_gets_another_name(file: Path, database: str) -> None:
    """Nothing is deleted."""
    say(file, "old")
    say(database, "new")
    aside = move_store(database, file).aside
    assert aside is not None
    assert aside.name.startswith(f"{STORE_FILE}{ASIDE}")
    assert read_rows(aside, "select preview from session") == [("old",)]
    assert read_rows(file, "select preview from session") == [("new",)]
    left = {path.name for path in file.parent.iterdir()} - {file.name, aside.name, f"{STORE_FILE}.made"}
    assert not any(ARRIVING in name for name in left)


def test_a_row_that_cannot_be_read_is_set_aside_and_the_rest_moves(file: Path, database: str) -> None:
    say(file, "first", "second")
    write_rows(file, "update message set body = cast(? as text) where position = 0", b'{"role": "\xff')
    moved = move_store(file, database)
    assert moved.damaged == 1
    with closing(Store(database)) as store:
        assert store.count_damaged() == 1
        assert store.load(store.sessions()[0].id).rows[1].message["content"] == "second"


def test_a_text_that_is_none_is_told_and_nothing_moves(file: Path, database: str) -> None:
    """No engine makes something else of it on the way."""
    say(file, "x")
    write_rows(file, "update session set title = cast(? as text)", b"\xff\xfe")
    with pytest.raises(StoreFailure, match=r"A text in the table session is damaged.*hermes doctor"):
        move_store(file, database)
    assert read_rows(database, "select count(*) from conversation") == [(0,)]


def test_what_arrives_changed_does_not_count(file: Path, database: str) -> None:
    """I1: counts and hashes are those of what stands there afterwards."""
    say(file, "x", "y")
    Store(database).close()
    write_rows(
        database,
        "create function spoil() returns trigger as $$ begin new.preview := 'z'; return new; end $$ language plpgsql",
    )
    write_rows(database, "create trigger spoil before insert on session for each row execute function spoil()")
    with pytest.raises(StoreFailure, match=r"What arrived is not what was sent: session. The store is where it was"):
        move_store(file, database)
    write_rows(database, "drop function spoil cascade")


def test_of_two_at_once_one_is_refused(file: Path, tmp_path: Path) -> None:
    """Both may find it empty before either has written."""
    address, other = get_server().make_database(), tmp_path / "other.db"
    say(file, "one")
    say(other, "two")
    Store(address).close()
    told: list[str] = []

    def meet(source: Any, target: Any) -> None:
        try:
            copy_store(source, target)
        except StoreFailure as refused:
            told.append(str(refused))

    with (
        closing(open_engine(file, 5.0, readonly=True)) as one,
        closing(open_engine(other, 5.0, readonly=True)) as two,
        closing(open_engine(address, 5.0, readonly=False)) as target,
        closing(open_engine(address, 5.0, readonly=False)) as second,
    ):
        threads = [threading.Thread(target=meet, args=pair) for pair in ((one, target), (two, second))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(told) <= 1  # the second may replace a copy that nobody has used
        assert target.read(count_all)["session"].rows == 1
