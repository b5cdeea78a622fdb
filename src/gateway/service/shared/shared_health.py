"""What one gateway learns of an account at a provider, all of them know (I4): a key that is refused or a quota that is
used up concerns everybody with that key. An address that cannot be reached may be this machine's own trouble."""

import json
import logging
import queue

from agent.providers.health import Name, ProviderHealth
from gateway.turns.threads import StoreFace
from hermes_base.text.addresses import describe_address
from hermes_state.sql.shared.unwell_sql import UnwellAccounts

log = logging.getLogger(__name__)


class SharedHealth:
    """On the event loop, but for what the health tells."""

    def __init__(self, health: ProviderHealth, accounts: UnwellAccounts, call: StoreFace) -> None:
        self._health = health
        self._accounts = accounts
        self._call = call
        self._found: queue.SimpleQueue[tuple[Name, float]] = queue.SimpleQueue()

    def begin(self) -> None:
        self._health.tell_key = lambda name, seconds: self._found.put((name, seconds))

    async def look(self) -> None:
        """Tell the others what was found here."""
        while not self._found.empty():
            name, seconds = self._found.get()
            _, address, fingerprint = name
            if fingerprint and describe_address(address) == address:  # else the address holds a secret
                await self._call(self._accounts.note, json.dumps(name), seconds)

    async def follow(self) -> None:
        """Something was found, here or elsewhere."""
        for name, seconds in await self._call(self._accounts.every):
            if self._health.learn(tuple(map(str, json.loads(name))), seconds):
                log.info("the account at %s is left alone for %.0f s, as another gateway found", name, seconds)
