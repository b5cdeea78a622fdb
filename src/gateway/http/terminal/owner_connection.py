"""One connection at the socket of the home: HTTP/1.1 for an ASGI application. Small, since a terminal that hosts the
gateway loads it at its start."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import h11
from starlette.types import ASGIApp, Message, Scope

from hermes_base.local_wire import MOST_BODY

log = logging.getLogger(__name__)

READ_SECONDS = 60.0  # in which a client takes nothing of what is sent
_READ_AT_ONCE = 64 * 1024
#: To a terminal of an older version, in its own words: it spoke in lines of JSON.
OLDER = (
    b'{"type":"error","text":"This terminal is older than the gateway that it talks to. What you said before is kept. '
    b'Leave it and start hermes anew."}\n'
)


class OwnerConnection:
    """Requests of one client, one after the other. When it goes away, what is being answered is cut."""

    def __init__(self, app: ASGIApp, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._app = app
        self._reader = reader
        self._writer = writer
        self._http = h11.Connection(h11.SERVER)

    async def serve(self) -> None:
        try:
            if await self._is_current():
                while await self._serve_one():
                    self._http.start_next_cycle()
        except (OSError, TimeoutError):
            log.debug("a client went away")
        except h11.RemoteProtocolError as problem:
            log.info("a client sends no HTTP: %s", problem)
        finally:
            self._writer.close()

    async def _is_current(self) -> bool:
        """No request begins with a brace, and what terminals once said did."""
        begun = await self._reader.read(_READ_AT_ONCE)
        if begun.startswith(b"{"):
            await self._write(OLDER)
            return False
        self._http.receive_data(begun)
        return True

    async def _serve_one(self) -> bool:
        """Whether another request may follow."""
        request, body = await self._read_event(), bytearray()
        if not isinstance(request, h11.Request):
            return False
        while isinstance(event := await self._read_event(), h11.Data) and len(body) <= MOST_BODY:
            body += event.data
        answering = asyncio.ensure_future(self._app(_make_scope(request), _make_receive(bytes(body)), self._send))
        leaving = asyncio.ensure_future(self._reader.read(_READ_AT_ONCE))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if leaving.done():
                self._http.receive_data(leaving.result())
                if not leaving.result():
                    return False
            await answering
        finally:
            leaving.cancel()
            answering.cancel()
            await asyncio.gather(leaving, answering, return_exceptions=True)
        return self._http.our_state is h11.DONE and self._http.their_state is h11.DONE

    async def _read_event(self) -> Any:
        while (event := self._http.next_event()) is h11.NEED_DATA:
            self._http.receive_data(await self._reader.read(_READ_AT_ONCE))
        return event

    async def _send(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            headers = [(bytes(name), bytes(value)) for name, value in message["headers"]]
            await self._write(self._http.send(h11.Response(status_code=message["status"], headers=headers)))
            return
        await self._write(self._http.send(h11.Data(data=message.get("body", b""))))
        if not message.get("more_body", False):
            await self._write(self._http.send(h11.EndOfMessage()))

    async def _write(self, data: bytes | None) -> None:
        if data:
            self._writer.write(data)
            async with asyncio.timeout(READ_SECONDS):
                await self._writer.drain()


def _make_scope(request: h11.Request) -> Scope:
    path, _, query = request.target.partition(b"?")
    return {
        "type": "http",
        "asgi": {"version": "3.0", "spec_version": "2.4"},
        "http_version": "1.1",
        "method": request.method.decode("ascii"),
        "scheme": "http",
        "path": path.decode("ascii", "replace"),
        "raw_path": path,
        "root_path": "",
        "query_string": query,
        "headers": list(request.headers),
        "client": None,
        "server": None,
    }


def _make_receive(body: bytes) -> Callable[[], Awaitable[Message]]:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive
