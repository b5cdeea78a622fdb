"""Run the calls of one round at the same time and hand over their results in the order of the calls.

Each call has a daemon thread of its own, so that a tool that does not listen cannot hold up a turn that was stopped.
"""

import contextvars
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from typing import TypeVar

from hermes_base.errors import HermesError, Interrupted
from hermes_base.turn.cancel import CancelToken

log = logging.getLogger(__name__)

Call = TypeVar("Call")
Result = TypeVar("Result")
#: How long a stopped turn waits for its tools to notice; then it goes on without them.
GRACE_SECONDS = 2.0
#: How often a round that takes its time is asked for a sign of life.
LOOK_SECONDS = 5.0


def run_in_order(
    calls: Sequence[Call],
    run: Callable[[Call], Result],
    take: Callable[[Call, Result], None],
    cancel: CancelToken,
    on_wait: Callable[[], None] = lambda: None,
) -> None:
    """`take` gets each result as soon as it and all before it are there. Raises what `run` or `take` raised, after the
    other calls were told to stop, and Interrupted."""
    ended: queue.SimpleQueue[tuple[int, Result] | BaseException | None] = queue.SimpleQueue()

    def work(place: int, call: Call, context: contextvars.Context) -> None:
        try:
            ended.put((place, context.run(run, call)))
        except (Exception, Interrupted) as problem:
            log.debug("a tool's thread failed", exc_info=True)  # the round raises it, unless it left it behind
            ended.put(problem)
        except BaseException as problem:  # a thread's top: what would end a program ends this round, and nothing else
            log.exception("a tool's thread was ended")
            ended.put(HermesError(f"The thread of a tool was ended ({type(problem).__name__}: {problem})."))

    threads = []
    for place, call in enumerate(calls):
        given = (place, call, contextvars.copy_context())
        threads.append(threading.Thread(target=work, args=given, name=f"tool-{place}", daemon=True))
        threads[-1].start()
    forget = cancel.on_cancel(lambda: ended.put(None))
    waiting: dict[int, Result] = {}
    taken = 0
    try:
        while taken < len(calls):
            try:
                item = ended.get(timeout=GRACE_SECONDS if cancel.cancelled else LOOK_SECONDS)
            except queue.Empty:
                if cancel.cancelled:
                    break
                on_wait()
                continue
            if isinstance(item, BaseException):
                raise item
            if item is not None:
                waiting[item[0]] = item[1]
            while taken in waiting:
                take(calls[taken], waiting.pop(taken))
                taken += 1
        cancel.check()
    finally:
        forget()
        if taken < len(calls) and not cancel.cancelled:  # it failed, and what comes next would meet them at work
            cancel.cancel("another call of its round failed")
            end = time.monotonic() + GRACE_SECONDS
            for thread in threads:
                thread.join(max(0.0, end - time.monotonic()))
