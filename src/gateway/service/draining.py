"""Empties this process before an update or a rest: it takes nothing new, hands its accounts over, gives up what is
idle, and lets turns end. What others do not take meanwhile waits in the store."""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from gateway.service.connections import Connections
from gateway.turns.lanes import Lanes
from gateway.turns.run_turn import GatewayParts

log = logging.getLogger(__name__)

AGAIN_SECONDS = 0.5
#: Nobody else would take what comes: to drain such a gateway would be to switch it off with nobody told.
ALONE = (
    "No other gateway works on this store, so nobody would take over: nothing was changed. "
    "`hermes gateway stop` ends this one; what is said meanwhile waits."
)


class Draining:
    """On the event loop. It is not undone: a gateway that has drained is ended, and started again."""

    def __init__(
        self,
        parts: GatewayParts,
        lanes: Lanes,
        connections: Connections,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._parts = parts
        self._lanes = lanes
        self._connections = connections
        self._spawn = spawn

    async def begin(self) -> dict[str, Any]:
        """How far it has come; the first call begins it."""
        parts, lanes = self._parts, self._lanes
        others = [node for node in await parts.call(parts.store.turns.nodes) if node.id != lanes.node]
        if not lanes.host.draining:
            if all(node.draining for node in others):
                return {"draining": False, "why": ALONE}
            log.info("this gateway takes nothing new any more, and hands over what it has")
            lanes.host.draining = True
            await parts.call(parts.store.turns.drain, lanes.node)
            self._spawn(self._hand_over())
        leases = parts.delivery.leases()
        return {
            "draining": True,
            "turns": sum(1 for lane in lanes.at_work.values() if lane.slot is not None),
            "conversations": len(lanes.claims),
            "accounts": sorted(name for name, epoch in leases.items() if epoch is not None),
        }

    async def _hand_over(self) -> None:
        """Accounts first, so that what people say from now on is heard by somebody who answers it."""
        await self._connections.hand_over()
        while True:
            await self._lanes.give_up_all()
            await asyncio.sleep(AGAIN_SECONDS)
