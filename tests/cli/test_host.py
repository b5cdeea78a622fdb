"""The chat through the gateway of its own process: everything a person can type, against the lab server."""

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from gateway_process import HERMES
from waiting import wait_until
from warm_python import WarmProcess, run_warm

from hermes_base.chat import Asked, Closed, Event, Idle, Notice, TextDelta, ToolEnded, TurnEnded
from hermes_base.local_wire import Hello
from hermes_cli import config
from hermes_cli.chat.joining import open_host
from hermes_constants import STORE_FILE
from hermes_lab.server import LabServer
from hermes_state.home_lock import HomeLock
from hermes_state.sql.store_sql import Store


class Chat:
    """A person at a chat: types a line, reads until the host is idle again."""

    def __init__(self, options: Hello) -> None:
        opened = open_host(options)
        self.host, self.banner = opened, "\n".join(opened.banner)
        self._events = self.host.events()

    def read(self, until: type = Idle) -> list[Event]:
        seen: list[Event] = []
        for event in self._events:
            seen.append(event)
            if isinstance(event, until | Closed):
                return seen
        return seen

    def type(self, text: str) -> str:
        """What the person reads: the answer and every notice."""
        self.host.submit(text)
        return words(self.read())


def words(events: list[Event]) -> str:
    told = (
        event.text if isinstance(event, Notice) else event.answer
        for event in events
        if isinstance(event, Notice | TurnEnded)
    )
    return "\n".join(text for text in told if text)


@pytest.fixture
def settings(lab: LabServer) -> None:
    config.set_value("model.base_url", lab.base_url)
    config.set_value("model.default", "lab-model")


@pytest.fixture
def open_chat(settings: None) -> Iterator[Callable[..., Chat]]:
    opened: list[Chat] = []

    def open_one(**options: object) -> Chat:
        for chat in opened:
            chat.host.close()
        opened.append(Chat(Hello(**options)))  # type: ignore[arg-type]
        return opened[-1]

    yield open_one
    for chat in opened:
        chat.host.close()


def test_a_conversation_with_commands(open_chat: Callable[..., Chat]) -> None:
    """H7"""
    chat = open_chat()
    assert "lab-model" in chat.banner
    assert chat.type("[[say one]]") == "one"
    assert "1 calls" in chat.type("/usage")
    assert "terminal: Run a shell command" in chat.type("/tools")
    assert "/undo" in chat.type("/help")
    assert "Reasoning: high" in chat.type("/reasoning high")
    assert "no level of reasoning" in chat.type("/reasoning enormous")
    assert "nothing to compress" in chat.type("/compress")
    assert "Nothing is running" in chat.type("/stop")
    assert "Did you mean /usage" in chat.type("/usgae")
    assert chat.type("/path/to/file is [[say a path]]") == "a path"


def test_undo_and_retry(open_chat: Callable[..., Chat], lab: LabServer) -> None:
    chat = open_chat()
    assert "nothing to take back" in chat.type("/undo")
    assert "no question" in chat.type("/retry")
    chat.type("[[say one]]")
    assert chat.type("/retry") == "one"
    assert len(lab.requests[-1].json()["messages"]) == 2
    assert chat.type("/undo").endswith("Taken back: [[say one]]")


def test_new_and_resume(open_chat: Callable[..., Chat], lab: LabServer) -> None:
    chat = open_chat()
    assert "no earlier conversation" in chat.type("/resume")
    chat.type("[[say tea is green]]")
    assert "A new conversation" in chat.type("/new")
    chat.type("[[say coffee is black]]")
    listed = chat.type("/resume")
    assert listed.index("coffee") < listed.index("tea")
    session = next(line.split()[0] for line in listed.splitlines() if "tea" in line)
    assert f"Going on with {session}" in chat.type(f"/resume {session}")
    chat.type("and?")
    assert [m["role"] for m in lab.requests[-1].json()["messages"]] == ["system", "user", "assistant", "user"]
    assert "There is no session" in chat.type("/resume nonsense")


def test_the_last_conversation_goes_on_in_the_next_process_with_the_same_bytes(
    open_chat: Callable[..., Chat], lab: LabServer
) -> None:
    """A6"""
    open_chat().type("[[say one]]")
    chat = open_chat(continue_last=True)
    assert "Going on with" in chat.banner
    chat.type("[[say two]]")
    first, second = (request.body for request in lab.requests)
    assert second.startswith(first[: first.rindex(b'],"stream"')])


