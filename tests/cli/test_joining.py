"""Who hosts and who joins: processes of their own on one home, killed under each other."""

import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from fresh_store import fresh_store
from local_house import HouseThread, host_here
from waiting import wait_until

from hermes_base.chat import Closed, Event, Idle, Notice, TurnEnded
from hermes_base.errors import HermesError, HomeBusy
from hermes_base.local_wire import Hello, socket_path
from hermes_cli.chat import joining
from hermes_cli.chat.joining import HOSTS_NOW, JOINED_AGAIN, WAITING, HomeGateway
from hermes_cli.chat.local_client import LocalClient
from hermes_cli.cmds import owner
from hermes_cli.main import main
from hermes_constants import STORE_FILE
from hermes_state.home_lock import HomeLock, holder
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession

SUPPORT = Path(__file__).resolve().parents[1] / "support"
KEY = "agent:main:local:dm:talk"


class Chat:
    """A chat in a process of its own; its events are kept."""

    def __init__(self, home: Path, name: str) -> None:
        command = [sys.executable, str(SUPPORT / "joined_chat.py"), str(home), name, KEY]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.events: list[dict[str, Any]] = []
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        wait_until(lambda: bool(self.events), 60)

    @property
    def hosts(self) -> bool:
        return bool(self.events[-1]["hosts"])

    def type(self, text: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(text + "\n")
        self.process.stdin.flush()

    def answers(self) -> list[str]:
        return [event["answer"] for event in list(self.events) if event["event"] == "TurnEnded"]

    def end(self) -> None:
        """Close its pipes, so that nothing is left open."""
        self.process.kill()
        self.process.wait()
        self._reader.join()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except BrokenPipeError:
                    pass

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.events.append(json.loads(line))


@pytest.fixture
def open_chat(home: Path) -> Iterator[Callable[[str], Chat]]:
    opened: list[Chat] = []

    def open_one(name: str) -> Chat:
        opened.append(Chat(home, name))
        return opened[-1]

    yield open_one
    for chat in opened:
        chat.end()


@pytest.mark.slow
def test_three_terminals_go_on_while_their_hosts_are_killed(open_chat: Callable[[str], Chat], home: Path) -> None:
    """B3, B6, C1, C7: the first hosts, the others join; each host is killed, one of the rest takes the home."""
    chats = [open_chat(name) for name in "abc"]
    assert [chat.hosts for chat in chats] == [True, False, False]
    sent = []
    while chats:
        for number, chat in enumerate(chats):
            sent.append(f"{len(chats)} of {number}")
            chat.type(sent[-1])
        for chat in chats:
            wait_until(lambda chat=chat: {f"echo: {text}" for text in sent} <= set(chat.answers()), 60)
        for chat in chats:
            assert len(chat.answers()) == len(sent)
            assert chat.answers() == chats[0].answers()
        lock = holder(home)
        assert lock is not None
        host = next(chat for chat in chats if chat.process.pid == lock.pid)
        host.process.send_signal(signal.SIGKILL)
        chats.remove(host)
        if chats:
            wait_until(lambda chats=chats: any(_was_told(chat, HOSTS_NOW) for chat in chats), 60)


def _was_told(chat: Chat, text: str) -> bool:
    return any(event.get("text") == text for event in list(chat.events))


@pytest.mark.slow
def test_a_host_that_leaves_hands_over(open_chat: Callable[[str], Chat], home: Path) -> None:
    """B6: one owner at a time; `/quit` frees the home."""
    first, second = open_chat("a"), open_chat("b")
    first.type("hello")
    wait_until(lambda: second.answers() == ["echo: hello"], 60)
    first.type("/quit")
    first.process.wait(60)
    wait_until(lambda: _was_told(second, HOSTS_NOW), 60)
    second.type("again")
    wait_until(lambda: second.answers() == ["echo: hello", "echo: again"], 60)
    lock = holder(home)
    assert lock is not None
    assert lock.pid == second.process.pid


# --- joining alone


def test_a_home_without_listener_is_refused_in_the_end(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H8: with the sentence that says who has it."""
    monkeypatch.setattr(joining, "FIRST_SECONDS", 0.1)
    joined = HomeGateway(home, host_here)
    with HomeLock(home), pytest.raises(HomeBusy, match=f"process {os.getpid()}"):
        joined.reach(lambda event: None, lambda: False)


def test_a_gateway_that_cannot_start_frees_the_home(home: Path) -> None:
    home.mkdir()
    socket_path(home).write_text("in the way")
    joined = HomeGateway(home, lambda folder, lock: HouseThread(folder, lock))
    with pytest.raises(HermesError, match="in the way"):
        joined.reach(lambda event: None, lambda: False)
    assert holder(home) is None


def test_closing_while_waiting_ends_the_wait(home: Path) -> None:
    joined = HomeGateway(home, host_here)
    client = LocalClient(Hello("a"), joined.reach, joined.leave)
    client.open()
    events: list[Event] = []
    reader = threading.Thread(target=lambda: events.extend(client.events()), daemon=True)
    reader.start()
    client.submit("hello")
    wait_until(lambda: Idle() in events)
    client.close()
    reader.join(20)
    assert events[-1] == Closed()
    assert not [event for event in events if isinstance(event, Notice)]
    assert holder(home) is None
    assert not socket_path(home).exists()


def test_a_gateway_that_is_started_again_keeps_the_home(home: Path) -> None:
    """B6: a terminal leaves it the time to come back, and joins it."""
    home.mkdir()
    store = fresh_store()
    first = HouseThread(home, store=store)
    first.start()
    joined = HomeGateway(home, host_here, patience=60.0)
    client = LocalClient(Hello("a"), joined.reach, joined.leave)
    client.open()
    events: list[Event] = []
    threading.Thread(target=lambda: events.extend(client.events()), daemon=True).start()
    first.stop()
    wait_until(lambda: Notice(WAITING, "warning") in events)
    client.submit("typed meanwhile")
    second = HouseThread(home, store=store)
    second.start()
    wait_until(lambda: Idle() in events)
    assert Notice(JOINED_AGAIN) in events
    assert TurnEnded("echo: typed meanwhile", True) in events
    assert not joined.hosts
    client.close()
    second.stop()


def test_a_terminal_that_joins_loads_no_server(home: Path) -> None:
    """H1: it starts quickly, since it needs neither the server nor a client larger than Python's own."""
    home.mkdir()
    house = HouseThread(home)
    house.start()
    program = (
        "import sys; from hermes_cli.main import main; code = main(['-q', 'are you there?']); "
        "print(*sorted({name.partition('.')[0] for name in sys.modules}), file=sys.stderr); sys.exit(code)"
    )
    env = {**os.environ, "HERMES_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, timeout=60)
    house.stop()
    assert (done.stdout, done.returncode) == ("echo: are you there?\n", 0), done.stderr
    loaded = set(done.stderr.splitlines()[-1].split())
    assert "hermes_cli" in loaded
    assert not loaded & {"starlette", "uvicorn", "h11", "anyio", "httpx", "httpcore", "requests", "urllib3", "aiohttp"}


# --- commands that write


@pytest.fixture
def session(home: Path) -> str:
    home.mkdir()
    store = Store(home / STORE_FILE)
    store.open_session(NewSession(KEY, id="one"))
    store.close()
    return "one"


def test_without_a_gateway_the_command_takes_the_home(home: Path, session: str) -> None:
    assert owner.perform("sessions.delete", {"session": session}) == {"deleted": True}
    assert owner.perform("sessions.delete", {"session": session}) == {"deleted": False}
    assert holder(home) is None


def test_with_a_gateway_the_command_asks_it(home: Path, session: str, capsys: pytest.CaptureFixture[str]) -> None:
    """B6: one writer of a home."""
    with HomeLock(home):
        house = HouseThread(home)
        house.start()
        assert main(["sessions", "delete", session, "--yes"]) == 0
        house.stop()
    assert house.house.called == [("sessions.delete", {"session": session})]
    assert "one is deleted" in capsys.readouterr().out


def test_an_owner_that_does_not_listen_is_named(home: Path, session: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """H8"""
    monkeypatch.setattr(owner, "_PATIENCE_SECONDS", 0.1)
    with HomeLock(home), pytest.raises(HomeBusy, match="owned by process"):
        owner.perform("sessions.delete", {"session": session})


def test_an_unknown_operation_is_refused(session: str) -> None:
    with pytest.raises(HermesError, match="no operation"):
        owner.perform("nonsense", {})
