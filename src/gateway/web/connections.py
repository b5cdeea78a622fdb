"""Connections that do not wait for ever: for a head that does not come, a body that stops, a reader that has gone."""

import asyncio
from collections.abc import Callable
from typing import Any

import h11
from uvicorn.protocols.http.h11_impl import H11Protocol

HEAD_SECONDS = 10.0  # for the first line and the headers
BODY_SECONDS = 30.0  # without any byte of a body
READ_SECONDS = 60.0  # in which a client takes nothing of what is sent
IDLE_SECONDS = 30  # between two requests
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


class PatientProtocol(H11Protocol):
    """HTTP/1.1 with patience that ends."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._reading = Alarm(self.loop, self._give_up_reading)
        self._writing = Alarm(self.loop, self._give_up)

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if len(self.connections) > MOST_OPEN + MOST_REFUSED:
            transport.abort()  # not even a sentence: each one costs memory
            return
        self._wait_for_more()

    def connection_lost(self, exc: Exception | None) -> None:
        self._reading.stop()
        self._writing.stop()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        in_head = self.conn.their_state is h11.IDLE and self._reading.is_set
        super().data_received(data)
        if not (in_head and self.conn.their_state is h11.IDLE):  # a head that comes in drops gets no more time
            self._wait_for_more()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self.conn.their_state is h11.IDLE:
            self._reading.stop()  # from here on the idle time counts

    def _wait_for_more(self) -> None:
        """Start the clock of what the client has to send next, if anything."""
        self._reading.stop()
        seconds = {h11.IDLE: HEAD_SECONDS, h11.SEND_BODY: BODY_SECONDS}.get(self.conn.their_state)
        if seconds is not None and not self.transport.is_closing():
            self._reading.set(seconds)

    def _give_up_reading(self) -> None:
        if self.flow.read_paused:  # it is we who are slow
            self._wait_for_more()
        else:
            self._give_up()

    def _give_up(self) -> None:
        self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._writing.set(READ_SECONDS)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._writing.stop()
