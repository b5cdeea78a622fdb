"""One event loop on one thread for all servers of the process, started with the first of them."""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future, wait
from typing import Any, TypeVar

from hermes_base.errors import Interrupted
from hermes_base.turn.cancel import CancelToken

T = TypeVar("T")
END_SECONDS = 10.0
SIGN_SECONDS = 10.0  # between two signs that something is under way


class LoopThread:
    """Runs coroutines for threads that wait for them."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None

    def begin(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """Start something on the loop; whoever has the future may wait for it or cancel it."""
        with self._lock:
            if self._loop is None:
                ready: Future[asyncio.AbstractEventLoop] = Future()
                self._thread = threading.Thread(target=_turn, args=(ready,), name="mcp", daemon=True)
                self._thread.start()
                self._loop = ready.result()
            return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(
        self,
        work: Coroutine[Any, Any, T],
        cancel: CancelToken | None = None,
        seconds: float | None = None,
        on_wait: Callable[[], None] | None = None,
    ) -> T:
        """Wait for it; a stop of the turn cancels it and raises Interrupted at once, and so does the time. `on_wait` is
        called again and again meanwhile."""
        outcome = self.begin(work)
        forget = cancel.on_cancel(lambda: _give_up(outcome)) if cancel is not None else None
        try:
            while on_wait is not None and not wait([outcome], SIGN_SECONDS).done:
                on_wait()
            return outcome.result(seconds)
        except CancelledError:
            raise Interrupted(cancel.reason if cancel is not None else "it was cancelled") from None
        finally:
            outcome.cancel()
            if forget is not None:
                forget()

    def close(self) -> None:
        """End the loop; what still runs on it is cancelled."""
        with self._lock:
            loop, thread = self._loop, self._thread
            self._loop = self._thread = None
        if loop is not None and thread is not None:
            loop.call_soon_threadsafe(loop.stop)
            thread.join(END_SECONDS)


def _give_up(outcome: Future[T]) -> None:
    outcome.cancel()


def _turn(ready: "Future[asyncio.AbstractEventLoop]") -> None:
    """The thread: turns the loop until it is stopped, then lets what is left end."""
    loop = asyncio.new_event_loop()
    asyncio.set_event_loop(loop)
    ready.set_result(loop)
    try:
        loop.run_forever()
    finally:
        left = asyncio.all_tasks(loop)
        for task in left:
            task.cancel()
        loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        loop.run_until_complete(loop.shutdown_asyncgens())
        loop.run_until_complete(loop.shutdown_default_executor())
        asyncio.set_event_loop(None)
        loop.close()
