"""The chat without a screen: `-q`, and lines through a pipe."""

import io
import os
import signal
import subprocess
import sys
import threading
import time

import pytest
from test_chat_scripted_host import LONG, ScriptedHost

from hermes_base.chat import FileSent, Said
from hermes_base.errors import HermesError
from hermes_base.local_wire import Hello
from hermes_cli.chat import chat_cmd
from hermes_cli.chat.terminal_plain import Lines, PlainChat, PlainView, Shows
from hermes_cli.chat.terminal_words import Display


class Stage:
    """Stdin, stdout, stderr and the host of one run of `hermes_cli.chat.chat_cmd:main`."""

    def __init__(self, monkeypatch):
        self._monkeypatch = monkeypatch
        self.host = ScriptedHost()
        self.out, self.err = io.StringIO(), io.StringIO()
        self.options = None
        monkeypatch.setattr(chat_cmd, "open_host", self._open)

    def _open(self, options):
        self.options = options
        self.host.banner = ("Welcome.",)
        return self.host

    def run(self, *args, stdin=b""):
        self._monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        self._monkeypatch.setattr(sys, "stdout", self.out)
        self._monkeypatch.setattr(sys, "stderr", self.err)
        return chat_cmd.main(list(args))

    def press(self, seen, times=1):
        """Press Ctrl-C once the host has been given this many texts, and again when it was told to stop."""

        def press():
            wait_until(lambda: len(self.host.submitted) >= seen)
            for done in range(times):
                wait_until(lambda done=done: self.host.stops >= done)
                time.sleep(0.2)
                os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=press, daemon=True).start()


def wait_until(condition):
    deadline = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.01)


@pytest.fixture
def stage(monkeypatch, tmp_path):
    monkeypatch.setenv("HERMES_HOME", str(tmp_path))
    return Stage(monkeypatch)


# --- -q


def test_a_question_gets_its_answer_and_nothing_else_on_stdout(stage):
    assert stage.run("-q", "tools please") == 0
    assert stage.out.getvalue() == "Found it.\n"
    assert stage.err.getvalue() == ""
    assert stage.host.submitted == ["tools please"]
    assert stage.host.closed


@pytest.mark.parametrize("args", [["-q", "-"], ["-q"], ["--query"], ["-q", "-m", "other"]])
def test_a_question_is_read_from_stdin(stage, args):
    assert stage.run(*args, stdin="two\nlines é\n".encode()) == 0
    assert stage.host.submitted == ["two\nlines é"]


@pytest.mark.parametrize("question", ["--what is this?", "- item", "--", "-5 + 3"])
def test_a_question_may_look_like_an_option(stage, question):
    assert stage.run("-m", "x", "-q", question) == 0
    assert stage.host.submitted == [question]


def test_a_failed_turn_is_exit_code_1_with_the_reason_on_stderr(stage):
    assert stage.run("-q", "fail") == 1
    assert stage.out.getvalue() == ""
    assert stage.err.getvalue() == "The model does not answer. Nothing was lost. Try again.\n"


def test_ctrl_c_stops_the_turn_and_is_exit_code_130(stage):
    stage.press(seen=1)
    assert stage.run("-q", "slow") == 130
    assert stage.host.stops == 1
    assert "Interrupted by you." in stage.err.getvalue()


def test_a_second_ctrl_c_does_not_wait_for_the_turn(stage):
    stage.press(seen=1, times=2)
    assert stage.run("-q", "stuck") == 130
    assert stage.host.stops == 1
    assert stage.host.closed


def test_nobody_is_asked_when_nobody_is_there(stage):
    assert stage.run("-q", "ask") == 3
    assert stage.host.answers == [("q1", "")]
    assert stage.out.getvalue() == "The answer was ''.\n"
    assert stage.err.getvalue().startswith("Not allowed, since nobody can be asked here: ")


def test_an_empty_question_is_refused_before_the_host_is_opened(stage):
    with pytest.raises(HermesError, match="empty"):
        stage.run("-q", "-", stdin=b" \n")
    assert stage.options is None


def test_bytes_of_a_question_that_are_no_utf8_are_replaced(stage):
    assert stage.run("-q", b"caf\xe9".decode("utf-8", "surrogateescape")) == 0
    assert stage.host.submitted == ["caf\ufffd"]


def test_the_options_reach_the_host(stage):
    stage.run("-q", "hi", "-m", "m1", "--provider", "p1", "-r", "abc")
    assert stage.options == Hello(model="m1", provider="p1", resume="abc", once=True)
    stage.run("-c", stdin=b"")
    assert stage.options == Hello(continue_last=True)


# --- lines through a pipe


