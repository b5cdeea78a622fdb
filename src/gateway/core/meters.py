"""Counts what happens in the gateway, where it happens: sums by label, and how long things took. Any thread may."""

import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from hermes_base.turn.journal import UsageRow
from hermes_state.sql.store_sql import Store

#: Upper bounds of the buckets, in seconds: from what nobody notices to what somebody complains about.
SECONDS = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0)
LAG_SECONDS = (0.001, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 5.0)


class Tally:
    """A sum for each set of labels."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._sums: Counter[tuple[str, ...]] = Counter()

    def add(self, *labels: str, by: float = 1) -> None:
        with self._lock:
            self._sums[labels] += by  # type: ignore[assignment]

    def read(self) -> Mapping[tuple[str, ...], float]:
        with self._lock:
            return dict(self._sums)


@dataclass(frozen=True, slots=True)
class Spread:
    """How often something took how long."""

    bounds: Sequence[float]
    counts: Sequence[int]  # in each bucket, the last one without a bound
    total: float

    @property
    def count(self) -> int:
        return sum(self.counts)


class Stopwatch:
    """Collects durations into buckets."""

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self._lock = threading.Lock()
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._total = 0.0

    def note(self, seconds: float) -> None:
        """A clock that was set back counts as no time."""
        seconds = max(0.0, seconds)
        with self._lock:
            self._counts[bisect_left(self._bounds, seconds)] += 1
            self._total += seconds

    def read(self) -> Spread:
        with self._lock:
            return Spread(self._bounds, tuple(self._counts), self._total)


@dataclass(frozen=True, slots=True)
class Meters:
    """Everything that is counted since the process began; what others count themselves is read there."""

    turns: Tally = field(default_factory=Tally)  # result
    turn_seconds: Stopwatch = field(default_factory=Stopwatch)
    wait_seconds: Stopwatch = field(default_factory=Stopwatch)  # from the message's storage to its turn
    first_text_seconds: Stopwatch = field(default_factory=Stopwatch)  # from the turn's begin
    calls: Tally = field(default_factory=Tally)  # provider, model, kind
    tokens: Tally = field(default_factory=Tally)  # provider, model, bucket
    cost: Tally = field(default_factory=Tally)  # provider, model; dollars
    switches: Tally = field(default_factory=Tally)  # reason
    breaks: Tally = field(default_factory=Tally)  # reason
    loop_lag: Stopwatch = field(default_factory=lambda: Stopwatch(LAG_SECONDS))

    def charge(self, store: Store, session: str, usage: Sequence[UsageRow]) -> None:
        """Put calls beside a turn into the ledger, and count them."""
        store.charge(session, usage)
        self.count_calls(usage)

    def count_calls(self, usage: Sequence[UsageRow]) -> None:
        for row in usage:
            who = row.provider, row.model
            self.calls.add(*who, row.kind)
            buckets = {  # disjoint, but for reasoning, which is a part of output
                "input": row.input_tokens,
                "cache_read": row.cache_read_tokens,
                "cache_write": row.cache_write_tokens,
                "output": row.output_tokens,
                "reasoning": row.reasoning_tokens,
            }
            for bucket, count in buckets.items():
                if count:
                    self.tokens.add(*who, bucket, by=count)
            if row.cost:
                self.cost.add(*who, by=row.cost)
