"""What was said in a room and is not settled: how far it was heard is kept beside the account's place, so one room that
cannot be read holds up no other. Pure; time is given."""

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from gateway.platforms.backoff import Pauses
from gateway.platforms.matrix.account_files import ListenedTo
from gateway.platforms.matrix.link import SyncNews
from gateway.platforms.matrix.soundness import JsonObject

STORE_PAUSE, READ_PAUSE, LONGEST_PAUSE = 1.0, 5.0, 300.0  # after what we, or the homeserver, could not do


@dataclass(frozen=True, slots=True)
class Stretch:
    """What is to be heard of a room: what follows a place, or messages that are known."""

    since: str
    marks: frozenset[str]
    events: list[JsonObject]  # those at hand, the newest of it
    before: str  # from here those before them can be read
    is_cut: bool  # there are more before them

    def as_gap(self) -> list[str]:
        """As it is kept."""
        return [self.since, *sorted(self.marks)]


def find_stretches(news: SyncNews, heard: ListenedTo, marks: Mapping[str, set[str]]) -> dict[str, Stretch]:
    """By room. Behind a gap nothing new is heard before it: all is read from where the sync ends."""
    fresh = {
        room: Stretch(heard.since, frozenset(marks.get(room, ())), told.events, told.before, told.limited)
        for room, told in news.joined.items()
    }
    kept = {
        room: Stretch(since, frozenset(known), [], news.since, is_cut=True)
        for room, (since, *known) in heard.gaps.items()
        if room not in news.left
    }
    return fresh | kept


class RoomPauses:
    """When what failed is tried again."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._pauses: dict[str, Pauses] = {}
        self._due: dict[str, float] = {}

    def note_failure(self, room: str, first: float) -> None:
        pauses = self._pauses.setdefault(room, Pauses(first, LONGEST_PAUSE))
        self._due[room] = self._clock() + pauses.next()

    def forget(self, room: str) -> None:
        self._pauses.pop(room, None)
        self._due.pop(room, None)

    def is_due(self, room: str) -> bool:
        return self._clock() >= self._due.get(room, 0.0)

    def find_wait(self, rooms: Iterable[str], longest: float) -> float:
        """Seconds until one of these is due, or the longest."""
        now = self._clock()
        return max(0.0, min([longest, *(self._due.get(room, now) - now for room in rooms)]))
