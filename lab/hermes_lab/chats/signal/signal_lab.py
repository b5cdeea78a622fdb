"""signal-cli's daemon for tests and for trying by hand: `SignalLab` is a server on a thread, `SignalRemote` steers
another. It speaks on a UNIX socket and on TCP; what steers it is HTTP, on a port of its own."""

import asyncio
import base64
import json
import signal
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes_lab.chats.chat_app import ChatApp, ChatAsk, ChatReply
from hermes_lab.chats.chat_server import ChatControl, ChatRemote, ChatServer
from hermes_lab.chats.record import ChatCall, ChatClock, ChatRecord
from hermes_lab.chats.signal.daemon_lines import DaemonSocket
from hermes_lab.chats.signal.daemon_methods import DaemonMethods
from hermes_lab.chats.signal.signal_people import SignalPeople
from hermes_lab.chats.signal.signal_world import SignalWorld
from hermes_lab.connection import Connection
from hermes_lab.hosting import describe_address, open_listener, serve_until

NUMBER = "+4915550001111"


class SignalService:
    """The daemon, as `ChatApp` steers it. Over HTTP it has nothing but that."""

    def __init__(self, path: Path | None, port: int = 0) -> None:
        self.record = ChatRecord(ChatClock())
        self.world = SignalWorld(self.record.clock, NUMBER)
        self.people = SignalPeople(self.world, self._wake)
        self.methods = DaemonMethods(self.world, self.people, self.record)
        self.socket: DaemonSocket | None = None
        self._path, self._port = path, port
        self.verbs: Mapping[str, Callable[..., Any]] = {**self.people.verbs, "set_up": self._set_up}

    def attach(self, app: ChatApp) -> None:
        """The daemon has the app's plan and its penalties."""
        socket = self.socket = DaemonSocket(self.methods, app.plan, app.books)
        app.verbs |= {
            "cut": socket.cut,
            "under_way": lambda: len(socket.lines),
            "lost": lambda: socket.lost,
            "tcp_port": lambda: socket.port,
            "go": socket.close,
            "come": self.open,
        }

    async def open(self) -> None:
        assert self.socket is not None
        await self.socket.open(self._path, self._port)

    def _set_up(self, **changes: Any) -> None:
        """How the daemon is: mode, step, late, is_mute; several, is_linked, tells_id, token."""
        for name, value in changes.items():
            target = self.methods if hasattr(self.methods, name) else self.socket
            setattr(target, name, value)
        self._wake()

    def _wake(self) -> None:
        if self.socket is not None:
            self.socket.wake()

    # --- what ChatApp asks

    def accounts(self) -> Iterable[str]:
        return [self.world.number]

    def read(self, connection: Connection, body: bytes) -> ChatAsk | ChatReply:
        del connection, body
        return ChatReply(404, b"{}")

    async def perform(self, ask: ChatAsk, call: ChatCall, connection: Connection) -> ChatReply | None:
        raise NotImplementedError

    def refuse(self, seconds: float) -> ChatReply:
        raise NotImplementedError

    def fail(self, status: int, text: str) -> ChatReply:
        raise NotImplementedError

    async def leave(self) -> None:
        if self.socket is not None:
            await self.socket.close()


