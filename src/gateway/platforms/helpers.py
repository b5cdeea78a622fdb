"""Small things that adapters of plugins share."""

import time
from collections import OrderedDict


class MessageDeduplicator:
    """Remembers ids for a while. The store knows every message for good (C1); this saves an adapter the way there."""

    def __init__(self, max_size: int = 2000, ttl_seconds: float = 300) -> None:
        self._max_size, self._ttl = max_size, ttl_seconds
        self._seen: OrderedDict[str, float] = OrderedDict()

    def is_duplicate(self, message_id: str) -> bool:
        """Whether it was seen before; from now on it was. Nothing is a repetition of a message without an id."""
        if not message_id:
            return False
        known = self.contains(message_id)
        if not known:
            self._seen[message_id] = time.monotonic()
            while len(self._seen) > self._max_size:
                self._seen.popitem(last=False)
        return known

    def contains(self, message_id: str) -> bool:
        at = self._seen.get(message_id)
        if at is None:
            return False
        if time.monotonic() - at > self._ttl:
            del self._seen[message_id]
            return False
        return True

    def discard(self, message_id: str) -> None:
        self._seen.pop(message_id, None)

    def clear(self) -> None:
        self._seen.clear()
