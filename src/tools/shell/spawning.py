"""Starts commands through the keeper process, and keeps their output in bounded files.

The keeper is started with the first command; when Hermes ends, in whatever way, it ends everything it started.
"""

import errno
import fcntl
import json
import logging
import os
import queue
import select
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
import termios
import threading
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any

from hermes_base.errors import ToolFailure

log = logging.getLogger(__name__)

PROGRAM = Path(__file__).with_name("keeper.py")
ROWS, COLUMNS = 40, 120  # of a terminal that a command is given
HEAD_BYTES = 128 * 1024
TAIL_BYTES = 1024 * 1024
READ_BYTES = 65536
GRACE_SECONDS = 2.0
END_SECONDS = 10.0  # grace, then SIGKILL until nothing is left; longer only for a process the kernel cannot end
POLL_SECONDS = 0.5
LOST_EXIT_CODE = 137  # the keeper is gone, and its guards have killed what it kept


class Spool:
    """Output in an unnamed file: beginning and end are kept, the middle gives way; offsets count from the start."""

    def __init__(self, head: int = HEAD_BYTES, tail: int = TAIL_BYTES) -> None:
        self._head, self._tail = head, tail
        self._lock = threading.Lock()
        self._file = tempfile.TemporaryFile(prefix="hermes-output-")  # noqa: SIM115 - lives as long as this
        weakref.finalize(self, self._file.close)  # whoever lets go of it without a word leaves nothing open
        self.total = 0

    def write(self, data: bytes) -> None:
        with self._lock:
            if self._file.closed:
                return  # its owner has dropped it; what still runs may go on talking to nobody
            for place, start, end in self._spans(self.total, self.total + len(data)):
                os.pwrite(self._file.fileno(), data[start - self.total : end - self.total], place)
            self.total += len(data)

    def read(self, start: int, limit: int) -> tuple[int, bytes]:
        """What is kept from `start` on, and where it really begins, which is later if that part gave way."""
        with self._lock:
            if self._file.closed:
                return self.total, b""
            start = max(0, min(start, self.total))
            if start >= self._head:
                start = max(start, self.total - self._tail)
            end = min(start + limit, self.total)
            if start < self._head < self.total - self._tail:
                end = min(end, self._head)  # what comes next is not its neighbour
            return start, b"".join(
                os.pread(self._file.fileno(), last - first, place) for place, first, last in self._spans(start, end)
            )

    def close(self) -> None:
        with self._lock:
            self._file.close()

    def _spans(self, start: int, end: int) -> list[tuple[int, int, int]]:
        """Where a stretch of output lies in the file: (place, first, last), the tail being a ring behind the head."""
        spans = []
        while start < end:
            if start < self._head:
                place, size = start, self._head - start
            else:
                turn = (start - self._head) % self._tail
                place, size = self._head + turn, self._tail - turn
            last = min(end, start + size)
            spans.append((place, start, last))
            start = last
        return spans


@dataclass(frozen=True, slots=True)
class Order:
    """A program to start: what, where, with which variables."""

    argv: Sequence[str]
    folder: str
    env: Mapping[str, str]
    pty: bool = False
    place: tuple[int, int] | None = None  # the folder by device and inode: another one under its name is refused
    arguments: Sequence[str] = ()  # for a program that reads more of them from ARGUMENTS_FD of the keeper
    joins: bool = False  # it runs in a network that is given along, and without one it does not start


