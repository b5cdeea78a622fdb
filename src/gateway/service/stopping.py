"""How a gateway ends, and how its process does: in named steps that each have a limit, so that nothing that hangs or
fails in one of them keeps the others from being taken (C14)."""

import asyncio
import contextlib
import logging
import os
import signal
import threading
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Self

from gateway.turns.threads import start_thread
from hermes_base.chat import Notice

if TYPE_CHECKING:
    from gateway.service.gateway import Gateway

log = logging.getLogger(__name__)

#: Told to end by a signal, the process is gone after so long, whatever stands still in it. The steps take less.
LONGEST_STOP = 9.7
CLEAN_UP_SECONDS = 0.4  # for what is left on the event loop after the last step
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@dataclass(frozen=True, slots=True)
class StopStep:
    name: str
    seconds: float
    work: Callable[[], Awaitable[object]]


async def take_step(step: StopStep) -> None:
    """Take one step of a stop. What it raises is logged; what does not end in time is told to, and left behind."""
    task = asyncio.ensure_future(_begin(step))
    _, late = await asyncio.wait({task}, timeout=step.seconds)
    if late:
        log.error("%s took longer than %.1f s; the stop goes on without it", step.name, step.seconds)
        task.cancel()


async def _begin(step: StopStep) -> None:
    try:
        await step.work()
    except Exception:  # the boundary to platforms, plugins and the store: one of them must not keep the others
        log.exception("%s failed; the stop goes on", step.name)


async def end_gateway(gateway: "Gateway", reason: str, grace: float, cut: float) -> None:
    """Stop intake, let turns end, cut those that do not, deliver what is there, leave. The steps of one line are taken
    at the same time."""
    for together in list_steps(gateway, reason, grace, cut):
        await asyncio.gather(*map(take_step, together))


def list_steps(gateway: "Gateway", reason: str, grace: float, cut: float) -> Iterator[Sequence[StopStep]]:
    """All limits together, with `grace` and `cut`, are less than LONGEST_STOP. A list is made when it is its turn."""
    yield [StopStep("telling who waits", 0.1, partial(_tell, gateway, reason))]
    yield [StopStep("waiting for turns", grace + 0.1, partial(_wait_for_lanes, gateway, grace))]
    yield [StopStep("suspending turns", 0.1, partial(_suspend, gateway, reason))]
    yield [
        StopStep("waiting for turns that were cut", cut + 0.1, partial(_wait_for_lanes, gateway, cut)),
        StopStep("ending titles", 1.1, lambda: start_thread(gateway.titler.stop, "titles end")),
    ]
    yield [StopStep("ending delivery", 0.8, lambda: gateway.delivery.stop(grace=0.3))]
    yield [
        *(StopStep(f"disconnecting {each.spec.label}", 0.8, each.disconnect) for each in gateway.adapters),
        *(StopStep("closing the page", 0.8, close) for close in gateway.doors),
    ]
    gateway.end_tasks()
    yield [
        StopStep("leaving the store", 0.5, lambda: gateway.call(gateway.turns.leave, gateway.node)),
        StopStep("letting agents go", 0.5, lambda: start_thread(gateway.runner.release_all, "release-agents")),
    ]
    yield [StopStep("closing the store", 0.4, lambda: gateway.call(gateway.store.close))]
    gateway.call.close()


async def _tell(gateway: "Gateway", reason: str) -> None:
    for lane in gateway.lanes.values():
        gateway.live_events.show(lane.key, Notice(f"Hermes is stopping ({reason}).", "warning"))


async def _suspend(gateway: "Gateway", reason: str) -> None:
    for lane in list(gateway.lanes.values()):
        lane.suspend(f"Hermes was stopped ({reason})")
    gateway.questions.void_all()


async def _wait_for_lanes(gateway: "Gateway", seconds: float) -> None:
    """Nothing new is begun any more: those that run now are all there are."""
    running = [lane.slot for lane in gateway.lanes.values() if lane.slot is not None]
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
