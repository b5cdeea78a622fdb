"""Messages of a service that brings nothing twice, on their way into the store: those of a chat one after the other,
those of another beside them. What cannot be stored is kept here and tried again, and holds up its own chat alone."""

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable

from gateway.platforms.face import Accepted, Core, Refused
from hermes_base.errors import StoreFailure
from hermes_base.inbound import Inbound

_log = logging.getLogger(__name__)
RETRY_SECONDS, TRIES = 1.0, 30

#: What became of a message; None: it could not be stored, and is lost.
Settle = Callable[[Inbound, Accepted | Refused | None], None]


class ChatLanes:
    def __init__(self, core: Core, settle: Settle) -> None:
        self._core, self._settle = core, settle
        self._waiting: dict[str, deque[Inbound]] = {}  # by chat, with the one that is handed over
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.count = 0

    def put(self, inbound: Inbound) -> None:
        chat = inbound.address.chat_key
        self.count += 1
        self._waiting.setdefault(chat, deque()).append(inbound)
        if chat not in self._tasks:
            self._tasks[chat] = asyncio.create_task(self._run(chat), name=f"{inbound.address.platform} hands over")

    async def join(self) -> None:
        """Until nothing waits."""
        while self._tasks:
            await asyncio.wait(self._tasks.values())

    async def close(self, seconds: float = 0.0) -> None:
        """What waits has so much time; then it is given up."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.join()
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, chat: str) -> None:
        waiting = self._waiting[chat]
        try:
            while waiting:
                taken = await self._hand_over(waiting[0])
                inbound = waiting.popleft()
                self.count -= 1
                self._settle(inbound, taken)
        finally:
            self.count -= len(waiting)
            del self._tasks[chat], self._waiting[chat]

    async def _hand_over(self, inbound: Inbound) -> Accepted | Refused | None:
        """While the store fails, what it gives back unasked is kept for as long as that takes (`Core.take`)."""
        failures = 0
        while True:
            try:
                return await self._core.take(inbound)
            except Exception as error:  # noqa: BLE001 - the boundary to the gateway: the message is kept, and tried again
                if not failures:
                    _log.exception("A message could not be handed over; it is tried again.")
                failures += 0 if failures and isinstance(error, StoreFailure) else 1
            if failures >= TRIES:
                _log.error("A message in %s could not be stored, and is lost.", inbound.address.chat_key)
                return None
            await asyncio.sleep(RETRY_SECONDS)


def is_to_us(inbound: Inbound) -> bool:
    """Whether somebody waits for what becomes of it; who spoke to others does not (G1)."""
    return inbound.address.kind == "dm" or inbound.mentioned
