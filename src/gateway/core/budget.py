"""How many calls a chat takes, and how many the whole account: buckets for send, edit, typing and receipts, with room
kept for what must arrive, and closed while the platform punishes us. Values; time is given."""

import math
from dataclasses import dataclass, replace

from gateway.platforms.face import PlatformSpec
from hermes_base.inbound import NOTE, Outgoing

#: Kinds of calls: what must arrive, what may wait, what is dropped when there is no room.
FINAL, WORD, PROGRESS = "final", "word", "progress"
DIRECT = "dm"  # the kind of a chat with one person
_ROUNDING = 1e-9
_LATE = 1.0  # seconds; a ticket that was not used by then is void
_SHARE = 0.5  # of the calls of a slow chat are for progress


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

    def reserve(self, now: float) -> "tuple[Budget, PlaceInLine]":
        """A place in the line of those who must call: the budget after it, and when its time comes. Whoever asks first
        comes first, however many wait."""
        start = max(now, self.closed_until)
        if not self.per_second:
            return self, PlaceInLine(start, self.closed_until)
        left = self._left_at(start) - 1
        due = start + max(0.0, -left) / self.per_second
        return replace(self, left=left, at=max(start, self.at)), PlaceInLine(due, self.closed_until)

    def honours(self, ticket: "PlaceInLine | None", now: float) -> bool:
        """Whether the place in the line still holds: no penalty came since, and its time is not long past."""
        return ticket is not None and ticket.penalty == self.closed_until and now <= ticket.due + _LATE

    def close(self, now: float, seconds: float) -> "Budget":
        """The budget under a penalty; a later one never shortens an earlier. Who waits in the line asks again."""
        return replace(self, left=max(0.0, self.left), closed_until=max(self.closed_until, now + seconds))

    def is_fresh(self, now: float) -> bool:
        """Whether it says nothing that a new one would not say."""
        return self.closed_until <= now and (not self.per_second or self._left_at(now) >= self.burst)

    def _left_at(self, now: float) -> float:
        return min(float(self.burst), self.left + max(0.0, now - self.at) * self.per_second)

    def _floor(self, kind: str) -> int:
        """Calls that this kind must leave. A word leaves room too, but not so much that it could never be said."""
        return {FINAL: 0, WORD: min(self.reserved, self.burst - 1), PROGRESS: self.reserved}[kind]


@dataclass(frozen=True, slots=True)
class PlaceInLine:
    """A place in an account's line."""

    due: float
    penalty: float  # the end of the last penalty when it was given


def open_budget(spec: PlatformSpec, now: float, kind: str = DIRECT) -> Budget:
    """A full budget for a chat of this kind on this platform."""
    burst = max(1, spec.burst_calls)
    return Budget(_rate(spec, kind), burst, spec.reserved_calls, float(burst), now)


def open_account_budget(spec: PlatformSpec, now: float) -> Budget:
    """A full budget for all chats of an account; a third of it is kept for what must arrive."""
    burst = max(1, spec.account_burst_calls)
    reserved = min(max(1, burst // 3), burst - 1)
    return Budget(spec.account_calls_per_second, burst, reserved, float(burst), now)


def progress_pause(spec: PlatformSpec, kind: str) -> float:
    """Seconds between two calls for progress, beside what a draft needs itself. In a slow group most of the calls are
    left for what is said there."""
    slow = kind != DIRECT and spec.group_calls_per_second
    return 1 / (_SHARE * spec.group_calls_per_second) if slow else 0.0


def _rate(spec: PlatformSpec, kind: str) -> float:
    return spec.calls_per_second if kind == DIRECT else spec.group_calls_per_second or spec.calls_per_second


def kind_of(outgoing: Outgoing) -> str:
    """Answers, questions and files may use what is reserved; notes may not."""
    return WORD if outgoing.kind == NOTE else FINAL