class Running:
    """One started command: its output, its input, and its end."""

    def __init__(self, id: int, output: int, stdin: int | None, end: Callable[[int, float], None]) -> None:
        self.id = id
        self.pid = 0  # of its guard: the root of everything that the command starts
        self.exit_code: int | None = None
        self.ended = threading.Event()
        self.spool = Spool()
        self._output, self._stdin = output, stdin
        self._end = end
        self._stdin_lock = threading.Lock()

    def pump(self, seconds: float | None = None) -> bool:
        """Move output into the spool until the command has ended; False when the time is over before."""
        deadline = None if seconds is None else time.monotonic() + seconds
        poll = select.poll()
        poll.register(self._output, select.POLLIN)
        while True:
            left = POLL_SECONDS if deadline is None else min(POLL_SECONDS, deadline - time.monotonic())
            if left <= 0:
                return False
            had_ended = self.ended.is_set()
            if poll.poll(left * 1000):
                if not self._move():
                    return self.ended.wait(None if deadline is None else max(0.0, deadline - time.monotonic()))
            elif had_ended:
                return True  # somebody outside of its tree holds the other end open

    def finish(self) -> None:
        """Let go of what it takes to talk to the command."""
        self.close_stdin()
        if self._output >= 0:
            os.close(self._output)

    def take_ends(self) -> tuple[int, int]:
        """Hand input and output over to somebody who writes, reads and closes them; nothing is kept of the output."""
        with self._stdin_lock:
            if self._stdin is None:
                raise ToolFailure("This process takes no input any more.")
            ends = self._stdin, self._output
            self._stdin, self._output = None, -1
        self.spool.close()
        return ends

    def end(self, grace: float = GRACE_SECONDS) -> None:
        """Order the whole tree to end; does not wait for it."""
        if not self.ended.is_set():
            self._end(self.id, grace)

    def write(self, data: bytes, seconds: float = 5.0) -> int:
        """Send input; how much of it was taken in time."""
        with self._stdin_lock:
            if self._stdin is None or self.ended.is_set():
                raise ToolFailure("This process takes no input any more.")
            deadline, written = time.monotonic() + seconds, 0
            poll = select.poll()
            poll.register(self._stdin, select.POLLOUT)
            while written < len(data) and (left := deadline - time.monotonic()) > 0:
                if poll.poll(left * 1000):
                    try:
                        written += os.write(self._stdin, data[written : written + 4096])
                    except BlockingIOError:
                        continue
                    except BrokenPipeError as problem:
                        raise ToolFailure("The process has closed its input.") from problem
            return written

    def close_stdin(self) -> None:
        with self._stdin_lock:
            if self._stdin is not None and self._stdin != self._output:
                os.close(self._stdin)
            self._stdin = None

    def _move(self) -> bool:
        try:
            data = os.read(self._output, READ_BYTES)
        except OSError as problem:
            if problem.errno != errno.EIO:  # this is how the end of a pty looks
                raise
            return False
        self.spool.write(data)
        return bool(data)


