"""Watches whether the provider's cache is hit as it should be, and says so once when it is not (A10)."""

import time

from agent.providers.prices import has_cache
from agent.turn.driver import TurnResult
from agent.usage_pricing import COLD_TURNS, TurnUse, hit_rate, low_hit_rate

COLD = (
    "The provider's cache was hit for less than half of the prompt in the last {turns} turns (now {rate:.0%}), so they "
    "cost more than they should. /usage shows what moved the prompt; a plugin or a proxy may change it on its way."
)


class CacheWatch:
    """The last turns of one conversation, as far as they say something about the cache."""

    def __init__(self) -> None:
        self._turns: list[TurnUse] = []
        self._last = 0.0
        self._told = False

    def note(self, result: TurnResult, provider: str, model: str) -> str:
        """A warning, the first time it is due; else nothing."""
        now = time.monotonic()
        pause, self._last = now - self._last if self._last else 0.0, now
        use = TurnUse(model, result.usage, result.api_calls, bool(result.breaks), pause, has_cache(provider, model))
        self._turns = [*self._turns, use][-2 * COLD_TURNS :]
        if self._told or not low_hit_rate(self._turns):
            return ""
        self._told = True
        return COLD.format(turns=COLD_TURNS, rate=hit_rate(result.usage))
