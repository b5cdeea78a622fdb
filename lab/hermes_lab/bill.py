"""Measures what an answer uses and adds up what each account is charged.

A request is charged when its answer begins to leave. An answer that is cut, or that ends in an error, before the event
that tells its usage is charged for the prompt (cache reads and writes included) and for no output.
"""

import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace

from hermes_lab.cache import Found
from hermes_lab.prompt import count_tokens
from hermes_lab.values import Answer, Ask, Usage

MOST_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Counts:
    """Tokens in buckets that do not overlap; only `reasoning_tokens` is a part of another, of `output_tokens`."""

    uncached_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_5m_tokens: int = 0
    cache_write_1h_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    readable_tokens: int = 0  # could have been read from the cache
    previous_tokens: int = 0  # could have been, had the client only added to the conversation's last prompt

    @property
    def prompt_tokens(self) -> int:
        written = self.cache_write_5m_tokens + self.cache_write_1h_tokens
        return self.uncached_tokens + self.cache_read_tokens + written


@dataclass(frozen=True, slots=True)
class Sums(Counts):
    """All calls of an account."""

    calls: int = 0


@dataclass(frozen=True, slots=True)
class Row(Counts):
    """One call."""

    account: str = ""
    format: str = ""
    model: str = ""
    complete: bool = True  # False: it ended before its usage was told


_COUNTS = tuple(count.name for count in fields(Counts))


def measure_usage(ask: Ask, answer: Answer, found: Found, override: Mapping[str, int]) -> Usage:
    """What the answer's usage says; `override` replaces single counts."""
    reasoning = count_tokens(answer.reasoning.encode())
    spoken = count_tokens(answer.text.encode())
    called = sum(count_tokens(f"{call.name}{call.arguments}".encode()) for call in answer.calls)
    measured = Usage(
        prompt_tokens=ask.prompt.tokens,
        cached_tokens=found.read,
        cache_write_tokens=found.write_5m + found.write_1h,
        cache_write_1h_tokens=found.write_1h,
        completion_tokens=reasoning + spoken + called,
        reasoning_tokens=reasoning,
    )
    return replace(measured, **override) if override else measured


class Bill:
    """The newest calls one by one, and the sums of all."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._rows: deque[Row] = deque(maxlen=MOST_ROWS)
        self._sums: dict[str, Sums] = {}

    def charge(self, row: Row) -> None:
        with self._lock:
            self._rows.append(row)
            self._sums[row.account] = _add_row(self._sums.get(row.account, Sums()), row)

    def list_sums(self) -> dict[str, Sums]:
        with self._lock:
            return dict(self._sums)

    def list_rows(self) -> tuple[Row, ...]:
        with self._lock:
            return tuple(self._rows)

    def clear(self) -> None:
        with self._lock:
            self._rows.clear()
            self._sums.clear()


def make_row(account: str, wire: str, ask: Ask, usage: Usage, found: Found, complete: bool) -> Row:
    """The charge for one call."""
    return Row(
        uncached_tokens=usage.uncached_tokens,
        cache_read_tokens=usage.cached_tokens,
        cache_write_5m_tokens=usage.cache_write_5m_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        output_tokens=usage.completion_tokens if complete else 0,
        reasoning_tokens=usage.reasoning_tokens if complete else 0,
        readable_tokens=found.readable,
        previous_tokens=found.previous,
        account=account,
        format=wire,
        model=ask.model,
        complete=complete,
    )


def _add_row(sums: Sums, row: Row) -> Sums:
    counts = {name: getattr(sums, name) + getattr(row, name) for name in _COUNTS}
    return Sums(**counts, calls=sums.calls + 1)
