"""One websocket of a client: frames in, frames out, and the ways in which it ends."""

import asyncio
from typing import cast

from starlette.types import Receive, Scope, Send


class ChatSocket:
    """What an app may do with a client that keeps a line open. What is put is sent in order, by `run_writer`."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.path: str = scope["path"]
        self.query: str = scope["query_string"].decode("latin-1")
        self.headers = tuple((name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"])
        self._transport = cast(asyncio.Transport, scope["state"]["transport"])
        self._receive = receive
        self._send = send
        self._waiting: asyncio.Queue[str | bytes | int] = asyncio.Queue()
        self.close_code = 0  # how the client has left; 0: it has not

    async def accept(self) -> None:
        await self._receive()  # that somebody connects
        await self._send({"type": "websocket.accept"})

    async def refuse(self) -> None:
        await self._receive()
        await self._send({"type": "websocket.close", "code": 1000})

    async def read(self) -> str | bytes | None:
        """The next frame; None: the client has left, and `close_code` says how."""
        message = await self._receive()
        if message["type"] == "websocket.disconnect":
            self.close_code = int(message.get("code") or 1006)
            return None
        text = message.get("text")
        return text if text is not None else bytes(message.get("bytes") or b"")

    def put(self, frame: str | bytes) -> None:
        self._waiting.put_nowait(frame)

    def close(self, code: int) -> None:
        """End the line with this code, after what was put before."""
        self._waiting.put_nowait(code)

    async def run_writer(self) -> None:
        """Send what is put, until the line is closed or lost."""
        while True:
            frame = await self._waiting.get()
            try:
                if isinstance(frame, int):
                    await self._send({"type": "websocket.close", "code": frame})
                    return
                kind = "text" if isinstance(frame, str) else "bytes"
                await self._send({"type": "websocket.send", kind: frame})
            except (OSError, RuntimeError):
                return  # the client has left; whoever reads is told

    def abort(self) -> None:
        """Drop the line at once, without a word."""
        self._transport.abort()

    def freeze(self) -> None:
        """Read nothing more of what comes: nobody is told, and no ping is answered."""
        self._transport.pause_reading()
