"""What a gateway does only when every gateway beside it knows it, too: a rolling update has old and new ones at work on
one store for a while, and a step back has them so again (I5)."""

import re
from collections.abc import Iterable, Mapping

#: Features that a gateway of an earlier version would not understand, each with the first version that has it. One that
#: is not in the table is used at once; a line may go when no version is left that could work beside it without it.
SINCE: Mapping[str, str] = {}


def find_withheld(versions: Iterable[str], since: Mapping[str, str] = SINCE) -> frozenset[str]:
    """The features that one of these versions lacks: nobody uses them."""
    lowest = min(map(read_version, versions), default=())
    return frozenset(feature for feature, first in since.items() if lowest < read_version(first))


def read_version(text: str) -> tuple[int, ...]:
    """The numbers that it begins with, to be compared; what is no version is older than any."""
    found = re.match(r"\d+(\.\d+)*", text)
    return tuple(map(int, found[0].split("."))) if found else ()
