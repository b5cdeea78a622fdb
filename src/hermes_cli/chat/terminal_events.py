"""Carries a host's events out of their blocking iterator, and signals in between them, to whoever shows them."""

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

#: What tells a chat to end, beside Ctrl-C: somebody ends the process, or its terminal is closed.
ENDINGS = (signal.SIGTERM, signal.SIGHUP)
SIGNALLED = 128  # and the signal's number: the exit code of what a signal has ended


def find_endings() -> tuple[signal.Signals, ...]:
    """The signals that tell this process to end; what its starter ignores (nohup) stays ignored."""
    return tuple(number for number in ENDINGS if signal.getsignal(number) is not signal.SIG_IGN)


@dataclass(frozen=True, slots=True)
class FeedEnded:
    """The host will say no more; `error` tells why, when it did not end as it should."""

    error: Exception | None = None


@dataclass(frozen=True, slots=True)
class Pressed:
    """A signal: Ctrl-C, or one of those that tell the chat to end."""

    number: int


def carry_events(host: ChatHost, put: Callable[[Event | FeedEnded], None]) -> None:
    """Hand each event to `put`, from a thread that ends with the host or with the process."""

    def carry() -> None:
        try:
            for event in host.events():
                put(event)
        except Exception as error:  # the top of a thread; whoever reads the events raises it again
            log.debug("The events ended with an error.", exc_info=True)
            put(FeedEnded(error))
        else:
            put(FeedEnded())

    threading.Thread(target=carry, name="chat-events", daemon=True).start()


class Feed:
    """The events and the signals in the order they came, for a loop that blocks on them."""

    def __init__(self, host: ChatHost) -> None:
        # A SimpleQueue may be put to inside a signal handler, also while the same thread waits on it.
        self._items: SimpleQueue[Event | FeedEnded | Pressed] = SimpleQueue()
        self._pressed: list[int] = []  # signals that nobody has heard of yet
        self._reading = False
        carry_events(host, self._items.put)

    def take(self) -> Event | FeedEnded | Pressed:
        """The next item; blocks for it."""
        while isinstance(item := self._items.get(), Pressed):
            if item.number in self._pressed:  # if not, it has ended a read
                self._pressed.remove(item.number)
                break
        return item

    @contextmanager
    def catch_presses(self) -> Iterator[None]:
        """Make signals items of the feed, so that they never break into the middle of something."""
        before = {number: signal.signal(number, self._press) for number in (signal.SIGINT, *find_endings())}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @contextmanager
    def reading(self) -> Iterator[None]:
        """Make a signal a KeyboardInterrupt, with its number, while a line is read: nothing else would end the read."""
        self._reading = True
        try:
            if self._pressed:  # it came just before
                raise KeyboardInterrupt(self._pressed.pop(0))
            yield
        finally:
            self._reading = False

    def _press(self, number: int, _frame: FrameType | None) -> None:
        if self._reading:
            raise KeyboardInterrupt(number)
        self._pressed.append(number)
        self._items.put(Pressed(number))
