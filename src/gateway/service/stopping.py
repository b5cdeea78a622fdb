"""How a gateway ends, and how its process does: in named steps that each have a limit, so that nothing that hangs or
fails in one of them keeps the others from being taken (C14)."""

import asyncio
import contextlib
import logging
import os
import signal
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Self

from gateway.turns.endings import tell_shutdown
from gateway.turns.lanes import Lanes
from gateway.turns.run_turn import GatewayParts
from gateway.turns.threads import start_thread
from hermes_base.chat import Notice

log = logging.getLogger(__name__)

#: Told to end by a signal, the process is gone after so long, whatever stands still in it. The steps take less.
LONGEST_STOP = 9.7
MOST_LEFT = 3.0  # for each of the last steps, where the others were quick
CLEAN_UP_SECONDS = 0.4  # for what is left on the event loop after the last step
#: The reason of an end after which the same process begins anew.
LENDING = "its store is moved; it comes back by itself"
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class StopStep:
    name: str
    seconds: float
    work: Callable[[], Awaitable[object]]


async def take_step(step: StopStep) -> None:
    """Take one step of a stop. What it raises is logged; what does not end in time is told to, and left behind."""

    async def begin() -> None:
        try:
            await step.work()
        except Exception:  # the boundary to platforms, plugins and the store: one of them must not keep the others
            log.exception("%s failed; the stop goes on", step.name)

    task = asyncio.ensure_future(begin())
    _, late = await asyncio.wait({task}, timeout=step.seconds)
    if late:
        log.error("%s took longer than %.1f s; the stop goes on without it", step.name, step.seconds)
        task.cancel()


@dataclass(slots=True)
class Doors:
    """What is open beside the platforms."""

    closers: list[Callable[[], Awaitable[None]]] = field(default_factory=list)  # each closes one, before the store is
    address: str = ""  # of the page; empty: it is not served


def list_steps(
    parts: GatewayParts,
    lanes: Lanes,
    doors: Doors,
    end_tasks: Callable[[], None],
    reason: str,
    grace: float,
    cut: float,
) -> Iterator[Sequence[StopStep]]:
    """Stop intake, let turns end, cut those that do not, deliver what is there, leave. The steps of one list are taken
    at the same time; a list is made when it is its turn. All limits together are less than LONGEST_STOP; what the first
    lists did not need of it, the last ones may."""
    end = time.monotonic() + LONGEST_STOP - CLEAN_UP_SECONDS
    yield [StopStep("telling who waits", 0.1, partial(_tell, parts, lanes, reason))]
    yield [
        StopStep("waiting for turns", grace + 0.1, partial(_wait_for_lanes, lanes, grace)),
        *(
            StopStep(f"ending to listen to {each.spec.label}", grace + 0.1, each.stop_hearing)
            for each in parts.adapters
            if each.spec.forgets
        ),
    ]
    yield [StopStep("suspending turns", 0.1, partial(_suspend, parts, lanes, reason))]
    yield [
        StopStep("waiting for turns that were cut", cut + 0.1, partial(_wait_for_lanes, lanes, cut)),
        StopStep("ending titles", 1.1, lambda: start_thread(parts.titler.stop, "titles end")),
    ]
    yield [StopStep("ending delivery", 0.8, lambda: parts.delivery.rest(parts.adapters, 0.3))]
    yield [
        *(StopStep(f"disconnecting {each.spec.label}", 0.8, each.disconnect) for each in parts.adapters),
        *(StopStep("closing the page", 0.8, close) for close in doors.closers),
    ]
    end_tasks()
    warm = parts.runner.list_agents()  # before they are let go, beside the telling
    left = min(MOST_LEFT, max(0.5, end - time.monotonic() - 0.4))
    yield [
        StopStep("telling plugins", left, lambda: start_thread(lambda: tell_shutdown(warm), "plugins end")),
        StopStep("leaving the store", left, partial(_leave, parts, lanes)),
        StopStep("letting agents go", left, lambda: start_thread(parts.runner.release_all, "release-agents")),
    ]
    left = min(MOST_LEFT, max(0.4, end - time.monotonic()))
    yield [StopStep("closing the store", left, lambda: parts.call(partial(_close_store, parts)))]
    parts.call.close()


async def _leave(parts: GatewayParts, lanes: Lanes) -> None:
    """Whoever takes an account now meets nobody there: it was disconnected before (I3)."""
    await parts.delivery.stop(grace=0.3)
    await parts.call(parts.store.turns.leave, lanes.node)


def _close_store(parts: GatewayParts) -> None:
    parts.hints.close()
    parts.store.close()


async def _tell(parts: GatewayParts, lanes: Lanes, reason: str) -> None:
    for key in lanes.at_work:
        parts.live_events.show(key, Notice(f"Hermes is stopping ({reason}).", "warning"))


async def _suspend(parts: GatewayParts, lanes: Lanes, reason: str) -> None:
    for lane in list(lanes.at_work.values()):
        lane.suspend(f"Hermes was stopped ({reason})")
    parts.questions.void_all()


async def _wait_for_lanes(lanes: Lanes, seconds: float) -> None:
    """Nothing new is begun any more: those that run now are all there are."""
    running = [lane.slot for lane in lanes.at_work.values() if lane.slot is not None]
    with contextlib.suppress(TimeoutError):  # they are cut, or left behind
        async with asyncio.timeout(seconds):
            for slot in running:
                await slot.ended.wait()


# --- the process


class LastResort:
    """Ends the process when its orderly end does not come: around the life of its event loop."""

    def __init__(self) -> None:
        self._timers: list[threading.Timer] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for timer in self._timers:
            timer.cancel()

    def end_within(self, seconds: float, code: int) -> None:
        timer = threading.Timer(seconds, os._exit, (code,))
        timer.daemon = True
        timer.start()
        self._timers.append(timer)

    def obey_signals(self, stop: Callable[[str], object]) -> None:
        """SIGTERM and SIGINT: the first calls `stop`, on a thread, and has its time; the second ends the process at
        once. They are heard on a thread, so also while the event loop stands still. On the main thread."""
        hearing, told = os.pipe()
        os.set_blocking(told, False)
        for number in SIGNALS:
            signal.signal(number, lambda *_: None)  # what counts is the byte in the pipe
        signal.set_wakeup_fd(told, warn_on_full_buffer=False)
        threading.Thread(target=self._hear, args=(hearing, stop), name="signals", daemon=True).start()

    def _hear(self, hearing: int, stop: Callable[[str], object]) -> None:
        heard = 0
        while True:
            for number in os.read(hearing, 64):
                if number not in SIGNALS:
                    continue
                heard += 1
                if heard > 1:
                    os._exit(128 + number)
                self.end_within(LONGEST_STOP, 1)
                stop(f"signal {signal.Signals(number).name}")
