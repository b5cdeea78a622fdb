"""The chat on a real pseudo-terminal, with a scripted host in a process of its own."""

import fcntl
import os
import pty
import re
import signal
import stat
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from readable import becomes_readable

PROGRAM = Path(__file__).with_name("test_chat_scripted_host.py")
CODES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\][^\x07]*\x07|\x1b[=>78]")
CTRL_C, CTRL_D, PASTE, PASTED = "\x03", "\x04", "\x1b[200~", "\x1b[201~"
PATIENCE = 120  # seconds; a busy machine is no failure


class Terminal:
    """A terminal with the chat in it: type, and wait for what appears."""

    def __init__(self, home, *args):
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
        environment = {**os.environ, "HERMES_HOME": str(home), "TERM": "xterm-256color"}
        self.process = subprocess.Popen(
            [sys.executable, str(PROGRAM), *args],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=environment,
            start_new_session=True,
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),  # also under nohup
        )
        os.close(slave)
        self._seen = ""
        self._position = 0

    def type(self, text):
        os.write(self._master, text.encode("utf-8", "surrogateescape"))

    def wait_for(self, text):
        """Wait until this appears after what was waited for before."""
        deadline = time.monotonic() + PATIENCE
        while (found := self._shown().find(text, self._position)) < 0:
            assert time.monotonic() < deadline, f"{text!r} never came; the screen: {self._shown()[-2000:]!r}"
            assert self._read(), f"the chat ended before {text!r}: {self._shown()[-2000:]!r}"
        self._position = found + len(text)

    def wait_for_answer(self, text):
        """Wait until this is the last that was said, and nothing works any more."""
        self.wait_for(text)
        deadline = time.monotonic() + PATIENCE
        while "›" not in (last := self._shown().rpartition(text)[2]) or "working" in last:
            assert time.monotonic() < deadline, f"{text!r} is no end; the screen: {self._shown()[-2000:]!r}"
            assert self._read(), f"the chat ended after {text!r}: {self._shown()[-2000:]!r}"

    def wait_for_end(self):
        deadline = time.monotonic() + PATIENCE
        while self._read():
            assert time.monotonic() < deadline, self._shown()[-2000:]
        return self.process.wait(PATIENCE)

    def hang_up(self):
        """Close the terminal; the kernel tells the leader of its session."""
        os.close(self._master)
        self._master = None
        self.process.send_signal(signal.SIGHUP)

    def close(self):
        self.process.kill()
        self.process.wait()
        if self._master is not None:
            os.close(self._master)

    def _shown(self):
        return CODES.sub("", self._seen)

    def _read(self):
        if not becomes_readable(self._master, 1):
            return True
        try:
            data = os.read(self._master, 65536)
        except OSError:  # the other side is closed
            return False
        self._seen += data.decode("utf-8", "replace")
        return bool(data)


@pytest.fixture
def open_terminal(tmp_path):
    opened = []

    def open_one(*args):
        opened.append(Terminal(tmp_path, *args))
        opened[-1].wait_for("played by a script")
        opened[-1].wait_for("›")
        return opened[-1]

    yield open_one
    for terminal in opened:
        terminal.close()


def test_a_line_is_answered_and_ctrl_d_leaves(open_terminal, tmp_path):
    terminal = open_terminal()
    terminal.type("hello there\r")
    terminal.wait_for("You said: hello there")
    terminal.type(CTRL_D)
    terminal.wait_for("left with 0; stops=0 submitted=1")
    assert terminal.wait_for_end() == 0
    history = tmp_path / "chat_history"
    assert "+hello there\n" in history.read_text()
    assert stat.S_IMODE(history.stat().st_mode) == 0o600


def test_c4_ctrl_c_stops_the_turn_and_the_next_line_is_answered(open_terminal):
    terminal = open_terminal()
    terminal.type("slow\r")
    terminal.wait_for("Thinking about it")
    terminal.type(CTRL_C)
    terminal.wait_for("Interrupted by you.")
    terminal.type("hello\r")
    terminal.wait_for("You said: hello")
    terminal.type("/quit\r")
    terminal.wait_for("left with 0; stops=1 submitted=3")


