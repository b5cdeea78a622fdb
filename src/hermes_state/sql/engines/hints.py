"""Hints from process to process that something has changed in the store: a topic, and a short text.

A hint may be lost, come twice or come late: what counts stands in the store, where everybody looks now and then.
Whoever gives one has committed what it is about.
"""

from collections.abc import Callable, Collection
from typing import Protocol

LONGEST_HINT = 7_900  # bytes of a text; a longer one is not sent

Heard = Callable[[str, str], None]


class HintLine(Protocol):
    """Usable from any thread until `close`; no call waits or raises."""

    problem: str  # why nothing is heard from others now, in a sentence; empty: nothing keeps it from that

    def tell(self, topic: str, text: str = "") -> None:
        """To every other process that listens to the topic."""

    def listen(self, topics: Collection[str]) -> None:
        """To these from now on, and to no others."""

    def close(self) -> None: ...


class NoHints:
    """Of a store that one process has for itself."""

    problem = ""

    def tell(self, topic: str, text: str = "") -> None:
        pass

    def listen(self, topics: Collection[str]) -> None:
        pass

    def close(self) -> None:
        pass
