"""Slows guessed passwords down without locking out whoever has the right one."""

import asyncio
import ipaddress
from collections import Counter
from collections.abc import Awaitable, Callable

FREE_TRIES = 10  # passwords that are looked at without a wait
SECONDS_PER_TRY = 1.0  # between two others
MOST_WAITING = 60  # tries that wait for their turn; proxies are patient for a minute
MOST_WAITING_PEER = 30


class Turnstile:
    """Paces the passwords that are looked at: a few at once, then one in a while, whoever tries.

    Nobody is locked out by the wrong tries of others, who may come from the same address (a proxy's): a try that comes
    too early waits in line, and the right password is let in when its turn comes. Cookies and tokens never wait here.
    """

    def __init__(
        self,
        take: Callable[[float], Awaitable[float]],
        give_back: Callable[[float], Awaitable[None]],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Each try takes its seconds; the free ones may be taken in advance. `take` says how long the tries before this
        one still take, on all gateways together."""
        self._take = take
        self._give_back = give_back
        self._sleep = sleep
        self._line = asyncio.Lock()  # first come, first served
        self._waiting: Counter[str] = Counter()

    async def wait(self, peer: str) -> bool:
        """True when this try is to be looked at; False: too many wait already."""
        name = _name_peer(peer)
        if self._waiting[name] >= MOST_WAITING_PEER or self._waiting.total() >= MOST_WAITING:
            return False
        self._waiting[name] += 1
        try:
            async with self._line:
                before = await self._take(SECONDS_PER_TRY)
                try:
                    await self._sleep(max(0.0, before - (FREE_TRIES - 1) * SECONDS_PER_TRY))
                except asyncio.CancelledError:  # whoever tried has gone
                    await self._give_back(SECONDS_PER_TRY)
                    raise
            return True
        finally:
            self._waiting[name] -= 1
            if not self._waiting[name]:
                del self._waiting[name]

    async def note_right(self) -> None:
        """The try was no guess: it takes nothing from others."""
        await self._give_back(SECONDS_PER_TRY)


def _name_peer(peer: str) -> str:
    """Whoever has an IPv6 address has a whole network of them."""
    try:
        address = ipaddress.ip_address(peer)
    except ValueError:
        return peer
    if isinstance(address, ipaddress.IPv4Address):
        return str(address)
    return str(address.ipv4_mapped or ipaddress.ip_network((address, 64), strict=False))
