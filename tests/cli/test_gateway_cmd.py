"""`hermes gateway stop` and `status` against a house in another process, and what the status says."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from waiting import wait_until

from hermes_cli.gateway_cmd import write_status
from hermes_cli.main import main
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
        assert str(home) in first.stdout.readline()
        second = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert second.returncode == 1
        assert f"owned by process {first.pid}" in second.stderr
        first.kill()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as third:
        assert third.stdout is not None
        assert str(home) in third.stdout.readline()
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
