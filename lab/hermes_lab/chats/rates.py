"""How many calls an app lets through, and the penalties during which it takes none."""

import math
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field

ACCOUNT = ""  # the name of the scope that every call of an account belongs to


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `calls` in any `seconds`, and a `burst` on top. `slack` calls more pass for what waited on the way."""

    calls: int
    seconds: float
    burst: int = 0
    slack: int = 1


@dataclass(slots=True)
class Meter:
    """Counts the calls of one scope against one rate."""

    rate: Rate
    tokens: float | None = None  # of a rate with a burst; None: all of them
    at: float = 0.0
    times: deque[float] = field(default_factory=deque)  # of a rate without one: a window

    def wait(self, now: float, weight: int) -> float:
        """Seconds until so many calls are let through; 0: now."""
        if self.rate.burst:
            return max(0.0, weight - self._refill(now)) * self.rate.seconds / self.rate.calls
        while self.times and self.times[0] <= now - self.rate.seconds:
            self.times.popleft()
        over = len(self.times) + weight - self.rate.calls - self.rate.slack
        return self.times[min(over, len(self.times)) - 1] + self.rate.seconds - now if over > 0 and self.times else 0.0

    def take(self, now: float, weight: int) -> None:
        if self.rate.burst:
            self.tokens = self._refill(now) - weight
        else:
            self.times.extend([now] * weight)

    def _refill(self, now: float) -> float:
        most = float(self.rate.burst + self.rate.slack)
        gained = (now - self.at) * self.rate.calls / self.rate.seconds
        self.tokens = most if self.tokens is None else min(most, self.tokens + gained)
        self.at = now
        return self.tokens


@dataclass(frozen=True, slots=True)
class Share:
    """What a call takes of a scope's rate. Without a rate it only waits for the end of a penalty."""

    scope: str
    rate: Rate | None = None
    weight: int = 1


@dataclass(slots=True)
class Excess:
    """Too many calls in a scope."""

    scope: str
    seconds: float


@dataclass(slots=True)
class Penalty:
    until: float
    told_at: float = 0.0  # when a client was first told; 0: never


@dataclass(slots=True)
class RateBook:
    """The meters and penalties of one account."""

    meters: dict[tuple[str, Rate], Meter] = field(default_factory=dict)
    penalties: dict[str, Penalty] = field(default_factory=dict)

    def find_penalty(self, now: float, shares: Iterable[Share]) -> Penalty | None:
        """The longest penalty of these scopes that is not over."""
        found = [self.penalties[share.scope] for share in shares if share.scope in self.penalties]
        return max((p for p in found if p.until > now), key=lambda penalty: penalty.until, default=None)

    def punish(self, now: float, scope: str, seconds: float) -> Penalty:
        penalty = Penalty(now + seconds)
        self.penalties[scope] = penalty
        return penalty

    def take(self, now: float, shares: Iterable[Share]) -> Excess | None:
        """Count the call; when it is too many somewhere, it is counted nowhere."""
        meters = [(share, self._find_meter(share, share.rate)) for share in shares if share.rate is not None]
        for share, meter in meters:
            seconds = meter.wait(now, share.weight)
            if seconds > 0:
                return Excess(share.scope, seconds)
        for share, meter in meters:
            meter.take(now, share.weight)
        return None

    def _find_meter(self, share: Share, rate: Rate) -> Meter:
        return self.meters.setdefault((share.scope, rate), Meter(rate))


def whole_seconds(seconds: float) -> int:
    """What a client is told to wait: never too little."""
    return max(1, math.ceil(seconds - 1e-6))
