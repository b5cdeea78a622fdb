"""What only the SQLite store promises: query plans, its errors as sentences, layouts, side files and descriptors."""

import os
import re
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_file import explain, migrate_file
from store_places import write_rows

from hermes_base.errors import HermesError, StoreFailure
from hermes_base.turn.journal import Row, UsageRow
from hermes_constants import STORE_FILE
from hermes_state.sql import search_index, statements
from hermes_state.sql.engines.engine import Sql, Transaction
from hermes_state.sql.engines.sqlite import MARK, READERS
from hermes_state.sql.schema import MIGRATIONS, SCHEMA_VERSION, Migration
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession

CHAT = "agent:main:local:dm:1"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / STORE_FILE


@pytest.fixture
def store(path: Path) -> Iterator[Store]:
    made = Store(path)
    yield made
    made.close()


def say(text: str, **sent: bytes) -> Row:
    return Row({"role": "user", "content": text}, sent=sent)


def begin(store: Store, *rows: Row) -> str:
    session = store.open_session(NewSession(CHAT)).id
    store.append(session, "w", 0, rows)
    return session


def ask(path: Path, query: str) -> list[tuple[object, ...]]:
    with closing(sqlite3.connect(path)) as db:
        return db.execute(query).fetchall()


# --- query plans

# Read in the order of an index and stop at their limit; never at a turn.
LISTINGS = {"RECENT_SESSIONS(False, False)", "RECENT_OF_OWNER", "SEARCH", "TITLES"}
STATEMENTS = {
    f"{name}{asked or ''}": text
    for name, found in vars(statements).items()
    if name.isupper() and not name.startswith("_")
    for asked, text in (found.items() if isinstance(found, dict) else [((), found)])
    if not text.startswith(("create", "drop", "add a text"))
}


@pytest.mark.parametrize("name", sorted(STATEMENTS))
def test_no_statement_scans_a_table(store: Store, path: Path, name: str) -> None:
    """F3: the time of every statement depends on what it returns, never on the size of the store."""
    text = STATEMENTS[name]
    plan = explain(path, text)
    if name in LISTINGS:
        walks = [step for step in plan if step.startswith("SCAN") and not re.match(r"SCAN \(?subquery", step)]
        assert all("INDEX" in step for step in walks), plan
        assert "TEMP B-TREE" not in " ".join(plan)
    elif "stored_tables" not in text:  # the catalogue is in memory when a file is open
        assert not any(step.startswith("SCAN") and step != "SCAN CONSTANT ROW" for step in plan), plan


@pytest.mark.parametrize(
    ("text", "index"),
    [
        (statements.SUM_USAGE[False, False], "usage_created (created>"),
        (statements.SUM_USAGE[True, False], "usage_session (session=? AND created>"),
        (statements.SUM_USAGE[False, True], "usage_task (task=? AND created>"),
        (statements.SPLIT_USAGE[False, False], "usage_created (created>"),
        (statements.SPLIT_USAGE[True, False], "usage_session (session=? AND created>"),
        (statements.SPLIT_USAGE[False, True], "usage_task (task=? AND created>"),
        (statements.GET_BREAKS[False, False], "break_created (created>"),
        (statements.GET_BREAKS[True, False], "break_session (session=? AND created>"),
        (statements.GET_BREAKS[False, True], "break_task (task=? AND created>"),
        (statements.RECENT_SESSIONS[True, False], "session_of_conversation (conversation=? AND updated<"),
        (statements.RECENT_SESSIONS[False, False], "session_recent"),
        (statements.DROP_UNUSED_BLOB, "sent_hash (hash=?)"),
    ],
)
def test_sums_and_lists_use_their_own_index(store: Store, path: Path, text: str, index: str) -> None:
    """F3: an index on something else would be searched too, and yet read everything."""
    assert index in " ".join(explain(path, text))


# --- layout of the bytes


