"""`hermes status` in every state that a home can be in."""

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from local_gateway import LocalHouse

from hermes_base import local_wire as wire
from hermes_cli import config
from hermes_cli.main import main
from hermes_constants import STORE_FILE
from hermes_lab.server import LabServer
from hermes_state.home_lock import HomeLock


@pytest.fixture
def house(lab: LabServer, home: Path) -> Iterator[LocalHouse]:
    config.set_value("model.base_url", lab.base_url)
    config.set_value("model.default", "lab-model")
    made = LocalHouse(home)
    yield made
    made.stop()


def read(capsys: pytest.CaptureFixture[str]) -> str:
    capsys.readouterr()
    assert main(["status"]) == 0
    return capsys.readouterr().out


def test_an_empty_home(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """C13: nothing is there, and nothing is made."""
    told = read(capsys)
    assert "No gateway runs" in told
    assert "Model: " in told
    assert "Today: no calls" in told
    assert not home.exists()


def test_a_running_gateway(house: LocalHouse, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """C13, E11, G5: who runs, what answers with which window from where, platforms, sandbox, usage."""
    client = house.client("one")
    client.say("[[say hello]]")
    client.wait(wire.DealtWith)
    told = read(capsys)
    assert "Running: process" in told
    assert "Model: lab-model" in told
    assert "tokens;" in told
    assert "local (local): connected" in told
    assert "sandbox" in told
    assert "Today: 1 calls" in told
    assert "Warm agents: 1 (0 hits, 1 builds: 1 new, no evictions)" in told
    assert "Page: not served" in told
    assert main(["status", "--json"]) == 0
    status = json.loads(capsys.readouterr().out)
    assert (status["running"], status["home"], status["model"]["model"]) == (True, str(home), "lab-model")


def test_a_broken_config(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H3: it is said what is wrong, and the rest is told."""
    home.mkdir()
    (home / "config.yaml").write_text("gateway: {busy: nonsense}\n")
    told = read(capsys)
    assert "Settings: an edit is not used." in told
    assert "gateway.busy" in told
    assert "Model: none." in told
    assert "Free on the disk" in told


def test_a_config_that_breaks_while_it_runs(house: LocalHouse, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H6: the gateway's own word counts: it goes on with the last good settings."""
    (home / "config.yaml").write_text((home / "config.yaml").read_text() + "\ngateway: {busy: nonsense}\n")
    while "an edit is not used" not in (told := read(capsys)):
        pass
    assert "Model: lab-model" in told, told


def test_a_locked_store(home: Path, capsys: pytest.CaptureFixture[str], house: LocalHouse) -> None:
    """H3: somebody holds the store's file."""
    house.client("one").say("[[say hello]]")
    with closing(sqlite3.connect(home / STORE_FILE, isolation_level=None)) as other:
        other.execute("begin exclusive")
        assert main(["status", "--json"]) == 0
        other.execute("rollback")
    assert json.loads(capsys.readouterr().out)["running"] is True


def test_an_owner_that_does_not_listen(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """C13"""
    with HomeLock(home):
        told = read(capsys)
    assert "A gateway owns the home" in told
    assert "does not listen" in told
