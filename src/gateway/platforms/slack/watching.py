"""The two ways in which messages come: a socket that we open, and signed requests of Slack."""

import asyncio
import contextlib
import json
import logging
import math
import time
from collections.abc import Awaitable, Callable, Mapping
from enum import Enum
from typing import Any
from urllib.parse import parse_qsl

from aiohttp import ClientWebSocketResponse, WSMsgType

from gateway.platforms import signing
from gateway.platforms.backoff import Pauses
from gateway.platforms.face import HookAnswer, HookRequest
from gateway.platforms.slack.link import SlackLink
from gateway.platforms.slack.reading_back import keep_busy
from gateway.platforms.slack.reception import SlackReception
from gateway.platforms.slack.refusals import (
    BAD_APP_TOKEN,
    BAD_APP_TOKEN_FIX,
    BAD_TOKEN,
    BAD_TOKEN_FIX,
    SOCKET_OFF,
    SOCKET_OFF_FIX,
    TOKEN_SECONDS,
    SlackTrouble,
    SlackTroubleKind,
)
from gateway.platforms.slack.wire import PayloadKind, SlackPayload
from gateway.platforms.slack.wire_out import SlackCall
from hermes_base.inbound import Address

_log = logging.getLogger(__name__)
SIGNATURE = signing.FORMS["slack"]
HELLO_SECONDS = 10.0
PING_SECONDS, SILENT_SECONDS = 10.0, 30.0  # a socket on which nothing comes for so long is dead
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0  # between two tries to open a socket
STEADY_SECONDS = 10.0  # a socket that held so long was no failure
SHORT_GAP = 60.0  # seconds without a socket, of which Slack brings by itself what fell into them
STORE_SECONDS = 2.5  # Slack waits three for an answer to its request
LOOK_SECONDS = 60.0  # between two looks at whether the token is still good
UNREACHED = "Slack cannot be reached ({}). It is tried again; what people write meanwhile is read then."

NoteLife = Callable[[str], None]  # a sign of life, with the problem that there is; empty: none
NoteProblem = Callable[[str], None]
FindLast = Callable[[], Awaitable[Mapping[Address, str]]]


class _End(Enum):
    """How a socket came to its end, or will."""

    GONE = "gone"
    REPLACED = "replaced"  # Slack asks for another one, and closes it soon
    DISABLED = "disabled"


