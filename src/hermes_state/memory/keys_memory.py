"""Keys of the API in the store in memory: the twin of `SqliteKeys`."""

import time
from collections.abc import Callable
from dataclasses import replace

from hermes_state.key_store import USED_SECONDS, KeyRow, check_digest, known_already, make_key_row
from hermes_state.memory.memory_state import MemoryState, locked


class MemoryKeys:
    """Implements `KeyStore`."""

    def __init__(self, state: MemoryState, clock: Callable[[], float] = time.time) -> None:
        self._state = state
        self._clock = clock

    @locked
    def add(self, name: str, person: str, digest: str) -> KeyRow:
        keys = self._state.keys
        if check_digest(digest) in keys:
            raise known_already()
        row = make_key_row(name, person, self._clock())
        while any(row.id == other.id for other in keys.values()):
            row = replace(row, id=make_key_row(name, person, row.created).id)
        keys[digest] = row
        return row

    @locked
    def find(self, digest: str) -> KeyRow | None:
        row = self._state.keys.get(digest)
        return None if row is None or row.revoked is not None else row

    @locked
    def keys(self) -> list[KeyRow]:
        return sorted(self._state.keys.values(), key=lambda row: (row.created, row.id))

    @locked
    def revoke(self, key: str) -> bool:
        digest = self._find_digest(key)
        if digest is None or self._state.keys[digest].revoked is not None:
            return False
        self._state.keys[digest] = replace(self._state.keys[digest], revoked=self._clock())
        return True

    @locked
    def used(self, key: str) -> None:
        digest, now = self._find_digest(key), self._clock()
        row = None if digest is None else self._state.keys[digest]
        if digest is not None and row is not None and (row.last_used is None or row.last_used <= now - USED_SECONDS):
            self._state.keys[digest] = replace(row, last_used=now)

    def _find_digest(self, key: str) -> str | None:
        return next((digest for digest, row in self._state.keys.items() if row.id == key), None)
