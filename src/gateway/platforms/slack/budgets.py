"""How often methods are called: Slack counts each of them for a whole workspace, by the minute. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MethodTier:
    """`burst` calls at once, and `per_minute` from then on: together no more than Slack allows in any minute."""

    per_minute: float
    burst: int
    waits: bool = False  # the call is made as soon as it may be; otherwise whoever makes it is told to wait


_READING = MethodTier(38, 12, waits=True)
#: Methods of which many calls may come together; all others are seldom, or have limits of their own.
TIERS: Mapping[str, MethodTier] = {
    "chat.update": MethodTier(38, 12),
    "conversations.history": _READING,
    "conversations.replies": _READING,
    "users.info": MethodTier(80, 20, waits=True),
}


class CallBudget:
    """What is left of one method's tier. Moments are seconds of a clock that never goes back."""

    def __init__(self, tier: MethodTier) -> None:
        self._tier = tier
        self._left = float(tier.burst)
        self._at = 0.0

    def count_left(self, now: float) -> float:
        self._left = min(self._tier.burst, self._left + (now - self._at) * self._tier.per_minute / 60.0)
        self._at = now
        return self._left

    def find_wait(self, now: float) -> float:
        """Seconds until there is room for one more call."""
        return max(0.0, 1.0 - self.count_left(now)) * 60.0 / self._tier.per_minute

    def take(self, now: float) -> float:
        """Make room for a call; seconds until it may be made. Those who come later wait longer."""
        wait = self.find_wait(now)
        self._left -= 1.0
        return wait
