"""Approvals in the real chat on a real pseudo-terminal: what is shown, and every way to answer (G4)."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from gateway_process import HERMES
from readable import becomes_readable

from hermes_base.store_place import find_place
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store

CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[=>78]")
GREEN, RED = "\x1b[32m", "\x1b[31m"
PATIENCE = 60.0


class Chat:
    """`hermes` in a terminal: type, and wait for what appears."""

    def __init__(self, home: Path, folder: Path) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        environment = {**os.environ, "HERMES_HOME": str(home), "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            [HERMES], stdin=slave, stdout=slave, stderr=slave, env=environment, cwd=folder, start_new_session=True
        )
        os.close(slave)
        self.raw = ""
        self._position = 0

    @property
    def shown(self) -> str:
        return CODES.sub("", self.raw)

    def type(self, text: str) -> None:
        os.write(self._master, f"{text}\r".encode())

    def wait_for(self, text: str) -> None:
        """Wait until this appears after what was waited for before."""
        self.wait_until(lambda: self.shown.find(text, self._position) >= 0, text)
        self._position = self.shown.find(text, self._position) + len(text)

    def wait_until(self, is_true: Callable[[], bool], what: str) -> None:
        deadline = time.monotonic() + PATIENCE
        while not is_true():
            assert time.monotonic() < deadline, f"{what!r} never came: {self.shown[-2000:]!r}"
            if becomes_readable(self._master, 0.1):
                self.raw += os.read(self._master, 65536).decode(errors="replace")

    def close(self) -> None:
        self.process.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            if becomes_readable(self._master, 0.1):
                try:
                    os.read(self._master, 65536)
                except OSError:
                    break
        self.process.wait(PATIENCE)
        os.close(self._master)


@pytest.fixture
def work(tmp_path: Path) -> Path:
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def chat(home: Path, lab: LabServer, work: Path) -> Iterator[Chat]:
    home.mkdir(exist_ok=True)
    config = {
        "model": {"base_url": lab.base_url, "default": "lab"},
        "approvals": {"mode": "ask"},
        "terminal": {"network": False},
    }
    (home / "config.yaml").write_text(json.dumps(config))
    opened = Chat(home, work)
    try:
        opened.wait_for("›")
        yield opened
    finally:
        opened.close()


def touch(name: str) -> str:
    return f'[[tool terminal {{"command": "touch {name}"}}]]'


def wait_told(chat: Chat, lab: LabServer, text: str) -> None:
    """Until the model was told this."""
    chat.wait_until(lambda: bool(lab.requests) and text in lab.requests[-1].body.decode(), text)
    chat.wait_for("terminal returned")


@pytest.mark.slow
def test_the_answers_in_a_terminal(chat: Chat, home: Path, work: Path, lab: LabServer) -> None:
    """G4: the choices are numbered; what is no answer is explained; a no takes a word; always is asked once."""
    chat.type(touch("a"))
    for line in ("touch a", "1. Yes, once", "2. No", "3. Yes, in this conversation", "4. Always", "no: WORDS"):
        chat.wait_for(line)
    chat.wait_for("answer ›")
    chat.type("perhaps")
    chat.wait_for("Answer with one of: yes, no, conversation, always")
    chat.type("no: take b instead")
    wait_told(chat, lab, "not approved: take b instead")
    assert not (work / "a").exists()
    chat.type(touch("b"))
    chat.wait_for("4. Always")
    chat.wait_for("answer ›")
    chat.type("always")
    chat.wait_for("terminal returned")
    (work / "b").unlink()
    chat.type(touch("b"))
    wait_told(chat, lab, "allowed by a rule of")
    assert (work / "b").exists()
    with closing(Store.open_readonly(find_place(home))) as store:
        assert [(rule.shown, rule.times_used) for rule in store.approvals.rules()] == [("touch b", 1)]
    chat.type("/approvals")
    chat.wait_until(lambda: "used once" in " ".join(chat.shown.split()), "used once")  # wherever the line is broken
    chat.type("/approvals revoke all")
    chat.wait_for("asked for again")


@pytest.mark.slow
def test_a_change_is_a_diff_in_colours(chat: Chat, work: Path) -> None:
    """G4: what goes is red, what comes is green; it is written as it was shown."""
    (work / ".bashrc").write_text("one\ntwo\n")
    args = json.dumps({"path": ".bashrc", "content": "one\nzwei\n", "overwrite": True})
    chat.type(f"[[tool write_file {args}]]")
    chat.wait_for("@@ -1,2 +1,2 @@")
    chat.wait_for("other programs obey it")
    chat.wait_for("answer ›")
    assert f"{RED}-two" in chat.raw
    assert f"{GREEN}+zwei" in chat.raw
    chat.type("y")
    chat.wait_for("write_file returned")
    assert (work / ".bashrc").read_text() == "one\nzwei\n"
