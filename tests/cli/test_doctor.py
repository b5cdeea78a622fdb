"""`hermes doctor` works whatever is broken, and each finding says what to do (H3)."""

import json
import os
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from raw_model_server import RawModelServer

from agent.providers import embedded
from hermes_base.inbound import Address, Outgoing, write_outgoing
from hermes_cli.acp import acp_cmd
from hermes_cli.cmds import doctor, status_cmd
from hermes_constants import STORE_FILE
from hermes_lab.server import LabServer
from hermes_state.home_lock import HomeLock
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession

CANARY = "sk-canary-0123456789"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    monkeypatch.delenv("HERMES_PROFILE", raising=False)
    return tmp_path


def _examine(capsys: pytest.CaptureFixture[str], *more: str) -> tuple[int, list[dict[str, Any]]]:
    code = doctor.main(["--json", *more])
    return code, json.loads(capsys.readouterr().out)


def _find(findings: list[dict[str, Any]], word: str) -> dict[str, Any]:
    return next(finding for finding in findings if word in finding["what"])


def _make_store(home: Path) -> None:
    store = Store(home / STORE_FILE)
    store.open_session(NewSession("agent:main:local:dm:me"))
    store.close()


def test_a_fresh_home_is_in_order_and_stays_empty(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H3."""
    code, findings = _examine(capsys)
    warnings = [finding["what"] for finding in findings if finding["level"] == "warn"]
    assert all("run in the backend local" in what for what in warnings)  # where no sandbox can be had
    assert code == (1 if any(finding["level"] == "fail" for finding in findings) else 0)
    assert list(home.iterdir()) == []


def test_every_fault_comes_with_a_fix(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H3: a broken config, a bad .env and a damaged store at once."""
    (home / "config.yaml").write_text("model: [\n")
    (home / ".env").write_text("A=1\nnonsense\n")
    (home / ".env").chmod(0o644)
    (home / STORE_FILE).write_text("this is no database, and long enough to be looked at " * 20)
    code, findings = _examine(capsys)
    assert code == 1
    assert _find(findings, "config.yaml")["level"] == "fail"
    assert "line 2" in _find(findings, "NAME=VALUE")["what"]
    assert "chmod 600" in _find(findings, "Other users")["fix"]
    assert _find(findings, STORE_FILE)["level"] == "fail"
    assert all(finding["fix"] for finding in findings if finding["level"] != "ok")


def test_wrong_values_and_unknown_keys_are_listed_with_their_lines(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """H2, H3."""
    (home / "config.yaml").write_text("agent:\n  max_iterations: lots\nmodle: 1\n")
    code, findings = _examine(capsys)
    assert code == 1
    assert "line 2" in _find(findings, "max_iterations")["what"]
    unknown = _find(findings, "modle")
    assert (unknown["level"], "line 3" in unknown["what"]) == ("warn", True)


def test_an_address_of_the_store_that_is_none_is_a_fault(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H3, I6: written into the file by hand; it is not said that all is in order, nor that the store is yet to come."""
    (home / "config.yaml").write_text("store:\n  url: postgresql://h@[::1/x\n")
    code, findings = _examine(capsys)
    fault = _find(findings, "store.url")
    assert (code, fault["level"], bool(fault["fix"])) == (1, "fail", True)
    assert not any("There is no store yet" in finding["what"] for finding in findings)


def test_invalid_utf8_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "config.yaml").write_bytes(b"\xff")
    (home / ".env").write_bytes(b"\xff")
    _, findings = _examine(capsys)
    assert len([finding for finding in findings if "UTF-8" in finding["what"] and finding["level"] == "fail"]) == 2


def test_a_sound_store_is_ok(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _make_store(home)
    _, findings = _examine(capsys)
    assert _find(findings, STORE_FILE)["level"] == "ok"
    assert "sound" in _find(findings, STORE_FILE)["what"]


def test_what_was_not_delivered_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """C9: what waits for long, for whom, and what was refused with its reason; the store itself is sound."""
    _make_store(home)
    with closing(sqlite3.connect(home / STORE_FILE)) as db, db:
        add = (
            "insert into outbox (conversation, seq, n, account, chat, body, state, reason, created, ended) "
            "values ('c', 0, ?, 'chat:bot', ?, ?, ?, ?, ?, ?)"
        )
        body, now = write_outgoing(Outgoing(Address("chat", "bot", "c"), "hello")), time.time()
        db.execute(add, (1, "ann", body, "waiting", "", now - 7200, None))
        db.execute(add, (2, "ben", body, "waiting", "", now, None))
        db.execute(add, (3, "eve", body, "failed", "It is too large.", now - 7200, now - 3600))
    _, findings = _examine(capsys)
    assert _find(findings, "1 messages have been waiting for chat ann of chat:bot")["level"] == "info"
    assert _find(findings, "chat eve of chat:bot was refused on")["what"].endswith("It is too large.")
    assert not [finding for finding in findings if "ben" in finding["what"]]
    assert "sound" in _find(findings, STORE_FILE)["what"]
    assert status_cmd.main([]) == 0
    told = capsys.readouterr().out
    assert "Waiting for chat:bot, chat ben: 1, for" in told
    assert "Refused by chat:bot, chat eve, on" in told


def test_a_store_of_a_newer_version_says_so(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _make_store(home)
    with closing(sqlite3.connect(home / STORE_FILE)) as db, db:
        db.execute("update meta set value = '999' where key = 'min_reader'")
    code, findings = _examine(capsys)
    assert code == 1
    assert "newer" in _find(findings, "999")["what"]


def test_a_locked_store_does_not_stop_the_examination(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H3."""
    _make_store(home)
    locker = sqlite3.connect(home / STORE_FILE, isolation_level=None)
    locker.execute("pragma locking_mode = exclusive")
    locker.execute("begin exclusive")
    try:
        _, findings = _examine(capsys)
    finally:
        locker.close()
    finding = _find(findings, STORE_FILE)
    assert finding["level"] == "ok" or finding["fix"]
    assert _find(findings, "Python")["level"] == "ok"


def test_the_owner_of_the_home_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H3: a chat under way is no fault."""
    code = (
        "import sys; from hermes_state.home_lock import HomeLock; "
        "HomeLock(sys.argv[1]).acquire(); print('up', flush=True); sys.stdin.read()"
    )
    process = subprocess.Popen([sys.executable, "-c", code, str(home)], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        process.stdout.readline()
        _, findings = _examine(capsys)
    finally:
        process.communicate(timeout=60)
    finding = _find(findings, "owns this home; chats join it")
    assert str(process.pid) in finding["what"]
    assert finding["level"] == "info"
    with HomeLock(home):
        pass


def test_a_home_that_cannot_be_written_is_a_fault(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (home / "file").write_text("")
    monkeypatch.setenv("HERMES_HOME", str(home / "file"))
    code, findings = _examine(capsys)
    assert code == 1
    assert "HERMES_HOME" in _find(findings, "cannot be written to")["fix"]


def test_a_missing_home_is_no_fault_and_is_not_made(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HERMES_HOME", str(home / "new"))
    _, findings = _examine(capsys)
    assert _find(findings, "does not exist yet")["level"] == "info"
    assert not (home / "new").exists()


def test_who_would_answer_is_told_without_showing_keys(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """G6, H3."""
    monkeypatch.setenv("MY_OWN_VARIABLE", CANARY)
    (home / "config.yaml").write_text("model: {provider: openai, default: a-model, key_env: MY_OWN_VARIABLE}\n")
    _, findings = _examine(capsys, "--offline")
    assert "a-model (OpenAI)" in _find(findings, "Answers:")["what"]
    assert CANARY not in json.dumps(findings)


@pytest.mark.parametrize(
    ("section", "what", "fix"),
    [
        ("{provider: nonsense}", "no provider called 'nonsense'", "openrouter"),
        ("{provider: opnrouter}", "no provider called 'opnrouter'", "Did you mean 'openrouter'?"),
        ("{base_url: '127.0.0.1:8000/v1', default: m}", "'127.0.0.1:8000/v1' is no address", "http://"),
        ("{provider: openai}", "No key for OpenAI", "hermes config set OPENAI_API_KEY"),
        ("{provider: custom}", "has no address", "hermes config set model.base_url"),
    ],
)
def test_a_model_that_cannot_answer_is_a_fault_with_its_fix(
    home: Path, capsys: pytest.CaptureFixture[str], section: str, what: str, fix: str
) -> None:
    """H3."""
    (home / "config.yaml").write_text(f"model: {section}\n")
    code, findings = _examine(capsys)
    assert code == 1
    assert fix in _find(findings, what)["fix"]


# --- whether it answers: the command, and a server that does or does not


def _name_server(home: Path, address: str, model: str = "a-model") -> None:
    (home / "config.yaml").write_text(f"model: {{base_url: '{address}', default: '{model}', key_env: MY_KEY}}\n")


def test_a_key_that_is_refused_is_a_fault(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """H3, H5, G6: it is found before the first message meets it."""
    monkeypatch.setenv("MY_KEY", CANARY)
    with RawModelServer() as server:
        server.set_body(b'{"error": {"message": "wrong key"}}', status=401, kind="application/json")
        _name_server(home, server.base_url)
        code, findings = _examine(capsys)
        assert (code, _find(findings, "did not accept the key")["level"]) == (1, "fail")
        assert CANARY not in json.dumps(findings)
        before = server.requests
        assert _examine(capsys, "--offline")[0] == 0
        assert server.requests == before


def test_a_model_that_answers_is_named_with_its_time(
    home: Path, lab: LabServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """H5"""
    _name_server(home, lab.base_url)
    code, findings = _examine(capsys)
    assert (code, _find(findings, "answered in")["level"]) == (0, "ok")


@pytest.mark.parametrize("model", ["a-model", ""])
def test_an_address_without_its_last_part_is_told_with_the_right_one(
    home: Path, lab: LabServer, capsys: pytest.CaptureFixture[str], model: str
) -> None:
    """H3"""
    _name_server(home, lab.base_url.removesuffix("/v1"), model)
    code, findings = _examine(capsys)
    assert (code, _find(findings, lab.base_url)["level"]) == (1, "fail")


def test_a_server_that_is_away_is_no_fault_of_the_settings(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H3: without a network all else is examined."""
    _name_server(home, "http://no-such-host.invalid/v1")
    code, findings = _examine(capsys)
    found = _find(findings, "cannot be reached")
    assert (code, found["level"], "--offline" in found["fix"]) == (0, "warn", True)


def test_a_dead_server_on_this_machine_is_a_fault(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H3: no network is needed for it, and every question would fail."""
    _name_server(home, "http://127.0.0.1:9/v1")
    code, findings = _examine(capsys)
    assert (code, _find(findings, "cannot be reached")["level"]) == (1, "fail")


def test_a_misspelt_key_in_the_file_is_told(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / ".env").write_text("OPENROUTR_API_KEY=sk-something-long\nMY_OWN_API_KEY=other\n")
    (home / ".env").chmod(0o600)
    _, findings = _examine(capsys, "--offline")
    assert "OPENROUTER_API_KEY" in _find(findings, "OPENROUTR_API_KEY")["fix"]
    assert not [finding for finding in findings if "MY_OWN" in finding["what"]]


def test_without_any_model_the_fix_says_how_to_get_one(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """H3."""
    monkeypatch.setattr(embedded, "is_installed", lambda: False)
    code, findings = _examine(capsys)
    assert code == 1
    assert "OPENROUTER_API_KEY" in _find(findings, "No model")["fix"]


def test_a_check_that_breaks_is_a_finding_and_the_others_go_on(
    home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """G6, H3."""

    def _check_moon(home: Path):  # type: ignore[no-untyped-def]
        raise RuntimeError(f"no moon {CANARY}")

    monkeypatch.setenv("SOME_API_KEY", CANARY)
    monkeypatch.setattr(doctor, "CHECKS", (_check_moon, *doctor.CHECKS))
    code, findings = _examine(capsys)
    assert code == 1
    assert "check of moon broke: RuntimeError: no moon [redacted SOME_API_KEY]" in findings[0]["what"]
    assert _find(findings, "Python")["level"] == "ok"
    assert _find(findings, "bash")


def test_as_a_command_without_network_it_reads_well(home: Path) -> None:
    """H3: no name could be looked up here."""
    environment = {**os.environ, "http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    command = [sys.executable, "-m", "hermes_cli.main", "doctor"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert done.stdout.startswith("ok    hermes")
    assert done.stdout.rstrip().endswith("No fault found." if done.returncode == 0 else ".")
    assert done.stderr == ""


def test_a_context_engine_that_is_not_there_is_found(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H3: the built-in one works in its place, and that is said."""
    (home / "config.yaml").write_text("context: {engine: nowhere}\n")
    found = _find(_examine(capsys)[1], "no context engine called 'nowhere'")
    assert found["fix"].startswith("Set context.engine")


def test_the_browser_is_told_only_where_it_is_wanted(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What is missing for it is no fault: the model does without."""
    (home / "config.yaml").write_text("browser: {program: /nowhere/chrome}\n")
    finding = _find(_examine(capsys, "--offline")[1], "The model has no browser. ")
    assert finding["level"] == "info"
    assert finding["fix"]
    (home / "config.yaml").write_text("browser: {enabled: false}\n")
    assert not [one for one in _examine(capsys, "--offline")[1] if "no browser" in one["what"]]


@pytest.mark.parametrize(("installed", "level", "words"), [(True, "ok", "hermes acp"), (False, "info", "pip install")])
def test_editors(monkeypatch: pytest.MonkeyPatch, home: Path, installed: bool, level: str, words: str) -> None:
    """H8: what an editor needs, and how to get it."""
    monkeypatch.setattr(acp_cmd, "is_installed", lambda: installed)
    (found,) = doctor._check_editors(home)
    assert found.level == level
    assert words in found.what + found.fix


@pytest.mark.parametrize(
    ("lines", "env", "level", "words", "fix"),
    [
        ("", "", "info", "cannot search: no search service", "hermes setup web"),
        ("", "EXA_API_KEY=canary-key-0123456789\n", "ok", "searched with Exa", ""),
        ("  search_backend: brave\n", "", "warn", "Brave needs a key (BRAVE_API_KEY)", "hermes setup web"),
        ("  search_backend: bing\n", "", "warn", "'bing'", "searxng, brave"),
        ("  searxng_url: http://127.0.0.1:8888\n", "", "ok", "searched with SearXNG", ""),
    ],
)
def test_whether_the_web_can_be_searched_is_told(
    home: Path, capsys: pytest.CaptureFixture[str], lines: str, env: str, level: str, words: str, fix: str
) -> None:
    """Nobody is asked for it, and no key is shown (G6)."""
    home.mkdir(exist_ok=True)
    (home / "config.yaml").write_text(f"web:\n  enabled: true\n{lines}")
    (home / ".env").write_text(env)
    _, findings = _examine(capsys, "--offline")
    found = _find(findings, words)
    assert (found["level"], fix in found["fix"]) == (level, True)
    assert "canary" not in json.dumps(findings)
    assert not [one for one in findings if "Did you mean XAI_API_KEY" in one["fix"]]
