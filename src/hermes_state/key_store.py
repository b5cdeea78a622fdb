"""Keys of the API: whose they are and whether they still hold, without any engine.

Only a digest of a key is kept, so nobody who reads the store can use one. A key of a person who was removed does not
hold any more. `SqliteStore.keys` and `MemoryStore.keys` implement this and pass one conformance suite.
"""

import secrets
from dataclasses import dataclass
from typing import Protocol

from hermes_base.errors import StoreFailure
from hermes_state.texts import clean

NAME_CHARS = 100
USED_SECONDS = 60.0  # the last use is known to the minute, so that a busy client does not write at every call


@dataclass(frozen=True, slots=True)
class KeyRow:
    id: str
    name: str
    person: str  # empty: the owner
    created: float
    last_used: float | None = None
    revoked: float | None = None


class KeyStore(Protocol):
    def add(self, name: str, person: str, digest: str) -> KeyRow:
        """Keep a new key; StoreFailure when there is one with this digest already, revoked or not."""
        ...

    def find(self, digest: str) -> KeyRow | None:
        """The key that holds; None: there is none, or it was revoked."""
        ...

    def keys(self) -> list[KeyRow]:
        """All of them, the revoked ones too, the earliest first."""
        ...

    def revoke(self, key: str) -> bool:
        """It does not hold from now on; False when there is no such key, or it was revoked before."""
        ...

    def used(self, key: str) -> None:
        """Note that it was used now (to the minute)."""
        ...


# --- what both engines share


def make_key_row(name: str, person: str, now: float) -> KeyRow:
    key = f"k-{secrets.token_hex(4)}"
    shown = " ".join(clean(name).split())[:NAME_CHARS]
    return KeyRow(key, shown or key, clean(person), now)


def check_digest(digest: str) -> str:
    """The digest; an empty one would be found by who brings no key."""
    if not digest.strip() or clean(digest) != digest:
        raise StoreFailure("A key needs a digest in plain text.", kept="Nothing was stored.")
    return digest


def known_already() -> StoreFailure:
    return StoreFailure("There is a key with this digest already.", kept="It is as it was.", fix="Make another key.")
