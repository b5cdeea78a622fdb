"""The daemon's socket: lines in and out, calls beside each other, news for those who listen."""

import asyncio
import contextlib
import json
import random
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes_lab.chats import faults
from hermes_lab.chats.chat_app import GRACE, PENALTY
from hermes_lab.chats.faults import ChatFault, FaultPlan
from hermes_lab.chats.rates import ACCOUNT, RateBook, Share
from hermes_lab.chats.record import ChatCall
from hermes_lab.chats.signal.daemon_methods import INTERNAL, DaemonAsk, DaemonError, DaemonMethods, find_chat

MANUAL, ON_START, ON_CONNECTION = "manual", "on-start", "on-connection"
MOST_STRING = 20_000_000  # signs of one text of its JSON
PARSE, INVALID = -32700, -32600
IDS, SIZE = "id", "size"  # kinds of complaints
#: Methods that a penalty is about.
_COUNTED = ("send",)


class DaemonLine:
    """One connection of a client."""

    def __init__(self, socket: "DaemonSocket", reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._socket, self._reader, self._writer = socket, reader, writer
        self._live: set[Any] = set()  # ids of calls under way
        self._tasks: set[asyncio.Task[None]] = set()
        self._writing = asyncio.Lock()
        self.subscriptions: set[int] = set()

    async def run(self) -> None:
        try:
            while data := await self._read():
                await self._take(data)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            for task in self._tasks:
                task.cancel()
            await asyncio.gather(*self._tasks, return_exceptions=True)
            self.abort()

    async def _read(self) -> bytes:
        line = await self._reader.readuntil(b"\n")
        return line if len(line) > 1 else b"\n"

    async def _take(self, data: bytes) -> None:
        if data == b"\n":
            await self.put({"jsonrpc": "2.0", "error": {"code": PARSE, "message": "empty line"}, "id": None})
            return
        try:
            found = json.loads(data)
        except ValueError:
            await self.put({"jsonrpc": "2.0", "error": {"code": PARSE, "message": "no JSON"}, "id": None})
            return
        if _find_longest(found) > MOST_STRING:
            self._socket.complain(SIZE, "a text of more than 20,000,000 signs ends the line")
            self.abort()
            return
        id = found.get("id") if isinstance(found, Mapping) else None
        if not isinstance(found, Mapping) or found.get("jsonrpc") != "2.0" or not isinstance(found.get("method"), str):
            await self.put({"jsonrpc": "2.0", "error": {"code": INVALID, "message": "invalid"}, "id": id})
            return
        if id is not None and id in self._live:
            self._socket.complain(IDS, "two calls under way have the same id")
        self._live.add(id)
        task = asyncio.create_task(self._serve(id, str(found["method"]), found.get("params") or {}))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, id: Any, method: str, params: Mapping[str, Any]) -> None:
        try:
            answer = await self._socket.serve(self, method, params)
        except DaemonError as error:
            answer = {"error": {"code": error.code, "message": error.text, "data": error.data}}
        self._live.discard(id)
        if answer is not None and id is not None:
            await self._socket.dawdle()
            await self.put({"jsonrpc": "2.0", **answer, "id": id})

    async def put(self, message: Mapping[str, Any]) -> bool:
        """Whether it was written; nobody knows whether it was read."""
        return await self.put_raw(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def put_raw(self, data: bytes) -> bool:
        try:
            async with self._writing:
                for piece in self._socket.cut_up(data):
                    self._writer.write(piece)
                    await self._writer.drain()
        except OSError:
            return False
        return not self._writer.is_closing()

    def abort(self) -> None:
        self._writer.transport.abort()


class DaemonSocket:
    """All connections. `mode`: how the daemon was told to receive."""

    def __init__(self, methods: DaemonMethods, plan: FaultPlan, books: dict[str, RateBook]) -> None:
        self._methods, self._plan, self._books = methods, plan, books
        self.record = methods.record
        self.mode = MANUAL
        self.lines: set[DaemonLine] = set()
        self.lost = 0  # envelopes that the daemon fetched while nobody listened
        self.step = 0  # bytes that are written at once; 0: all
        self.late = 0.0  # seconds by which an answer may be late, by chance
        self.is_mute = False  # nothing is answered
        self._die = random.Random(0)
        self._next = 0
        self._servers: list[asyncio.Server] = []
        self._arrived = asyncio.Event()
        self._bringing: asyncio.Task[None] | None = None
        self.port = 0

    # --- being there

    async def open(self, path: Path | None, port: int = 0) -> None:
        limit = 2 * MOST_STRING
        tcp = await asyncio.start_server(self._greet, "127.0.0.1", port or self.port, limit=limit)
        self.port = tcp.sockets[0].getsockname()[1]
        self._servers = [tcp]
        if path is not None:
            self._servers.append(await asyncio.start_unix_server(self._greet, path, limit=limit))
        self._bringing = asyncio.create_task(self._bring_on())

    async def close(self) -> None:
        for server in self._servers:
            server.close()
        self._servers = []
        self.cut()
        if self._bringing is not None:
            self._bringing.cancel()
            await asyncio.gather(self._bringing, return_exceptions=True)
            self._bringing = None
        while self.lines:
            self.cut()
            await asyncio.sleep(0)

    def cut(self) -> int:
        cut = len(self.lines)
        for line in list(self.lines):
            line.abort()
        return cut

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        line = DaemonLine(self, reader, writer)
        self.lines.add(line)
        self._arrived.set()
        try:
            await line.run()
        finally:
            self.lines.discard(line)

    # --- news

    def wake(self) -> None:
        self._arrived.set()

    async def _bring_on(self) -> None:
        """Each envelope is fetched once, and given to whoever listens then: at most once (and to nobody, where the
        daemon receives by itself)."""
        queue = self._methods.world.queue
        while True:
            self._arrived.clear()
            while queue and self._receives():
                await self._give(queue.popleft())
            await self._arrived.wait()

    def _receives(self) -> bool:
        listened = any(line.subscriptions for line in self.lines)
        return listened or self.mode == ON_START or (self.mode == ON_CONNECTION and bool(self.lines))

    async def _give(self, body: Mapping[str, Any]) -> None:
        news = {"account": self._methods.world.number, **body}
        given = False
        for line in list(self.lines):
            if self.mode != MANUAL:
                given |= await line.put({"jsonrpc": "2.0", "method": "receive", "params": news})
            for subscription in sorted(line.subscriptions):
                params = {"subscription": subscription, "result": news}
                given |= await line.put({"jsonrpc": "2.0", "method": "receive", "params": params})
        self.lost += not given

    # --- calls

    async def serve(self, line: DaemonLine, method: str, params: Mapping[str, Any]) -> dict[str, Any] | None:
        """What is answered; None: nothing."""
        call = self.record.note(self._methods.world.number, method, find_chat(params), _shorten(params))
        ask = DaemonAsk(method, params, call)
        if self.is_mute:
            return None
        self._methods.check(ask)
        early = self._judge_time(ask)
        if early is not None:
            raise early
        fault = self._plan.take(method, ask.chat)
        if fault is None:
            return await self._perform(line, ask)
        call.fault = fault.kind
        return await self._spoil(line, ask, fault)

    async def _perform(self, line: DaemonLine, ask: DaemonAsk) -> dict[str, Any]:
        match ask.method:
            case "subscribeReceive":
                self._next += 1
                line.subscriptions.add(self._next)
                self._arrived.set()
                result: Any = self._next
            case "unsubscribeReceive":
                line.subscriptions.discard(ask.params.get("subscription"))
                result = {}
            case _:
                result = self._methods.perform(ask)
        ask.call.took_effect = True
        return {"result": result}

    async def _spoil(self, line: DaemonLine, ask: DaemonAsk, fault: ChatFault) -> dict[str, Any] | None:
        match fault.kind:
            case faults.TOO_MANY:
                self._book().punish(
                    self.record.clock.now(), ACCOUNT if fault.whole_account else ask.chat, fault.seconds
                )
                raise self._judge_time(ask) or self._methods.refuse(ask, fault.seconds)
            case faults.ERROR:
                raise DaemonError(fault.status if fault.status < 0 else INTERNAL, fault.text or "it went wrong")
            case faults.PAGE:
                await line.put_raw(b"<html>no JSON</html>\n[1,2]\nnull\n{}\n")
                return await self._perform(line, ask)
            case faults.CUT_BEFORE:
                line.abort()
                return None
            case faults.SILENT:
                return None
            case faults.CUT_AFTER:
                await self._perform(line, ask)
                line.abort()
                return None
            case faults.SILENT_AFTER:
                await self._perform(line, ask)
                return None
        await asyncio.sleep(fault.seconds)
        return await self._perform(line, ask)

    def _judge_time(self, ask: DaemonAsk) -> DaemonError | None:
        """The refusal of a call that comes during a penalty."""
        if ask.method not in _COUNTED:
            return None
        now = self.record.clock.now()
        penalty = self._book().find_penalty(now, [Share(ACCOUNT), Share(ask.chat)])
        if penalty is None:
            return None
        if not penalty.told_at:
            penalty.told_at = now
        elif now > penalty.told_at + GRACE:
            self.complain(PENALTY, f"{ask.method} during a penalty", ask.call)
        return self._methods.refuse(ask, penalty.until - now)

    def _book(self) -> RateBook:
        return self._books.setdefault(self._methods.world.number, RateBook())

    def complain(self, kind: str, text: str, call: ChatCall | None = None) -> None:
        self.record.complain(kind, f"{text}.", call)

    # --- how it writes

    async def dawdle(self) -> None:
        """Answers come in any order."""
        if self.late:
            await asyncio.sleep(self._die.random() * self.late)

    def cut_up(self, data: bytes) -> list[bytes]:
        if not self.step:
            return [data]
        return [data[at : at + self.step] for at in range(0, len(data), self.step)]


def _find_longest(found: Any) -> int:
    match found:
        case str():
            return len(found)
        case list():
            return max(map(_find_longest, found), default=0)
        case dict():
            return max(map(_find_longest, found.values()), default=0)
    return 0


def _shorten(params: Mapping[str, Any]) -> dict[str, Any]:
    """For the record: without the bytes of files."""
    shown = dict(params)
    with contextlib.suppress(TypeError):
        if shown.get("attachments"):
            shown["attachments"] = [str(one)[:80] for one in shown["attachments"]]
    return shown