def test_lines_are_answered_until_quit(stage):
    assert stage.run(stdin=b"hello\n\n/usage\n/quit\nnever\n") == 0
    assert stage.out.getvalue() == "Welcome.\nYou said: hello\ntokens: 12\n"
    assert stage.host.submitted == ["hello", "/usage", "/quit"]
    assert stage.host.closed


def test_the_end_of_the_input_leaves_after_the_last_answer(stage):
    assert stage.run(stdin=b"silent\r\nlong") == 0
    assert stage.out.getvalue() == f"Welcome.\nSaid at once.\n{LONG}\n"


def test_a_line_of_a_megabyte_is_one_message(stage):
    assert stage.run(stdin=b"x" * 1_000_000 + b"\n/quit\n") == 0
    assert len(stage.host.submitted[0]) == 1_000_000


def test_input_that_is_no_utf8_is_replaced(stage):
    assert stage.run(stdin=b"caf\xe9 \xff\xfe\n") == 0
    assert stage.host.submitted == ["caf\ufffd \ufffd\ufffd"]


def test_output_has_no_terminal_codes(stage):
    assert stage.run(stdin=b"escape\nmarkdown\ntools\nask\ny\n") == 0
    assert "\x1b" not in stage.out.getvalue() + stage.err.getvalue()


def test_h8_a_failed_turn_is_told_and_the_chat_goes_on(stage):
    assert stage.run(stdin=b"fail\nhello\n") == 0
    assert "Nothing was lost" in stage.err.getvalue()
    assert "You said: hello" in stage.out.getvalue()


def test_a_question_is_answered_by_the_next_line(stage):
    assert stage.run(stdin=b"ask\nmaybe\ny\nhello\n") == 0
    assert stage.host.answers == [("q1", "once")]
    assert "1. once" in stage.out.getvalue()
    assert "The answer was 'once'." in stage.out.getvalue()
    assert "one of: once, always, deny" in stage.err.getvalue()
    assert stage.host.submitted == ["ask", "hello"]


def test_a_question_at_the_end_of_the_input_gets_no_answer(stage):
    assert stage.run(stdin=b"clarify\n") == 3
    assert stage.host.answers == [("q2", "")]
    assert "Not answered, since nobody can be asked here" in stage.err.getvalue()


def test_a_command_is_never_an_answer_and_is_not_lost(stage):
    assert stage.run(stdin=b"clarify\n/quit\n") == 0
    assert stage.host.answers == [("q2", "")]
    assert stage.host.submitted == ["clarify", "/quit"]


def test_ctrl_c_stops_the_turn_and_the_next_line_is_answered(stage):
    stage.press(seen=1)
    assert stage.run(stdin=b"slow\nhello\n") == 0
    assert "Thinking about it\n" in stage.out.getvalue()
    assert "Interrupted by you." in stage.err.getvalue()
    assert "You said: hello" in stage.out.getvalue()


def test_a_second_ctrl_c_leaves(stage):
    stage.press(seen=1, times=2)
    assert stage.run(stdin=b"stuck\nnever\n") == 130
    assert stage.host.submitted == ["stuck"]


def test_a_host_that_breaks_is_reported_by_whoever_started_the_chat(stage):
    with pytest.raises(RuntimeError, match="the host is gone"):
        stage.run(stdin=b"die\n")
    assert stage.host.closed


def test_reasoning_and_progress_go_to_the_notes():
    out, notes = io.StringIO(), io.StringIO()
    view = PlainView(out, out, notes, Display(tool_progress="full", reasoning=True), Shows.LETTERS)
    PlainChat(ScriptedHost(), view, Lines(io.BytesIO(b"tools\n"))).answer_lines()
    assert out.getvalue() == "Let me look.\nFound it.\n"
    assert notes.getvalue().splitlines() == [
        "I should look.",
        "Then answer.",
        "→ read_file notes.txt",
        "→ terminal ls -l",
        "✓ read_file notes.txt · 0.2 s",
        "  3 lines",
        "✗ terminal ls -l · 12 s",
        "  exit code 2",
        "  no such folder",
    ]


def test_one_question_loads_neither_screen_nor_markdown():
    program = (
        "import sys, hermes_cli.chat.chat_cmd; print({'rich', 'prompt_toolkit', 'markdown_it'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


def test_words_of_others_and_files_are_lines():
    """B3"""
    out, side = io.StringIO(), io.StringIO()
    view = PlainView(out, side, side, Display(), Shows.LETTERS)
    view.show(Said("hello", "Anna"))
    view.show(FileSent("/tmp/plan.txt", "plan.txt"))
    assert side.getvalue() == "Anna › hello\nFile plan.txt (/tmp/plan.txt)\n"
    assert out.getvalue() == ""
