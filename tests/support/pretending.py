"""A delivery from a store to the pretend service, for tests."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from gateway.core.delivery_rules import Pace
from gateway.delivery.delivery import Delivery
from gateway.platforms.face import Accepted, Refused
from gateway.platforms.pretend.adapter import PretendAdapter
from gateway.platforms.pretend.service import PretendRules, PretendService
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Address, Inbound, Outgoing
from hermes_state.sql.turns_sql import TurnStore
from hermes_state.turns import NodeInfo

T = TypeVar("T")
QUICK = Pace(lease=30.0, call=5.0, poll=0.05, first_pause=0.05, longest_pause=0.2)
_names = itertools.count()


def place(chat: str = "c1", **more: str) -> Address:
    return Address("pretend", "bot", chat, **more)


async def call_off_loop(fn: Callable[..., T], *args: Any) -> T:
    return await asyncio.to_thread(fn, *args)


class HeardCore:
    """Keeps what an adapter hands over; each id is accepted once."""

    def __init__(self, delivery: Delivery | None = None) -> None:
        self.taken: list[Inbound] = []
        self.answers: list[Accepted | Refused] = []
        self.failures = 0  # so many of the next messages cannot be stored
        self.woken: list[Address] = []
        self.strangers: set[str] = set()  # everybody else was let in
        self.taken_back: list[tuple[Address, str, DeliveryFailure]] = []
        self._delivery = delivery

    async def take(self, inbound: Inbound) -> Accepted | Refused:
        if self.failures:
            self.failures -= 1
            raise OSError("the disk is full")
        seen = [known.ext_id for known in self.taken]
        self.taken.append(inbound)
        self.answers.append(Accepted(inbound.key("default"), None if inbound.ext_id in seen else len(seen) + 1))
        return self.answers[-1]

    async def find_last(self, account_key: str) -> dict[Address, str]:
        every = [inbound for inbound in self.taken if inbound.address.account_key == account_key]
        return {inbound.address: inbound.message for inbound in every if not inbound.revision}

    async def knows(self, platform: str, sender: str, name: str = "") -> bool:
        return sender not in self.strangers

    async def take_back(self, address: Address, platform_id: str, failure: DeliveryFailure) -> bool:
        self.taken_back.append((address, platform_id, failure))
        return self._delivery is None or await self._delivery.take_back(
            address, address.conversation("default"), platform_id, failure
        )

    def wake_delivery(self, address: Address) -> None:
        self.woken.append(address)
        if self._delivery:
            self._delivery.wake(address)


class Post:
    """A store with an outbox, a service, and deliveries between them that come and go."""

    def __init__(self, turns: TurnStore, rules: PretendRules | None = None) -> None:
        self.turns = turns
        self.service = PretendService(rules or PretendRules())
        self.adapter = self.new_adapter()

    def new_adapter(self) -> PretendAdapter:
        return PretendAdapter("bot", {"service": self.service}, Path("/nowhere"))

    def put(self, text: str, chat: str = "c1", **more: Any) -> Outgoing:
        """A message into the outbox."""
        outgoing = Outgoing(place(chat), text, **more)
        assert self.turns.post(outgoing.address.conversation("default"), f"n{next(_names)}", outgoing)
        return outgoing

    def new_delivery(self, pace: Pace = QUICK, call: Any = call_off_loop) -> Delivery:
        """As a fresh process would start it."""
        self.adapter = self.new_adapter()
        return Delivery(self.turns, [self.adapter], self.turns.join(NodeInfo("1", alone=True)), call, pace)

    @asynccontextmanager
    async def delivering(self, pace: Pace = QUICK) -> AsyncIterator[Delivery]:
        delivery = self.new_delivery(pace)
        await self.adapter.connect(HeardCore(delivery))
        await delivery.start()
        try:
            yield delivery
        finally:
            await delivery.stop()
            await self.adapter.disconnect()

    def waits(self) -> int:
        return self.turns.depth()[1]
