"""The only bridge between asyncio and threads: a turn runs on a thread of its own, its events come back to the loop.

A thread for each turn, as many as are needed: conversations that wait for a model wait in the kernel, not in a queue.
"""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from hermes_base.chat import Event, ReasoningDelta, TextDelta

log = logging.getLogger(__name__)

T = TypeVar("T")
STORE_THREADS = 8


def start_thread(work: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """Run `work` on a thread of its own; the future ends on the loop with its result or its error."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        try:
            result = work()
        except BaseException as error:  # noqa: BLE001 - the thread's top: whoever awaits the future gets it
            _tell(loop, future, None, error)
        else:
            _tell(loop, future, result, None)

    threading.Thread(target=run, name=name, daemon=True).start()
    return future


def _tell(
    loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", result: Any, error: BaseException | None
) -> None:
    def settle() -> None:
        if future.done():
            return  # nobody waits any more
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    try:
        loop.call_soon_threadsafe(settle)
    except RuntimeError:
        log.debug("a turn ended after the event loop did")


class StoreFace:
    """Store calls from the event loop: synchronous calls on a few threads that are kept for them."""

    def __init__(self, threads: int = STORE_THREADS) -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix="store")

    async def __call__(self, call: Callable[..., T], *args: Any) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._pool, call, *args)

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)


class EventPipe:
    """Events of a turn on their way to the loop: in order, pieces of text joined, one wake-up for many."""

    def __init__(self, loop: asyncio.AbstractEventLoop, show: Callable[[Event], None]) -> None:
        self._loop = loop
        self._show = show
        self._lock = threading.Lock()
        self._events: list[Event] = []

    def put(self, event: Event) -> None:
        """Called on the turn's thread, and on those of its tools."""
        with self._lock:
            waking = not self._events
            self._events.append(event)
        if waking:
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                log.debug("an event came after the event loop had ended")

    def put_text(self, text: str) -> None:
        self.put(TextDelta(text))

    def put_reasoning(self, text: str) -> None:
        self.put(ReasoningDelta(text))

    def _drain(self) -> None:
        with self._lock:
            events, self._events = self._events, []
        for event in join_deltas(events):
            self._show(event)


def join_deltas(events: list[Event]) -> list[Event]:
    """The events with neighbouring pieces of text made one."""
    joined: list[Event] = []
    for event in events:
        last = joined[-1] if joined else None
        if isinstance(event, TextDelta) and isinstance(last, TextDelta):
            joined[-1] = TextDelta(last.text + event.text)
        elif isinstance(event, ReasoningDelta) and isinstance(last, ReasoningDelta):
            joined[-1] = ReasoningDelta(last.text + event.text)
        else:
            joined.append(event)
    return joined