class SocketWatch:
    """Listens on a socket of Socket Mode. What was not stored is not confirmed, and Slack brings it again (C1)."""

    def __init__(
        self, link: SlackLink, reception: SlackReception, find_last: FindLast, alive: NoteLife, troubled: NoteProblem
    ) -> None:
        self._link = link
        self._reception = reception
        self._find_last = find_last
        self._alive = alive
        self._troubled = troubled
        self._pauses = Pauses(FIRST_PAUSE, LONGEST_PAUSE)
        self._socket: ClientWebSocketResponse | None = None
        self._opened = self._heard = -math.inf  # when a socket was opened, and when one was heard
        self._beside: set[asyncio.Task[Any]] = set()  # sockets that go, and confirmations on their way

    async def open(self) -> None:
        """The first socket; SlackTrouble when there is none to be had."""
        self._socket = await self._open()

    async def run(self) -> None:
        try:
            while True:
                socket = self._socket = self._socket or await self._open_again()
                end = await self._read(socket)
                self._socket = None
                if end is _End.REPLACED:
                    self._begin(self._read_out(socket))
                else:
                    await socket.close()
                if end is _End.DISABLED:
                    self._troubled(f"{SOCKET_OFF} {SOCKET_OFF_FIX}")
                    await asyncio.sleep(TOKEN_SECONDS)
                await self._rest()
        finally:
            await self._leave()

    async def _rest(self) -> None:
        """Sockets that end as soon as they are open are opened ever less often; after one that held, at once."""
        if time.monotonic() - self._opened > STEADY_SECONDS:
            self._pauses.reset()
        elif self._pauses.failures:
            await asyncio.sleep(self._pauses.next())
        else:
            self._pauses.failures += 1

    async def _leave(self) -> None:
        socket, self._socket = self._socket, None
        for task in self._beside:
            task.cancel()
        await asyncio.gather(*self._beside, return_exceptions=True)
        if socket is not None:
            await socket.close()

    async def _open(self) -> ClientWebSocketResponse:
        """A socket whose first word was heard. What was missed comes before all that comes on it."""
        last = await self._find_last()
        socket = await self._link.open_socket()
        try:
            async with asyncio.timeout(HELLO_SECONDS):
                frame = await socket.receive()
                while frame.type in (WSMsgType.PING, WSMsgType.PONG):
                    await _answer_ping(socket, frame.type, frame.data)
                    frame = await socket.receive()
            if frame.type is not WSMsgType.TEXT or _read_json(frame.data).get("type") != "hello":
                raise SlackTrouble(SlackTroubleKind.UNSENT, "the socket was closed at once")
        except TimeoutError:
            await socket.close()
            raise SlackTrouble(SlackTroubleKind.UNSENT, "the socket says nothing") from None
        except BaseException:
            await socket.close()
            raise
        now = time.monotonic()
        self._reception.read_on(last if now - self._heard > SHORT_GAP else keep_busy(last, time.time()))
        self._opened = self._heard = now
        self._alive("")
        return socket

    async def _open_again(self) -> ClientWebSocketResponse:
        while True:
            try:
                socket = await self._open()
            except SlackTrouble as trouble:
                _log.warning("A socket to Slack could not be opened: %s", trouble)
                self._troubled(say_trouble(trouble, of_app=True))
                await asyncio.sleep(self._choose_pause(trouble))
                continue
            return socket

    def _choose_pause(self, trouble: SlackTrouble) -> float:
        if trouble.kind in (SlackTroubleKind.TOKEN, SlackTroubleKind.SCOPE) or trouble.error in _SOCKET_ERRORS:
            return TOKEN_SECONDS
        return trouble.seconds or self._pauses.next()

    # --- one socket

    async def _read(self, socket: ClientWebSocketResponse) -> _End:
        """Take what comes until the socket ends, or until Slack asks for another one."""
        heard = [time.monotonic()]
        pinging = asyncio.create_task(_ping(socket, heard))
        try:
            while True:
                frame = await socket.receive()
                if frame.type in (WSMsgType.CLOSE, WSMsgType.CLOSING, WSMsgType.CLOSED, WSMsgType.ERROR):
                    return _End.GONE
                heard[0] = self._heard = time.monotonic()
                self._alive("")
                if frame.type is not WSMsgType.TEXT:
                    await _answer_ping(socket, frame.type, frame.data)
                    continue
                end = self._take(socket, _read_json(frame.data))
                if end is not None:
                    return end
        finally:
            pinging.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await pinging

    async def _read_out(self, socket: ClientWebSocketResponse) -> None:
        """A socket that Slack will close: what still comes on it is taken, and confirmed there."""
        try:
            while await self._read(socket) is _End.REPLACED:
                pass
        finally:
            await socket.close()

    def _take(self, socket: ClientWebSocketResponse, frame: Mapping[str, Any]) -> _End | None:
        if frame.get("type") == "disconnect":
            reason = frame.get("reason")
            _log.info("Slack ends a socket: %s", reason)
            return _End.DISABLED if reason == "link_disabled" else _End.REPLACED
        envelope, payload = frame.get("envelope_id"), read_envelope(frame)
        if isinstance(envelope, str):
            settled = self._reception.put(payload) if payload else None
            self._begin(_confirm(socket, envelope, settled))
        return None

    def _begin(self, work: Awaitable[None]) -> None:
        task = asyncio.ensure_future(work)
        self._beside.add(task)
        task.add_done_callback(self._beside.discard)


#: Errors of `apps.connections.open` that are the owner's to put right.
_SOCKET_ERRORS: Mapping[str, str] = {
    "not_allowed_token_type": f"{BAD_APP_TOKEN} {BAD_APP_TOKEN_FIX}",
    "socket_mode_not_enabled": f"{SOCKET_OFF} {SOCKET_OFF_FIX}",
    "forbidden_team": f"{SOCKET_OFF} {SOCKET_OFF_FIX}",
}


def say_trouble(trouble: SlackTrouble, *, of_app: bool) -> str:
    """What keeps us from listening, in a sentence for the owner."""
    if of_app and trouble.error in _SOCKET_ERRORS:
        return _SOCKET_ERRORS[trouble.error]
    if trouble.kind in (SlackTroubleKind.TOKEN, SlackTroubleKind.SCOPE):
        return f"{BAD_APP_TOKEN} {BAD_APP_TOKEN_FIX}" if of_app else f"{BAD_TOKEN} {BAD_TOKEN_FIX}"
    return UNREACHED.format(trouble)


async def _confirm(socket: ClientWebSocketResponse, envelope: str, settled: asyncio.Future[bool] | None) -> None:
    """Tell Slack that it was taken, on the socket on which it came."""
    if settled is not None and not await settled:
        return
    if not socket.closed:
        with contextlib.suppress(OSError, RuntimeError):  # it went meanwhile: Slack brings it again, and it is known
            await socket.send_str(json.dumps({"envelope_id": envelope}))


