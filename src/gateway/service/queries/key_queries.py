"""Whose an API key is, as the store knows it, remembered for a few seconds."""

import time
from collections import OrderedDict
from typing import TYPE_CHECKING

from gateway.service.key_admin import digest_of
from hermes_base.query_values import Caller
from hermes_state.people_store import OWNER

if TYPE_CHECKING:
    from gateway.service.gateway import Gateway

FRESH_SECONDS = 2.0  # a revoked key is refused after so long at the latest
MOST_REMEMBERED = 1_000


class KeyQueries:
    """Keys are found by their digest, so how long it takes tells nothing about a key."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self._known: OrderedDict[str, tuple[Caller, float]] = OrderedDict()  # and until when, by time.monotonic()

    async def check(self, secret: str) -> Caller | None:
        """Whose key this is; None: nobody's, or it was revoked. Wrong keys are not remembered: there are too many."""
        digest = digest_of(secret)
        if not digest:
            return None
        known = self._known.get(digest)
        if known is not None and known[1] > time.monotonic():
            return known[0]
        caller = await self._gateway.call(self._find, digest)
        self._known.pop(digest, None)
        if caller is not None:
            self._known[digest] = caller, time.monotonic() + FRESH_SECONDS
        while len(self._known) > MOST_REMEMBERED:
            self._known.popitem(last=False)
        return caller

    def _find(self, digest: str) -> Caller | None:
        """On a store thread. A key of somebody who was removed is nobody's."""
        store = self._gateway.store
        row = store.keys.find(digest)
        if row is None:
            return None
        person = store.people.get(row.person) if row.person else None
        if row.person and person is None:
            return None
        store.keys.used(row.id)
        if person is None or person.role == OWNER:
            return Caller(key=row.id)
        return Caller(person.id, person.role, row.id)
