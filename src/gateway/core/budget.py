"""How many calls a chat takes: one bucket for send, edit and typing, with room kept for what must arrive, and closed
while the platform punishes us. A value; time is given."""

import math
from dataclasses import dataclass, replace

from gateway.platforms.face import PlatformSpec
from hermes_base.inbound import NOTE, Outgoing

#: Kinds of calls: what must arrive, what may wait, what is dropped when there is no room.
FINAL, WORD, PROGRESS = "final", "word", "progress"
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True)
class Budget:
    """The calls that are left at time `at`."""

    per_second: float  # 0: no limit
    burst: int
    reserved: int
    left: float
    at: float
    closed_until: float = -math.inf

    def may(self, kind: str, now: float) -> float:
        """Seconds until a call of this kind may be made: 0 at once, infinity never."""
        penalty = max(0.0, self.closed_until - now)
        if not self.per_second:
            return penalty
        missing = self._floor(kind) + 1 - self._left_at(now)
        if self._floor(kind) + 1 > self.burst:
            return math.inf
        return max(penalty, missing / self.per_second if missing > _ROUNDING else 0.0)

    def take(self, now: float) -> "Budget":
        """The budget after a call."""
        return replace(self, left=max(0.0, self._left_at(now) - 1), at=max(now, self.at))

    def close(self, now: float, seconds: float) -> "Budget":
        """The budget under a penalty; a later one never shortens an earlier."""
        return replace(self, closed_until=max(self.closed_until, now + seconds))

    def is_fresh(self, now: float) -> bool:
        """Whether it says nothing that a new one would not say."""
        return self.closed_until <= now and (not self.per_second or self._left_at(now) >= self.burst)

    def _left_at(self, now: float) -> float:
        return min(float(self.burst), self.left + max(0.0, now - self.at) * self.per_second)

    def _floor(self, kind: str) -> int:
        """Calls that this kind must leave. A word leaves room too, but not so much that it could never be said."""
        return {FINAL: 0, WORD: min(self.reserved, self.burst - 1), PROGRESS: self.reserved}[kind]


def open_budget(spec: PlatformSpec, now: float) -> Budget:
    """A full budget for a chat on this platform."""
    burst = max(1, spec.burst_calls)
    return Budget(spec.calls_per_second, burst, spec.reserved_calls, float(burst), now)


def kind_of(outgoing: Outgoing) -> str:
    """Answers, questions and files may use what is reserved; notes may not."""
    return WORD if outgoing.kind == NOTE else FINAL
