"""Real servers of chat apps on loopback: installed by `scripts/setup peers`, started and ended by the tests."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
_PATIENCE = 60.0  # seconds until it is up: it ends only what hangs


def need_peer(*programs: str | Path) -> None:
    """Skip where one of these is not installed; with HERMES_TESTS_NEED_PEERS set that is a failure."""
    for program in programs:
        if shutil.which(program, path=os.environ["PATH"] + ":/usr/sbin:/usr/bin") is None:
            said = f"{program} is not installed: scripts/setup peers"
            assert "HERMES_TESTS_NEED_PEERS" not in os.environ, said
            pytest.skip(said)


def answers(port: int) -> bool:
    """Whether somebody listens on the port."""
    with socket.socket() as line:
        line.settimeout(1)
        return line.connect_ex(("127.0.0.1", port)) == 0


class PeerProcess:
    """A server's process. What it writes stands in `log`, and is shown when it does not come up."""

    def __init__(self, command: Sequence[str | Path], folder: Path, environ: Mapping[str, str] | None = None) -> None:
        self.command = command
        self.folder = folder
        self.log = folder / "log"
        self._environ = {**os.environ, **(environ or {})}
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, is_up: Callable[[], bool]) -> None:
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, cwd=self.folder, env=self._environ, stdin=subprocess.DEVNULL, stdout=log, stderr=log
            )
        end = time.monotonic() + _PATIENCE
        while not is_up():
            failed = self._process.poll() is not None or time.monotonic() > end
            assert not failed, f"it is not up: {self.log.read_text('utf-8', 'replace')[-3000:]}"
            time.sleep(0.05)

    def stop(self, kill: bool = False) -> None:
        process, self._process = self._process, None
        if process is None:
            return
        process.kill() if kill else process.terminate()
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
