"""Brings what happens to the app: on one of its sockets, or by signed requests; again, as often as Slack does, when
nobody takes it."""

import asyncio
import hashlib
import hmac
import itertools
import json
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from hermes_lab.chats.chat_socket import ChatSocket
from hermes_lab.chats.record import ChatRecord
from hermes_lab.chats.slack.slack_world import APP, BOT_USER, TEAM, SlackWorld

ACK_SECONDS = 3.0
RETRY_PAUSES = (0.0, 60.0, 300.0)
MOST_SOCKETS = 10
EVENTS, ACTIONS, COMMANDS = "events_api", "interactive", "slash_commands"
ACK, SOCKET, HOOK = "ack", "socket", "hook"  # kinds of complaints
#: After the word that a socket ends: for another one to be opened, and from then on to its end.
GRACE_SECONDS, CLOSE_SECONDS = 10.0, 0.5


@dataclass(slots=True)
class Brought:
    """One thing that the app has to be told."""

    kind: str
    payload: Mapping[str, Any]  # of an event: with its wrapper
    channel: str
    tries: int = 0
    taken: asyncio.Event = field(default_factory=asyncio.Event)


@dataclass(slots=True)
class SlackSocket:
    line: ChatSocket
    going: bool = False  # Slack has said that it ends
    envelopes: dict[str, Brought] = field(default_factory=dict)
    answered: set[str] = field(default_factory=set)