def test_another_model_for_this_conversation(open_chat: Callable[..., Chat], lab: LabServer) -> None:
    chat = open_chat()
    chat.type("one")
    assert "other-model" in chat.type("/model other-model")
    chat.type("two")
    assert [request.json()["model"] for request in lab.requests] == ["lab-model", "other-model"]
    assert len(lab.requests[-1].json()["messages"]) == 4
    assert "no provider called" in chat.type("/model nonsense some-model")
    assert "too much" in chat.type("/model a b c")


def test_reasoning_changes_the_agent_in_place(open_chat: Callable[..., Chat], lab: LabServer) -> None:
    chat = open_chat()
    chat.type("/reasoning low")
    chat.type("hi")
    assert lab.requests[-1].json()["reasoning_effort"] == "low"


@pytest.mark.parametrize(("answer", "ran"), [("approve", True), ("deny", False), ("", False)])
def test_a_command_is_run_only_with_the_persons_consent(
    open_chat: Callable[..., Chat], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: str, ran: bool
) -> None:
    """G4: the exact command is shown; anything but consent means no."""
    monkeypatch.chdir(tmp_path)  # a sandbox lets it write nowhere else
    chat = open_chat()
    command = f"touch {tmp_path}/ran"
    chat.host.submit(f'[[tool terminal {{"command": "{command}"}}]]')
    asked = chat.read(Asked)[-1]
    assert isinstance(asked, Asked)
    assert asked.question.text == f"cd {tmp_path}\n{command}"
    assert chat.host.answer(asked.question.id, answer)
    events = chat.read()
    assert (tmp_path / "ran").exists() == ran
    assert any(isinstance(event, ToolEnded) and event.ok == ran for event in events)
    assert not chat.host.answer(asked.question.id, "approve")


def test_stop_ends_a_turn_and_an_open_question(open_chat: Callable[..., Chat], lab: LabServer) -> None:
    """C4, C6"""
    chat = open_chat()
    chat.host.submit("[[stall 60]]")
    wait_until(lambda: lab.in_flight == 1)
    chat.host.submit("/stop")
    ended = [event for event in chat.read() if isinstance(event, TurnEnded)]
    assert ended[0].interrupted
    chat.host.submit('[[tool terminal {"command": "rm -r nothing"}]]')
    chat.read(Asked)
    assert chat.host.stop()
    assert any(isinstance(event, TurnEnded) and event.interrupted for event in chat.read())
    assert chat.type("[[say clean]]") == "clean"


def test_commands_beside_a_running_turn(open_chat: Callable[..., Chat], lab: LabServer) -> None:
    """What need not wait answers at once; the rest takes its place in the order."""
    chat = open_chat()
    chat.host.submit("[[stall 60]]")
    wait_until(lambda: lab.in_flight == 1)
    chat.host.submit("/tools")
    assert "terminal" in words(chat.read(Notice))
    chat.host.submit("/new")
    assert "Queued: /new" in words(chat.read(Notice))
    chat.host.submit("/reasoning low")
    chat.host.submit("/stop")
    told = chat.read()
    assert any(isinstance(event, TurnEnded) for event in told)
    assert "Reasoning: low" in words(told)


def test_an_answer_streams(open_chat: Callable[..., Chat]) -> None:
    chat = open_chat()
    chat.host.submit("[[chunks 5]]")
    deltas = [event.text for event in chat.read() if isinstance(event, TextDelta)]
    assert "".join(deltas) == "1 2 3 4 5"  # pieces that came together are one


def test_quit_closes_the_chat_and_frees_the_home(open_chat: Callable[..., Chat], home: Path) -> None:
    chat = open_chat()
    chat.host.submit("/quit")
    assert isinstance(chat.read()[-1], Closed)
    chat.host.close()
    with HomeLock(home):
        pass


def test_a_second_chat_joins_the_first(open_chat: Callable[..., Chat], lab: LabServer) -> None:
    """B6: one process owns the home, and whoever comes later talks through it."""
    first = open_chat()
    second = Chat(Hello())
    assert second.type("[[say two]]") == "two"
    assert first.type("[[say one]]") == "one"
    second.host.close()


