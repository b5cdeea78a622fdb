"""Who is signed in on the page. The store knows, so that it holds on every gateway and over restarts; what was found
there is remembered until somebody signs out, wherever that is, so that a request asks nothing."""

import hashlib
import secrets
import socket
import time
from collections import OrderedDict
from pathlib import Path

from gateway.turns.threads import StoreFace
from hermes_state.key_store import SignInRow
from hermes_state.sql.store_sql import Store

MOST_REMEMBERED = 1_000
TRIES = "sign-in"  # the pace of passwords


class SignInQueries:
    """On the event loop. Digests of cookies and tokens are made by whoever has them."""

    def __init__(self, store: Store, call: StoreFace, home: Path) -> None:
        self._sign_ins, self._call = store.sign_ins, call
        self._shared = store.turns.is_shared
        place = f"{socket.gethostname()}:{home.resolve()}"
        self._home = hashlib.sha256(place.encode()).hexdigest()[:16] if self._shared else ""  # of one home all are
        self._known: OrderedDict[str, tuple[SignInRow, float]] = OrderedDict()  # and until when, by time.monotonic()
        self._changes = 0  # how often something was forgotten

    async def find_shared_name(self) -> str:
        """What gateways that share the store call it; empty: it is one gateway's alone."""
        return await self._call(self._sign_ins.name_store, secrets.token_hex(8)) if self._shared else ""

    async def begin(self, digest: str, bound: str, token: str, seconds: float) -> None:
        await self._call(self._sign_ins.add, digest, SignInRow(bound, self._home, token, seconds))

    async def find(self, digest: str, token: str) -> str:
        """What the cookie of this digest is bound to; empty: it does not hold. `token`: the digest of ours."""
        row = self._recall(digest)
        if row is None:
            changes = self._changes
            row = await self._call(self._sign_ins.find, digest)
            if row is not None and changes == self._changes:
                self._known[digest] = row, time.monotonic() + row.left
                while len(self._known) > MOST_REMEMBERED:
                    self._known.popitem(last=False)
        if row is None or (row.home in ("", self._home) and row.token != token):
            return ""
        return row.bound

    def _recall(self, digest: str) -> SignInRow | None:
        row, until = self._known.get(digest, (None, 0.0))
        return row if until > time.monotonic() else None

    async def end(self, digest: str) -> None:
        await self._call(self._sign_ins.end, digest)
        await self.forget()

    async def void_others(self, token: str) -> None:
        """The home has another token: what was signed in with the one before is void."""
        if await self._call(self._sign_ins.void, self._home, token):
            await self.forget()

    async def forget(self) -> None:
        """Somebody has signed out, here or on another gateway."""
        self._changes += 1
        self._known.clear()

    async def take_try(self, seconds: float) -> float:
        """A password is tried, which takes so long of the time of all who try; how long those before it still take."""
        return await self._call(self._sign_ins.take_turn, TRIES, seconds)

    async def give_try_back(self, seconds: float) -> None:
        await self._call(self._sign_ins.give_turn_back, TRIES, seconds)
