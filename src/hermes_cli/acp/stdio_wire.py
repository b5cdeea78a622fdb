"""Lines of JSON over stdin and stdout, as the library wants its messages. Each pipe has a thread of its own, so that an
editor that does not read holds nobody up; and what is no message of the protocol is answered as JSON-RPC says."""

import asyncio
import json
import logging
import os
import queue
import threading
from typing import Any

log = logging.getLogger(__name__)

MOST_LINE = 64 * 1024 * 1024  # bytes; a prompt may hold pictures
MOST_WAITING = 64  # lines that are read and not yet dealt with
LEAVE_SECONDS = 2.0  # for an editor that has closed stdin to read what it was answered
_READ_AT_ONCE = 256 * 1024
PARSE_ERROR, INVALID_REQUEST = -32700, -32600
_ENDS = None
_TOO_LONG = object()


class StdioWire:
    """Implements the library's `Transport` over two descriptors, which it owns."""

    def __init__(self, source: int, sink: int) -> None:
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[bytes | object | None] = asyncio.Queue(MOST_WAITING)
        self._outgoing: queue.SimpleQueue[tuple[bytes, asyncio.Future[None]] | None] = queue.SimpleQueue()
        self._ended = False
        reader, self._writer = (
            threading.Thread(target=work, args=(descriptor,), name="editor-pipe", daemon=True)
            for work, descriptor in ((self._read_on, source), (self._write_on, sink))
        )
        reader.start()
        self._writer.start()

    # --- Transport

    async def send(self, message: dict[str, Any]) -> None:
        """Returns when the pipe has taken it; ConnectionError when nobody reads it any more."""
        if self._ended:
            raise ConnectionError("The editor is gone.")
        written: asyncio.Future[None] = self._loop.create_future()
        self._outgoing.put((json.dumps(message, separators=(",", ":"), default=str).encode() + b"\n", written))
        await written

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None when there are no more."""
        while (line := await self._lines.get()) is not _ENDS:
            told = _read(line)
            if isinstance(told, dict):
                return told
            if told is not None:
                code, words = told
                log.warning("An editor sent what is no message of the protocol: %s.", words)
                await self._refuse(code, words)
        return None

    async def close(self) -> None:
        """What was sent is still written, unless nobody reads it."""
        self._ended = True
        self._outgoing.put(None)
        await asyncio.to_thread(self._writer.join, LEAVE_SECONDS)

    async def _refuse(self, code: int, words: str) -> None:
        error = {"code": code, "message": words}
        try:
            await self.send({"jsonrpc": "2.0", "id": None, "error": error})
        except ConnectionError:
            log.debug("nobody was there to hear it")

    # --- the threads

    def _read_on(self, source: int) -> None:
        rest, too_long = bytearray(), False
        try:
            while piece := os.read(source, _READ_AT_ONCE):
                *lines, end = piece.split(b"\n")
                for line in lines:
                    self._hand_over(_TOO_LONG if too_long else bytes(rest + line))
                    rest, too_long = bytearray(), False
                too_long = too_long or len(rest) + len(end) > MOST_LINE
                rest = bytearray() if too_long else rest + end
            if rest:
                self._hand_over(bytes(rest))
        except OSError as problem:
            log.info("stdin ended: %s", problem.strerror)
        except RuntimeError:  # the loop was closed meanwhile
            return
        finally:
            os.close(source)
        self._hand_over(_ENDS)

    def _hand_over(self, line: bytes | object | None) -> None:
        """Waits while too many are waiting: an editor that floods us is held up itself."""
        try:
            asyncio.run_coroutine_threadsafe(self._lines.put(line), self._loop).result()
        except (RuntimeError, asyncio.CancelledError):
            log.debug("nobody reads on")

    def _write_on(self, sink: int) -> None:
        broken: OSError | None = None
        while (item := self._outgoing.get()) is not None:
            data, written = item
            try:
                if broken is not None:
                    raise broken
                _write_all(sink, data)
            except OSError as problem:
                broken = problem
                self._settle(written, ConnectionError("The editor does not read any more."))
            else:
                self._settle(written, None)
        os.close(sink)

    def _settle(self, written: asyncio.Future[None], problem: ConnectionError | None) -> None:
        def tell() -> None:
            if not written.done():
                written.set_result(None) if problem is None else written.set_exception(problem)

        try:
            self._loop.call_soon_threadsafe(tell)
        except RuntimeError:
            log.debug("nobody waits for it any more")


def _write_all(sink: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(sink, view) :]


def _read(line: object) -> dict[str, Any] | tuple[int, str] | None:
    """A message, the error to answer, or None for an empty line."""
    if not isinstance(line, bytes):
        return INVALID_REQUEST, f"a message has at most {MOST_LINE // 1024**2} MB"
    if not line.strip():
        return None
    try:
        told = json.loads(line)
    except (ValueError, RecursionError):
        return PARSE_ERROR, "this is no JSON"
    if not isinstance(told, dict):
        return INVALID_REQUEST, "a message is an object, one on each line"
    if not isinstance(told.get("method", ""), str) or not ("method" in told or "id" in told):
        return INVALID_REQUEST, "a message has a method, or is the answer to one"
    if not isinstance(told.get("error", {}), dict):
        return INVALID_REQUEST, "an error is an object"
    if isinstance(told.get("id"), dict | list):
        return INVALID_REQUEST, "an id is a number or a text"
    return told