def test_a_provider_that_fails_is_told_and_the_chat_goes_on(open_chat: Callable[..., Chat], lab: LabServer) -> None:
    """H8"""
    chat = open_chat()
    lab.set_plan([{"fault": {"status": 402, "message": "no credit"}}])
    told = chat.type("hi")
    assert "no credit" in told
    assert "Add credit" in told
    assert chat.type("[[say fine]]") == "fine"


def test_secrets_reach_neither_model_nor_store_nor_log(
    open_chat: Callable[..., Chat], lab: LabServer, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """G6: a canary typed by the person and read by a tool is taken out on entry."""
    canary = "canary-7f3a9b2c"
    config.set_value("MY_SERVICE_API_KEY", canary)
    chat = open_chat()
    chat.type(f"my key is {canary}, [[say thanks]]")
    chat.host.submit('[[tool terminal {"command": "cat $HERMES_HOME/.env"}]]')
    asked = chat.read(Asked)[-1]
    chat.host.answer(asked.question.id, "approve")  # type: ignore[union-attr]
    chat.read()
    assert all(canary.encode() not in request.body for request in lab.requests)
    assert "[redacted MY_SERVICE_API_KEY]" in lab.requests[0].json()["messages"][1]["content"]
    chat.host.close()
    for path in home.rglob("*"):
        if path.is_file() and path.name != ".env":
            assert canary.encode() not in path.read_bytes()
    assert canary not in caplog.text


def run_hermes(*args: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return run_warm([HERMES, *args], os.getcwd(), stdin)


@pytest.mark.slow
def test_one_question_on_the_command_line(settings: None, lab: LabServer) -> None:
    asked = run_hermes("-q", "[[say to stdout]]")
    assert (asked.returncode, asked.stdout) == (0, b"to stdout\n")
    lab.set_plan([{"fault": {"status": 401, "message": "bad key"}}])
    failed = run_hermes("-q", "hi")
    assert (failed.returncode, failed.stdout) == (1, b"")
    assert b"did not accept the key" in failed.stderr
    assert b"Traceback" not in failed.stderr


@pytest.mark.slow
def test_a_question_on_the_command_line_joins_a_chat_that_runs(open_chat: Callable[..., Chat]) -> None:
    open_chat()
    asked = run_hermes("-q", "[[say through the chat]]")
    assert (asked.returncode, asked.stdout) == (0, b"through the chat\n")


@pytest.mark.slow
@pytest.mark.timeout(600)  # a whole model computes here: on a busy machine that takes its time
def test_a_fresh_home_answers_from_the_built_in_model() -> None:
    """H1: no key, no network, no question asked."""
    chatted = run_hermes(stdin=b"hello\n/quit\n")
    assert chatted.returncode == 0, chatted.stderr
    assert b"the built-in model" in chatted.stdout
    answer = chatted.stdout.split(b"/quit leaves.")[1].strip()
    assert len(answer) > 3
    listed = run_hermes("sessions", "list")
    assert b"hello" in listed.stdout


@pytest.mark.slow
def test_a_killed_chat_keeps_what_was_said_and_frees_the_home(settings: None, home: Path, lab: LabServer) -> None:
    """SIGKILL in the middle of a turn: the question is in the store, the home is free at once."""
    command = [HERMES, "-q", "remember me [[stall 60]]"]
    with WarmProcess(command, stderr=2, env=os.environ) as child:
        wait_until(lambda: lab.in_flight == 1, 60)
        child.send_signal(signal.SIGKILL)
        child.wait()
    store = Store.open_readonly(home / STORE_FILE)
    (info,) = store.sessions()
    assert "remember me" in info.preview
    store.close()
    assert run_hermes("-q", "[[say alive]]").stdout == b"alive\n"


def test_wrong_settings_are_named_when_a_chat_opens(home: Path) -> None:
    """H8: the chat is there, so that they can be put right in it."""
    config.set_value("model.provider", "nonsense")
    opened = open_host(Hello())
    assert any("no provider called 'nonsense'" in line for line in opened.banner)
    opened.close()
    with HomeLock(home):
        pass
