"""Runs a chat app's server on a thread, and lets a test steer it: from the same process, or over HTTP from another."""

import asyncio
import http.client
import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from hermes_lab.chats.chat_app import ChatApp
from hermes_lab.chats.faults import ChatFault
from hermes_lab.hosting import LoopThread
from hermes_lab.values import LabProblem

_PATIENCE = 60.0  # seconds for a verb: it ends only what hangs


class ChatControl:
    """The verbs that all chat apps have. How one is performed is for who inherits this."""

    address: str = ""

    def do(self, verb: str, **arguments: Any) -> Any:
        raise NotImplementedError

    def calls(self, method: str = "", chat: int | str = "") -> list[dict[str, Any]]:
        """The calls so far, oldest first: number, at, method, chat, parameters, status, fault, took_effect, problem."""
        found: list[dict[str, Any]] = self.do("calls", method=method, chat=str(chat))
        return found

    @property
    def complaints(self) -> list[dict[str, Any]]:
        """What a good client would not have done: kind, text and the number of the call."""
        found: list[dict[str, Any]] = self.do("complaints")
        return found

    def forgive(self, *kinds: str) -> None:
        """Forget complaints of these kinds; all of them, when none is named."""
        self.do("forgive", kinds=list(kinds))

    def plan(self, faults: Iterable[ChatFault | Mapping[str, Any]], seed: int = 0) -> None:
        """What goes wrong from now on, in place of what was planned."""
        whole = [asdict(fault) if isinstance(fault, ChatFault) else dict(fault) for fault in faults]
        self.do("plan", faults=whole, seed=seed)

    @property
    def faults_left(self) -> int:
        return int(self.do("faults_left"))

    def punish(self, seconds: float, chat: int | str = "") -> None:
        """Refuse every call for so long: to one chat, or of the whole account."""
        self.do("punish", seconds=seconds, chat=str(chat))

    def advance(self, seconds: float) -> None:
        """Let the server's clock jump."""
        self.do("advance", seconds=seconds)

    @property
    def under_way(self) -> int:
        """Calls that wait for their answer."""
        return int(self.do("under_way"))

    def cut(self) -> int:
        """Cut every connection with a call under way; how many there were."""
        return int(self.do("cut"))


class ChatServer(ChatControl):
    """A server on a free loopback port and a thread of its own. A context manager, also of coroutines."""

    def __init__(self, app: ChatApp, name: str, host: str = "127.0.0.1", port: int = 0) -> None:
        self._app = app
        self._name = name
        self._host, self._port = host, port
        self._thread: LoopThread | None = None

    def start(self) -> None:
        self._thread = LoopThread(self._app, self._host, self._port, self._name, self._app.leave)
        self.address = self._thread.address

    def stop(self) -> None:
        thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    def do(self, verb: str, **arguments: Any) -> Any:
        """Perform a verb on the server's loop; it takes no longer than that loop is busy."""
        if self._thread is None:
            raise LabProblem("The server is not running.")
        return asyncio.run_coroutine_threadsafe(self._app.do(verb, arguments), self._thread.loop).result(_PATIENCE)

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.stop)


class ChatRemote(ChatControl):
    """The same verbs for a server in another process."""

    def __init__(self, address: str) -> None:
        self.address = address.rstrip("/")

    def do(self, verb: str, **arguments: Any) -> Any:
        line = http.client.HTTPConnection(urlsplit(self.address).netloc, timeout=_PATIENCE)
        try:
            line.request("POST", f"/lab/{verb}", json.dumps(arguments), {"content-type": "application/json"})
            found = json.loads(line.getresponse().read())
        finally:
            line.close()
        if "problem" in found:
            raise LabProblem(found["problem"])
        return found["result"]
