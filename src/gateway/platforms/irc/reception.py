"""Hands messages over to the gateway, those of a chat one after the other. The server brings nothing twice: what could
not be stored is kept and tried again, and whoever wrote it to us hears when that was in vain."""

import logging
from collections.abc import Callable

from gateway.platforms.chat_lanes import ChatLanes, is_to_us
from gateway.platforms.face import Accepted, Core, Refused
from hermes_base.inbound import Inbound

_log = logging.getLogger(__name__)
MOST_WAITING = 1_000
CLOSE_SECONDS = 1.0  # for what was heard to be stored, when the line is given up
NOT_TAKEN = "That was not taken: too much waits here. Say it again in a while."
NOT_STORED = "That could not be stored, and is lost. Say it again in a while."

Tell = Callable[[Inbound, str], None]  # a word to whoever wrote a message


class IrcReception:
    def __init__(self, core: Core, tell: Tell, stored: Callable[[Inbound], None]) -> None:
        """`stored` is called with each message of somebody who was let in."""
        self._tell = tell
        self._stored = stored
        self._lanes = ChatLanes(core, self._settle)
        self._told: dict[str, str] = {}  # the last refusal of each chat, since a message was taken

    def put(self, inbound: Inbound) -> None:
        if self._lanes.count < MOST_WAITING:
            self._lanes.put(inbound)
            return
        _log.error("A message on IRC was not taken: %s wait already.", MOST_WAITING)
        if is_to_us(inbound):
            self._refuse(inbound, NOT_TAKEN)

    async def close(self) -> None:
        """What was heard and is not stored yet has a moment for it."""
        await self._lanes.close(CLOSE_SECONDS)

    def _settle(self, inbound: Inbound, taken: Accepted | Refused | None) -> None:
        if isinstance(taken, Refused):
            self._refuse(inbound, taken.reason)
        elif taken is not None:
            self._told.pop(inbound.address.chat, None)
            if taken.seq is not None:  # a stranger's message is not stored, so it gets no number
                self._stored(inbound)
        elif is_to_us(inbound):
            self._refuse(inbound, NOT_STORED)

    def _refuse(self, inbound: Inbound, reason: str) -> None:
        """Once for a row of refusals, or they would be a flood themselves."""
        if self._told.get(inbound.address.chat) != reason:
            self._told[inbound.address.chat] = reason
            self._tell(inbound, reason)
