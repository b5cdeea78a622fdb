"""One client on the socket: what waits for it is bounded, and a slow one loses streamed text first, then its place."""

import asyncio
import logging
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from hermes_base.chat import Event, ReasoningDelta, TextDelta, TextEnded, ToolEnded, ToolStarted
from hermes_base.errors import HermesError
from hermes_base.inbound import Outgoing
from hermes_base.local_wire import (
    Closing,
    DealtWith,
    Deliver,
    DeliverPart,
    FromGateway,
    Happened,
    Hello,
    Trouble,
    WireProblem,
    encode,
)

log = logging.getLogger(__name__)

SLOW_BYTES = 1024 * 1024  # from here on streamed text is dropped
CUT_BYTES = 16 * 1024 * 1024  # from here on the client is cut
_PART_CHARS = 600_000  # of a text; a line has room for them however they are written
_MOST_HELD = 1_000  # events
_LAST_WORD_SECONDS = 3.0
_PATIENCE_SECONDS = 10.0
_TOO_SLOW = "This client reads too slowly. It can come back, and gets what it missed."
#: What may be dropped: the whole answer comes in the end.
_STREAMED = (TextDelta, ReasoningDelta)
_DROPPABLE = (*_STREAMED, ToolStarted, ToolEnded)


class Attached:
    """A connection and what is known about whoever holds it."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._writer = writer
        self._lines: deque[bytes] = deque()
        self._waiting_bytes = 0
        self._wake = asyncio.Event()
        self._room = asyncio.Event()
        self.ended = False  # it is told nothing more
        self.hello = Hello("")
        self.conversation = ""
        self.cursor = 0  # the newest outbox row that was pushed
        self.given: dict[int, bool] = {}  # rows that delivery waits for; True: confirmed
        self.leaving: Leaving | None = None
        #: Ends of turns whose rows have not been pushed yet, and what happened since: it belongs after those rows.
        self._held: deque[DealtWith | Event] = deque()
        self._skipping = False  # text was left out: more of it would not fit together

    # --- what is pushed

    def push(self, *messages: FromGateway) -> None:
        """Put lines into its queue, all or none. One message has room however long it is, if little waits: a client
        that comes back for it must not be cut again."""
        if self.ended:
            return
        line = b"".join(map(_encode, messages))
        if self._waiting_bytes + min(len(line), CUT_BYTES - SLOW_BYTES) > CUT_BYTES:
            self.cut(_TOO_SLOW)
            return
        self._lines.append(line)
        self._waiting_bytes += len(line)
        self._wake.set()

    def show(self, event: Event) -> None:
        """Push a live event, or leave it out: text only as long as all of it since its beginning has come."""
        if not self._held:
            self._show_now(event)
        elif len(self._held) < _MOST_HELD:
            self._held.append(event)
        else:
            self._skipping = True

    def _show_now(self, event: Event) -> None:
        if isinstance(event, ToolStarted | TextEnded):
            self._skipping = False
        if isinstance(event, _DROPPABLE) and self._waiting_bytes > SLOW_BYTES:
            self._skipping = True
            return
        if not (self._skipping and isinstance(event, _STREAMED)):
            self.push(Happened(event))

    def skip_rest(self) -> None:
        """Leave out streamed text until the next text, tool or end: its beginning was missed."""
        self._skipping = True

    def deliver(self, row: int, outgoing: Outgoing, key: str) -> None:
        again = 0 < row <= self.cursor
        self.cursor = max(self.cursor, row)
        text = outgoing.text  # in parts that each fit into a line; at least one
        *parts, last = (text[start : start + _PART_CHARS] for start in range(0, len(text) or 1, _PART_CHARS))
        whole = Deliver(row, replace(outgoing, text=last), key, again)
        self.push(*(DeliverPart(row, part) for part in parts), whole)
        self._push_held()

    def tell_dealt(self, dealt: DealtWith) -> None:
        """Push it as soon as its rows have been pushed."""
        self._held.append(dealt)
        self._push_held()

    def forget_held(self) -> None:
        """It leaves the conversation that this was about."""
        self._held.clear()

    def _push_held(self) -> None:
        while self._held:
            first = self._held[0]
            if not isinstance(first, DealtWith):
                self._show_now(first)
            elif first.outbox <= self.cursor:
                self.push(first)
                self._skipping = False
            else:
                return
            self._held.popleft()

    # --- the connection

    @contextmanager
    def must_hear(self) -> Iterator[None]:
        """What it has to know is read and pushed. If that fails the connection ends: it comes back, and finds it in the
        store."""
        try:
            yield
        except HermesError as problem:
            log.warning("a client is let go: %s", problem)
            self.end(str(problem))

    def end(self, reason: str = "") -> None:
        """Say why, and close when all that waits is written."""
        if reason:
            self.push(Closing(reason))
        self.ended = True
        self._wake.set()

    def cut(self, reason: str) -> None:
        """Forget what waits and close, with a word if it begins to read soon."""
        log.info("a client was cut: %s", reason)
        self._lines.clear()
        self._waiting_bytes = 0
        self.end(reason)
        asyncio.get_running_loop().call_later(_LAST_WORD_SECONDS, self.abort)

    def abort(self) -> None:
        self._writer.transport.abort()

    async def write_on(self) -> None:
        """Write what is pushed until the end."""
        try:
            while not (self.ended and not self._lines):
                await self._wake.wait()
                self._wake.clear()
                while self._lines:
                    line = self._lines.popleft()
                    self._waiting_bytes -= len(line)
                    self._writer.write(line)
                    if self._waiting_bytes <= SLOW_BYTES:
                        self._room.set()
                    await self._writer.drain()
        except OSError:
            log.debug("a client went away")
        finally:
            self._writer.close()

    async def wait_for_room(self) -> None:
        """Wait while much is unread; who reads nothing at all is cut."""
        if self._waiting_bytes <= SLOW_BYTES:
            return
        self._room.clear()
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._room.wait()
        except TimeoutError:
            self.cut(_TOO_SLOW)


def _encode(message: FromGateway) -> bytes:
    try:
        return encode(message)
    except WireProblem as problem:
        return encode(Trouble(str(problem)))


@dataclass(slots=True)
class Leaving:
    """A client that goes to another conversation as soon as what it was told in this one has arrived."""

    seq: int
    target: str
    row: int | None = None  # the row to wait for; None: its message is not dealt with yet
