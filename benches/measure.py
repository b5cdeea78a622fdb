"""How things are measured: CPU time of a process or of a repeated call, allocated bytes, function calls."""

import cProfile
import gc
import pstats
import resource
import statistics
import subprocess
import time
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Figure:
    """One measured value, the limit it may reach, and what the best-known system of this kind needs."""

    name: str
    value: float
    unit: str
    limit: float
    elsewhere: float | None = None
    at_least: bool = False  # the limit is one from below

    @property
    def holds(self) -> bool:
        return self.value >= self.limit if self.at_least else self.value <= self.limit

    @property
    def shown(self) -> str:
        return show(self.value, self.unit)


def show(value: float | None, unit: str) -> str:
    if value is None:
        return "–"
    return f"{value:,.0f}{unit and ' ' + unit}" if value >= 100 else f"{value:,.2f}{unit and ' ' + unit}"


def cpu_ms(work: Callable[[], object], times: int) -> float:
    """CPU of this process for one call, the median of `times` calls: noise of the machine only ever adds."""
    spent = []
    for _ in range(times):
        start = time.process_time()
        work()
        spent.append(time.process_time() - start)
    return 1000 * statistics.median(spent)


def child_cpu_ms(command: Sequence[str], times: int) -> float:
    """CPU (user and system) of a command, the median of `times` runs."""
    spent = []
    for _ in range(times):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stdin=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        spent.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    return 1000 * statistics.median(spent)


def kept_kb(make: Callable[[], object], times: int) -> float:
    """Memory that each made thing keeps."""
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    made = [make() for _ in range(times)]
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    del made
    return kept / times / 1024


def count_calls(work: Callable[[], object]) -> int:
    """Function calls of one run: the same on every machine."""
    profile = cProfile.Profile()
    profile.enable()
    work()
    profile.disable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]
