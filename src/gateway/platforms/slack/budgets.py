"""How often methods are called: Slack counts each of them for a whole workspace, by the minute. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class MethodTier:
    """`burst` calls at once, and `per_minute` from then on: together no more than Slack allows in any minute."""

    per_minute: float
    burst: int
    kept: int = 0  # calls that the patient leave to those who cannot wait


_READING = MethodTier(38, 12, kept=4)
#: Methods of which many calls may come together; all others are seldom, or have limits of their own.
TIERS: Mapping[str, MethodTier] = {
    "chat.update": MethodTier(38, 12),
    "conversations.history": _READING,
    "conversations.replies": _READING,
    "users.info": MethodTier(80, 20),
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

    def find_wait(self, now: float, *, patient: bool = False) -> float:
        """Seconds until there may be room for one more call."""
        needed = 1.0 + (self._tier.kept if patient else 0)
        return max(0.0, needed - self.count_left(now)) * 60.0 / self._tier.per_minute

    def take(self) -> None:
        """A call is made now. One for which nothing is left was let through by nobody."""
        self._left -= 1.0
