"""What ends a chat from outside (SIGTERM, a terminal that is closed), with real processes."""

import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gateway_process import GatewayProcess, read_store
from waiting import wait_until

from hermes_lab.server import LabServer

HERMES = [sys.executable, "-m", "hermes_cli.main"]
PATIENCE = 120
WORK = (
    '[[tool terminal {"command": "touch begun; sleep 60"}]][[then]]'
    '[[tool write_file {"path": "after.txt", "content": "late"}]][[then]][[say Done.]]'
)
Start = Callable[..., subprocess.Popen[bytes]]


@pytest.fixture
def folder(home: Path, lab: LabServer, tmp_path: Path) -> Path:
    """Where `hermes` is run; its home has settings."""
    home.mkdir()
    settings = {"model": {"base_url": lab.base_url, "default": "lab"}, "titles": {"enabled": False}}
    (home / "config.yaml").write_text(
        json.dumps({**settings, "web": {"enabled": False}, "approvals": {"mode": "auto"}})
    )
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    """Starts `hermes` with the signals as a shell leaves them."""
    started = []

    def start_one(*args: str, **given: object) -> subprocess.Popen[bytes]:
        streams = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **given}
        started.append(
            subprocess.Popen(
                [*HERMES, *args], cwd=folder, start_new_session=True, **{"preexec_fn": _take_signals, **streams}
            )
        )
        return started[-1]

    yield start_one
    for process in started:
        process.kill()
        process.communicate()


def _take_signals() -> None:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def wait_begun(folder: Path) -> None:
    wait_until(lambda: (folder / "begun").exists(), PATIENCE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_c4_a_question_ends_with_its_process(start: Start, folder: Path, home: Path, number: signal.Signals) -> None:
    """C4, C6: the turn is stopped and says so, and nobody goes on with it later."""
    asked = start("-q", WORK)
    wait_begun(folder)
    asked.send_signal(number)
    out, err = asked.communicate(timeout=PATIENCE)
    assert asked.returncode == 128 + number, err
    assert out == b""
    assert b"Interrupted by you." in err
    assert read_store(home, "select count(*) from inbox where done_epoch is null") == [(0,)]
    after = start("-q", "Name one colour.")
    assert b"You said: Name one colour." in after.communicate(timeout=PATIENCE)[0]
    assert not (folder / "after.txt").exists(), "the next call went on with the stopped turn"


def test_b8_a_question_to_a_gateway_is_stopped_there(start: Start, folder: Path, home: Path, lab: LabServer) -> None:
    settings = {"titles": {"enabled": False}, "web": {"enabled": False}}
    with GatewayProcess(home, lab.base_url, **settings) as gateway:
        gateway.start()
        asked = start("-q", WORK)
        wait_begun(folder)
        asked.terminate()
        assert asked.communicate(timeout=PATIENCE)[1].endswith(b"Interrupted by you.\n")
        assert asked.returncode == 128 + signal.SIGTERM
        assert read_store(home, "select count(*) from inbox where done_epoch is null") == [(0,)]
        assert not (folder / "after.txt").exists()


def test_a_question_whose_terminal_is_closed_is_stopped(start: Start, folder: Path, home: Path) -> None:
    """C4: also when its words cannot be written any more."""
    master, slave = pty.openpty()
    asked = start("-q", WORK, stdin=slave, stdout=slave, stderr=slave)
    os.close(slave)
    wait_begun(folder)
    os.close(master)
    asked.send_signal(signal.SIGHUP)  # the kernel says it to the leader of a session with a terminal
    assert asked.wait(PATIENCE) != 0
    assert not list((home / "logs").glob("crash-*"))
    assert read_store(home, "select count(*) from inbox where done_epoch is null") == [(0,)]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_c10_a_chat_that_is_told_to_end_leaves_its_turn_to_the_gateway(
    start: Start, folder: Path, home: Path, lab: LabServer, number: signal.Signals
) -> None:
    """As with /quit: the turn goes on where it runs."""
    settings = {"titles": {"enabled": False}, "web": {"enabled": False}}
    with GatewayProcess(home, lab.base_url, **settings) as gateway:
        gateway.start()
        work = WORK.replace("sleep 60", "while [ ! -e go ]; do sleep 0.1; done")
        chat = start(stdin=subprocess.PIPE)
        assert chat.stdin is not None
        chat.stdin.write(f"{work}\n".encode())
        chat.stdin.flush()
        wait_begun(folder)
        chat.send_signal(number)
        assert chat.wait(PATIENCE) == 128 + number
        (folder / "go").touch()
        wait_until((folder / "after.txt").exists, PATIENCE)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_chat_in_lines_that_waits_leaves_in_order(start: Start, home: Path, number: signal.Signals) -> None:
    """A chat that hosts gives the home free, as with the end of its input."""
    chat = start(stdin=subprocess.PIPE)
    assert chat.stdin is not None
    assert chat.stdout is not None
    chat.stdin.write(b"Name one colour.\n")
    chat.stdin.flush()
    said = next(line for line in chat.stdout if b"You said" in line)
    assert b"Name one colour." in said
    chat.send_signal(number)
    assert chat.wait(PATIENCE) == 128 + number
    assert (home / "hermes.lock").read_bytes() == b"", "the owner did not sign off"


def test_nohup_is_respected(start: Start, folder: Path) -> None:
    asked = start(
        "-q",
        WORK.replace("sleep 60", "while [ ! -e go ]; do sleep 0.1; done"),
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
    )
    wait_begun(folder)
    asked.send_signal(signal.SIGHUP)
    (folder / "go").touch()
    assert asked.communicate(timeout=PATIENCE)[0] == b"Done.\n"
    assert asked.returncode == 0