async def _ping(socket: ClientWebSocketResponse, heard: list[float]) -> None:
    """C13: a dead connection is noticed, and closed."""
    while not socket.closed:
        await asyncio.sleep(PING_SECONDS)
        if time.monotonic() - heard[0] > SILENT_SECONDS:
            _log.warning("A socket to Slack has been silent for too long; another one is opened.")
            await socket.close()
            return
        with contextlib.suppress(OSError, RuntimeError):
            await socket.ping()


async def _answer_ping(socket: ClientWebSocketResponse, kind: WSMsgType, data: Any) -> None:
    if kind is WSMsgType.PING:
        with contextlib.suppress(OSError, RuntimeError):
            await socket.pong(data)


def _read_json(text: Any) -> Mapping[str, Any]:
    try:
        found = json.loads(text)
    except (ValueError, TypeError, RecursionError):
        found = None
    if not isinstance(found, dict):
        _log.warning("Slack sent something that is no object; it is left out.")
        return {}
    return found


def read_envelope(frame: Mapping[str, Any]) -> SlackPayload | None:
    """What a frame brings; None: nothing that we know."""
    kind, payload = frame.get("type"), frame.get("payload")
    if kind not in tuple(PayloadKind) or not isinstance(payload, Mapping):
        return None
    content = payload.get("event") if kind == PayloadKind.EVENT else payload
    return SlackPayload(PayloadKind(kind), content) if isinstance(content, Mapping) else None


# --- requests


class SlackDoor:
    """Takes Slack's requests, and looks once a minute whether the token is still good."""

    def __init__(
        self,
        link: SlackLink,
        reception: SlackReception,
        secret: str,
        find_last: FindLast,
        alive: NoteLife,
        troubled: NoteProblem,
    ) -> None:
        self._link = link
        self._reception = reception
        self._secret = secret
        self._find_last = find_last
        self._heard = time.monotonic()  # a request of Slack
        self._alive = alive
        self._troubled = troubled

    async def receive(self, request: HookRequest) -> HookAnswer:
        """200 when what it brings is settled; whatever else Slack hears, it sends it again."""
        if not signing.check(SIGNATURE, request.headers, request.body, [self._secret], time.time()):
            return HookAnswer(401)
        if request.method != "POST":
            return HookAnswer(405)
        content = read_request(request)
        if content is None:
            _log.warning("Slack sent something that cannot be read; it is left out.")
            return HookAnswer(400)
        self._alive("")
        if content.get("type") == "url_verification":
            return HookAnswer(200, str(content.get("challenge") or ""))
        if content.get("type") == "app_rate_limited":
            _log.warning("Slack keeps events back: there were too many within an hour.")
        payload = read_content(content)
        if payload is None:
            return HookAnswer(200)
        await self._read_on(payload.channel)
        settled = self._reception.put(payload)
        await asyncio.wait({settled}, timeout=STORE_SECONDS)
        done = settled.done() and not settled.cancelled() and settled.result()
        return HookAnswer(200 if done else 503)

    async def _read_on(self, channel: str) -> None:
        """Whoever stands between Slack and us may have been away for longer than Slack tries: after a silence, what was
        said in a channel is read before anything new of it is taken."""
        now, before = time.monotonic(), self._heard
        self._heard = now
        if now - before > SHORT_GAP:
            last = await self._find_last()
            self._reception.read_on({one: message for one, message in last.items() if one.chat == channel})

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            await self.look()

    async def look(self) -> None:
        try:
            await self._link.call(SlackCall("auth.test", {}, form=True))
        except SlackTrouble as trouble:
            self._troubled(say_trouble(trouble, of_app=False))
        else:
            self._alive("")


def read_request(request: HookRequest) -> Mapping[str, Any] | None:
    """The content of a request: JSON of events, or the fields of a form; a pressed button is JSON in one of them."""
    try:
        if request.headers.get("content-type", "").startswith("application/json"):
            found = json.loads(request.body)
        else:
            form = dict(parse_qsl(request.body.decode(), keep_blank_values=True, max_num_fields=100))
            found = json.loads(form["payload"]) if "payload" in form else form
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def read_content(content: Mapping[str, Any]) -> SlackPayload | None:
    if content.get("type") == "event_callback":
        event = content.get("event")
        return SlackPayload(PayloadKind.EVENT, event) if isinstance(event, Mapping) else None
    if content.get("type") == "block_actions":
        return SlackPayload(PayloadKind.ACTION, content)
    return SlackPayload(PayloadKind.COMMAND, content) if "command" in content else None
