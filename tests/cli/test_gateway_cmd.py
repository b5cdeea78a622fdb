"""`hermes gateway` with real processes: in the background, as a service, ended, and what the status says."""

import json
import os
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from gateway_process import HERMES
from waiting import wait_until
from warm_python import run_text

from gateway.http.access import read_token
from hermes_cli.cmds.gateway.gateway_cmd import OUTPUT, write_status
from hermes_cli.main import main
from hermes_constants import STORE_FILE
from hermes_state.home_lock import HomeLock, holder

HOUSE = Path(__file__).resolve().parents[1] / "support" / "local_house.py"
STATUS = {
    "pid": 12,
    "since": 0.0,
    "node": "n1",
    "working": ["agent:main:local:dm:a"],
    "queue": {"inbox": 3, "outbox": 1},
    "platforms": [
        {"name": "local", "account": "local", "last_seen": 995.0},
        {"name": "telegram", "account": "bot", "last_seen": 900.0},
        {"name": "matrix", "account": "me", "last_seen": 0.0},
    ],
    "leases": [{"name": "local:local", "owner": "n1", "epoch": 4, "live": True}],
}


@pytest.fixture
def gateway(home: Path) -> Iterator[subprocess.Popen[str]]:
    home.mkdir()
    with subprocess.Popen([sys.executable, str(HOUSE), str(home)], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        yield process
        process.kill()


def test_without_a_gateway_it_says_so_kindly(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H8"""
    assert main(["gateway", "stop"]) == 0
    assert "No gateway runs" in capsys.readouterr().out
    assert main(["gateway", "status"]) == 1
    assert "hermes gateway run" in capsys.readouterr().out
    assert main(["gateway", "status", "--json"]) == 1
    assert json.loads(capsys.readouterr().out) == {"running": False}
    assert not home.exists()


def test_stop_waits_for_the_end(gateway: subprocess.Popen[str], home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", "status", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["running"], told["pid"], told["name"]) == (True, gateway.pid, "status")
    assert main(["gateway", "stop"]) == 0
    assert f"process {gateway.pid}) has stopped" in capsys.readouterr().out
    assert holder(home) is None
    gateway.wait(20)


def test_a_killed_gateway_keeps_nothing(gateway: subprocess.Popen[str], home: Path) -> None:
    """C2: after SIGKILL the home is free at once, whatever file was left."""
    gateway.kill()
    gateway.wait()
    wait_until(lambda: holder(home) is None)
    assert main(["gateway", "status"]) == 1


@pytest.mark.slow
def test_one_gateway_for_each_home(home: Path) -> None:
    """B6: a second one is refused with a sentence; after SIGKILL of the first it starts at once and serves."""
    command = [sys.executable, "-m", "hermes_cli.main", "gateway", "run"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline().startswith("The page: http://")
        assert str(home) in first.stdout.readline()
        second = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert second.returncode == 1
        assert f"process {first.pid}" in second.stderr
        assert "Its page: http://127.0.0.1:" in second.stderr
        assert read_token(home) not in second.stderr  # it is no terminal that reads this
        first.kill()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as third:
        assert third.stdout is not None
        assert third.stdout.readline().startswith("The page: http://")
        assert main(["gateway", "status"]) == 0
        assert main(["gateway", "stop"]) == 0
        assert third.wait(60) == 0


def test_an_owner_that_does_not_listen_is_named(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H8"""
    with HomeLock(home):
        for action in ("stop", "status"):
            assert main(["gateway", action]) == 1
            assert f"Process {os.getpid()} owns the home" in capsys.readouterr().err


def test_the_status_in_lines() -> None:
    """B7, C13: who holds what, and connected means a sign of life in the last 90 s."""
    text = "\n".join(write_status(STATUS, now=1000.0))
    assert "process 12" in text
    assert "At work: 1 conversation\n  agent:main:local:dm:a" in text
    assert "3 messages to deal with, 1 to deliver" in text
    assert "local (local): connected, last sign of life 5 s ago" in text
    assert "telegram (bot): not connected, last sign of life 100 s ago" in text
    assert "matrix (me): never connected" in text
    assert "local:local: n1, generation 4" in text


def test_a_sparse_status_can_be_shown() -> None:
    assert "Platforms:" in "\n".join(write_status({"pid": 1, "since": 0.0}))


# --- in the background


def hermes(*words: str, **env: str) -> subprocess.CompletedProcess[str]:
    command = [HERMES, "gateway", *words]
    return subprocess.CompletedProcess(command, *run_text(command, {**os.environ, **env}))


def owner_pid(home: Path) -> int:
    owner = holder(home)
    assert owner is not None
    return owner.pid


@pytest.fixture
def tidy(home: Path) -> Iterator[None]:
    """What a test started in the background ends with it."""
    yield
    owner = holder(home)
    if owner is not None and owner.pid not in (0, os.getpid()):
        os.kill(owner.pid, signal.SIGKILL)
        wait_until(lambda: holder(home) is None)


@pytest.mark.slow
@pytest.mark.usefixtures("tidy")
def test_it_runs_in_the_background(home: Path) -> None:
    """B6: start returns when it answers; a second start names the first; restart ends it and starts another."""
    started = hermes("start")
    first = owner_pid(home)
    assert (started.returncode, started.stderr) == (0, "")
    assert f"process {first}" in started.stdout
    assert main(["gateway", "status"]) == 0
    assert os.getsid(first) == first, "it must not end with the terminal that started it"
    assert Path(f"/proc/{first}/fd/0").readlink() == Path(os.devnull)
    log = home / "logs" / OUTPUT
    assert stat.S_IMODE(log.stat().st_mode) == 0o600
    wait_until(lambda: "The page: " in log.read_text())
    for kept in (log.read_text(), started.stdout):  # G6: neither is a person's terminal
        assert "`hermes web` prints it with its token" in kept
        assert read_token(home) not in kept

    again = hermes("start")
    assert again.returncode == 1
    assert f"process {first}" in again.stderr
    assert owner_pid(home) == first

    restarted = hermes("restart")
    second = owner_pid(home)
    assert restarted.returncode == 0
    assert f"process {first}) has stopped" in restarted.stdout
    assert f"process {second})" in restarted.stdout
    assert second != first
    assert log.read_text().count("Ctrl-C stops it") == 2, "the log goes on where it was"
    assert main(["gateway", "stop"]) == 0
    assert holder(home) is None


def test_the_token_is_printed_to_a_terminal_only() -> None:
    """G6"""
    word = "from gateway.http.access import word_address as w; print(w('http://h/?token=abc'), w('http://p/'))"
    screen, terminal = os.openpty()
    subprocess.run([sys.executable, "-c", word], stdout=terminal, check=True)
    assert os.read(screen, 1000).decode().split() == ["http://h/?token=abc", "http://p/"]
    os.close(screen)
    os.close(terminal)
    piped = subprocess.run([sys.executable, "-c", word], capture_output=True, text=True, check=True).stdout
    assert "abc" not in piped
    assert piped.startswith("http://h/ (")


@pytest.mark.slow
@pytest.mark.usefixtures("tidy")
def test_restart_starts_one_where_none_runs(home: Path) -> None:
    done = hermes("restart")
    assert done.returncode == 0
    assert "No gateway runs" in done.stdout
    assert f"process {owner_pid(home)})" in done.stdout


@pytest.mark.usefixtures("tidy")
def test_a_start_that_fails_shows_what_it_said(home: Path) -> None:
    """H8: the words of this start, and not those of an earlier one."""
    (home / "logs").mkdir(parents=True)
    (home / "logs" / OUTPUT).write_text("words of an earlier life\n")
    (home / STORE_FILE).mkdir()
    done = hermes("start")
    assert done.returncode == 1
    assert "The gateway ended while it started. It said:\nhermes: " in done.stderr
    assert "earlier life" not in done.stderr
    assert "earlier life" in (home / "logs" / OUTPUT).read_text()
    assert holder(home) is None


# --- as a service


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the units of the user are."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "settings"))
    return tmp_path / "settings" / "systemd" / "user"


@pytest.fixture
def systemctl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program in the place of systemctl, since no test may change the services of this machine: it notes its
    arguments in the file, and fails while `broken` is there."""
    noted = tmp_path / "noted"
    program = tmp_path / "bin" / "systemctl"
    program.parent.mkdir()
    broken = tmp_path / "broken"
    program.write_text(f'#!/bin/sh\necho "$@" >> "{noted}"\n[ ! -e "{broken}" ] || {{ echo no bus >&2; exit 1; }}\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    return noted


@pytest.mark.usefixtures("systemctl")
def test_install_twice_and_uninstall(units: Path, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", "install"]) == 0
    told = capsys.readouterr().out
    [path] = units.iterdir()
    assert str(path) in told
    assert f"systemctl --user enable --now {path.name}" in told
    assert f'"HERMES_HOME={home}"' in path.read_text()
    before, text = path.stat(), path.read_text()
    assert main(["gateway", "install"]) == 0
    assert "nothing was changed" in capsys.readouterr().out
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (before.st_mtime_ns, before.st_ino)

    path.write_text(text.replace("RestartSec=", "RestartSec=1"))
    assert main(["gateway", "install"]) == 0
    assert "was changed" in capsys.readouterr().out
    assert path.read_text() == text

    assert main(["gateway", "uninstall"]) == 0
    assert list(units.iterdir()) == []
    assert main(["gateway", "uninstall"]) == 0
    assert "No service is installed" in capsys.readouterr().out


@pytest.mark.usefixtures("systemctl")
def test_what_somebody_else_wrote_is_left_alone(units: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["gateway", "install"]) == 0
    [path] = units.iterdir()
    path.write_text("[Service]\nExecStart=/bin/true\n")
    for action in ("install", "uninstall"):
        assert main(["gateway", action]) == 1
        assert "was not written by Hermes" in capsys.readouterr().err
    assert path.read_text() == "[Service]\nExecStart=/bin/true\n"


def test_enable_calls_systemctl(units: Path, systemctl: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H8: a failure of systemctl is told in its own words, and the file is kept."""
    assert main(["gateway", "install", "--enable"]) == 0
    [path] = units.iterdir()
    assert systemctl.read_text().splitlines() == ["--user daemon-reload", f"--user enable --now {path.name}"]
    (systemctl.parent / "broken").touch()
    assert main(["gateway", "install", "--enable"]) == 1
    assert "failed: no bus. The service is installed." in capsys.readouterr().err
    assert path.exists()


@pytest.mark.usefixtures("units")
def test_enable_beside_a_running_gateway_is_refused(
    gateway: subprocess.Popen[str], systemctl: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """B6: a service that could only crash in a loop is not started."""
    assert main(["gateway", "install", "--enable"]) == 1
    assert f"process {gateway.pid}" in capsys.readouterr().err
    assert not systemctl.exists()


def test_without_systemd_it_says_what_to_do(
    units: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """H8"""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert main(["gateway", "install"]) == 1
    told = capsys.readouterr().err
    assert "There is no systemd on this machine. Nothing was written." in told
    assert "hermes gateway run" in told
    assert not units.exists()


@pytest.mark.skipif(os.geteuid() != 0 or shutil.which("setpriv") is None, reason="needs root, to become somebody else")
def test_only_root_installs_for_the_machine() -> None:
    """H8"""
    code = "import sys; from hermes_cli.main import main; sys.exit(main(['gateway', 'install', '--system']))"
    command = ["setpriv", "--reuid", "65534", "--clear-groups", sys.executable, "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "Only root can change the services of the machine. Nothing was changed." in done.stderr
