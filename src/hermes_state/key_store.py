"""What opens the doors of a gateway: keys of the API and whether they still hold, and browsers that are signed in; and
where requests went that may come again.

Only a digest of a key is kept, so nobody who reads the store can use one. A key of a person who was removed does not
hold any more.
"""

import secrets
from dataclasses import dataclass

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


@dataclass(frozen=True, slots=True)
class RepeatRow:
    """Where a request went that a client may send again."""

    mark: str  # of what it asked; empty: its name says that
    conversation: str
    message: str


@dataclass(frozen=True, slots=True)
class SignInRow:
    """A browser that is signed in."""

    bound: str  # proof that it holds with the password of its time, which tells nothing without the cookie
    home: str  # where it was made: a mark
    token: str  # the digest of that home's token at that time
    left: float  # seconds
