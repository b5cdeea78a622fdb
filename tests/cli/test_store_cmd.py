"""`hermes store` and the setting `store.url`, as a person uses them, on a real server."""

import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import pytest
from gateway_process import GatewayProcess, Person
from nodes_audit import audit_store
from postgres_server import get_server
from store_places import new_place, read_rows, write_rows
from waiting import wait_until

from hermes_base.store_place import find_place
from hermes_base.turn.journal import Row
from hermes_cli import config
from hermes_cli import main as entry
from hermes_constants import STORE_FILE
from hermes_lab.database import PASSWORD, ROLE
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.transfer.loan import FILE as LOAN
from hermes_state.turns import NodeInfo

Output = pytest.CaptureFixture[str]
DYING = str(Path(__file__).parents[1] / "support" / "dying_move.py")
MOVE = "hermes_cli.cmds.store_cmd"


@pytest.fixture
def database() -> Iterator[str]:
    with new_place("postgres") as address:
        yield address


@pytest.fixture
def gateway(home: Path, lab: LabServer) -> Iterator[GatewayProcess]:
    with GatewayProcess(home, lab.base_url) as process:
        yield process


def run(output: Output, *args: str, code: int = 0) -> str:
    """What a command says; a password is nowhere in it."""
    assert entry.main([*args]) == code
    told = output.readouterr()
    assert PASSWORD not in told.out + told.err
    assert "%20" not in told.out + told.err
    return told.err if code else told.out


def say(place: object, text: str) -> None:
    with closing(Store(str(place))) as store:
        session = store.open_session(NewSession("c")).id
        store.append(session, "w", 0, [Row({"role": "user", "content": text})])


# --- the setting


def test_an_address_is_tried_and_kept_and_its_password_is_shown_nowhere(
    home: Path, database: str, capsys: Output
) -> None:
    """G6, H5, I6: it lies in `.env`, for nobody else; every command works on the database, and none shows it."""
    told = run(capsys, "config", "set", "store.url", database)
    shown = urlunsplit(urlsplit(database)._replace(netloc=urlsplit(database).netloc.partition("@")[2]))
    assert f"store.url = {shown}, kept in" in told
    assert PASSWORD not in (home / "config.yaml").read_text()
    assert "%20" not in (home / "config.yaml").read_text()
    assert PASSWORD in (home / ".env").read_text()
    assert stat.S_IMODE((home / ".env").stat().st_mode) == 0o600
    say(find_place(home), "apples")
    assert "apples" in run(capsys, "sessions", "list")
    assert "apples" in run(capsys, "sessions", "search", "apples")
    assert f"Store: {shown}" in run(capsys, "status")
    assert f"Store: {shown}" in run(capsys, "store")
    entry.main(["doctor", "--offline"])
    assert f"The store {shown} is sound" in (told := capsys.readouterr().out)
    assert PASSWORD not in told
    for command in (("config", "explain", "store.url"), ("config", "get", "store"), ("config", "list"), ("usage",)):
        run(capsys, *command)
    assert not (home / STORE_FILE).exists()
    for path in home.rglob("*"):
        assert path.name == ".env" or not path.is_file() or PASSWORD.encode() not in path.read_bytes()


def test_an_address_that_does_not_do_changes_nothing(home: Path, database: str, capsys: Output) -> None:
    """H5, H8: also when only the password is wrong."""
    for bad, word in (
        (database.replace(f"{ROLE}:", f"{ROLE}:not"), "name or password is wrong"),
        (f"{database}_not_there", "does not exist"),
        (database.replace("postgresql:", "postgre:"), "misspelt"),
    ):
        assert word in run(capsys, "config", "set", "store.url", bad, code=1)
    assert not (home / "config.yaml").exists()
    assert not (home / ".env").exists()
    run(capsys, "config", "set", "store.url", database)
    assert "name or password is wrong" in run(capsys, "config", "set", config.STORE_PASSWORD, "not it", code=1)
    assert PASSWORD in (home / ".env").read_text()


def test_what_stays_behind_is_told_with_the_way_to_bring_it(home: Path, database: str, capsys: Output) -> None:
    say(home / STORE_FILE, "old")
    told = run(capsys, "config", "set", "store.url", database)
    assert f"1 session stays in {home / STORE_FILE}. To bring them along: hermes store move postgresql://" in told
    assert "There are no sessions yet" in run(capsys, "sessions", "list")
    address = told.rpartition("hermes store move ")[2].split()[0]
    run(capsys, "store", "move", address, "--from", "file")
    assert "old" in run(capsys, "sessions", "list")
    assert "--from postgresql://" in run(capsys, "config", "unset", "store.url")


