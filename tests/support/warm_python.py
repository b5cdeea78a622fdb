"""Runs Python scripts of ours as processes of their own that need not import anything: they are forked by one process
that has done it already. Most of a gateway's first second goes into imports, and tests begin hundreds of lives.

Run as a program this is that process. It has no threads and reads scripts to run from its standard input, a socket.
"""

import atexit
import fcntl
import functools
import gc
import importlib
import json
import os
import runpy
import signal
import socket
import subprocess
import sys
import termios
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from readable import becomes_readable

#: What a gateway has imported when it has answered once, and what else is asked for often.
MODULES = (
    "hermes_cli.main",
    "hermes_cli.cmds.gateway.gateway_cmd",
    "gateway.app.hosted",
    "gateway.app.foreground",
    "gateway.platforms.telegram.adapter",  # the app of most tests with several gateways
    "hermes_state.sql.engines.postgres",
    "openai.resources.chat",
    "uvicorn.protocols.http.auto",
    "httpcore",
)
_LONGEST = 200_000  # bytes of one request; a datagram of a socket holds as many
PATIENCE = 120.0


class WarmProcess:
    """A script in a process and a session of its own: what is used of `subprocess.Popen`, with its standard output as a
    pipe. A terminal that it is given as its standard input is its own, as for a shell's foreground."""

    def __init__(
        self,
        command: Sequence[str],
        *,
        stderr: int,
        env: Mapping[str, str],
        stdin: int | None = None,
        stdout: int | None = None,
        folder: str | None = None,
        modules: Sequence[str] = (),
    ) -> None:
        """`modules`: what it imports, and few others do; the first who asks for them waits for it."""
        told, tells = os.pipe()
        read, write = os.pipe()
        wanted = {"command": [*command], "env": dict(env), "folder": folder or os.getcwd(), "modules": [*modules]}
        asked = json.dumps(wanted).encode()
        with open(os.devnull) as nothing:
            given = nothing.fileno() if stdin is None else stdin
            socket.send_fds(_find_parent(), [asked], [tells, given, write if stdout is None else stdout, stderr])
        os.close(tells)
        os.close(write)
        self.stdout = os.fdopen(read)
        self._told = os.fdopen(told)
        self.pid = int(self._told.readline())
        self._returncode: int | None = None

    def poll(self) -> int | None:
        """The exit code, once it has ended; a signal that ended it is negative."""
        return self._read_end(0)

    def wait(self, seconds: float = PATIENCE) -> int:
        code = self._read_end(seconds)
        if code is None:
            raise subprocess.TimeoutExpired(str(self.pid), seconds)
        return code

    def _read_end(self, seconds: float) -> int | None:
        if self._returncode is None and becomes_readable(self._told.fileno(), seconds):
            self._returncode = int(self._told.readline())
        return self._returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.stdout.close()
        self.wait()
        self._told.close()


def run_warm(
    command: Sequence[str], folder: str, given: bytes | None = None, env: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    """As `subprocess.run` does it, with pipes; without anything given there is nothing to read."""
    read, write = os.pipe() if given is not None else (None, None)
    told, tells = os.pipe()
    process = WarmProcess(command, stderr=tells, env=os.environ if env is None else env, stdin=read, folder=folder)
    for end in (read, tells):
        if end is not None:
            os.close(end)

    def feed() -> None:
        if write is not None:
            with suppress(BrokenPipeError), os.fdopen(write, "wb") as file:
                file.write(given or b"")

    with process, os.fdopen(told, "rb") as errors, ThreadPoolExecutor(2) as beside:
        beside.submit(feed)
        said = beside.submit(errors.read)
        out = process.stdout.buffer.read()
        return subprocess.CompletedProcess(command, process.wait(), out, said.result())


def run_text(
    command: Sequence[str], env: Mapping[str, str], given: str = "", folder: str = "."
) -> tuple[int, str, str]:
    """The exit code of a script, and what it said on its two streams."""
    done = run_warm(command, os.path.abspath(folder), given.encode(), env)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


@functools.cache
def _find_parent() -> socket.socket:
    """The way to the process that forks, which ends with this one."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        parent = subprocess.Popen([sys.executable, __file__], stdin=theirs)

    def end() -> None:
        ours.close()
        parent.wait(PATIENCE)

    atexit.register(end)
    return ours


# --- the process that forks


def serve(asked: socket.socket) -> None:
    """Fork for each request until nobody asks any more. Returns in a forked process, too, when its script has ended."""
    while True:
        request, files, _, _ = socket.recv_fds(asked, _LONGEST, 4)
        _bury_watchers()
        if not request:
            return
        wanted = json.loads(request)
        _import_all(wanted["modules"])
        if os.fork() == 0:
            asked.detach()  # its number is the standard input's
            _watch(wanted, files)
            return
        for file in files:
            os.close(file)


def _import_all(modules: Sequence[str]) -> None:
    if all(module in sys.modules for module in modules):
        return
    gc.disable()
    for module in modules:
        importlib.import_module(module)
    gc.freeze()  # what is never garbage is not looked through in each child, which would make it the child's own
    gc.enable()


def _bury_watchers() -> None:
    with suppress(ChildProcessError):
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass


def _watch(request: dict[str, Any], files: list[int]) -> None:
    """Run the script in a child, and tell its number and, when it has ended, its exit code."""
    tells, *streams = files
    child = os.fork()
    if child == 0:
        os.close(tells)
        _run(request, streams)
        return
    for file in (0, *streams):
        os.close(file)
    with os.fdopen(tells, "w") as told:
        print(child, file=told, flush=True)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), file=told)
    os._exit(0)


def _run(request: dict[str, Any], streams: list[int]) -> None:
    """Be the script."""
    os.setsid()
    for number, file in enumerate(streams):
        os.dup2(file, number)
        os.close(file)
    if os.isatty(0):
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    # New ones: those of the process that forks know what it could do with its own.
    sys.stdin = os.fdopen(0, closefd=False)
    sys.stdout = os.fdopen(1, "w", closefd=False)
    sys.stderr = os.fdopen(2, "w", buffering=1, errors="backslashreplace", closefd=False)
    os.environ.clear()
    os.environ.update(request["env"])
    os.chdir(request["folder"])
    sys.argv = request["command"]
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    _import_all(MODULES)
    with socket.socket(fileno=0) as way:
        serve(way)