class Bringing:
    def __init__(self, world: SlackWorld, record: ChatRecord, ack_seconds: float, pauses: tuple[float, ...]) -> None:
        self.world = world
        self.record = record
        self.ack_seconds = ack_seconds
        self.pauses = pauses
        self.hook = ""  # where requests go; empty: to sockets
        self.attempts: list[dict[str, Any]] = []
        self.past: deque[Brought] = deque(maxlen=1000)
        self.lost = 0
        self.sockets: list[SlackSocket] = []
        self._opened = asyncio.Event()  # another socket
        self._tickets: set[str] = set()
        self._numbers = itertools.count(1)
        self._tasks: set[asyncio.Task[None]] = set()
        self._turns: dict[str, asyncio.Lock] = {}  # requests about one channel go one after the other

    # --- what happens

    def tell_event(self, event: Mapping[str, Any]) -> None:
        number = next(self._numbers)
        payload = {
            "token": "unused",
            "team_id": TEAM,
            "api_app_id": APP,
            "type": "event_callback",
            "event_id": f"Ev0{number:07d}",
            "event_time": int(self.world.clock.date()),
            "authorizations": [{"enterprise_id": None, "team_id": TEAM, "user_id": BOT_USER, "is_bot": True}],
            "event": event,
        }
        self._begin(Brought(EVENTS, payload, str(event.get("channel") or "")))

    def tell(self, kind: str, payload: Mapping[str, Any], channel: str) -> None:
        """A pressed button or a slash command: it is brought once."""
        self._begin(Brought(kind, payload, channel))

    def redeliver(self, count: int, backwards: bool) -> int:
        """Bring the last messages once more, as if nobody had confirmed them."""
        events = [one for one in self.past if one.kind == EVENTS and one.payload["event"].get("type") == "message"]
        chosen = events[-count:]
        for one in reversed(chosen) if backwards else chosen:
            again = Brought(one.kind, one.payload, one.channel, tries=1)
            self._start(self._bring(again))
        return len(chosen)

    def count_open(self) -> int:
        """What was not confirmed yet, and will be brought again."""
        return len(self._tasks)

    async def leave(self) -> None:
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _begin(self, brought: Brought) -> None:
        self.past.append(brought)
        self._start(self._bring(brought))

    def _start(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _bring(self, brought: Brought) -> None:
        pauses = self.pauses if brought.kind == EVENTS else ()
        for pause in (0.0, *pauses):
            if pause:
                await asyncio.sleep(pause)
            if await (self._request(brought) if self.hook else self._send(brought)):
                return
            brought.tries += 1
        self.lost += 1

    # --- sockets

    def make_url(self, address: str) -> str:
        ticket = f"ticket{next(self._numbers):05d}"
        self._tickets.add(ticket)
        return f"{address.replace('http', 'ws', 1)}/link/?ticket={ticket}&app_id={APP}"

    async def attend(self, line: ChatSocket) -> None:
        ticket = parse_qs(line.query).get("ticket", [""])[0]
        if ticket not in self._tickets or len(self.sockets) >= MOST_SOCKETS:
            self.record.complain(SOCKET, "A socket is opened with a ticket that is not good, or it is one too many.")
            await line.refuse()
            return
        self._tickets.discard(ticket)
        await line.accept()
        socket = SlackSocket(line)
        about = {"num_connections": len(self.sockets) + 1, "connection_info": {"app_id": APP}}
        line.put(json.dumps({"type": "hello", **about, "debug_info": {"host": "lab"}}))
        writing = asyncio.create_task(line.run_writer())
        self.sockets.append(socket)
        self._opened.set()
        try:
            while (frame := await line.read()) is not None:
                self._take_answer(socket, frame)
        finally:
            writing.cancel()
            await asyncio.gather(writing, return_exceptions=True)
            self.sockets.remove(socket)

    def _take_answer(self, socket: SlackSocket, frame: str | bytes) -> None:
        try:
            answer = json.loads(frame)
            envelope = str(answer["envelope_id"])
        except (ValueError, TypeError, KeyError):
            self.record.complain(ACK, "A frame on a socket names no envelope.")
            return
        if envelope not in socket.envelopes or envelope in socket.answered:
            self.record.complain(ACK, f"The envelope {envelope} is not known on this socket, or was confirmed before.")
            return
        if answer.get("payload") and socket.envelopes[envelope].kind == EVENTS:
            self.record.complain(ACK, "An event is confirmed with a payload, which it does not take.")
        socket.answered.add(envelope)
        socket.envelopes[envelope].taken.set()

    async def _send(self, brought: Brought) -> bool:
        ready = [socket for socket in self.sockets if not socket.going]
        if not ready:
            return False
        socket, envelope = ready[next(self._numbers) % len(ready)], f"env-{next(self._numbers):06d}"
        socket.envelopes[envelope] = brought
        frame: dict[str, Any] = {"envelope_id": envelope, "type": brought.kind, "payload": brought.payload}
        frame["accepts_response_payload"] = brought.kind != EVENTS
        if brought.kind == EVENTS:
            frame |= {"retry_attempt": brought.tries, "retry_reason": "timeout" if brought.tries else ""}
        socket.line.put(json.dumps(frame))
        try:
            async with asyncio.timeout(self.ack_seconds):
                await brought.taken.wait()
        except TimeoutError:
            return brought.taken.is_set()
        return True

    def disconnect(self, reason: str) -> int:
        """Say on each socket that it ends, and close it soon after."""
        gone = [socket for socket in self.sockets if not socket.going]
        for socket in gone:
            socket.going = True
            socket.line.put(json.dumps({"type": "disconnect", "reason": reason, "debug_info": {}}))
            self._start(self._close_soon(socket))
        return len(gone)

    async def _close_soon(self, socket: SlackSocket) -> None:
        """A good client opens another one before this one goes."""
        self._opened.clear()
        try:
            async with asyncio.timeout(GRACE_SECONDS):
                await self._opened.wait()
        except TimeoutError:
            if socket in self.sockets and self.world.app.socket_mode:
                self.record.complain(SOCKET, "No other socket was opened before this one goes.")
        await asyncio.sleep(CLOSE_SECONDS)
        socket.line.close(1000)

    def freeze(self) -> None:
        """Nothing more comes or goes on the sockets, and nobody says so."""
        for socket in self.sockets:
            socket.going = True
            socket.line.freeze()

    # --- requests

    async def _request(self, brought: Brought) -> bool:
        async with self._turns.setdefault(brought.channel, asyncio.Lock()):
            if brought.kind == EVENTS:
                body, kind = json.dumps(brought.payload).encode(), "application/json"
            else:
                form = brought.payload if brought.kind == COMMANDS else {"payload": json.dumps(brought.payload)}
                body, kind = urlencode(form).encode(), "application/x-www-form-urlencoded"
            more = {"X-Slack-Retry-Num": str(brought.tries), "X-Slack-Retry-Reason": "http_error"}
            status, _ = await self.post(body, kind, more if brought.tries else {})
        return 200 <= status < 300

    async def post(
        self, body: bytes, kind: str, more: Mapping[str, str], secret: str = "", age: float = 0.0
    ) -> tuple[int, bytes]:
        """One signed request; status 0: nobody answered in time."""
        time = str(int(self.world.clock.date() - age))
        key = (secret or self.world.app.signing_secret).encode()
        signature = hmac.new(key, f"v0:{time}:".encode() + body, hashlib.sha256).hexdigest()
        headers = {"X-Slack-Request-Timestamp": time, "X-Slack-Signature": f"v0={signature}", "Content-Type": kind}
        try:
            async with asyncio.timeout(self.ack_seconds):
                status, answer = await _post(self.hook, body, {**headers, **more})
        except (OSError, TimeoutError, EOFError, ValueError):
            status, answer = 0, b""
        self.attempts.append({"status": status, "retry": more.get("X-Slack-Retry-Num", "")})
        return status, answer


async def _post(url: str, body: bytes, headers: Mapping[str, str]) -> tuple[int, bytes]:
    """A POST by hand: one request on one connection."""
    parts = urlsplit(url)
    lines = [f"POST {parts.path or '/'} HTTP/1.1", f"Host: {parts.netloc}", "Connection: close"]
    lines += [f"Content-Length: {len(body)}", *(f"{name}: {value}" for name, value in headers.items())]
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or 80)
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        found = {name.strip().lower(): text.strip() for name, _, text in (row.partition(":") for row in head[1:])}
        length = found.get("content-length", "")
        answer = await reader.readexactly(int(length)) if length.isdecimal() else await reader.read()
        return int(head[0].split(" ")[1]), answer
    finally:
        writer.close()
