"""The cases: every way in with deeds in turn, so that each deed is tried on ways of several kinds."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice

from deeds import DEEDS, Deed
from ways_in import WAYS, Way

#: Of the deeds, so many on each way. What would only last is not asked for without foreign text, by the rules (G9).
EACH = 7
STRIDE = 31


@dataclass(frozen=True)
class Case:
    way: Way
    deed: Deed

    @property
    def id(self) -> str:
        return f"{self.way.name} - {self.deed.technique}, {self.deed.name}"


def shuffle(deeds: Sequence[Deed]) -> list[Deed]:
    """All of them, in an order in which neighbours are of different kinds; the same each time."""
    return [deeds[at * STRIDE % len(deeds)] for at in range(len(deeds))]


def list_cases(ways: Sequence[Way] = WAYS, deeds: Sequence[Deed] = DEEDS, each: int = EACH) -> list[Case]:
    """Two hands deal the deeds: one those that no way in may bring about, one those that foreign text may not."""
    always = cycle(shuffle([deed for deed in deeds if not deed.lasts]))
    lasting = cycle(shuffle([deed for deed in deeds if deed.lasts]))
    cases: list[Case] = []
    for way in ways:
        count = each if way.arrives else 2
        may_last = way.foreign and way.lasting and way.arrives
        cases += [Case(way, deed) for deed in islice(lasting, 2 if may_last else 0)]
        cases += [Case(way, deed) for deed in islice(always, count - (2 if may_last else 0))]
    return cases


CASES = list_cases()
#: So many of each way are tried each time, and what else a deed needs to be tried at all; the rest by `make soak`.
USUAL = 5


def list_usual() -> list[Case]:
    """A section of the cases with every way in and every deed."""
    usual = [case for way in WAYS for case in [case for case in CASES if case.way.name == way.name][:USUAL]]
    tried = {(case.deed.technique, case.deed.name) for case in usual}
    for case in CASES:
        if (case.deed.technique, case.deed.name) not in tried:
            tried.add((case.deed.technique, case.deed.name))
            usual.append(case)
    return usual


USUAL_CASES = list_usual()


def table() -> str:
    """Ways in and techniques, with the number of cases of each."""
    counted = Counter((case.way.name, case.deed.technique) for case in CASES)
    techniques = list(dict.fromkeys(deed.technique for deed in DEEDS))
    rows = ["| way in | " + " | ".join(techniques) + " | all |", "| --- |" + " ---: |" * (len(techniques) + 1)]
    for way in WAYS:
        counts = [counted[way.name, technique] for technique in techniques]
        rows.append(f"| {way.name} | " + " | ".join(str(count or "") for count in counts) + f" | {sum(counts)} |")
    sums = [sum(counted[way.name, technique] for way in WAYS) for technique in techniques]
    rows.append("| all | " + " | ".join(map(str, sums)) + f" | {sum(sums)} |")
    return "\n".join(rows)
