"""The line to signal-cli's daemon: calls out, answers in whatever order they come, and news between them."""

import asyncio
import contextlib
import itertools
import logging
import re
from collections.abc import Awaitable, Callable
from typing import Any

from gateway.platforms.face import NotNow
from gateway.platforms.signal.refusals import (
    CUT,
    FOREIGN,
    NO_ANSWER,
    NOT_CONNECTED,
    UNREACHED_SECONDS,
    LineTrouble,
    RpcTrouble,
)
from gateway.platforms.signal.rpc_line import (
    JsonObject,
    OddLine,
    RpcAnswer,
    RpcError,
    RpcMessage,
    RpcNews,
    read_line,
    write_call,
)
from gateway.platforms.signal.signal_settings import SETUP, SignalSettings
from hermes_base.errors import ConfigProblem

_log = logging.getLogger(__name__)
CONNECT_SECONDS, CLOSE_SECONDS = 10.0, 2.0
CALL_SECONDS = 120.0  # whoever waits for less gives up earlier; the answer is still of use
MOST_LINE_BYTES = 140_000_000  # the largest attachment, as text
READ_BYTES = 65_536
LONG_LINE = 65_536  # bytes; reading more is no work for the event loop
LINES_AT_ONCE = 20  # that are read without a pause
_TAIL = 256
_ID_AT_END = re.compile(rb'"id"\s*:\s*([0-9]+)\s*}\s*\Z')
LARGE = "signal-cli's daemon answered with more than can be taken."

Listen = Callable[[str, JsonObject], Awaitable[None]]
NoteAlive = Callable[[], None]


