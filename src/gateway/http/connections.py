"""Connections that do not wait for ever: for a head that does not come, a body that stops, a reader that has gone."""

import asyncio
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

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


def seconds_left(in_head: bool, spent: float, got: int) -> float:
    """How long the next byte may take, of a head or a body that has been coming for so long, with so many bytes."""
    left = HEAD_SECONDS - spent if in_head else min(BODY_SECONDS, BODY_SECONDS + got / BODY_PACE - spent)
    return max(0.0, left)


class PatientProtocol(H11Protocol):
    """HTTP/1.1 with patience that ends. What a client still has to send must come in its time: a head as a whole, a
    body at a pace, so that drops of either keep no connection open."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reading = Alarm(self.loop, self._give_up_reading)
        self._writing = Alarm(self.loop, self._give_up)
        self._awaited: Any = None  # what the client has to send: a head, a body, nothing
        self._since = 0.0
        self._got = 0  # bytes of it
        self._is_idle = False  # between two requests, since then

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

    def data_received(self, data: bytes) -> None:
        self._is_idle = False
        super().data_received(data)
        self._got += len(data)
        self._wait_for_more()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE:
            self._awaited, self._since, self._got = None, self.loop.time(), 0
            self._reading.stop()  # from here on the idle time counts
            self._is_idle = True
            self._make_room()

    def _wait_for_more(self) -> None:
        """Set the clock for what the client has to send next, if anything."""
        self._reading.stop()
        awaited = self.conn.their_state if self.conn.their_state in (h11.IDLE, h11.SEND_BODY) else None
        if awaited is not self._awaited:
            self._awaited, self._since, self._got = awaited, self.loop.time(), 0
        if awaited is not None and not self.transport.is_closing():
            self._reading.set(seconds_left(awaited is h11.IDLE, self.loop.time() - self._since, self._got))

    def _make_room(self) -> None:
        """When too many requests are on their way, or too many connections wait for their next one, let the one go that
        is furthest behind: thousands of clients that send drops, or nothing, must not keep out one that sends a
        request."""
        if len(self.connections) <= min(MOST_READING, MOST_IDLE):
            return
        ours = [each for each in self.connections if isinstance(each, PatientProtocol)]
        reading = [each for each in ours if each._reading.is_set]
        idle = [each for each in ours if each._is_idle]
        for some, most in ((reading, MOST_READING), (idle, MOST_IDLE)):
            if len(some) > most:
                max(some, key=PatientProtocol._arrears)._give_up()

    def _arrears(self) -> float:
        """How many bytes it is behind the pace; one that sends nothing, by how long."""
        return (self.loop.time() - self._since) * BODY_PACE - self._got

    def _give_up_reading(self) -> None:
        if self.flow.read_paused:  # it is we who are slow
            self._awaited = None
            self._wait_for_more()
        else:
            self._give_up()

    def _give_up(self) -> None:
        self._reading.stop()
        self._is_idle = False
        self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing.set(READ_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._writing.stop()