def test_a_database_that_is_away_is_told_and_no_file_takes_its_place(home: Path, capsys: Output) -> None:
    """I6: whatever command looks for it; and the way back by the setting works."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text("store:\n  url: postgresql://me@127.0.0.1:1/name\n")
    assert "cannot be reached" in run(capsys, "sessions", "list", code=1)
    assert "cannot be reached" in run(capsys, "status")
    assert "cannot be reached" in run(capsys, "store", code=1)
    assert not (home / STORE_FILE).exists()
    assert "cannot be told" in run(capsys, "config", "unset", "store.url")
    assert "none yet" in run(capsys, "store")


def test_variables_of_the_client_redirect_nobody(
    home: Path, database: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I6: an address says all; that such a variable is not used is told."""
    run(capsys, "config", "set", "store.url", database)
    say(find_place(home), "apples")
    with monkeypatch.context() as patch:
        for name in ("PGHOST", "PGHOSTADDR", "PGPORT", "PGUSER", "PGPASSWORD", "PGDATABASE"):
            patch.setenv(name, "192.0.2.1")
        patch.setenv("PGOPTIONS", "-c search_path=elsewhere")
        assert "apples" in run(capsys, "sessions", "list")
        told = run(capsys, "store")
    assert "PGHOST, PGHOSTADDR, PGPORT, PGUSER, PGPASSWORD, PGDATABASE, PGOPTIONS, which is not used" in told


# --- moving


def test_a_store_moves_and_comes_back(home: Path, database: str, capsys: Output) -> None:
    """H5: told once it was compared; search, usage and sessions go on; nothing is deleted."""
    say(home / STORE_FILE, "apples")
    told = run(capsys, "store", "move", database)
    assert "Moved and compared: " in told
    assert f"What was in {home / STORE_FILE} is still there" in told
    assert PASSWORD in (home / ".env").read_text()
    assert "apples" in run(capsys, "sessions", "search", "apples")
    assert "PostgreSQL" in run(capsys, "store")
    assert "is there already" in run(capsys, "store", "move", database)
    say(find_place(home), "pears")
    told = run(capsys, "store", "move", "file")
    assert f"kept as {home / STORE_FILE}.before-move-" in told
    assert "SQLite" in run(capsys, "store")
    assert len(run(capsys, "sessions", "list").splitlines()) == 2
    assert "holds a store already" in run(capsys, "store", "move", database, code=1)
    assert config.load_settings().store.url == ""


def test_where_there_is_nothing_nothing_moves(home: Path, database: str, capsys: Output) -> None:
    told = run(capsys, "store", "move", database, code=1)
    assert "There is no store" in told
    assert "hermes config set store.url" in told


@pytest.mark.parametrize(
    ("when", "step"),
    [
        ("before", f"{MOVE}:move_store"),
        ("before", "hermes_state.transfer.copying:count_all"),
        ("after", "hermes_state.transfer.moving:copy_store"),
        ("before", f"{MOVE}:_switch"),
        ("before", "os:replace"),
        ("after", f"{MOVE}:_switch"),
    ],
)
def test_a_move_that_is_killed_leaves_one_store_in_use_and_can_be_given_again(
    home: Path, database: str, capsys: Output, when: str, step: str
) -> None:
    """I6: the old one until the setting says the new one."""
    say(home / STORE_FILE, "apples")
    done = subprocess.run(
        [sys.executable, DYING, when, step, "store", "move", database],
        env={**os.environ, "HERMES_HOME": str(home)},
        capture_output=True,
        text=True,
    )
    assert done.returncode < 0, done.stderr
    assert run(capsys, "sessions", "list").count("apples") == 1
    assert ("SQLite" in run(capsys, "store")) == (step != f"{MOVE}:_switch" or when == "before")
    run(capsys, "store", "move", database)
    assert "PostgreSQL" in run(capsys, "store")
    assert run(capsys, "sessions", "list").count("apples") == 1
    assert read_rows(home / STORE_FILE, "select preview from session") == [("apples",)]