class SignalControl(ChatControl):
    """What people do and see, in words with types. A person is named by their id; a chat that is left out is theirs."""

    number = NUMBER

    @property
    def own_id(self) -> str:
        return str(self.do("own_id"))

    def add_person(self, name: str, number: str | None = "") -> str:
        """Somebody with a number of their own, with this one, or (None) with one that they hide."""
        return str(self.do("add_person", name=name, number=number))

    def add_group(self, name: str, members: Sequence[str]) -> str:
        return str(self.do("add_group", name=name, members=list(members)))

    def say(self, person: str, text: str, chat: str = "", mentions: Sequence[str] = (), quote: int = 0) -> int:
        return int(self.do("say", person=person, text=text, chat=chat, mentions=list(mentions), quote=quote))

    def edit(self, person: str, timestamp: int, text: str, chat: str = "") -> int:
        return int(self.do("edit", person=person, timestamp=timestamp, text=text, chat=chat))

    def send(self, person: str, data: bytes, name: str | None = None, **more: Any) -> int:
        """A file. More: mime, caption, chat, id."""
        return int(self.do("send", person=person, data=base64.b64encode(data).decode(), name=name, **more))

    def post(self, person: str, data: Mapping[str, Any], chat: str = "") -> int:
        return int(self.do("post", person=person, data=dict(data), chat=chat))

    def say_elsewhere(self, text: str, to: str) -> int:
        return int(self.do("say_elsewhere", text=text, to=to))

    def fail_decryption(self, person: str, kind: str) -> None:
        self.do("fail_decryption", person=person, kind=kind)

    def bring(self, body: Mapping[str, Any]) -> None:
        """Something of your own making, beside the account."""
        self.do("bring", body=dict(body))

    def redeliver(self, count: int = 1, backwards: bool = False) -> int:
        return int(self.do("redeliver", count=count, backwards=backwards))

    def seen(self, chat: str) -> list[str]:
        """The texts of ours that stand in the chat; of a file its name."""
        found: list[str] = self.do("seen", chat=chat)
        return found

    def messages(self, chat: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.do("messages", chat=chat)
        return found

    def typing(self, chat: str) -> int:
        return int(self.do("typing", chat=chat))

    @property
    def waiting(self) -> int:
        """Envelopes that the daemon has not fetched."""
        return int(self.do("waiting"))

    @property
    def lost(self) -> int:
        """Envelopes that the daemon has fetched, and could give to nobody."""
        return int(self.do("lost"))

    @property
    def tcp_port(self) -> int:
        return int(self.do("tcp_port"))

    def change_person(self, person: str, **changes: Any) -> None:
        self.do("change_person", person=person, **changes)

    def change_group(self, group: str, **changes: Any) -> None:
        self.do("change_group", group=group, **changes)

    def set_up(self, **changes: Any) -> None:
        """mode, step, late, is_mute; several, is_linked, tells_id, token."""
        self.do("set_up", **changes)

    def go(self) -> None:
        """The daemon ends."""
        self.do("go")

    def come(self) -> None:
        """And is there again."""
        self.do("come")


class SignalLab(SignalControl, ChatServer):
    """The server on a thread. `path`: of the UNIX socket."""

    def __init__(self, path: Path | None = None, *, port: int = 0) -> None:
        self.service = SignalService(path)
        app = ChatApp(self.service)
        self.service.attach(app)
        ChatServer.__init__(self, app, "hermes-lab-signal", port=port)

    def start(self) -> None:
        super().start()
        self.do("come")


class SignalRemote(SignalControl, ChatRemote):
    """Steers a server in another process."""


def serve(port: int = 0) -> None:
    """Serve until SIGINT or SIGTERM, with a person in it; prints what one needs to know. The port is the daemon's."""
    path = Path(tempfile.mkdtemp(prefix="hermes-lab-")) / "signal-cli.sock"
    service = SignalService(path, port)
    person = service.world.add_person("Ann")
    app = ChatApp(service)
    service.attach(app)
    listener = open_listener("127.0.0.1", 0)
    address = describe_address(listener)

    def announce() -> None:
        told = json.dumps({"person": person, "text": "Hello!"})
        seen = json.dumps({"chat": person})
        print(f"hermes lab signal: {address} (Ctrl-C ends it)")
        print(f"daemon: {path}, or 127.0.0.1:{service.socket and service.socket.port}")
        print(f"number: {NUMBER}\nperson: {person}")
        print(f"say: curl -s {address}/lab/say -d '{told}'\nsee: curl -s {address}/lab/seen -d '{seen}'")
        print(f"judgement: curl -s {address}/lab/complaints -d '{{}}'", flush=True)

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await service.open()
        try:
            await serve_until(stop, app, listener, announce, app.leave)
        finally:
            path.unlink(missing_ok=True)
            path.parent.rmdir()

    asyncio.run(run())
