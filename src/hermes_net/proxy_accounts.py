"""Who uses the proxy: each with connections and look-ups of its own, and with what it was refused. Whatever one of them
does, it takes nothing from another, and is told nothing of another.
"""

import asyncio
import base64
import hmac
import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence

from hermes_net.address_rules import AddressRules, IpAddress, normalise_host
from hermes_net.call_values import Resolve

USER = "hermes"
MOST_CONNECTIONS = 256
MOST_LOOKUPS = 4  # at once: a name whose server does not answer holds a thread for many seconds
MOST_REMEMBERED = 64  # refused hosts whose reason is known


class ConnectionShare:
    """The connections of one user, oldest first. When they are at their limit, the oldest that has not asked for
    anything yet gives way; if all of them have, nobody else comes in."""

    def __init__(self, most: int | None = None) -> None:
        self._most = MOST_CONNECTIONS if most is None else most
        self._silent: dict[asyncio.Task[None], None] = {}
        self._busy: dict[asyncio.Task[None], None] = {}
        self._lookups = asyncio.Semaphore(MOST_LOOKUPS)

    def __len__(self) -> int:
        return len(self._silent) + len(self._busy)

    def admit(self, task: asyncio.Task[None]) -> bool:
        if len(self) >= self._most:
            if not self._silent:
                return False
            self.drop_oldest()
        self._silent[task] = None
        return True

    def take_over(self, task: asyncio.Task[None]) -> bool:
        """A connection that has said what it wants; False: there are too many of them."""
        if len(self) >= self._most and self._silent:
            self.drop_oldest()
        if len(self) >= self._most:
            return False
        self._busy[task] = None
        return True

    def leave(self, task: asyncio.Task[None]) -> None:
        self._silent.pop(task, None)
        self._busy.pop(task, None)

    def drop_oldest(self) -> None:
        """One that is silent rather than one that is of use."""
        oldest = next(iter(self._silent or self._busy))
        self.leave(oldest)
        oldest.cancel()

    async def look_up(self, resolve: Resolve, host: str, port: int) -> Sequence[IpAddress]:
        """Few at once. A look-up holds its thread to its end, also when nobody waits for it any more, and counts
        as long as it does."""
        await self._lookups.acquire()
        looking = asyncio.ensure_future(resolve(host, port))
        looking.add_done_callback(self._end_lookup)
        return await asyncio.shield(looking)

    def _end_lookup(self, done: "asyncio.Future[Sequence[IpAddress]]") -> None:
        self._lookups.release()
        if not done.cancelled():
            done.exception()  # whoever still waits for it has it


class ProxyAccount:
    """One user: what it may call, by which password it is known, and what it was refused."""

    def __init__(
        self, rules: AddressRules, share: ConnectionShare | None = None, told: Callable[[str], None] | None = None
    ) -> None:
        self.rules = rules
        self.share = share or ConnectionShare()
        self.password = secrets.token_urlsafe(24)
        self.refusals = 0  # so far
        self._told = told
        self._expected = b"Basic " + base64.b64encode(f"{USER}:{self.password}".encode())
        self._refused: OrderedDict[str, str] = OrderedDict()

    def is_shown_by(self, given: bytes) -> bool:
        """Whether this field of a request holds its password."""
        return hmac.compare_digest(given, self._expected)

    def note_refusal(self, host: str, why: str) -> None:
        self.refusals += 1
        self._refused[normalise_host(host)] = why
        self._refused.move_to_end(normalise_host(host))
        while len(self._refused) > MOST_REMEMBERED:
            self._refused.popitem(last=False)
        if self._told is not None:
            self._told(why)

    def explain(self, host: str) -> str:
        """Why a host was refused lately; empty: it was not. Programs do not show what a tunnel is refused with."""
        return self._refused.get(normalise_host(host), "")

    def explain_last(self) -> str:
        return next(reversed(self._refused.values()), "")
