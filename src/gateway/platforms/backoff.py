"""How long to wait before the next try: longer after each failure, by chance, and short again after a success."""

import random
from collections.abc import Callable


class Pauses:
    """Each pause is between half and the whole of a time that doubles up to a limit: those who fail at the same moment
    do not all come back at the same moment."""

    def __init__(self, first: float, longest: float, chance: Callable[[], float] = random.random) -> None:
        self._first, self._longest, self._chance = first, longest, chance
        self.failures = 0  # in a row

    def next(self) -> float:
        """The pause after one more failure."""
        whole = min(self._longest, self._first * 2.0 ** min(self.failures, 60))
        self.failures += 1
        return whole * (0.5 + 0.5 * self._chance())

    def reset(self) -> None:
        """It worked."""
        self.failures = 0
