"""Connections that do not wait for ever: for a head that does not come, a body that stops, a reader that has gone."""

import asyncio
from collections.abc import Callable
from typing import Any

from httptools import HttpParserError, HttpParserUpgrade, HttpRequestParser
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

#: What a client has to send next: the rest of a head or of a body, another request if it likes, nothing before it is
#: answered.
HEAD, BODY, IDLE, NOTHING = "head", "body", "idle", "nothing"
MOST_HEAD = 64 * 1024  # bytes
HEAD_SECONDS = 10.0  # for the first line and the headers
BODY_SECONDS = 30.0  # without any byte of a body, and behind the pace that one has to keep
BODY_PACE = 1_000.0  # bytes a second
READ_SECONDS = 60.0  # in which a client takes nothing of what is sent
IDLE_SECONDS = 30  # between two requests
MOST_READING = 500  # connections whose request is not there yet; the slowest one makes room for a new one
MOST_IDLE = 200  # connections between two requests; the one that has been idle for longest goes first
MOST_OPEN = 4_000  # connections that are served
MOST_REFUSED = 500  # beside them, that are told so


class Alarm:
    """Rings once, unless it is stopped."""

    def __init__(self, loop: asyncio.AbstractEventLoop, ring: Callable[[], None]) -> None:
        self._loop = loop
        self._ring = ring
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_set(self) -> bool:
        return self._timer is not None

    def set(self, seconds: float) -> None:
        self.stop()
        self._timer = self._loop.call_later(seconds, self._go_off)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _go_off(self) -> None:
        self._timer = None
        self._ring()


def seconds_left(awaited: str, spent: float, got: int) -> float:
    """How long the next byte may take, of what has been coming for so long, with so many bytes."""
    whole = {HEAD: HEAD_SECONDS, IDLE: IDLE_SECONDS, BODY: BODY_SECONDS + got / BODY_PACE}[awaited]
    return max(0.0, min(whole - spent, BODY_SECONDS if awaited == BODY else whole))


class PatientProtocol(HttpToolsProtocol):
    """HTTP/1.1 with patience that ends. What a client still has to send must come in its time: a head as a whole, a
    body at a pace, so that drops of either keep no connection open."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reading = Alarm(self.loop, self._give_up_reading)
        self._writing = Alarm(self.loop, self._give_up)
        self._awaited = HEAD
        self._since = self.loop.time()  # when that began
        self._got = 0  # bytes of it
        self._is_told = False  # the parser is given a head that was read before
        self._unread = 0  # bytes that were neither a whole head nor a part of a body

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_OPEN + MOST_REFUSED:
            transport.abort()  # not even a sentence: each one costs memory
            return
        self._wait_for_more()
        self._make_room()

    def connection_lost(self, exc: Exception | None) -> None:
        self._reading.stop()
        self._writing.stop()
        super().connection_lost(exc)

    # --- what comes

    def data_received(self, data: bytes) -> None:
        self._got += len(data)
        self._unread += len(data)
        self._unset_keepalive_if_required()
        if self._awaited == IDLE:
            self._await(HEAD)
        try:
            self._feed(data)
        except HttpParserError:
            self._refuse()
        if self._unread > MOST_HEAD:
            self._refuse()
        self._wait_for_more()

    def _feed(self, data: bytes) -> None:
        """A client may offer another protocol; it is answered in this one. The parser would leave it there: another
        one reads on, which is told how long the body is."""
        try:
            self.parser.feed_data(data)
        except HttpParserUpgrade as offer:
            told = [b"%b: %b\r\n" % one for one in self.headers if one[0] in (b"content-length", b"transfer-encoding")]
            self.parser = HttpRequestParser(self)
            self._is_told = True
            self.parser.feed_data(b"POST / HTTP/1.1\r\n%b\r\n" % b"".join(told))
            self._is_told = False
            self._feed(data[offer.args[0] :])

    def _refuse(self) -> None:
        if not self.transport.is_closing():
            self.send_400_response("This is no HTTP request that can be read.")

    def on_message_begin(self) -> None:
        if not self._is_told:
            super().on_message_begin()
            self._await(HEAD)

    def on_header(self, name: bytes, value: bytes) -> None:
        if self._awaited == HEAD:  # what comes behind a body is no head
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if not self._is_told:
            super().on_headers_complete()
            self._unread = 0
            self._await(BODY)

    def on_body(self, body: bytes) -> None:
        self._unread = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        if not self.parser.should_upgrade():
            super().on_message_complete()
            self._await(IDLE if self.cycle.response_complete else NOTHING)

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._awaited == NOTHING and self.cycle.response_complete:
            self._await(IDLE)
            self._wait_for_more()
            self._make_room()

    # --- patience

    def _await(self, awaited: str) -> None:
        self._awaited, self._since, self._got = awaited, self.loop.time(), 0

    def _wait_for_more(self) -> None:
        """Set the clock for what the client has to send next, if anything."""
        self._reading.stop()
        if self._awaited != NOTHING and not self.transport.is_closing():
            self._reading.set(seconds_left(self._awaited, self.loop.time() - self._since, self._got))

    def _make_room(self) -> None:
        """When too many requests are on their way, or too many connections wait for their next one, let the one go that
        is furthest behind: thousands of clients that send drops, or nothing, must not keep out one that sends a
        request."""
        if len(self.connections) <= min(MOST_READING, MOST_IDLE):
            return
        ours = [each for each in self.connections if isinstance(each, PatientProtocol) and each._reading.is_set]
        for awaited, most in (((HEAD, BODY), MOST_READING), ((IDLE,), MOST_IDLE)):
            some = [each for each in ours if each._awaited in awaited]
            if len(some) > most:
                max(some, key=PatientProtocol._arrears)._give_up()

    def _arrears(self) -> float:
        """How many bytes it is behind the pace; one that sends nothing, by how long."""
        return (self.loop.time() - self._since) * BODY_PACE - self._got

    def _give_up_reading(self) -> None:
        if self.flow.read_paused:  # it is we who are slow
            self._await(self._awaited)
            self._wait_for_more()
        else:
            self._give_up()

    def _give_up(self) -> None:
        self._reading.stop()
        self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing.set(READ_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._writing.stop()
