"""Hands messages over to the gateway, one after the other. The server brings nothing twice: what could not be stored is
kept here and tried again, and whoever wrote it hears when that was in vain."""

import asyncio
import logging
from collections.abc import Callable

from gateway.platforms.face import Core, Refused
from hermes_base.inbound import Inbound

_log = logging.getLogger(__name__)
MOST_WAITING = 1_000
RETRY_SECONDS, TRIES = 1.0, 30
NOT_TAKEN = "That was not taken: too much waits here. Say it again in a while."
NOT_STORED = "That could not be stored, and is lost. Say it again in a while."

Tell = Callable[[Inbound, str], None]  # a word to whoever wrote a message


class IrcReception:
    def __init__(self, core: Core, tell: Tell, stored: Callable[[Inbound], None]) -> None:
        """`stored` is called with each message of somebody who was let in."""
        self._core = core
        self._tell = tell
        self._stored = stored
        self._waiting: asyncio.Queue[Inbound] = asyncio.Queue(MOST_WAITING)
        self._told: dict[str, str] = {}  # the last refusal of each chat, since a message was taken
        self._working = asyncio.create_task(self._work(), name="irc hands over")

    def put(self, inbound: Inbound) -> None:
        try:
            self._waiting.put_nowait(inbound)
        except asyncio.QueueFull:
            _log.error("A message on IRC was not taken: %s wait already.", MOST_WAITING)
            self._refuse(inbound, NOT_TAKEN)

    async def close(self) -> None:
        """What was heard and is not stored yet has a moment for it."""
        self._working.cancel()
        await asyncio.gather(self._working, return_exceptions=True)
        while not self._waiting.empty():
            await self._hand_over(self._waiting.get_nowait(), tries=1)

    async def _work(self) -> None:
        while True:
            inbound = await self._waiting.get()
            handing = asyncio.ensure_future(self._hand_over(inbound))
            try:
                await asyncio.shield(handing)
            except asyncio.CancelledError:
                await asyncio.wait({handing}, timeout=RETRY_SECONDS)
                handing.cancel()
                raise

    async def _hand_over(self, inbound: Inbound, tries: int = TRIES) -> None:
        for number in range(tries):
            if number:
                await asyncio.sleep(RETRY_SECONDS)
            try:
                taken = await self._core.take(inbound)
            except Exception:  # noqa: BLE001 - the boundary to the gateway: the message is kept, and tried again
                _log.exception("A message could not be handed over; it is tried again.")
                continue
            if isinstance(taken, Refused):
                self._refuse(inbound, taken.reason)
                return
            self._told.pop(inbound.address.chat, None)
            if taken.seq is not None:  # a stranger's message is not stored, so it gets no number
                self._stored(inbound)
            return
        if inbound.address.kind == "dm" or inbound.mentioned:  # who spoke to others waits for nothing
            self._refuse(inbound, NOT_STORED)

    def _refuse(self, inbound: Inbound, reason: str) -> None:
        """Once for a row of refusals, or they would be a flood themselves."""
        if self._told.get(inbound.address.chat) != reason:
            self._told[inbound.address.chat] = reason
            self._tell(inbound, reason)
