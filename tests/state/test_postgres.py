"""What is PostgreSQL's own: what stands in the way of opening a database is a sentence, connections come and go, and
writers meet each other."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
from old_server import serve_version
from pooler import pool
from postgres_server import PostgresServer, get_server
from quick_folder import QUICK_FOLDER
from store_places import read_rows, write_rows
from waiting import wait_until

from hermes_base.errors import Fenced, StoreAway, StoreFailure
from hermes_base.turn.journal import Row
from hermes_lab.database import PASSWORD, ROLE
from hermes_state.sql.engines.postgres import CONNECTIONS, list_words
from hermes_state.sql.engines.postgres_address import name_place
from hermes_state.sql.engines.postgres_errors import explain
from hermes_state.sql.schema import SCHEMA_VERSION
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.turns import NodeInfo

LIMIT = 60.0  # seconds; ends only what hangs
QUICK = 2.0  # seconds of patience with a server that is not there


@pytest.fixture
def server() -> PostgresServer:
    return get_server()


@pytest.fixture
def own_server() -> Iterator[PostgresServer]:
    """One that may end and come back, without another test that notices."""
    get_server()
    made = PostgresServer(QUICK_FOLDER)
    yield made
    made.end()


def change(address: str, **parts: str) -> str:
    return urlunsplit(urlsplit(address)._replace(**parts))


def open_refused(address: str) -> str:
    """What is told of an address that cannot be used."""
    with pytest.raises(StoreFailure) as refused:
        Store(address, busy_timeout=QUICK)
    told = str(refused.value)
    assert PASSWORD not in told
    assert "%20" not in told
    return told


# --- bad input


def test_what_stands_in_the_way_of_a_database_is_said(server: PostgresServer) -> None:
    """H8, G6: each names the database and what to do, and none the password."""
    address = server.make_database()
    host = urlsplit(address).netloc.rpartition("@")[2]
    assert "name or password is wrong" in open_refused(change(address, netloc=f"{ROLE}:wrong@{host}"))
    assert "name or password is wrong" in open_refused(change(address, netloc=f"nobody_here:x@{host}"))
    assert "does not exist" in open_refused(change(address, path="/not_there"))
    assert "cannot be reached" in open_refused(change(address, netloc=f"{ROLE}:x@127.0.0.1:1"))


def test_a_database_of_something_else_is_left_alone(server: PostgresServer) -> None:
    address = server.make_database()
    write_rows(address, "create table customers (id integer)")
    assert "tables of something else (customers)" in open_refused(address)
    assert read_rows(address, "select tablename from pg_tables where schemaname = 'public'") == [("customers",)]


def test_tables_that_this_user_may_not_see_are_found(server: PostgresServer) -> None:
    """I6: what others keep in a database is not mixed with a store."""
    address = server.make_database()
    with server.connect(urlsplit(address).path[1:]) as admin:
        admin.execute("create table customers (id integer)")
    assert "tables of something else (customers)" in open_refused(address)


def test_what_is_refused_is_one_line(
    server: PostgresServer, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """H8: the client library says nothing beside it."""
    address = server.make_database()
    assert "\n" not in open_refused(f"{address}?frobnicate=1")
    with server.connect(urlsplit(address).path[1:]) as admin:
        admin.execute(f"revoke all on schema public from public, {ROLE}; alter schema public owner to admin")
    open_refused(address)
    assert [record for record in caplog.records if record.name.startswith("psycopg")] == []
    assert capfd.readouterr().err == ""


def test_a_database_that_is_not_utf8_is_refused(server: PostgresServer) -> None:
    assert "keeps texts as LATIN1" in open_refused(server.make_database("encoding 'LATIN1' template template0"))


def test_a_database_without_rights_is_refused(server: PostgresServer) -> None:
    address = server.make_database()
    with server.connect(urlsplit(address).path[1:]) as admin:
        admin.execute(f"alter schema public owner to admin; revoke all on schema public from public, {ROLE}")
    assert "rights" in open_refused(address)


def test_a_newer_layout_is_refused_and_nothing_is_changed(server: PostgresServer) -> None:
    """H4"""
    address = server.make_database()
    Store(address).close()
    write_rows(address, f"update meta set value = '{SCHEMA_VERSION + 1}' where key = 'min_reader'")
    assert "newer version of Hermes" in open_refused(address)


def test_for_reading_nothing_is_made(server: PostgresServer) -> None:
    address = server.make_database()
    with pytest.raises(StoreFailure, match="empty or was last used by an older version"):
        Store.open_readonly(address)
    Store(address).close()
    with closing(Store.open_readonly(address)) as reader, pytest.raises(StoreFailure, match="for reading only"):
        reader.open_session(NewSession("c"))


def test_a_server_that_is_too_old_is_refused() -> None:
    with serve_version("12.22") as address:
        assert "runs on PostgreSQL 12; Hermes needs 13 or newer" in open_refused(address)


def test_a_database_that_may_only_be_read_is_refused_for_writing_and_can_be_read(server: PostgresServer) -> None:
    """A replica, or one that its operator has closed: told when it is opened, not at the first message."""
    address = server.make_database()
    Store(address).close()
    name = urlsplit(address).path[1:]
    with server.connect() as admin:
        admin.execute(f"alter database {name} set default_transaction_read_only = on")
    assert "may only be read: it is a replica" in open_refused(address)
    Store.open_readonly(address).close()


def test_a_user_who_may_look_and_not_write_is_told(server: PostgresServer) -> None:
    address = server.make_database()
    Store(address).close()
    name, host = urlsplit(address).path[1:], urlsplit(address).netloc.rpartition("@")[2]
    with server.connect(name) as admin:
        admin.execute("create role onlooker login password 'x'")
        admin.execute("grant select on all tables in schema public to onlooker")
    assert "rights it needs" in open_refused(change(address, netloc=f"onlooker:x@{host}"))
    with server.connect() as admin:
        admin.execute(f"revoke connect on database {name} from public, {ROLE}")
    assert "rights it needs" in open_refused(address)


def test_a_limit_of_connections_is_told_and_may_pass(server: PostgresServer) -> None:
    """H8: whoever waits for a database that is away waits for this, too."""
    address = server.make_database()
    with server.connect() as admin:
        admin.execute(f"alter database {urlsplit(address).path[1:]} connection limit 0")
    with pytest.raises(StoreAway, match=r"has too many connections.*Raise max_connections"):
        Store(address, busy_timeout=QUICK)


def test_a_server_on_a_socket_of_this_machine(own_server: PostgresServer, tmp_path: Path) -> None:
    """Both ways to write it; the name of the user comes from the address."""
    address, folder = own_server.make_database(), str(own_server.folder)
    own_server.crash()
    own_server.start(f"unix_socket_directories={folder}")
    login, name = f"{ROLE}:{PASSWORD.replace(' ', '%20')}", urlsplit(address).path[1:]
    for place in (
        f"postgresql://{login}@/{name}?host={folder}&port={own_server.port}",
        f"postgresql://{login}@{folder.replace('/', '%2F')}:{own_server.port}/{name}",
    ):
        Store(place).close()
        assert name_place(place).endswith(f"/{name}") or f"/{name}?host=" in name_place(place)


def test_a_server_that_wants_ssl_gets_what_the_address_says(server: PostgresServer) -> None:
    """A parameter of the address reaches the client as it stands there."""
    address = server.make_database()
    assert "cannot be reached" in open_refused(f"{address}?sslmode=require")  # this one has none
    Store(f"{address}?sslmode=prefer&application_name=x").close()
    Store(f"{address}?options=-c%20search_path%3Dpublic").close()


def test_a_clock_that_differs_is_told(server: PostgresServer, caplog: pytest.LogCaptureFixture) -> None:
    """The store's own time counts; the log, `hermes doctor` and `hermes store` say by how much ours differs."""
    address = server.make_database()
    with closing(Store(address, clock=lambda: time.time() + 600)) as store:
        ((what, fix),) = store.engine.describe().worries
    assert "clock of this machine is 600 s behind that of the store" in what
    assert what in caplog.text
    assert "time server" in fix
    with closing(Store(address)) as store:
        assert store.engine.describe().worries == ()


