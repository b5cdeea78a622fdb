"""What waits in one channel to be handed over: one thing after the other, however often it has to be tried."""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any

from gateway.platforms.backoff import Pauses
from hermes_base.inbound import Address

_log = logging.getLogger(__name__)
RETRY_SECONDS, LONGEST_RETRY = 1.0, 15.0  # after something that could not be stored or read


@dataclass(slots=True)
class CatchUp:
    """The history of a channel, to be read from behind a message on."""

    address: Address
    after: int


@dataclass(slots=True)
class Told:
    """An event of the gateway."""

    kind: str
    data: Any
    settled: asyncio.Event = field(default_factory=asyncio.Event)
    is_taken: bool = True  # False: it was settled without being stored, as of a stranger


@dataclass(slots=True)
class ChannelLane:
    channel: str
    items: deque[CatchUp | Told] = field(default_factory=deque)
    newest: int = 0  # the newest message that was handed over
    read_back: set[str] = field(default_factory=set)  # read in the history: the event of it, if it comes, is a copy
    unread: CatchUp | None = None  # a history that Discord keeps from us: it is read before what comes, or when it may
    address: Address | None = None
    work: "asyncio.Task[None] | None" = None


Settle = Callable[[ChannelLane, CatchUp | Told], Awaitable[bool]]


class ChannelLanes:
    """Channels beside each other, and within each the order in which things came (C3)."""

    def __init__(self, settle: Settle) -> None:
        self._settle = settle
        self.lanes: dict[str, ChannelLane] = {}

    def put(self, channel: str, item: CatchUp | Told) -> None:
        lane = self.lanes.setdefault(channel, ChannelLane(channel))
        lane.items.append(item)
        if lane.work is None:
            lane.work = asyncio.create_task(self._work(lane), name=f"discord channel {channel}")

    def put_unread(self, channel: str) -> None:
        """What could not be read there is tried again."""
        lane = self.lanes.get(channel)
        if lane is not None and lane.unread is not None and lane.unread not in lane.items:
            self.put(channel, lane.unread)

    async def close(self) -> None:
        works = [lane.work for lane in self.lanes.values() if lane.work is not None]
        for work in works:
            work.cancel()
        await asyncio.gather(*works, return_exceptions=True)

    async def _work(self, lane: ChannelLane) -> None:
        pauses = Pauses(RETRY_SECONDS, LONGEST_RETRY)
        try:
            while lane.items:
                if await self._try(lane):
                    lane.items.popleft()
                    pauses.reset()
                else:
                    await asyncio.sleep(pauses.next())
        finally:
            lane.work = None

    async def _try(self, lane: ChannelLane) -> bool:
        try:
            return await self._settle(lane, lane.items[0])
        except Exception as error:  # noqa: BLE001 - the boundary to the gateway: the message is kept, and tried again
            _log.error("A message could not be handed over (%s); it is tried again.", type(error).__name__)
            return False