def test_bytes_are_kept_once(store: Store, path: Path) -> None:
    """A6: the same bytes have one blob, however many rows, parts and sessions sent them; unused ones are dropped."""
    session = begin(store, say("one", d=b"same"), say("two", d=b"same"))
    store.freeze(session, -1, "d", b"system")
    child = store.rotate(session, "w", 2, "compaction", [say("two", d=b"same")]).id
    other = begin(store, say("three", d=b"own"))
    assert ask(path, "select count(*) from blob") == [(3,)]
    store.freeze(other, -1, "d", b"old")
    store.freeze(other, -1, "d", b"new")
    assert ask(path, "select count(*) from blob where body = x'6f6c64'") == [(0,)]
    store.delete(session)
    assert ask(path, "select count(*) from blob") == [(4,)]
    store.delete(child)
    store.delete(other)
    assert [ask(path, f"select count(*) from {table}") for table in ("blob", "sent", "message")] == [[(0,)]] * 3


def test_the_writer_stands_with_each_row(store: Store, path: Path) -> None:
    """B2"""
    session = begin(store, say("one"))
    store.append(session, "other", 1, [say("two")])
    assert ask(path, "select position, writer, conversation from message") == [(0, "w", CHAT), (1, "other", CHAT)]


def test_every_commit_is_written_through(store: Store) -> None:
    names = "journal_mode", "synchronous", "foreign_keys"
    pragmas = [found.rows[0][0] for found in store._db.run(*(Sql(f"pragma {name}") for name in names))]
    assert pragmas == ["wal", 2, 1]


def test_the_store_is_private(store: Store, path: Path) -> None:
    begin(store, say("one"))
    assert {oct(file.stat().st_mode & 0o777) for file in path.parent.iterdir()} == {"0o600"}


def test_missing_folders_are_made(tmp_path: Path) -> None:
    Store(tmp_path / "a" / "b" / STORE_FILE).close()
    assert (tmp_path / "a" / "b").stat().st_mode & 0o777 == 0o700


def test_importing_and_constructing_creates_no_file(tmp_path: Path) -> None:
    code = (
        "import hermes_state.sql.store_sql, hermes_state.memory_journal\n"
        "import hermes_state.home_lock as lock, hermes_state.store_journal as j, hermes_state.store as s\n"
        "journal = j.StoreJournal(lambda: hermes_state.sql.store_sql.Store('store.db'), s.NewSession('c'))\n"
        "held = lock.HomeLock('home')\n"
    )
    subprocess.run([sys.executable, "-c", code], cwd=tmp_path, check=True, env={**os.environ, "HOME": str(tmp_path)})
    assert list(tmp_path.iterdir()) == []


