"""The only bridge between asyncio and threads: a turn runs on a thread of its own, its events come back to the loop.

A thread for each turn, as many as are needed: conversations that wait for a model wait in the kernel, not in a queue.
"""

import asyncio
import contextvars
import logging
import queue
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, TypeVar

from gateway.platforms.face import LiveEvent
from hermes_base.chat import DeltaJoiner, ReasoningDelta, TextDelta

log = logging.getLogger(__name__)

T = TypeVar("T")
STORE_THREADS = 8
MOST_PIPED = 256 * 1024  # characters of text that wait for the loop; who streams faster waits with them
IDLE_SECONDS = 10.0  # a thread waits for work
_LOOK_SECONDS = 1.0  # whether the loop is still there
_STORE_THREAD = "store-"


Work = tuple[str, Callable[[], None]]  # its name, and what is done


class KeptThreads:
    """Threads, as many as there is work at once; one whose work is done waits a while for more. They are started by a
    thread, since that takes until they run: nobody who gives work waits."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[queue.SimpleQueue[Work]] = []
        self._missing: queue.SimpleQueue[Work] = queue.SimpleQueue()
        self._starter: threading.Thread | None = None

    def run(self, name: str, work: Callable[[], None]) -> None:
        with self._lock:
            waiting = self._idle.pop() if self._idle else self._missing
            if self._starter is None:
                starter = threading.Thread(target=self._start_missing, name="starter", daemon=True)
                starter.start()
                self._starter = starter
        waiting.put((name, work))

    def _start_missing(self) -> None:
        while True:
            self._start_one(self._missing.get())

    def _start_one(self, first: Work) -> None:
        """A machine that has no room for another thread has one later, or a thread that is idle by then."""
        given: queue.SimpleQueue[Work] = queue.SimpleQueue()
        given.put(first)  # not an argument of the thread, which would keep it as long as it lives
        try:
            threading.Thread(target=self._work_on, args=(given,), daemon=True).start()
        except RuntimeError as problem:
            log.error("no thread can be started for %s, which waits: %s", first[0], problem)
            time.sleep(_LOOK_SECONDS)
            self.run(*first)

    def _work_on(self, given: "queue.SimpleQueue[Work]") -> None:
        while True:
            try:
                name, work = given.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with self._lock:
                    if given in self._idle:
                        self._idle.remove(given)
                        return
                name, work = given.get()  # it was chosen in this moment
            threading.current_thread().name = name
            contextvars.Context().run(work)  # nothing of it is left for the next
            del work
            threading.current_thread().name = "idle"
            with self._lock:
                self._idle.append(given)


_threads = KeptThreads()


def start_thread(work: Callable[[], T], name: str) -> "asyncio.Future[T]":
    """Run `work` on a thread of its own; the future ends on the loop with its result or its error."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[T] = loop.create_future()
    _threads.run(name, partial(_settle, loop, future, work, ()))
    return future


def _settle(
    loop: asyncio.AbstractEventLoop, future: "asyncio.Future[Any]", call: Callable[..., Any], args: tuple[Any, ...]
) -> None:
    """Make the call here and settle the future where it is awaited."""
    result: Any = None
    error: BaseException | None = None
    try:
        result = call(*args)
    except (SystemExit, KeyboardInterrupt, StopIteration) as raised:  # in a future they end the loop, or hang it
        log.warning("a call on a thread failed", exc_info=True)
        error = RuntimeError(f"{type(raised).__name__}: {raised}")
    except BaseException as raised:  # a thread's top: whoever awaits the future gets it
        log.debug("a call on a thread failed", exc_info=True)
        error = raised

    def tell() -> None:
        if future.done():
            return  # nobody waits any more
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    try:
        loop.call_soon_threadsafe(tell)
    except RuntimeError:
        log.debug("a call ended after the event loop did")


class StoreFace:
    """Store calls from the event loop: synchronous calls on a few threads that are kept for them.

    The executor of the standard library makes two futures and a condition for each call; there are many, and short.
    """

    def __init__(self, threads: int = STORE_THREADS) -> None:
        self._calls: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._threads = threads
        for number in range(threads):
            threading.Thread(target=self._work, name=f"{_STORE_THREAD}{number}", daemon=True).start()

    async def __call__(self, call: Callable[..., T], *args: Any) -> T:
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._calls.put(partial(_settle, loop, future, call, args))
        return await future

    def close(self) -> None:
        """What waits is still called."""
        for _ in range(self._threads):
            self._calls.put(None)

    def _work(self) -> None:
        while (call := self._calls.get()) is not None:
            call()


def forbid_store_thread(what: str) -> None:
    """For what may wait for somebody else: the store's few threads serve everybody."""
    if threading.current_thread().name.startswith(_STORE_THREAD):
        raise RuntimeError(f"{what} on a thread of the store; it needs one of its own")


@dataclass(eq=False, slots=True)
class EventPipe:
    """Events of a turn on their way to the loop: in order, pieces of text joined, one wake-up for many."""

    _loop: asyncio.AbstractEventLoop
    _show: Callable[[LiveEvent], None]
    _drained: threading.Condition = field(default_factory=threading.Condition)
    _waiting: DeltaJoiner = field(default_factory=DeltaJoiner)
    _chars: int = 0
    first_text_at: float | None = None  # of the clock that is never set

    def put(self, event: LiveEvent) -> None:
        """Called on the turn's thread, and on those of its tools. A piece of text waits for room."""
        size = len(event.text) if isinstance(event, TextDelta | ReasoningDelta) else 0
        if self.first_text_at is None and isinstance(event, TextDelta):
            self.first_text_at = time.monotonic()
        with self._drained:
            while size and self._chars > MOST_PIPED and not self._loop.is_closed():
                self._drained.wait(_LOOK_SECONDS)
            self._chars += size
            waking = self._waiting.add(event)
        if waking:
            try:
                self._loop.call_soon_threadsafe(self._drain)
            except RuntimeError:
                log.debug("an event came after the event loop had ended")

    def _drain(self) -> None:
        with self._drained:
            events, self._chars = self._waiting.take(), 0
            self._drained.notify_all()
        for event in events:
            self._show(event)