def test_behind_a_pooler_of_transactions_all_works_and_it_is_told(
    server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """I6: what a session would keep is said in each transaction; what is lost is told once."""
    direct = server.make_database()
    with pool(direct) as address, closing(Store(address)) as store:
        assert "pooler is between Hermes and the store" in caplog.text
        session = store.open_session(NewSession("c")).id
        with ThreadPoolExecutor(8) as threads:
            given = threads.map(lambda n: store.turns.accept("c", "t:b", f"c/{n}/", "x"), range(60))
            assert sorted(given) == list(range(1, 61))  # type: ignore[type-var]
        for version in range(10):
            store.append(session, "w", version, [Row({"role": "user", "content": "apples"})])
        assert len(store.search("apples")) == 10
        zone, wait = store.engine.find("select current_setting('timezone'), current_setting('lock_timeout')")[0]
        assert "LOCAL" in zone
        assert wait == "2s"


def test_why_a_store_cannot_be_asked_is_known_at_once_and_until_it_is_there(
    own_server: PostgresServer, caplog: pytest.LogCaptureFixture
) -> None:
    """I6: whoever takes messages in does not have to wait to know; the log hears of beginning and end, once."""
    with closing(Store(own_server.make_database(), busy_timeout=LIMIT)) as store:
        assert store.engine.absent == ""
        own_server.crash()
        with ThreadPoolExecutor(1) as threads:
            call = threads.submit(store.turns.depth)
            wait_until(lambda: "cannot be reached" in store.engine.absent)
            own_server.start()
            assert call.result() == (0, 0)
        assert store.engine.absent == ""
    assert caplog.text.count("asks again until it is there") == 1
    assert caplog.text.count("is there again") == 1


def test_what_the_client_says_without_a_code_is_a_sentence() -> None:
    assert "shutting down or starting" in str(explain("x", psycopg.OperationalError("the database is starting up")))
    assert "cannot be reached" in str(explain("x", psycopg.OperationalError("anything else")))


# --- side by side


def test_two_first_starts_at_once_make_one_store(server: PostgresServer) -> None:
    """I1: the tables are made once, and both have them."""
    address = server.make_database()
    problems: list[BaseException] = []

    def open_one() -> None:
        try:
            with closing(Store(address)) as store:
                store.turns.join(NodeInfo("1"))
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=open_one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert read_rows(address, "select count(*) from node") == [(4,)]


def test_of_two_writers_from_one_version_one_is_fenced(server: PostgresServer) -> None:
    """B7: whichever comes second, whatever it had read."""
    address = server.make_database()
    with closing(Store(address)) as one, closing(Store(address)) as other:
        session = one.open_session(NewSession("c")).id
        outcomes: list[object] = []
        ready = threading.Barrier(2)

        def write(store: Store, text: str) -> None:
            ready.wait()
            try:
                outcomes.append(store.append(session, text, 0, [Row({"role": "user", "content": text})]))
            except Fenced:
                outcomes.append("fenced")

        threads = [threading.Thread(target=write, args=pair) for pair in ((one, "a"), (other, "b"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(map(str, outcomes)) == ["1", "fenced"]
        assert one.load(session).version == 1


def test_messages_of_two_processes_have_one_order_and_none_is_lost(server: PostgresServer) -> None:
    """C1, C3: places are given one after the other, without a gap, whoever stores."""
    address = server.make_database()
    with closing(Store(address)) as one, closing(Store(address)) as other:
        given: list[int] = []

        def accept(store: Store, name: str) -> None:
            for number in range(20):
                seq = store.turns.accept("c", "t:b", f"{name}/{number}/", "x")
                assert seq is not None
                given.append(seq)

        threads = [threading.Thread(target=accept, args=pair) for pair in ((one, "a"), (other, "b"))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(given) == list(range(1, 41))


def test_a_conversation_is_claimed_by_one_of_two_nodes(server: PostgresServer) -> None:
    """B6, I2: both look for work at the same moment, in which none of them dies; each conversation has one owner."""
    address, moment = server.make_database(), lambda: 1_000_000.0
    with closing(Store(address, clock=moment)) as one, closing(Store(address, clock=moment)) as other:
        names = [f"c{number}" for number in range(30)]
        for name in names:
            one.turns.accept(name, "t:b", f"{name}/1/", "x")
        found: list[str] = []
        ready = threading.Barrier(2)

        def claim(store: Store) -> None:
            node = store.turns.join(NodeInfo("1"))
            ready.wait()
            while claims := store.turns.claim(node, 4):
                found.extend(claim.conversation for claim in claims)

        threads = [threading.Thread(target=claim, args=(store,)) for store in (one, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(found) == sorted(names)


# --- connections


def test_connections_that_were_cut_are_made_anew(server: PostgresServer) -> None:
    """I6: whoever uses the store does not notice, reading or writing."""
    address = server.make_database()
    name = urlsplit(address).path[1:]
    with closing(Store(address)) as store:
        session = store.open_session(NewSession("c")).id
        for version in range(3):
            with server.connect() as admin:
                admin.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")
            assert store.session(session) is not None
            with server.connect() as admin:
                admin.execute(f"select pg_terminate_backend(pid) from pg_stat_activity where datname = '{name}'")
            store.append(session, "w", version, [Row({"role": "user", "content": "x"})])
        assert store.load(session).version == 3


def fill_pool(store: Store) -> None:
    """Have all connections made at once."""
    together = threading.Barrier(CONNECTIONS)
    with ThreadPoolExecutor(CONNECTIONS) as threads:
        list(threads.map(lambda _: store._db.read(lambda db: together.wait(LIMIT)), range(CONNECTIONS)))


def test_a_server_that_was_away_is_used_again_by_itself(own_server: PostgresServer) -> None:
    """I6: who calls meanwhile waits, and all connections that were made before are replaced."""
    with closing(Store(own_server.make_database(), busy_timeout=LIMIT)) as store:
        fill_pool(store)
        own_server.crash()
        with ThreadPoolExecutor(4) as threads:
            calls = [threads.submit(store.turns.accept, "c", "t:b", f"c/{number}/", "x") for number in range(20)]
            reads = [threads.submit(store.turns.depth) for _ in range(4)]
            own_server.start()
            assert sorted(call.result() for call in calls) == list(range(1, 21))  # type: ignore[type-var]
            assert len([read.result() for read in reads]) == 4
        assert store.turns.depth() == (20, 0)


def test_a_server_that_stays_away_is_told_of_and_nothing_is_stored_elsewhere(
    own_server: PostgresServer, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I6, H8: each call says so, and works again once the server is there."""
    monkeypatch.chdir(tmp_path)
    address = own_server.make_database()
    with closing(Store(address, busy_timeout=0.3)) as store:
        own_server.crash()
        for call in (lambda: store.turns.accept("c", "t:b", "c/1/", "x"), store.turns.depth, lambda: store.load("s")):
            with pytest.raises(StoreFailure, match=r"cannot be reached.*Check the network"):
                call()
        assert "cannot be reached" in open_refused(address)
        own_server.start()
        assert store.turns.accept("c", "t:b", "c/1/", "x") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_transaction_that_stands_still_is_ended_and_frees_what_it_held(server: PostgresServer) -> None:
    """I2: its process may be stopped for long; others go on before it is taken for dead."""
    address = server.make_database()
    with closing(Store(address)) as store:
        store.turns.accept("c", "t:b", "c/1/", "x")
        limits = store._db.find("select name, setting from pg_settings where name like '%timeout' order by name")
        known = dict(limits)
        assert 0 < int(known["idle_in_transaction_session_timeout"]) <= 3000
        assert 0 < int(known["lock_timeout"]) <= 2000


# --- search


def test_words_are_written_so_that_no_sign_breaks_the_index() -> None:
    assert list_words("It's a test, a TEST") == "'it':1 's':2 'a':3,5 'test':4,6"
    assert list_words("") == ""


def test_a_text_of_any_length_is_stored_and_found(server: PostgresServer) -> None:
    """E2: by its first words, and by words far behind as far as the engine's index has room."""
    words = " ".join(f"w{number}" for number in range(150_000))
    with closing(Store(server.make_database())) as store:
        session = store.open_session(NewSession("c")).id
        store.append(session, "w", 0, [Row({"role": "user", "content": f"first {words}"})])
        store.append(session, "w", 1, [Row({"role": "user", "content": "x " * 40_000 + "behind"})])
        assert [len(store.search(word)) for word in ("first", "w1", "w40000", "behind")] == [1, 1, 1, 1]
        assert len(store.load(session).rows) == 2
