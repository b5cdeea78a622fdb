"""One request's connection: reads the body, sends answers, waits while watching the client, cuts the line."""

import asyncio
from collections.abc import Iterable, Sequence
from typing import cast

from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

Headers = Sequence[tuple[str, str]]

JSON: Headers = (("content-type", "application/json"),)
EVENTS: Headers = (("content-type", "text/event-stream; charset=utf-8"), ("cache-control", "no-cache"))


class LabProtocol(H11Protocol):
    """Hands its transport to the application: ASGI itself has no word for cutting a connection."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.app_state = {**self.app_state, "transport": transport}
        super().connection_made(transport)


class Connection:
    """What the application may do with the client of one request."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.method: str = scope["method"]
        self.path: str = scope["path"]
        self.query: str = scope["query_string"].decode("latin-1")
        self.headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        self._transport = cast(asyncio.Transport, scope["state"]["transport"])
        self._receive = receive
        self._send = send

    async def read_body(self) -> bytes | None:
        """The exact bytes; None when the client left before they were complete."""
        parts: list[bytes] = []
        while True:
            message = await self._receive()
            if message["type"] == "http.disconnect":
                return None
            parts.append(message.get("body", b""))
            if not message.get("more_body", False):
                return b"".join(parts)

    async def send_whole(self, status: int, body: bytes, headers: Headers = JSON) -> None:
        await self.start(status, (*headers, ("content-length", str(len(body)))))
        await self._send(_make_part(body, last=True))

    async def start(self, status: int, headers: Headers) -> None:
        pairs = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers]
        await self._send({"type": "http.response.start", "status": status, "headers": pairs})

    async def send_parts(self, parts: Iterable[bytes], pause: float = 0.0) -> None:
        """Each part as one write, with a pause before each but the first; stops when the client has left."""
        for number, part in enumerate(parts):
            if pause and number and await self.wait(pause):
                return
            await self._send(_make_part(part))

    async def finish(self) -> None:
        await self._send(_make_part(b"", last=True))

    async def wait(self, seconds: float) -> bool:
        """Let the client wait; True when it left meanwhile."""
        try:
            async with asyncio.timeout(seconds):
                await self._wait_until_gone()
        except TimeoutError:
            return False
        return True

    async def cut(self) -> None:
        """Close the connection after what was sent, without an end of the answer."""
        self._transport.close()
        await self._wait_until_gone()

    def abort(self) -> None:
        """Drop the connection at once, from outside of the answer."""
        self._transport.abort()

    async def hang(self) -> None:
        """Say nothing more until the client gives up."""
        await self._wait_until_gone()

    async def _wait_until_gone(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass


def _make_part(body: bytes, last: bool = False) -> Message:
    return {"type": "http.response.body", "body": body, "more_body": not last}
