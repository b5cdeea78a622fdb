"""The keeper: whatever becomes of Hermes, nothing that it started lives on, and nothing is left in it (C12, F1)."""

import json
import logging
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Hands, daemon, find_marked, new_mark
from waiting import wait_until

from hermes_base.turn.cancel import CancelToken
from tools.process_registry import process_registry
from tools.shell.network_client import network_client
from tools.shell.sandbox import BACKENDS, is_bubblewrap_usable
from tools.shell.spawning import Order, Running, Spool, keeper
from tools.terminal_tool import cleanup_vm

TASK = "keeper"

#: A Hermes of its own: a command in the foreground, one in the background, and a daemon below each.
CHILD = """
import json, sys, threading, time
from pathlib import Path
from commands import Hands
from tools.shell.spawning import keeper
from hermes_base.turn.tool_context import ToolContext
from tools.shell.sandbox import Walls
from tools.shell.shells import ShellStart, find_state, launch, shell_of
folder, backend, level, command = sys.argv[1:]
hands = Hands("child", Path(folder), backend)
hands.run("true")
if level == "look":  # as if it had been judged to only look
    context = hands.context()
    shell = shell_of(context)
    for _ in range(2):
        start = ShellStart(command, find_state(shell, context), Walls.LOOK)
        running = launch(start, shell, context, pty=False).running
        threading.Thread(target=running.pump, daemon=True).start()
else:
    threading.Thread(target=hands.run, args=(command, {"level": level}), daemon=True).start()
    hands.process("start", command=command, level=level)
print(json.dumps({"keeper": keeper.pid, "scratch": str(keeper.scratch())}), flush=True)
time.sleep(300)
"""


@pytest.fixture(params=list(BACKENDS))
def backend(request: pytest.FixtureRequest) -> str:
    if request.param == "bubblewrap" and not is_bubblewrap_usable():
        pytest.skip("bwrap does not run on this machine")
    return str(request.param)


@pytest.fixture
def hands(tmp_path: Path) -> Iterator[Hands]:
    yield Hands(TASK, tmp_path, "local")
    process_registry.kill_all(task_id=TASK)
    cleanup_vm(TASK)


def is_there(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except OSError:
        return False


def start_child(folder: Path, backend: str, level: str, command: str) -> subprocess.Popen[bytes]:
    support = Path(__file__).parents[1] / "support"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(support), *filter(None, sys.path)])}
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(folder), backend, level, command],
        env=env,
        stdout=subprocess.PIPE,
        start_new_session=True,
    )


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
@pytest.mark.parametrize(
    ("backend", "level"),
    [("local", "work"), *(("bubblewrap", level) for level in ("look", "work", "setup", "outside"))],
)
def test_nothing_survives_hermes(backend: str, level: str, tmp_path: Path, number: signal.Signals) -> None:
    """C12: killed with its whole group, at every level, while commands, background processes and daemons run."""
    if backend == "bubblewrap" and not is_bubblewrap_usable():
        pytest.skip("bwrap does not run on this machine")
    mark = new_mark()
    command = f"trap '' TERM; {daemon(mark)}; bash -c 'sleep 300; true' {mark} & sleep 300; sleep 300"
    child = start_child(tmp_path, backend, level, command)
    assert child.stdout is not None
    with child.stdout:
        facts = json.loads(child.stdout.readline())
        wait_until(lambda: len(find_marked(mark)) >= 4)
        os.killpg(child.pid, number)
        child.wait(20)
    wait_until(lambda: find_marked(mark) == [] and not is_there(facts["keeper"]), 10)
    assert not Path(facts["scratch"]).exists()


def test_the_keeper_does_not_mind_signals_meant_for_others(hands: Hands) -> None:
    """C12"""
    hands.run("true")
    pid = keeper.pid
    assert pid is not None
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        os.kill(pid, number)
    assert hands.run("echo still here")["output"] == "still here\n"
    assert keeper.pid == pid


def test_when_the_keeper_is_killed_its_commands_end_and_a_new_one_is_started(
    hands: Hands, caplog: pytest.LogCaptureFixture
) -> None:
    """C12"""
    mark = new_mark()
    id = hands.process("start", command=f"{daemon(mark)}; sleep 300")["id"]
    wait_until(lambda: len(find_marked(mark)) >= 1)
    old = keeper.pid
    assert old is not None
    os.kill(old, signal.SIGKILL)
    assert hands.process("wait", id=id, timeout=20)["state"] == "ended"
    wait_until(lambda: find_marked(mark) == [])
    with caplog.at_level(logging.WARNING):
        assert hands.run("echo again")["output"] == "again\n"
    assert f"keeper process {old} is gone" in caplog.text
    assert keeper.pid not in (None, old)


def test_orphans_of_a_killed_guard_end(hands: Hands) -> None:
    """C12: somebody kills the process between the keeper and the command."""
    mark = new_mark()
    id = hands.process("start", command=f"{daemon(mark)}; sleep 300")["id"]
    wait_until(lambda: len(find_marked(mark)) >= 1)
    os.kill(process_registry.background(TASK)[0].running.pid, signal.SIGKILL)
    assert hands.process("wait", id=id, timeout=20)["exit_code"] == 137
    wait_until(lambda: find_marked(mark) == [])


def test_closing_ends_everything_and_a_command_after_it_still_runs(hands: Hands) -> None:
    mark = new_mark()
    hands.process("start", command=f"{daemon(mark)}; sleep 300")
    wait_until(lambda: len(find_marked(mark)) >= 1)
    pid, scratch = keeper.pid, keeper.scratch()
    process_registry.kill_all()
    keeper.close()
    assert find_marked(mark) == []
    assert pid is not None
    assert not is_there(pid)
    assert not scratch.exists()
    assert hands.run("echo on")["output"] == "on\n"


def count_descriptors(pid: int | str) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def count_children(pid: int) -> int:
    return len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split())


@pytest.mark.slow
def test_many_commands_leave_nothing_behind(hands: Hands, backend: str, tmp_path: Path) -> None:
    """F1: descriptors, threads and processes return to where they were, in Hermes and in the keeper; behind walls look
    and unasked work take turns, with something to hide and to watch."""
    run_many(hands, backend, tmp_path, 200)


@pytest.mark.soak
def test_a_thousand_commands_leave_nothing_behind(hands: Hands, backend: str, tmp_path: Path) -> None:
    """F1: the same with more."""
    run_many(hands, backend, tmp_path, 1_000)


def run_many(hands: Hands, backend: str, tmp_path: Path, commands: int) -> None:
    hands.facts["settings"] = {"terminal": {"backend": backend, "timeout": 60}, "approvals": {"mode": "auto"}}
    (tmp_path / ".env").write_text("x")
    hands.run("true")
    hands.process("wait", id=hands.process("start", command="true")["id"], timeout=20)
    process_registry.kill_all(task_id=TASK)
    network_client.close()  # the proxy, and a network for each task, are kept on purpose
    pid = keeper.pid
    assert pid is not None

    def measure() -> tuple[int, int, int, int, int]:
        return (
            count_descriptors("self"),
            count_descriptors(pid),
            threading.active_count(),
            count_children(pid),
            count_children(os.getpid()),
        )

    wait_until(lambda: count_children(pid) == 0 and not any("process-" in t.name for t in threading.enumerate()))
    before = measure()
    for turn in range(commands):
        if turn % 10 == 0:
            hands.process("start", command="true")
        hands.run(":", {"pty": turn % 7 == 0, **({"level": "work"} if turn % 2 else {})})
    process_registry.kill_all(task_id=TASK)
    network_client.close()
    # Less is fine: what an earlier test left to end by itself may end meanwhile.
    wait_until(lambda: all(now <= then for now, then in zip(measure(), before, strict=True)))
    assert keeper.pid == pid


def test_a_program_that_cannot_be_run_says_so(hands: Hands) -> None:
    result = hands.run("/no/such/program")
    assert result["exit_code"] == 127
    assert "No such file" in result["output"]
    result = hands.run(": " + "x" * 200_000)
    assert result["exit_code"] == 127
    assert "Argument list too long" in result["output"]


@pytest.mark.parametrize("seed", range(20))
def test_a_spool_keeps_its_beginning_and_its_end(seed: int) -> None:
    """What is read is what was written, at its offset, whatever the sizes."""
    chance = random.Random(seed)
    spool, written = Spool(head=10, tail=16), b""
    for _ in range(chance.randrange(12)):
        data = chance.randbytes(chance.randrange(40))
        spool.write(data)
        written += data
    assert spool.total == len(written)
    for offset in range(len(written) + 2):
        start, data = spool.read(offset, 12)
        assert data == written[start : start + len(data)]
        assert start == offset or start >= min(10, len(written))
        assert data or start == len(written)
    assert spool.read(len(written) - 16, 16)[1][-6:] == written[-6:]
    spool.close()


@pytest.mark.timeout(60)
def test_who_tells_a_command_to_end_waits_for_nobody(tmp_path: Path) -> None:
    """F5: a stop is told on the event loop. The keeper stands still, and a large order waits for it."""
    cancel, large = CancelToken(), Order(["true"], str(tmp_path), {}, arguments=["x" * 8_000_000])
    running = keeper.start(Order(["sleep", "600"], str(tmp_path), {"PATH": os.defpath}))
    cancel.on_cancel(running.end)
    wait_until(lambda: bool(running.pid))
    pid, link = keeper.pid, keeper._link
    assert pid is not None
    assert link is not None
    started: list[Running] = []
    starting = threading.Thread(target=lambda: started.append(keeper.start(large)))
    stopping = threading.Thread(target=cancel.cancel, daemon=True)
    os.kill(pid, signal.SIGSTOP)
    try:
        starting.start()
        wait_until(link._send_lock.locked)
        stopping.start()
        stopping.join(20)
        assert not stopping.is_alive()
        assert starting.is_alive()
    finally:
        os.kill(pid, signal.SIGCONT)
        starting.join()
    for each in (running, *started):
        assert each.pump(20)
        each.finish()
        each.spool.close()
