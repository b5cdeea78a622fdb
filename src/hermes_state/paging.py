"""Which rows of a transcript stand, told from its length and the rows that take back, without reading the others."""

from collections.abc import Iterable, Sequence


def find_standing(version: int, heads: Iterable[tuple[int, int]]) -> list[range]:
    """The positions of the visible rows as runs, as `hermes_base.turn.journal.visible` folds them.

    `heads` are the rows that take back, in order: position, and how many visible rows are kept.
    """
    runs: list[range] = []
    first = 0
    for position, keep in heads:
        runs = _cut([*runs, range(first, position)], keep)
        first = position + 1
    return [run for run in (*runs, range(first, version)) if run]


def pick_last(runs: Sequence[range], before: int | None, limit: int) -> list[range]:
    """The last `limit` positions of the runs that are smaller than `before`, as runs in order."""
    picked: list[range] = []
    for run in reversed(runs):
        end = run.stop if before is None else min(run.stop, before)
        part = range(max(run.start, end - limit), end)
        if limit > 0 and part:
            picked.append(part)
            limit -= len(part)
    return picked[::-1]


def compare(before: Sequence[range], after: Sequence[range]) -> tuple[list[range], list[range]]:
    """The positions that stood before and do not any more, and those that have come: the ends of both lists."""
    kept = 0
    for one, other in zip(before, after, strict=False):
        if one.start != other.start:
            break
        kept += min(len(one), len(other))
        if len(one) != len(other):
            break
    return _skip(before, kept), _skip(after, kept)


def _skip(runs: Sequence[range], count: int) -> list[range]:
    """What comes after the first `count` positions."""
    rest: list[range] = []
    for run in runs:
        if run[count:]:
            rest.append(run[count:])
        count = max(0, count - len(run))
    return rest


def _cut(runs: Sequence[range], keep: int) -> list[range]:
    """The first `keep` positions."""
    kept: list[range] = []
    for run in runs:
        part = run[: max(keep, 0)]
        if part:
            kept.append(part)
        keep -= len(part)
    return kept