def test_a_second_ctrl_c_while_stopping_leaves(open_terminal):
    terminal = open_terminal()
    terminal.type("stuck\r")
    terminal.wait_for("Not listening")
    terminal.type(CTRL_C)
    terminal.wait_for("stopping")
    terminal.type(CTRL_C)
    terminal.wait_for("left with 130")
    assert terminal.wait_for_end() == 130


def test_c5_ctrl_c_at_the_prompt_clears_the_line_and_the_second_one_leaves(open_terminal):
    terminal = open_terminal()
    terminal.type("half a line")
    terminal.wait_for("half a line")
    terminal.type(CTRL_C)
    terminal.wait_for("Ctrl-C again leaves")
    terminal.type("new\r")
    terminal.wait_for_answer("You said: new")
    terminal.type(CTRL_C)
    terminal.wait_for("Ctrl-C again leaves")
    terminal.type(CTRL_C)
    terminal.wait_for("left with 0")


def test_what_is_typed_during_a_turn_is_sent_at_once(open_terminal):
    """Whether it waits, steers or interrupts is not the terminal's to decide."""
    terminal = open_terminal("0.002")
    terminal.type("long\rnext one\r")
    terminal.wait_for("› next one")
    terminal.wait_for("Paragraph 59")
    terminal.wait_for("You said: next one")


def test_a_question_takes_short_answers_and_gives_the_typed_line_back(open_terminal):
    terminal = open_terminal()
    terminal.type("ask\r")
    terminal.wait_for("Run `rm -r build`?")
    terminal.wait_for("answer ›")
    terminal.type("what\r")
    terminal.wait_for("one of: once, always, deny")
    terminal.type("n\r")
    terminal.wait_for("The answer was 'deny'.")


def test_lines_continue_and_pastes_keep_their_line_ends(open_terminal):
    terminal = open_terminal()
    terminal.type("one\\\rtwo\x1b\rthree")
    terminal.type(f"{PASTE}\rfour\r\nfive{PASTED}\r")
    for line in ("You said: one", "two", "three", "four", "five"):
        terminal.wait_for(line)
    terminal.type(CTRL_D)
    terminal.wait_for("submitted=1")


def test_a_long_paste_stands_as_a_mark_and_is_sent_whole(open_terminal):
    terminal = open_terminal()
    terminal.type(PASTE + "y" * 30_000 + PASTED)
    terminal.wait_for("[pasted text 1: 1 lines, 30000 characters]")
    terminal.type("z\r")
    terminal.wait_for("You said 30001 characters.")


def test_bytes_that_are_no_utf8_do_no_harm(open_terminal):
    terminal = open_terminal()
    terminal.type("caf\udce9\r")
    terminal.wait_for("You said: caf\ufffd")


def test_slash_commands_are_completed_from_the_table(open_terminal):
    terminal = open_terminal()
    terminal.type("/us")
    terminal.wait_for("/usage  Show tokens")
    terminal.type("\t\r")
    terminal.wait_for("tokens: 12")


def test_a_host_that_breaks_gives_the_terminal_back(open_terminal):
    terminal = open_terminal()
    terminal.type("die\r")
    terminal.wait_for("the host is gone")
    assert terminal.wait_for_end() == 1


def test_ctrl_r_takes_the_line_that_it_shows(open_terminal):
    terminal = open_terminal()
    for line in ("alpha one", "alpha two", "beta three"):
        terminal.type(f"{line}\r")
        terminal.wait_for(f"You said: {line}")
    terminal.type("\x12alpha")
    terminal.wait_for("alpha two")  # what is shown while it searches
    terminal.type("\x12")
    terminal.wait_for("one")  # only what differs is drawn again
    terminal.type("\r")
    terminal.type("\r")
    terminal.wait_for("You said: alpha one")


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_chat_that_is_told_to_end_leaves_in_order_and_stops_nothing(open_terminal, number):
    terminal = open_terminal()
    terminal.type("slow\r")
    terminal.wait_for("Thinking about it")
    terminal.process.send_signal(number)
    terminal.wait_for(f"left with {128 + number}; stops=0 submitted=1")
    assert terminal.wait_for_end() == 128 + number


def test_a_chat_whose_terminal_is_closed_ends(open_terminal):
    terminal = open_terminal()
    terminal.type("slow\r")
    terminal.wait_for("Thinking about it")
    terminal.hang_up()
    terminal.process.wait(PATIENCE)
