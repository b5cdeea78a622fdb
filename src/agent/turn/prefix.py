"""Whether a request starts with the bytes of the one before: a running hash, so the work grows with what is new.

Everyone who moves a byte that was sent says why, so that a break has a name before the request leaves.
"""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

#: A break that nobody in this process caused: another writer of the store did.
FOREIGN = "store_changed"


@dataclass(frozen=True, slots=True)
class PrefixBreak:
    """Why a request does not start with the bytes of the last one, and from which message on (-1: tools or system)."""

    reason: str
    position: int


class PrefixWatch:
    """What one dialect has sent in one conversation."""

    def __init__(self) -> None:
        self._root = b""
        self._chain: list[bytes] = []  # the hash up to and with each fragment
        self._sent = 0  # how many fragments the last request had
        self._sent_hash = b""
        self._moved: PrefixBreak | None = None

    def move(self, reason: str, position: int) -> None:
        """Fragments from this position on are not what they were; the first cause that reaches furthest back counts."""
        del self._chain[position:]
        if self._moved is None or position < self._moved.position:
            self._moved = PrefixBreak(reason, position)

    def check(self, tools: bytes, system: bytes, fragments: Sequence[bytes]) -> PrefixBreak | None:
        """The break that the coming request makes, if it makes one; afterwards it counts as sent."""
        root = hashlib.sha256(tools + b"\0" + system).digest()
        if root != self._root:
            changed = bool(self._root)
            self._root = root
            self._chain.clear()
            if changed and self._sent:
                self.move("prompt_repaired", -1)
        del self._chain[len(fragments) :]
        last = self._chain[-1] if self._chain else root
        for place in range(len(self._chain), len(fragments)):
            last = hashlib.sha256(last + fragments[place]).digest()
            self._chain.append(last)
        # What was moved and put back, or never sent, breaks nothing.
        kept = len(self._chain) >= self._sent and (not self._sent or self._chain[self._sent - 1] == self._sent_hash)
        broken = None if kept else self._moved or PrefixBreak(FOREIGN, 0)
        self._sent, self._sent_hash, self._moved = len(self._chain), last, None
        return broken
