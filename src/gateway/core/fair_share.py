"""How many conversations one of several processes should have. Pure.

A conversation stays where it is warm. Only what is new is shared out, and when there are more processes than before,
those that have more than their share give up what is idle, little by little.
"""

import math
from dataclasses import dataclass, replace

SLACK = 2  # conversations above the fair share that nobody minds
LEAST_GIVEN, GIVEN_PART = 2, 10  # of what is too much: so many at a time, or such a part of it


@dataclass(frozen=True, slots=True)
class Share:
    """Living processes that take new work, the conversations that they own, and those of this one. While others serve
    better than this one, it takes none."""

    nodes: int = 1
    total: int = 0
    mine: int = 0
    is_best: bool = True

    @property
    def fair(self) -> int:
        return 0 if not self.is_best else math.ceil(self.total / max(1, self.nodes)) + SLACK


def count_now(share: Share, mine: int) -> Share:
    """The same with what this process has by now."""
    return replace(share, total=max(0, share.total + mine - share.mine), mine=mine)


def find_room(share: Share, most: int) -> int:
    """How many new conversations this process should take now."""
    return most if share.is_best and share.nodes <= 1 else max(0, min(most, share.fair - share.mine))


def count_surplus(share: Share) -> int:
    """How many idle conversations it should give up now."""
    surplus = share.mine - share.fair
    if (share.is_best and share.nodes <= 1) or surplus <= 0:
        return 0
    return min(surplus, max(LEAST_GIVEN, surplus // GIVEN_PART))