class KeeperClient:
    """Hermes's side of the keeper: one keeper at a time, started when it is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids = count(1)
        self._link: _Link | None = None
        self._scratch: Path | None = None

    @property
    def pid(self) -> int | None:
        link = self._link
        return link.process.pid if link is not None and not link.lost else None

    def scratch(self) -> Path:
        """A folder for what commands leave in passing; the keeper removes it in the end."""
        with self._lock:
            if self._scratch is None:
                self._scratch = Path(tempfile.mkdtemp(prefix="hermes-terminal-"))
            return self._scratch

    def start(
        self,
        order: Order,
        *,
        with_stdin: bool = False,
        line: socket.socket | None = None,
        given: Mapping[str, int] | None = None,
    ) -> Running:
        """Start a program in a session of its own, under the keeper. With `line`, the end of a socket, that is all its
        input and output: whoever has the other end talks to it, and there is no output to pump. What is `given` along,
        by the names that the keeper knows, is for its guard: the program itself gets none of it."""
        scratch = self.scratch()
        with self._lock:
            if self._link is not None and self._link.lost:
                log.warning(
                    "keeper process %d is gone, and what it kept with it; starting a new one", self._link.process.pid
                )
                self._link.close()
                self._link = None
            if self._link is None:
                self._link = _Link(scratch)
            link = self._link
        theirs, ours = _open_ends(order.pty, with_stdin) if line is None else _share_line(line)
        try:
            running = Running(next(self._ids), ours[1], ours[0], link.end)
            link.start(running, order, theirs, given or {})
        except OSError as problem:
            for descriptor in {fd for fd in ours if fd is not None}:
                os.close(descriptor)
            raise ToolFailure(f"The command could not be started: {problem}") from problem
        finally:
            for descriptor in set(theirs):
                os.close(descriptor)
        return running

    def close(self) -> None:
        """End everything that runs, and the keeper. The next command starts a new one."""
        with self._lock:
            link, self._link = self._link, None
            scratch, self._scratch = self._scratch, None
        if link is not None:
            link.close()
        if scratch is not None:
            shutil.rmtree(scratch, ignore_errors=True)  # no keeper was there to do it, or it was killed


class _Link:
    """The connection to one keeper process."""

    def __init__(self, scratch: Path) -> None:
        self._lock = threading.Lock()
        self._send_lock = threading.Lock()  # apart from the other, which reading a report takes while a send may wait
        self._running: dict[int, Running] = {}
        self.lost = False
        self._sock, theirs = socket.socketpair()
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-I", "-S", "-X", "utf8", str(PROGRAM), str(theirs.fileno()), str(scratch)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                start_new_session=True,
                cwd="/",
                env={"PATH": os.defpath},
            )
        self._ends: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()  # orders to end something
        self._reader = threading.Thread(target=self._read_reports, name="keeper-reports", daemon=True)
        self._reader.start()
        threading.Thread(target=self._send_ends, name="keeper-ends", daemon=True).start()

    def start(self, running: Running, order: Order, ends: Sequence[int], given: Mapping[str, int]) -> None:
        message = {
            "do": "start",
            "id": running.id,
            "argv": list(order.argv),
            "cwd": order.folder,
            "env": dict(order.env),
            "pty": order.pty,
            "arguments": list(order.arguments),
            "place": list(order.place) if order.place else None,
            "joins": order.joins,
            "given": list(given),
        }
        with self._lock:
            if self.lost:
                raise ConnectionError("the keeper process has just ended")
            self._running[running.id] = running
        try:
            self._send(message, [*ends, *given.values()])
        except OSError:
            with self._lock:
                self._running.pop(running.id, None)
            raise

    def end(self, id: int, grace: float) -> None:
        """Waits for nobody, so it may be called on the event loop: a keeper that stands still takes no orders."""
        self._ends.put({"do": "end", "id": id, "grace": grace})

    def close(self) -> None:
        try:
            self._sock.shutdown(socket.SHUT_WR)
        except OSError as problem:
            log.debug("the keeper is gone already: %s", problem)
        self._reader.join(END_SECONDS)
        try:
            self.process.wait(END_SECONDS)
        except subprocess.TimeoutExpired:
            log.warning("the keeper process %d is still ending what it kept", self.process.pid)
        self._sock.close()

    def _send(self, message: Mapping[str, Any], fds: list[int]) -> None:
        data = json.dumps(message).encode() + b"\n"
        with self._send_lock:
            sent = socket.send_fds(self._sock, [data], fds) if fds else 0
            self._sock.sendall(data[sent:])

    def _send_ends(self) -> None:
        try:
            while (order := self._ends.get()) is not None:
                self._send(order, [])
        except OSError as problem:
            log.debug("the keeper is gone, and what it kept with it: %s", problem)

    def _read_reports(self) -> None:
        with self._sock.makefile("rb") as lines:
            try:
                for line in lines:
                    self._note(json.loads(line))
            except OSError as problem:
                log.debug("the connection to the keeper broke: %s", problem)
        with self._lock:
            self.lost = True
            orphaned = list(self._running.values())
            self._running.clear()
        self._ends.put(None)
        for running in orphaned:
            _mark_ended(running, LOST_EXIT_CODE)

    def _note(self, report: Mapping[str, Any]) -> None:
        with self._lock:
            running = self._running.pop(report["id"], None) if "exit" in report else self._running.get(report["id"])
        if running is None:
            return
        running.pid = report.get("pid", running.pid)
        if "exit" in report:
            _mark_ended(running, report["exit"])


def _mark_ended(running: Running, code: int) -> None:
    running.exit_code = code
    running.ended.set()


def _share_line(line: socket.socket) -> tuple[tuple[int, int], tuple[int | None, int]]:
    """As `_open_ends`; nothing is left for us to read."""
    return (os.dup(line.fileno()), os.dup(line.fileno())), (None, os.open(os.devnull, os.O_RDONLY))


def _open_ends(pty: bool, with_stdin: bool) -> tuple[tuple[int, int], tuple[int | None, int]]:
    """(their input, their output), (our end of the input, our end of the output)"""
    if pty:
        ours, theirs = os.openpty()
        fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.set_blocking(ours, False)
        return (theirs, theirs), (ours, ours)
    read_output, write_output = os.pipe()
    if not with_stdin:
        return (os.open(os.devnull, os.O_RDONLY), write_output), (None, read_output)
    read_input, write_input = os.pipe()
    os.set_blocking(write_input, False)
    return (read_input, write_output), (write_input, read_output)


keeper = KeeperClient()
