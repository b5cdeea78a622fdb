"""F9: a gateway that breaks again and again is held back, then refused; one that was killed in good health is not."""

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hermes_base.errors import ConfigProblem, HomeBusy
from hermes_cli.cmds.gateway import crash_guard
from hermes_cli.cmds.gateway.crash_guard import (
    FILE,
    FOLDER,
    LONGEST_PAUSE,
    MOST_CRASHES,
    REFUSED,
    WINDOW_SECONDS,
    CrashGuard,
    GatewayStart,
    judge,
    name_ground,
    read_starts,
    write_refusal,
)
from hermes_constants import STORE_FILE
from hermes_state.home_lock import LOCK_FILE, HomeLock

COMMAND = [sys.executable, "-m", "hermes_cli.main", "gateway", "run"]


def crash(at: float, error: str = "boom") -> GatewayStart:
    return GatewayStart(at, 1, at, error)


# --- rules


def test_the_pause_grows_and_then_it_is_refused() -> None:
    """F9: 1, 2, 4, 8 s, then no more."""
    pauses = [judge([crash(100.0) for _ in range(count)], 100.0) for count in range(6)]
    assert [verdict.pause for verdict in pauses] == [0.0, 1.0, 2.0, 4.0, 8.0, 0.0]
    assert [verdict.refused for verdict in pauses] == [False] * 5 + [True]
    assert (pauses[-1].reason, pauses[-1].again_in) == ("boom", WINDOW_SECONDS)


def test_time_that_passed_counts() -> None:
    """A service manager that waits itself is not made to wait again."""
    starts = (crash(100.0), crash(101.0), crash(102.0))
    assert judge(starts, 103.0).pause == 3.0
    assert judge(starts, 120.0).pause == 0.0
    assert judge(starts, 102.0 + WINDOW_SECONDS).crashes == 0


def test_a_kill_in_good_health_is_no_crash(home: Path) -> None:
    """F9, B7: killed after it was ready, however often; a silent end before that is one."""
    for _ in range(10):
        killed = CrashGuard(home).watch()
        killed.__enter__()()
        assert CrashGuard(home).admit() == crash_guard.StartVerdict()
    silent = CrashGuard(home, clock=lambda: 150.0).watch()
    silent.__enter__()
    verdict = CrashGuard(home, clock=lambda: 150.0).admit()
    assert (verdict.crashes, verdict.pause) == (1, 1.0)
    assert "without a word" in verdict.reason


@given(
    st.lists(
        st.builds(GatewayStart, st.floats(0, 1e4), st.just(1), st.floats(0, 1e4), st.sampled_from(["", "x"])),
    ),
    st.floats(0, 2e4),
)
def test_no_pause_is_long_and_no_refusal_for_ever(starts: list[GatewayStart], now: float) -> None:
    """F9: whatever the file holds, clocks that were set back included."""
    verdict = judge(starts, now)
    assert 0 <= verdict.pause <= LONGEST_PAUSE
    assert verdict.refused == (verdict.crashes >= MOST_CRASHES)
    assert not judge(starts, now + 3e4).refused


# --- the file


def test_what_begins_anew(home: Path) -> None:
    """F9: an orderly end, an edit of the settings, another version, and whoever insists."""
    home.mkdir()

    def break_it() -> None:
        with pytest.raises(RuntimeError), CrashGuard(home).watch():
            raise RuntimeError("boom")

    break_it()
    assert CrashGuard(home).admit().crashes == 1
    (home / "config.yaml").write_text("log: {level: info}\n")
    assert CrashGuard(home).admit().crashes == 0
    break_it()
    assert CrashGuard(home).admit().crashes == 1
    assert CrashGuard(home).admit(anyway=True).crashes == 0
    break_it()
    with CrashGuard(home).watch() as note_ready:
        note_ready()
    assert CrashGuard(home).admit().crashes == 0
    break_it()
    path = home / FOLDER / FILE
    path.write_text(path.read_text().replace(crash_guard.VERSION, "0.0.1"))
    assert CrashGuard(home).admit().crashes == 0


@pytest.mark.parametrize("error", [HomeBusy("busy", pid=1, since=0.0), KeyboardInterrupt(), SystemExit(143)])
def test_what_somebody_wanted_is_no_crash(home: Path, error: BaseException) -> None:
    """F9: a second gateway, Ctrl-C, a stop before it was ready."""
    with pytest.raises(type(error)), CrashGuard(home).watch():
        raise error
    assert CrashGuard(home).admit().crashes == 0


