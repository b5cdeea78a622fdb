"""`hermes sessions` against a real store: reading beside an owner, finding, exporting, deleting."""

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from hermes_base.store_place import find_place
from hermes_base.turn.journal import Row
from hermes_cli.main import main
from hermes_constants import STORE_FILE
from hermes_state.home_lock import HomeLock
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession

CANARY = "sk-canary-0123456789"
CALL = {"id": "1", "type": "function", "function": {"name": "look_up", "arguments": "{}"}}


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.delenv("HERMES_PROFILE", raising=False)
    return tmp_path


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    store = Store(find_place(home))
    for name, question in (("aaa-1", "where is the blue whale"), ("aab-2", "tell me about tea\x1b[31m")):
        session = store.open_session(NewSession(f"agent:main:local:dm:{name}", id=name, model="m")).id
        rows = [
            Row({"role": "user", "content": f"[note] {question}"}, shown=question),
            Row({"role": "assistant", "content": "", "tool_calls": [CALL]}),
            Row({"role": "tool", "tool_call_id": "1", "content": "found"}),
            Row({"role": "assistant", "content": f"An answer with {CANARY} and ünïcode."}),
        ]
        store.append(session, "w", 0, rows)
    yield store
    store.close()


@pytest.mark.file_store
def test_without_a_store_it_says_so_kindly(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H8."""
    for action in (["list"], ["search", "x"]):
        assert main(["sessions", *action]) == 0
        assert "no sessions yet" in capsys.readouterr().out
    assert main(["sessions", "list", "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert list(home.iterdir()) == []


def test_list_shows_the_newest_first(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == ["aab-2", "aaa-1"]
    assert "where is the blue whale" in lines[1]
    assert "\x1b" not in lines[0]
    assert main(["sessions", "list", "--json", "--limit", "1"]) == 0
    (row,) = json.loads(capsys.readouterr().out)
    assert row["id"] == "aab-2"


def test_search_finds_words(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "search", "blue", "whale"]) == 0
    assert capsys.readouterr().out.startswith("aaa-1 ")
    assert main(["sessions", "search", "nowhere"]) == 0
    assert "Nothing was found" in capsys.readouterr().out
    assert main(["sessions", "search", "--json", "whale"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["session"] == "aaa-1"


def test_show_takes_a_unique_beginning(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "show", "aab"]) == 0
    said = capsys.readouterr().out
    assert "tell me about tea" in said
    assert "[note]" not in said
    assert "(calls look_up)" in said
    assert "\x1b" not in said


@pytest.mark.parametrize(("wanted", "word"), [("aa", "Type more"), ("zzz", "sessions list")])
def test_an_id_that_is_not_one_is_explained(
    store: Store, capsys: pytest.CaptureFixture[str], wanted: str, word: str
) -> None:
    """H8."""
    assert main(["sessions", "show", wanted]) == 1
    assert word in capsys.readouterr().err


def test_export_is_whole_and_without_secrets(
    store: Store, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """G6: also a secret that was configured after the session."""
    monkeypatch.setenv("LATER_API_KEY", CANARY)
    assert main(["sessions", "export", "aaa-1"]) == 0
    exported = json.loads(capsys.readouterr().out)
    assert exported["session"]["id"] == "aaa-1"
    assert [message["role"] for message in exported["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert exported["messages"][1]["tool_calls"] == [CALL]
    assert exported["messages"][3]["content"] == "An answer with [redacted LATER_API_KEY] and ünïcode."
    target = home / "out.md"
    assert main(["sessions", "export", "aaa-1", "--format", "markdown", "-o", str(target)]) == 0
    assert "## user" in target.read_text()
    assert CANARY not in target.read_text()


def test_an_export_that_cannot_be_written_is_one_sentence(
    store: Store, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """H8."""
    assert main(["sessions", "export", "aaa-1", "-o", str(home)]) == 1
    assert "cannot be written" in capsys.readouterr().err


def test_delete_needs_consent(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    store.close()
    command = [sys.executable, "-m", "hermes_cli.main", "sessions", "delete", "aaa-1"]
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "--yes" in done.stderr
    assert main(["sessions", "delete", "aaa", "--yes"]) == 0
    capsys.readouterr()
    assert main(["sessions", "list"]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == ["aab-2"]


def test_while_another_process_owns_the_home_reading_works_and_deleting_waits(
    store: Store, home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """F6, H8."""
    with HomeLock(home):
        for action in (["list"], ["search", "whale"], ["show", "aaa-1"], ["export", "aaa-1"]):
            assert main(["sessions", *action]) == 0
            assert "aaa-1" in capsys.readouterr().out
        assert main(["sessions", "delete", "aaa-1", "--yes"]) == 1
        assert "owned by process" in capsys.readouterr().err
    assert store.session("aaa-1") is not None


@pytest.mark.file_store
def test_a_damaged_store_is_one_sentence(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H8."""
    (home / STORE_FILE).write_text("not a database " * 100)
    assert main(["sessions", "list"]) == 1
    assert str(home / STORE_FILE) in capsys.readouterr().err


@pytest.mark.parametrize("action", ["show", "export", "delete"])
def test_h8_a_session_that_there_is_not_is_a_failure_in_an_empty_home_too(action, home, capsys):
    assert main(["sessions", action, "NOSUCH"]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert "There is no session 'NOSUCH'." in said.err
    assert not (home / STORE_FILE).exists()
