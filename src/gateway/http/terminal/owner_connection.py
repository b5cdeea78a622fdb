"""One connection at the socket of the home: HTTP/1.1, and the calls that are made over it. Small, since a terminal that
hosts the gateway loads it at its start, and short, since each message of a terminal passes it several times."""

import asyncio
import logging
import os
from collections import deque
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import cast

import httptools
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Message

from gateway.http.calls import Handler, answer_failure
from gateway.http.terminal import listening
from hermes_base.local_wire import MOST_BODY

log = logging.getLogger(__name__)

READ_SECONDS = 60.0  # in which a client takes nothing of what is sent
MOST_HEAD = 64 * 1024  # bytes
MOST_DROPPED = 64 * 1024 * 1024  # bytes behind a body that is too long
MOST_WAITING = 16  # requests of one client; it is meant to wait for its answers
#: To a terminal of an older version, in its own words: it spoke in lines of JSON.
OLDER = (
    b'{"type":"error","text":"This terminal is older than the gateway that it talks to. What you said before is kept. '
    b'Leave it and start hermes anew."}\n'
)


Calls = Mapping[tuple[str, str], Handler]  # by method and path


@dataclass(slots=True)
class OwnerRequest:
    """A request as it comes in."""

    url: bytes = b""
    headers: list[tuple[bytes, bytes]] = field(default_factory=list)
    body: bytearray = field(default_factory=bytearray)
    method: str = ""
    keeps: bool = True  # another may follow on this connection

    async def receive(self) -> Message:
        return {"type": "http.request", "body": bytes(self.body), "more_body": False}


class OwnerConnection(asyncio.Protocol):
    """Requests of one client, which is the owner of the home and nobody else, one after the other. When it goes away, a
    stream is cut, and a call goes on to its end: half of it may be done."""

    def __init__(self, calls: Calls, connections: "set[OwnerConnection]", *, closing: bool) -> None:
        """`closing`: it comes while the socket closes, and is closed with it."""
        self._calls = calls
        self._connections = connections
        self._loop = asyncio.get_running_loop()
        self._parser = httptools.HttpRequestParser(self)
        self._coming = OwnerRequest()
        self._begun = False
        self._head_bytes = 0  # that came of a head which is not whole yet
        self._dropped = 0  # bytes of a body that is too long
        self._waiting: deque[OwnerRequest] = deque()
        self._answering: asyncio.Task[None] | None = None
        self._closing = closing
        self._streams = False  # what is being answered
        self._room: asyncio.Future[None] | None = None  # while the client does not read
        self.closed: asyncio.Future[None] = self._loop.create_future()

    # --- asyncio.Protocol

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connections.add(self)
        if listening.peer_uid(transport.get_extra_info("socket")) != os.getuid():
            log.warning("A process of another user was turned away from the socket.")
            self._closing = True
        if self._closing:
            self.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._connections.discard(self)
        if self._answering is not None and self._streams:
            self._answering.cancel()
        self.resume_writing()
        if not self.closed.done():
            self.closed.set_result(None)

    def eof_received(self) -> bool:
        """Who has said all may still wait for an answer; whether somebody reads a stream is not known then."""
        self._closing = True
        return self._answering is not None and not self._streams

    def data_received(self, data: bytes) -> None:
        begun, self._begun = self._begun, True
        if not begun and data.startswith(b"{"):  # no request begins so
            self._transport.write(OLDER)
            self._transport.close()
            return
        self._head_bytes += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            self._closing = True  # it is answered in this protocol, and what it says next is in another one
        except httptools.HttpParserError as problem:
            log.info("a client sends no HTTP: %s", problem)
            self._refuse()
        if self._head_bytes > MOST_HEAD or len(self._waiting) > MOST_WAITING:
            self._refuse()

    def _refuse(self) -> None:
        if self._answering is None:
            self._transport.write(b"HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        self._transport.close()

    def pause_writing(self) -> None:
        self._room = self._loop.create_future()

    def resume_writing(self) -> None:
        room, self._room = self._room, None
        if room is not None and not room.done():
            room.set_result(None)

    # --- httptools

    def on_url(self, url: bytes) -> None:
        self._coming.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._coming.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        """One that is too long is read to its end, so that whoever sends it hears why it is refused."""
        self._head_bytes = 0
        if len(self._coming.body) <= MOST_BODY:
            self._coming.body += body
            return
        self._dropped += len(body)
        if self._dropped > MOST_DROPPED:
            self._transport.close()

    def on_message_complete(self) -> None:
        self._head_bytes = 0
        self._coming.method = self._parser.get_method().decode("ascii")
        self._coming.keeps = self._parser.should_keep_alive() and not self._dropped
        self._waiting.append(self._coming)
        self._coming = OwnerRequest()
        if self._answering is None:
            self._answering = self._loop.create_task(self._answer_all())

    # --- answers

    def finish(self) -> None:
        """No other request is taken; what is being answered is answered to its end."""
        self._closing = True
        if self._answering is None:
            self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    async def _answer_all(self) -> None:
        try:
            while self._waiting and not self._transport.is_closing():
                request = self._waiting.popleft()
                await self._answer(request)
                if self._closing or not request.keeps:
                    self._transport.close()
        except OSError:
            log.debug("a client went away, or does not read")
            self._transport.abort()
        except Exception:  # the boundary to a client
            log.exception("a call of a client broke")
            self._transport.close()
        finally:
            self._answering = None

    async def _answer(self, request: OwnerRequest) -> None:
        self._streams = False
        path, _, query = request.url.partition(b"?")
        place = path.decode("ascii", "replace")
        scope = {"type": "http", "method": request.method, "path": place, "query_string": query}
        call = self._calls.get((request.method, place))
        asked = Request({**scope, "headers": request.headers}, request.receive)
        answer = answer_failure(HTTPException(404)) if call is None else await call(asked)
        status, lines = HTTPStatus(answer.status_code), [b"%b: %b\r\n" % header for header in answer.raw_headers]
        head = b"HTTP/1.1 %d %b\r\n%b" % (status, status.phrase.encode(), b"".join(lines))
        if not isinstance(answer, StreamingResponse):
            await self._write(b"%b\r\n%b" % (head, b"" if request.method == "HEAD" else bytes(answer.body)))
            return
        self._streams = True
        await self._write(head + b"transfer-encoding: chunked\r\n\r\n")
        async with aclosing(cast(AsyncGenerator[bytes], answer.body_iterator)) as pieces:
            async for piece in pieces:
                if self._transport.is_closing():
                    raise ConnectionAbortedError("nobody reads this any more")
                await self._write(b"%x\r\n%b\r\n" % (len(piece), piece))
        await self._write(b"0\r\n\r\n")

    async def _write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)
        if self._room is not None:
            async with asyncio.timeout(READ_SECONDS):
                await self._room