def test_a_setting_that_is_wrong_is_one(home: Path) -> None:
    with pytest.raises(ConfigProblem), CrashGuard(home).watch():
        raise ConfigProblem("The port is taken.")
    assert CrashGuard(home).admit().reason == "The port is taken."


def test_lives_with_the_same_number_are_told_apart(home: Path) -> None:
    """In a container each life is process 1."""
    for moment in (1.0, 2.0, 3.0):
        with pytest.raises(RuntimeError), CrashGuard(home, clock=lambda moment=moment: moment).watch():  # type: ignore[misc]
            raise RuntimeError("boom")
    assert len(read_starts(home / FOLDER / FILE, name_ground(home))) == 3


@pytest.mark.parametrize("text", ["", "{", "[]", '{"ground": 1}', '{"ground": "GROUND", "starts": [{}]}', "7"])
def test_a_damaged_file_tells_nothing(home: Path, text: str) -> None:
    """H8"""
    path = home / FOLDER / FILE
    path.parent.mkdir(parents=True)
    path.write_text(text.replace("GROUND", name_ground(home)))
    assert CrashGuard(home).admit().crashes == 0


def test_an_owned_home_is_left_alone(home: Path) -> None:
    home.mkdir()
    with pytest.raises(RuntimeError), CrashGuard(home).watch():
        raise RuntimeError("boom")
    with HomeLock(home):
        assert CrashGuard(home).admit().crashes == 0
    assert CrashGuard(home).admit().crashes == 1


def test_a_home_that_is_being_let_go_of_has_its_history(home: Path) -> None:
    """F9: a lock without a name is that of a process which ends."""
    home.mkdir()
    with pytest.raises(ValueError, match="no"), CrashGuard(home).watch():
        raise ValueError("no")
    with open(home / LOCK_FILE, "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        assert CrashGuard(home).admit().crashes == 1


def test_the_refusal_says_everything(tmp_path: Path) -> None:
    """H8"""
    verdict = judge([crash(1.0, "ValueError: no such thing") for _ in range(5)], 2.0)
    text = write_refusal(verdict, tmp_path / "crash-1.txt")
    for part in ("5 times", "ValueError: no such thing", "crash-1.txt", "--anyway", "is kept"):
        assert part in text


# --- the command


@pytest.mark.slow
def test_five_failures_and_it_is_not_started_any_more(home: Path) -> None:
    """F9: the store is in the way; the reason is told, and an edit lets it start again."""
    home.mkdir()
    (home / STORE_FILE).mkdir()
    for number in range(2):
        done = subprocess.run(COMMAND, capture_output=True, text=True, timeout=60)
        assert done.returncode not in (0, REFUSED), done.stderr
        assert ("lately" in done.stderr) == (number > 0), done.stderr
    for _ in range(MOST_CRASHES - 2):  # without the pauses, which grow
        with pytest.raises(ConfigProblem), CrashGuard(home).watch():
            raise ConfigProblem(f"The store {home / STORE_FILE} is in the way.")
    refused = subprocess.run(COMMAND, capture_output=True, text=True, timeout=60)
    assert refused.returncode == REFUSED
    assert "is not started again" in refused.stderr
    assert str(STORE_FILE) in refused.stderr
    (home / STORE_FILE).rmdir()
    (home / "config.yaml").write_text("web: {enabled: false}\n")
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert "runs" in process.stdout.readline()
        process.terminate()
        assert process.wait(60) == 0
    assert read_starts(home / FOLDER / FILE, name_ground(home)) == []


@pytest.mark.slow
def test_told_to_end_before_it_is_ready(home: Path) -> None:
    """F9: a service manager that stops a start is no crash."""
    home.mkdir()
    (home / "config.yaml").write_text("web: {enabled: false}\n")
    with subprocess.Popen(COMMAND, stdout=subprocess.PIPE, text=True) as process:
        path = home / FOLDER / FILE
        while not path.exists() or not read_starts(path, name_ground(home)):
            assert process.poll() is None
        os.kill(process.pid, signal.SIGTERM)
        process.wait(60)
    assert CrashGuard(home).admit().crashes == 0
