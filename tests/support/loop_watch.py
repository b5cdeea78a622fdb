"""F5: names every callback that held the gateway's event loop for too long, by working or by waiting.

Work is measured as time of the loop's own thread, which a loaded machine does not change. Waiting is seen from another
thread: again and again it looks where the loop's thread stands. One that stands at the same instruction, look after
look, without having worked in between, waits there for a lock, the disk or another thread. Looks are counted and not
seconds, so a machine that is busy with others, or a process that was stopped as a whole, is nobody's fault.
"""

import asyncio
import gc
import linecache
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from types import FrameType

import pytest

LONGEST = 0.05  # seconds of the loop's own thread
LOOK_SECONDS = 0.02
LOOKS = 15  # so many looks at the same instruction: it waits there
IDLE = 0.005  # seconds of work in all that time which are still none
LOOP_THREAD = "gateway"


@dataclass(slots=True)
class _Callback:
    """What runs on the loop now."""

    number: int = 0
    name: str = ""  # empty: nothing does


@dataclass(slots=True)
class _Stand:
    """Where the loop's thread was seen, and how often in a row."""

    place: tuple[int, int, int] = (0, 0, 0)  # callback, frame, instruction
    worked: float = 0.0  # the thread's time when it was first seen there
    looks: int = 0


def watch_loop(monkeypatch: pytest.MonkeyPatch, thread_name: str = LOOP_THREAD) -> list[str]:
    """What took too long, by name; the gateway's loop runs on a thread of that name."""
    culprits: list[str] = []
    running: dict[threading.Thread, _Callback] = {}
    run = asyncio.events.Handle._run

    def watched(handle: asyncio.Handle) -> None:
        thread = threading.current_thread()
        if thread.name != thread_name:
            run(handle)
            return
        now = running.setdefault(thread, _Callback())
        now.number, now.name = now.number + 1, _describe(handle)
        begun = time.thread_time()
        try:
            run(handle)
        finally:
            spent, name, now.name = time.thread_time() - begun, now.name, ""
        if spent > LONGEST:
            culprits.append(f"worked for {1000 * spent:.0f} ms: {name}")

    def look_on() -> None:
        stands: dict[threading.Thread, _Stand] = {}
        while asyncio.events.Handle._run is watched:  # until the test is over
            time.sleep(LOOK_SECONDS)
            for thread, callback in list(running.items()):
                found = _look(thread, callback, stands.setdefault(thread, _Stand()))
                if found:
                    culprits.append(found)

    gc.freeze()  # what all tests before have left is not looked through again and again, on the loop's time
    monkeypatch.setattr(asyncio.events.Handle, "_run", watched)
    threading.Thread(target=look_on, name="loop watch", daemon=True).start()
    return culprits


def _describe(handle: asyncio.Handle) -> str:
    """The handle, or whose task it goes on with."""
    task = getattr(getattr(handle, "_callback", None), "__self__", None)
    return f"{task.get_name()}: {task.get_coro()!r}" if isinstance(task, asyncio.Task) else repr(handle)


def _look(thread: threading.Thread, callback: _Callback, stand: _Stand) -> str:
    """One look at the thread; where it waits, said once, when it was seen there often enough."""
    name, ident = callback.name, thread.ident
    frame = sys._current_frames().get(ident) if ident is not None and name else None
    if frame is None or ident is None or not thread.is_alive():
        stand.looks = 0
        return ""
    place = (callback.number, id(frame), frame.f_lasti)
    worked = time.clock_gettime(time.pthread_getcpuclockid(ident))
    if place != stand.place or worked - stand.worked > IDLE:
        stand.place, stand.worked, stand.looks = place, worked, 0
        return ""
    stand.looks += 1
    return f"waited in {_word_place(frame)}: {name}" if stand.looks == LOOKS else ""


def _word_place(frame: FrameType) -> str:
    """The line that waits, and who called it: `lane.py:264 suspend (with self._lock:) from service.py:186 stop`."""
    innermost, *callers = [
        f"{each.f_code.co_filename.rpartition('/')[2]}:{each.f_lineno} {each.f_code.co_name}" for each in _walk(frame)
    ]
    line = linecache.getline(frame.f_code.co_filename, frame.f_lineno).strip()
    return f"{innermost} ({line}) from {', '.join(callers[:4])}"


def _walk(frame: FrameType | None) -> Iterator[FrameType]:
    while frame is not None:
        yield frame
        frame = frame.f_back