def test_threads_leave_no_descriptors(store: Store, path: Path) -> None:
    """F1: threads that come and go leave nothing open, and close gives everything back."""
    session = begin(store, say("one"))

    def read_at_once(number: int) -> None:
        barrier = threading.Barrier(number)

        def read() -> None:
            barrier.wait()
            for _ in range(5):
                store.load(session)

        threads = [threading.Thread(target=read) for _ in range(number)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    for _ in range(5):
        read_at_once(12)
    assert count_open(path) <= 1 + 2 * (1 + READERS)  # the shared map, and file and log of each connection
    store.close()
    assert count_open(path) == 0


def count_open(path: Path) -> int:
    """The descriptors of this process on the store and its side files."""
    found = 0
    for name in os.listdir("/proc/self/fd"):
        try:
            found += os.readlink(f"/proc/self/fd/{name}").startswith(str(path))
        except FileNotFoundError:
            continue
    return found


# --- reading beside the owner


def test_a_reader_works_beside_the_owner(store: Store, path: Path) -> None:
    """F6: a read-only command sees what is committed, also while a write is under way, and writes nothing itself."""
    session = begin(store, say("one"))
    reader = Store.open_readonly(path)

    def look_meanwhile(db: Transaction) -> None:
        db.execute("update session set title = 'half' where id = ?", (session,))
        assert [row.message["content"] for row in reader.load(session).rows] == ["one"]
        info = reader.session(session)
        assert info is not None
        assert info.title == ""

    store._db.write(look_meanwhile)
    store.append(session, "w", 1, [say("two")])
    assert len(reader.load(session).rows) == 2
    assert len(reader.search("two")) == 1
    with pytest.raises(StoreFailure, match="reading only"):
        reader.append(session, "w", 2, [say("three")])
    reader.close()
    with pytest.raises(StoreFailure, match="closed"):
        reader.load(session)


def test_a_reader_alone_creates_no_file(path: Path) -> None:
    store = Store(path)
    session = begin(store, say("one"))
    store.close()
    reader = Store.open_readonly(path)
    assert reader.load(session).version == 1
    assert {file.name for file in path.parent.iterdir()} == {STORE_FILE, STORE_FILE + MARK}
    with closing(Store(path)) as owner:
        owner.append(session, "w", 1, [say("two")])
        assert reader.load(session).version == 2
    assert reader.load(session).version == 2
    reader.close()
    assert {file.name for file in path.parent.iterdir()} == {STORE_FILE, STORE_FILE + MARK}


def test_a_reader_of_nothing_says_so(path: Path) -> None:
    with pytest.raises(StoreFailure, match="no store at"):
        Store.open_readonly(path)
    path.touch()
    with pytest.raises(StoreFailure, match="older version"):
        Store.open_readonly(path)
    assert path.stat().st_size == 0


# --- errors


def check_sentence(error: HermesError, *parts: str) -> None:
    """An error says what happened, what was kept and what to do."""
    assert error.kept
    assert error.fix
    for part in parts:
        assert part in str(error)


def test_a_locked_store(path: Path) -> None:
    store = Store(path, busy_timeout=0.05)
    session = begin(store, say("one"))
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        with pytest.raises(StoreFailure) as caught:
            store.append(session, "w", 1, [say("two")])
        check_sentence(caught.value, "locked by another process")
        assert store.load(session).version == 1
        other.execute("rollback")
    assert store.append(session, "w", 1, [say("two")]) == 2
    store.close()


FULL_DISK = """
import resource, sys
from hermes_base.errors import StoreFailure
from hermes_base.turn.journal import Row, UsageRow
from hermes_state.sql.engines.sqlite import READERS
from hermes_state.store import NewSession
from hermes_state.sql.store_sql import Store

store = Store(sys.argv[1])
session = store.open_session(NewSession("c")).id
resource.setrlimit(resource.RLIMIT_FSIZE, (800_000, resource.RLIM_INFINITY))
version = 0
try:
    while True:
        rows = [Row({"role": "user", "content": f"word{version} " * 200}) for _ in range(3)]
        version = store.append(session, "w", version, rows, [UsageRow("p", "m")])
except StoreFailure as error:
    print(error.what, "|", error.kept, "|", error.fix)
assert store.load(session).version == version, "rows of the failed write"
assert store.usage().calls * 3 == version
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(session, store.append(session, "w", version, [Row({"role": "user", "content": "space again"})]))
store.close()
"""


def test_a_full_disk_loses_only_the_write_it_refused(path: Path) -> None:
    """F7: what was acknowledged stays, the refused write leaves nothing, and with space the same store goes on."""
    done = subprocess.run([sys.executable, "-c", FULL_DISK, path], capture_output=True, text=True, check=True)
    sentence, last = done.stdout.strip().splitlines()
    assert "disk is full" in sentence
    assert "not stored" in sentence
    session, version = last.split()
    assert int(version) > 10
    with closing(Store(path)) as store:
        assert store.load(session).version == int(version)
        assert len(store.search("space again")) == 1
    assert ask(path, "pragma integrity_check") == [("ok",)]


def test_a_store_at_its_page_limit_is_full(store: Store) -> None:
    session = begin(store, say("one"))
    store._db.run(Sql("pragma max_page_count = 1"))
    with pytest.raises(StoreFailure) as caught:
        store.append(session, "w", 1, [say("word " * 50_000)])
    check_sentence(caught.value, "disk is full")
    assert store.load(session).version == 1


@pytest.mark.parametrize("content", [b"a text file, and quite a long one " * 100, b"SQLite format 3\0" + b"\1" * 4096])
def test_a_file_that_is_no_database(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    for open_it in (Store, Store.open_readonly):
        with pytest.raises(StoreFailure) as caught:
            open_it(path)
        check_sentence(caught.value, str(path))
    assert path.read_bytes() == content


def test_a_damaged_store(path: Path) -> None:
    store = Store(path)
    session = begin(store, *(say(f"row {n} " * 50) for n in range(200)))
    store.close()
    with path.open("r+b") as file:
        file.seek(8192)
        file.write(b"\xa5" * (path.stat().st_size - 8192))
    with pytest.raises(StoreFailure) as caught:
        Store(path).load(session)
    check_sentence(caught.value, "is damaged", "backup")


def test_a_folder_in_place_of_the_store(path: Path) -> None:
    path.mkdir()
    with pytest.raises(StoreFailure) as caught:
        Store(path)
    check_sentence(caught.value, "cannot be opened")


def test_a_file_in_place_of_the_folder(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(StoreFailure) as caught:
        Store(tmp_path / "file" / STORE_FILE)
    check_sentence(caught.value, "cannot be opened")


def test_a_store_that_may_only_be_read(store: Store) -> None:
    """The engine's refusal to write, provoked on the connection since rights do not bind the root user."""
    session = begin(store, say("one"))
    assert store.engine._writer is not None
    store.engine._writer.execute("pragma query_only = on")
    with pytest.raises(StoreFailure) as caught:
        store.append(session, "w", 1, [say("two")])
    check_sentence(caught.value, "only be read")


def test_a_name_that_is_no_text(store: Store) -> None:
    with pytest.raises(StoreFailure, match="Unicode"):
        store.session("\ud800")


# --- layouts

NEXT = Migration(
    SCHEMA_VERSION + 1,
    SCHEMA_VERSION,
    (
        "alter table conversation add column colour text",
        "alter table conversation add column weight integer not null default 0",
        "alter table message add column flavour text not null default 'plain'",
        "alter table session add column mood text",
        "create table shelf (conversation text, seq integer, body text, primary key (conversation, seq)) without rowid",
        "create unique index session_mood on session(mood)",
    ),
)


def migrate(path: Path, *more: Migration) -> None:
    migrate_file(path, (*MIGRATIONS, *more))


def test_the_old_program_works_on_the_next_layout(path: Path) -> None:
    """H4: after an additive migration this program still starts, reads, writes, and leaves the layout as it is."""
    with closing(Store(path)) as store:
        session = begin(store, say("one", d=b"1"), say("two"))
    migrate(path, NEXT)
    with closing(Store(path)) as store:
        assert store.append(session, "w", 2, [say("three", d=b"3"), say("four")], [UsageRow("p", "m")] * 2) == 4
        child = store.rotate(session, "w", 4, "compaction", [say("five")])
        assert [row.message["content"] for row in store.load(child.id).rows] == ["five"]
        assert len(store.search("one")) == 1
        assert store.usage(task=session).calls == 2
        assert store.delete(child.id)
    assert ask(path, "select value from meta where key = 'schema'") == [(str(NEXT.version),)]
    with closing(Store.open_readonly(path)) as reader:
        assert reader.load(session).version == 4


def test_a_migration_keeps_what_is_there_and_happens_once(path: Path) -> None:
    """H4"""
    with closing(Store(path)) as store:
        session = begin(store, say("one"))
    migrate(path, NEXT)
    migrate(path, NEXT)
    assert ask(path, "select session, flavour from message") == [(session, "plain")]


def test_a_migration_that_fails_changes_nothing(path: Path) -> None:
    """H4"""
    Store(path).close()
    before = ask(path, "select name, sql from sqlite_master order by name")
    broken = Migration(NEXT.version, 1, (*NEXT.statements, "create table shelf (x)"))
    with pytest.raises(sqlite3.OperationalError):
        migrate(path, broken)
    assert ask(path, "select name, sql from sqlite_master order by name") == before
    Store(path).close()


def test_a_newer_store_is_refused(path: Path) -> None:
    """H4: a layout that this program cannot know is refused in a sentence, and the file is left alone."""
    Store(path).close()
    migrate(path, Migration(SCHEMA_VERSION + 2, SCHEMA_VERSION + 1, ()))
    content = path.read_bytes()
    for open_it in (Store, Store.open_readonly):
        with pytest.raises(StoreFailure) as caught:
            open_it(path)
        check_sentence(caught.value, "newer version of Hermes", "Update Hermes")
    assert path.read_bytes() == content


def test_a_store_without_its_description_is_refused(path: Path) -> None:
    Store(path).close()
    with closing(sqlite3.connect(path)) as db:
        db.execute("delete from meta where key = 'schema'")
        db.commit()
    with pytest.raises(StoreFailure) as caught:
        Store(path)
    check_sentence(caught.value, "not a store")


def test_first_starts_at_once(tmp_path: Path) -> None:
    """All find a whole store, whoever was first."""
    for number in range(8):
        path = tmp_path / f"{number}.db"
        for store in start_together(path, 6):
            begin(store, say("hello"))
            store.close()
        assert ask(path, "select count(*) from message") == [(6,)]


def start_together(path: Path, count: int) -> list[Store]:
    opened: list[Store] = []
    barrier = threading.Barrier(count)

    def start() -> None:
        barrier.wait()
        opened.append(Store(path))

    threads = [threading.Thread(target=start) for _ in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(opened) == count
    return opened


# --- search


def test_a_rebuild_that_was_killed_goes_on_with_what_comes(store: Store) -> None:
    """F8: rows that a broken-off rebuild had not reached are found all the same, and indexed as others are added."""
    sessions = [begin(store, say(f"word {n}")) for n in range(170)]
    store._db.write(search_index.restart)
    assert store._db.write(search_index.extend) == (search_index.BATCH, search_index.BATCH)
    store.delete(sessions[10])
    store.delete(sessions[169])
    begin(store, say("word in the place of the last"), say("word behind it"))
    assert len(store.search("word", limit=1000)) == 170
    begin(store, say("word to go on with"))
    assert store._db.read(search_index.find_reach) == 150
    assert len(store.search("word", limit=1000)) == 171
    assert store.rebuild_search() == 171
    assert len(store.search("word", limit=1000)) == 171


def test_a_number_that_is_given_again_is_indexed_again(store: Store) -> None:
    """F8: the last row of a whole index is deleted, and another gets its number."""
    begin(store, say("stays"))
    last = begin(store, say("goes"))
    store.rebuild_search()
    store.delete(last)
    begin(store, say("comes"))
    store._db.write(search_index.extend)
    assert (len(store.search("stays")), store.search("goes"), len(store.search("comes"))) == (1, [], 1)


@pytest.mark.parametrize("kept", ["0 0", "7 7"])
def test_an_index_of_an_older_program_is_taken_over(store: Store, kept: str) -> None:
    """F8"""
    sessions = [begin(store, say(f"word {n}")) for n in range(6)]
    store.rebuild_search()
    store._db.run(Sql(statements.SET_META, ("search", kept)))
    assert len(store.search("word")) == 6
    store.delete(sessions[5])
    begin(store, say("word in its place"))
    begin(store, say("word behind it"))
    assert len(store.search("word")) == 7
    assert store.rebuild_search() == 7
    store._db.run(Sql("insert into search (search) values ('integrity-check')"))


def test_an_index_that_an_older_program_was_rebuilding_is_given_up(store: Store) -> None:
    """F8: what it holds is not known; a search says what to do."""
    begin(store, *(say(f"word {n}") for n in range(6)))
    store.rebuild_search()
    store._db.run(Sql(statements.SET_META, ("search", "2 4")))
    begin(store, say("word behind it"))
    with pytest.raises(StoreFailure, match="Rebuild"):
        store.search("word")
    assert store.rebuild_search() == 7


def test_a_search_beside_the_owner_passes_over_what_is_damaged(store: Store, path: Path) -> None:
    """E2: it cannot be set aside there."""
    begin(store, say("apple one"))
    begin(store, say("apple two"))
    write_rows(path, "update message set body = '{' where id = 2")
    with closing(Store.open_readonly(path)) as reader:
        assert [hit.excerpt for hit in reader.search("apple")] == ["«apple» one"]


def test_a_damaged_row_keeps_nobody_from_writing(store: Store, path: Path) -> None:
    """F8, F6: whoever writes indexes what others wrote, and what is wrong with that is not theirs."""
    first = begin(store, say("word"))
    write_rows(path, "update message set body = '{'")
    for number in range(search_index.BATCH):
        begin(store, say(f"word {number}"))
    begin(store, say("word at last"))
    assert len(store.search("word", limit=100)) == search_index.BATCH + 1
    assert store.session(first) is not None