class SignalLink:
    """One connection. `listen` is given news, one after the other; what it waits for, the line waits for. Everybody who
    waits for an answer hears when the line ends."""

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, listen: Listen, alive: NoteAlive
    ) -> None:
        self._reader, self._writer = reader, writer
        self._listen, self._alive = listen, alive
        self._numbers = itertools.count(1)
        self._asked: dict[int, asyncio.Future[Any]] = {}
        self._writing = asyncio.Lock()
        self._rest = b""
        self.is_open = True
        self.lines_read = 0
        self._is_daemon = False  # something was understood
        self.is_held_up = False  # what came last is still being taken
        self._reading = asyncio.create_task(self._read_on(), name="signal reads")

    async def wait_end(self) -> str:
        """Until the line is cut; why it was."""
        await asyncio.wait({self._reading})
        if self._reading.cancelled():
            return "it was closed"
        error = self._reading.exception()
        return f"it failed ({type(error).__name__})" if error else self._reading.result()

    async def close(self) -> None:
        self.is_open = False
        self._reading.cancel()
        await asyncio.gather(self._reading, return_exceptions=True)
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                self._writer.close()
                await self._writer.wait_closed()
        self._writer.transport.abort()

    def cut(self) -> None:
        """End it at once, as if the line had broken."""
        self._writer.transport.abort()

    # --- out

    async def call(self, method: str, params: JsonObject, seconds: float = CALL_SECONDS, *, heavy: bool = False) -> Any:
        """The result of a call; RpcTrouble when there is none. `heavy`: there is a file in it."""
        number = next(self._numbers)
        data = (
            await asyncio.to_thread(write_call, number, method, params) if heavy else write_call(number, method, params)
        )
        if not self.is_open:
            raise RpcTrouble(LineTrouble.UNSENT, NOT_CONNECTED)
        asked = self._asked[number] = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(seconds):
                await self._write(data)
                return await asked
        except TimeoutError:
            raise RpcTrouble(LineTrouble.UNSURE, NO_ANSWER) from None
        finally:
            self._asked.pop(number, None)

    async def _write(self, data: bytes) -> None:
        try:
            async with self._writing:
                self._writer.write(data)
                await self._writer.drain()
        except OSError:
            raise RpcTrouble(LineTrouble.UNSURE, CUT) from None

    # --- in

    async def _read_on(self) -> str:
        try:
            while (line := await self._read_one()) is not None:
                self._alive()
                self.lines_read += 1
                for message in await self._understand(line):
                    await self._take(message)
                if self.lines_read % LINES_AT_ONCE == 0:
                    await asyncio.sleep(0)  # much may lie there already, and others have work, too
            return "the daemon ended it"
        except OddLine:
            return "it is no daemon's"
        except OSError as error:
            return f"it broke off ({type(error).__name__})"
        finally:
            self.is_open = False
            for asked in self._asked.values():
                if not asked.done():
                    asked.set_exception(RpcTrouble(LineTrouble.UNSURE, CUT if self._is_daemon else FOREIGN))
                    asked.exception()  # whoever asked may have given up

    async def _read_one(self) -> bytes | None:
        """The next line; of one that is too long nothing but its end. None: there is no more."""
        bits, size = [self._rest], len(self._rest)
        while b"\n" not in bits[-1]:
            data = await self._reader.read(READ_BYTES)
            if not data:
                return None
            size += len(data)
            if size > MOST_LINE_BYTES:
                bits = [b"".join(bits[-2:])[-_TAIL:]]
            bits.append(data)
        last, _, self._rest = bits.pop().partition(b"\n")
        line = b"".join([*bits, last])
        if size > MOST_LINE_BYTES:
            self._give_up(line[-_TAIL:])
            return b""
        return line

    def _give_up(self, tail: bytes) -> None:
        """Whoever asked for it hears that it is too long."""
        _log.error("signal-cli's daemon sent a line of more than %s bytes; it is left out.", MOST_LINE_BYTES)
        number = _ID_AT_END.search(tail)
        self._settle(int(number[1]) if number else None, RpcTrouble(LineTrouble.REFUSED, LARGE, code=-1))

    async def _understand(self, line: bytes) -> list[RpcMessage]:
        """OddLine for the first line of something else; later, one that is odd is left out."""
        if not line.strip():
            return []
        try:
            read = await asyncio.to_thread(read_line, line) if len(line) > LONG_LINE else read_line(line)
            self._is_daemon = True
            return read
        except OddLine as odd:
            if not self._is_daemon:
                raise
            _log.warning("A line of signal-cli's daemon cannot be read (%s); it is left out.", odd)
            return []

    async def _take(self, message: RpcMessage) -> None:
        match message:
            case RpcAnswer(call, result):
                asked = self._asked.get(call)
                if asked is not None and not asked.done():
                    asked.set_result(result)
            case RpcError(call, code, text, data):
                self._settle(call, RpcTrouble(LineTrouble.REFUSED, text, code=code, data=data))
            case RpcNews(method, params):
                self.is_held_up = True
                await self._listen(method, params)
                self.is_held_up = False

    def _settle(self, call: int | None, trouble: RpcTrouble) -> None:
        asked = self._asked.get(call) if call is not None else None
        if asked is not None and not asked.done():
            asked.set_exception(trouble)
        elif call is None:
            _log.warning("signal-cli's daemon complains about something: %s", trouble.text)


async def open_link(settings: SignalSettings, listen: Listen, alive: NoteAlive) -> SignalLink:
    """A connection; NotNow where nobody answers, ConfigProblem where we may not."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            if settings.path:
                reader, writer = await asyncio.open_unix_connection(settings.path, limit=READ_BYTES)
            else:
                reader, writer = await asyncio.open_connection(settings.host, settings.port, limit=READ_BYTES)
    except PermissionError:
        raise ConfigProblem(
            f"We may not use the socket {settings.path} of signal-cli's daemon.",
            fix="Let the daemon and Hermes run as the same user, or give this one the right to write to it.",
        ) from None
    except ValueError:
        raise ConfigProblem(
            f"platforms.signal.daemon is '{settings.place}', where nobody can listen.", fix=SETUP
        ) from None
    except (OSError, TimeoutError) as error:
        why = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        what = f"signal-cli's daemon does not answer at {settings.place}: {why}."
        where = f"--socket {settings.path}" if settings.path else f"--tcp {settings.place}"
        fix = f"Start it: signal-cli daemon {where} --receive-mode=manual."
        raise NotNow(f"{what} {fix}", UNREACHED_SECONDS, whole_account=True) from None
    return SignalLink(reader, writer, listen, alive)
