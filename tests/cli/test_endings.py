"""What comes to a chat from outside, with real processes: signals, closed terminals and streams, a deleted folder."""

import json
import os
import pty
import shlex
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from gateway_process import HERMES as HERMES_SCRIPT
from gateway_process import GatewayProcess, read_store
from waiting import wait_until
from warm_python import run_warm

from hermes_cli.chat.local_client import connect
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
    after = run_warm([HERMES_SCRIPT, "-q", "Name one colour."], str(folder))
    assert b"You said: Name one colour." in after.stdout
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


# --- where it is started, and with what


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_closed_streams_do_no_harm(folder: Path, home: Path, closed: str) -> None:
    """H8: what is written to them goes nowhere, and what is written elsewhere comes."""
    shell = f"exec {shlex.join([*HERMES, '-q', 'Name one colour.'])} {closed}"
    asked = subprocess.run(["sh", "-c", shell], cwd=folder, capture_output=True, timeout=PATIENCE)
    assert (asked.returncode, asked.stderr) == (0, b"")
    said = b"" if ">&-" in closed.split() else b"You said: Name one colour."
    assert asked.stdout.partition(b"\n")[0] == said
    assert not list((home / "logs").glob("crash-*"))
    lines = subprocess.run(["sh", "-c", f"echo hello | {shlex.join(HERMES)} {closed}"], cwd=folder, timeout=PATIENCE)
    assert lines.returncode == 0


def test_h8_a_deleted_folder_is_told(folder: Path) -> None:
    shell = f"rmdir ../work && exec {shlex.quote(HERMES_SCRIPT)} -q hello"
    asked = subprocess.run(["sh", "-c", shell], cwd=folder, capture_output=True, timeout=PATIENCE)
    assert asked.returncode == 1
    assert asked.stderr.startswith(b"hermes: The folder that you are in is gone")


def test_h8_who_wants_a_page_or_a_gateway_is_told_that_a_chat_hosts(start: Start, home: Path) -> None:
    chat = start(stdin=subprocess.PIPE)
    assert chat.stdin is not None
    assert chat.stdout is not None
    chat.stdin.write(b"hello\n")
    chat.stdin.flush()
    assert any(b"You said: hello" in line for line in chat.stdout)
    for command in (["web"], ["gateway", "start"]):
        done = run_warm([HERMES_SCRIPT, *command], os.getcwd())
        told = done.stderr.decode()
        assert done.returncode == 1
        assert "A chat in a terminal" in told
        assert str(chat.pid) in told
        assert "Close that chat with /quit" in told
        assert "web.enabled" not in told
        assert "restart" not in told


def test_a_tool_that_was_stopped_does_not_look_done(start: Start, folder: Path) -> None:
    """C6: shown where progress is shown."""
    chat = start(stdin=subprocess.PIPE)
    assert chat.stdin is not None
    chat.stdin.write(f"{WORK}\n".encode())
    chat.stdin.flush()
    wait_begun(folder)
    chat.send_signal(signal.SIGINT)
    told = chat.communicate(timeout=PATIENCE)[1].decode()
    assert "✗ terminal touch begun; sleep 60" in told
    assert "✓" not in told


def test_a_turn_that_somebody_else_stopped_is_exit_code_1(start: Start, folder: Path, home: Path) -> None:
    """C6: nobody pressed Ctrl-C here."""
    asked = start("-q", WORK)
    wait_begun(folder)
    conversation = read_store(home, "select conversation from inbox")[0][0]
    with closing(connect(home)) as connection:
        assert connection.post("/web/stop", {"conversation": conversation}) == {"stopped": True}
        _, err = asked.communicate(timeout=PATIENCE)
    assert asked.returncode == 1
    assert b"Interrupted by you." not in err
