"""Signed requests that a hook has taken, for as long as their signatures hold. A recorded one is known by what was
signed, whatever id stands beside it. In memory, and bounded. Pure."""

from gateway.platforms.signing import MOST_SKEW

MOST_SEEN = 10_000  # the oldest is forgotten for one more
SEEN_SECONDS = 2 * MOST_SKEW  # a signed time may be ahead of ours, and holds that much longer


class SeenRequests:
    def __init__(self, most: int = MOST_SEEN) -> None:
        self._most = most
        self._seen: dict[str, tuple[float, str]] = {}  # in the order in which they came

    def find(self, signed: str, now: float) -> str:
        """The id under which it was taken; empty: it was not."""
        while self._seen and next(iter(self._seen.values()))[0] < now - SEEN_SECONDS:
            self._drop_oldest()
        return self._seen.get(signed, (0.0, ""))[1]

    def note(self, signed: str, id: str, now: float) -> None:
        self._seen.setdefault(signed, (now, id))
        if len(self._seen) > self._most:
            self._drop_oldest()

    def _drop_oldest(self) -> None:
        del self._seen[next(iter(self._seen))]
