"""How the work for a text grows with its length. Times are compared with each other, never with a clock's limit."""

import time
from collections.abc import Callable

STEPS = 4  # the longer text is so many times as long; what grows with the square takes sixteen times as long
MOST = 9.0  # linear is 4
_TRIES = 5


def measure_growth(work: Callable[[str], object], make: Callable[[int], str], size: int) -> float:
    """How many times longer the longer text takes, at best. The work of this thread counts, not that of others."""
    short, long = make(size), make(STEPS * size)
    return min(_time(work, long) / max(_time(work, short), 1e-9) for _ in range(_TRIES))


def _time(work: Callable[[str], object], text: str) -> float:
    """Short work is repeated until it can be told from nothing."""
    spent, count = 0.0, 0
    while spent < 0.002:
        begun = time.thread_time()
        work(text)
        spent, count = spent + time.thread_time() - begun, count + 1
    return spent / count
