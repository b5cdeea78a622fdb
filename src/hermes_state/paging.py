"""Which rows of a transcript stand, told from its length and the rows that take back, without reading the others."""

from collections.abc import Iterable, Sequence
from typing import NamedTuple


class TakenBack(NamedTuple):
    """A row that takes back: where it is, how many visible rows are kept, and how many rows after it are the model's
    alone (`hermes_base.turn.journal.head_row`)."""

    position: int
    keep: int
    made: int = 0


def find_standing(version: int, heads: Iterable[TakenBack]) -> list[range]:
    """The positions of the rows that the model gets as runs, as `hermes_base.turn.journal.visible` folds them; `heads`
    in order."""
    runs: list[range] = []
    first = 0
    for head in heads:
        runs = _cut([*runs, range(first, head.position)], head.keep)
        first = head.position + 1
    return [run for run in (*runs, range(first, version)) if run]


def find_said(version: int, heads: Iterable[TakenBack]) -> list[range]:
    """The positions of what was said, as runs: what was compacted stays for people, and what the model got in its place
    is left out. What is taken back after that is taken from the end of both."""
    standing: list[range] = []
    said: list[range] = []
    first = made = 0
    for head in heads:
        standing = [*standing, range(first, head.position)]
        said = [*said, range(first + made, head.position)]
        gone = count(standing) - head.keep
        standing, first, made = _cut(standing, head.keep), head.position + 1, head.made
        if not made:
            said = _cut(said, count(said) - gone)
    return [run for run in (*said, range(first + made, version)) if run]


def find_at(version: int, heads: Sequence[TakenBack], before: int | None) -> list[range]:
    """The rows up to a position as somebody who stands there sees them: as the model gets them, or, of a time that was
    compacted since, as it was said."""
    compacted = next((head.position for head in reversed(heads) if head.made), -1)
    runs = find_standing(version, heads) if before is None or before > compacted else find_said(version, heads)
    end = version if before is None else before
    return [range(run.start, min(run.stop, end)) for run in runs if run.start < end]


def count(runs: Iterable[range]) -> int:
    return sum(map(len, runs))


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
