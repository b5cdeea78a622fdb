"""Carries a host's events out of their blocking iterator, and Ctrl-C in between them, to whoever shows them."""

import logging
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from queue import SimpleQueue
from types import FrameType

from hermes_base.chat import ChatHost, Event

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ended:
    """The host will say no more; `error` tells why, when it did not end as it should."""

    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Pressed:
    """Ctrl-C."""


def carry_events(host: ChatHost, put: Callable[[Event | Ended], None]) -> None:
    """Hand each event to `put`, from a thread that ends with the host or with the process."""

    def carry() -> None:
        try:
            for event in host.events():
                put(event)
        except Exception as error:  # the top of a thread; whoever reads the events raises it again
            log.debug("The events ended with an error.", exc_info=True)
            put(Ended(error))
        else:
            put(Ended())

    threading.Thread(target=carry, name="chat-events", daemon=True).start()


class Feed:
    """The events and the Ctrl-Cs in the order they came, for a loop that blocks on them."""

    def __init__(self, host: ChatHost) -> None:
        # A SimpleQueue may be put to inside a signal handler, also while the same thread waits on it.
        self._items: SimpleQueue[Event | Ended | Pressed] = SimpleQueue()
        self._reading = False
        carry_events(host, self._items.put)

    def take(self) -> Event | Ended | Pressed:
        """The next item; blocks for it."""
        return self._items.get()

    @contextmanager
    def catch_presses(self) -> Iterator[None]:
        """Make Ctrl-C an item of the feed, so that it never breaks into the middle of something."""
        before = signal.signal(signal.SIGINT, self._press)
        try:
            yield
        finally:
            signal.signal(signal.SIGINT, before)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Make Ctrl-C a KeyboardInterrupt again while a line is read: nothing else would end the read."""
        self._reading = True
        try:
            yield
        finally:
            self._reading = False

    def _press(self, _signal: int, _frame: FrameType | None) -> None:
        if self._reading:
            raise KeyboardInterrupt
        self._items.put(Pressed())
