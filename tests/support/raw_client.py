"""A client of the socket that does nothing by itself: what a test says goes out, what comes in is kept."""

import queue
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from waiting import wait_until

from hermes_base import local_wire as wire
from hermes_base.errors import HermesError
from hermes_cli.chat.local_client import Gone, LocalConnection, NotDone, connect
from hermes_cli.chat.local_follow import Follower


@dataclass(frozen=True, slots=True)
class Stop:
    id: str = ""


@dataclass(frozen=True, slots=True)
class Stopped:
    ok: bool
    id: str = ""


@dataclass(frozen=True, slots=True)
class GiveAnswer:
    question: str
    text: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    ok: bool
    id: str = ""


@dataclass(frozen=True, slots=True)
class Call:
    """An operator's call."""

    id: str
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a call."""

    id: str
    ok: bool
    result: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """The conversation could not be opened."""

    text: str


class RawClient:
    def __init__(self, home: Path, name: str = "", *, confirm: bool = True, **hello: Any) -> None:
        made = connect(home)
        assert made is not None, "nobody listens"
        made.close()  # each call has a connection of its own
        self._connection: LocalConnection = made
        self._stream: LocalConnection | None = None
        self._changing = threading.Lock()
        self._leaving = False
        self.lines: list[Any] = []
        self.closed = False
        self.opened: dict[str, Any] = {}
        self._confirm = confirm
        self._name = name
        self._folder = ""
        self._follower = Follower(wire.Hello(name))
        self._going_out: queue.SimpleQueue[Any] = queue.SimpleQueue()
        threading.Thread(target=self._send_on, daemon=True).start()
        if name:
            self.send(wire.Hello(name, **hello))
            self.welcome = self.wait(wire.Welcome)

    @property
    def banner(self) -> str:
        return "\n".join(self.opened["banner"])

    def send(self, message: Any) -> None:
        if isinstance(message, Call):  # it may take its time
            threading.Thread(target=self._perform, args=(message,), daemon=True).start()
        else:
            self._going_out.put(message)

    def say(self, text: str, id: str = "1") -> None:
        self.send(wire.Say(id, text))

    def find(self, kind: type, where: Callable[[Any], bool] = lambda line: True) -> list[Any]:
        return [line for line in list(self.lines) if isinstance(line, kind) and where(line)]

    def wait(self, kind: type, where: Callable[[Any], bool] = lambda line: True) -> Any:
        wait_until(lambda: bool(self.find(kind, where)))
        return self.find(kind, where)[0]

    def answers(self) -> list[str]:
        return [line.outgoing.text for line in self.find(wire.Deliver)]

    def close(self) -> None:
        self._going_out.put(None)
        with self._changing:
            self._leaving = True
        if self._stream is not None:
            self._stream.close()

    # --- what goes out

    def _send_on(self) -> None:
        while (message := self._going_out.get()) is not None:
            try:
                self._perform(message)
            except (Gone, OSError):
                self.closed = True

    def _perform(self, message: Any) -> None:
        post = self._connection.post
        match message:
            case wire.Hello():
                try:
                    self._open(message)
                except NotDone as problem:
                    self.lines.append(Trouble(str(problem)))
            case wire.Say():
                self._say(message)
            case Stop(id):
                told = post("/web/stop", {"conversation": self._follower.conversation})
                self.lines.append(Stopped(told["stopped"], id))
            case GiveAnswer(question, text, id):
                self.lines.append(Answered(post("/web/answer", {"question": question, "text": text})["ok"], id))
            case Call(id, name, args):
                try:
                    self.lines.append(Told(id, True, post("/web/operate", {"name": name, "args": dict(args)})))
                except HermesError as problem:
                    self.lines.append(Told(id, False, error=str(problem)))

    def _say(self, say: wire.Say) -> None:
        named = {**asdict(say), "id": f"{self._name}-{say.id}", "folder": self._folder}
        try:
            told = self._connection.post("/web/say", {**named, "conversation": self._follower.conversation})
        except NotDone as problem:
            self.lines.append(wire.NotStored(say.id, str(problem)))
        else:
            self.lines.append(
                wire.Stored(say.id, told["seq"], bool(told.get("again")), bool(told.get("done")), told.get("outbox", 0))
            )

    # --- what comes in

    def _open(self, hello: wire.Hello) -> None:
        self._name, self._folder = hello.client, hello.folder
        asked = {name: value for name, value in asdict(hello).items() if name != "after"}
        self.opened = self._connection.post("/web/open", asked)
        self._follower = Follower(replace(hello, conversation=self.opened["conversation"]))
        self._follow(hello.after)
        threading.Thread(target=self._read, daemon=True).start()

    def _follow(self, after: wire.Cursor | None) -> None:
        with self._changing:
            self._stream = None if self._leaving else self._connection.twin()
        if self._stream is None:
            raise Gone("Nobody listens.")
        self._stream.follow(self._follower.conversation, after)

    def _read(self) -> None:
        with suppress(Gone, OSError):
            while True:
                assert self._stream is not None
                line = self._stream.read()
                if line is not None:
                    self._take(line)
        if self._stream is not None:
            self._stream.close()
        self.closed = True

    def _take(self, line: Any) -> None:
        before = self._follower.conversation
        taken = self._follower.take(line)
        if self._follower.conversation != before:
            assert self._stream is not None
            self._stream.close()
            self._follow(None)
            while not isinstance(welcome := self._stream.read(), wire.Welcome):
                pass
            self._follower.take(welcome)
            self.lines.append(wire.MovedTo(0, self._follower.conversation))
        elif not isinstance(line, wire.MovedTo) and not self._is_own(line):
            self.lines.append(line)
        if self._confirm and taken.shown:
            self._connection.post("/web/got", {"conversation": before, "rows": taken.shown})

    def _is_own(self, line: Any) -> bool:
        return isinstance(line, wire.Happened) and line.id.startswith(f"{self._name}-")