def test_a_store_moves_under_a_gateway_that_goes_on_with_it(
    home: Path, gateway: GatewayProcess, database: str, capsys: Output
) -> None:
    """C2, C7: it lends its store, keeps its home, and whoever talks to it meanwhile is answered, once."""
    gateway.start()
    ann = Person(home, "ann")
    ann.ask("one")
    pid = gateway.pid
    waiting = [ann.say(f"during {number}") for number in range(3)]
    told = run(capsys, "store", "move", database)
    assert f"The gateway goes on with it (process {pid})." in told
    ann.wait_dealt(*waiting)
    ann.ask("two")
    wait_until(lambda: audit_store(lambda query: read_rows(find_place(home), query)) == [])
    ann.close()
    assert "PostgreSQL" in run(capsys, "store")
    asked = "select count(*), count(distinct ext_id), count(done_epoch) from inbox"
    assert read_rows(find_place(home), asked) == [(5, 5, 5)]
    assert not (home / LOAN).exists()
    assert gateway.terminate() == 0


def test_whoever_borrows_and_dies_gives_back(
    home: Path, gateway: GatewayProcess, database: str, capsys: Output
) -> None:
    """F9: the gateway goes on where the store was."""
    gateway.start()
    ann = Person(home, "ann")
    ann.ask("one")
    done = subprocess.run(
        [sys.executable, DYING, "before", f"{MOVE}:move_store", "store", "move", database],
        env={**os.environ, "HERMES_HOME": str(home)},
        capture_output=True,
        text=True,
    )
    assert done.returncode < 0, done.stderr
    ann.ask("two")
    ann.close()
    assert "SQLite" in run(capsys, "store")
    assert gateway.terminate() == 0


def test_while_another_gateway_has_the_database_it_stays(
    home: Path, database: str, capsys: Output, monkeypatch: pytest.MonkeyPatch
) -> None:
    """I2"""
    monkeypatch.setattr("hermes_state.transfer.moving.LEASE_SECONDS", -1.0)
    run(capsys, "config", "set", "store.url", database)
    with closing(Store(database)) as store:
        node = store.turns.join(NodeInfo("1", address="elsewhere"))
        assert "elsewhere" in run(capsys, "store")
        assert "Another gateway works on the store" in run(capsys, "store", "move", "file", code=1)
        store.turns.leave(node)
    assert config.load_settings().store.url


# --- back-ups


def test_a_backup_of_either_engine_is_restored_into_either(
    home: Path, database: str, tmp_path: Path, capsys: Output
) -> None:
    """H5: one archive, whichever store it was taken from."""
    say(home / STORE_FILE, "apples")
    run(capsys, "backup", "create", "-o", str(tmp_path / "of-file"))
    told = run(capsys, "backup", "restore", str(tmp_path / "of-file"), "--yes", "--store", database)
    assert "Its store is postgresql://" in told
    assert "PostgreSQL" in run(capsys, "store")
    assert "apples" in run(capsys, "sessions", "search", "apples")
    assert not (home / STORE_FILE).exists()
    run(capsys, "backup", "create", "-o", str(tmp_path / "of-database"))
    assert "is whole" in run(capsys, "backup", "verify", str(tmp_path / "of-database"))
    say(find_place(home), "pears")
    assert "holds a store already" in run(capsys, "backup", "restore", str(tmp_path / "of-database"), "--yes", code=1)
    told = run(capsys, "backup", "restore", str(tmp_path / "of-database"), "--yes", "--store", "file")
    assert f"Its store is {home / STORE_FILE}" in told
    assert "apples" in run(capsys, "sessions", "search", "apples")
    assert len(run(capsys, "sessions", "list").splitlines()) == 1
    assert read_rows(database, "select count(*) from session") == [(2,)]


def test_an_archive_of_a_database_goes_into_an_empty_one(
    home: Path, database: str, tmp_path: Path, capsys: Output
) -> None:
    """The settings in it say where; nothing else of the home is touched when that cannot be."""
    run(capsys, "config", "set", "store.url", database)
    say(find_place(home), "apples")
    run(capsys, "backup", "create", "-o", str(tmp_path / "archive"), "--with-secrets")
    for table in ("message", "session", "conversation"):
        write_rows(database, f"delete from {table}")
    run(capsys, "backup", "restore", str(tmp_path / "archive"), "--into", str(tmp_path / "other"))
    assert read_rows(database, "select preview from session") == [("apples",)]
    assert not (tmp_path / "other" / STORE_FILE).exists()


def test_a_server_that_is_gone_stops_a_backup_with_a_sentence(home: Path, tmp_path: Path, capsys: Output) -> None:
    """I6: no archive with another store in it."""
    get_server()
    say(home / STORE_FILE, "old")
    (home / "config.yaml").write_text("store:\n  url: postgresql://me@127.0.0.1:1/name\n")
    assert "cannot be reached" in run(capsys, "backup", "create", "-o", str(tmp_path / "archive"), code=1)
    assert not (tmp_path / "archive").exists()
