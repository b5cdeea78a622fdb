"""Hands what a webhook brings over to the gateway: in order within a chat, chats beside each other. All of it is
settled, or WhatsApp is not told so and brings all of it again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from gateway.platforms.face import Core, NotNow, Part
from gateway.platforms.refusal_notes import RefusalNotes
from gateway.platforms.whatsapp.refusals import as_late_failure
from gateway.platforms.whatsapp.sent_memory import SentMemory
from gateway.platforms.whatsapp.wire import FAILED, HookItem, NumberChange, PassedOver, SentStatus
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Inbound

_log = logging.getLogger(__name__)
LOOKS, LOOK_SECONDS = 5, 0.5  # for a message whose sending may not be noted yet when it is told to have failed
MOST_WAITING = 4  # requests that look again: each takes a place of those that bring what people say


class HookReception:
    def __init__(self, core: Core, memory: SentMemory, send: Callable[[Part], Awaitable[str]]) -> None:
        self._core = core
        self._memory = memory
        self._waiting = 0
        self._notes = RefusalNotes(send)

    def close(self) -> None:
        self._notes.close()

    async def take_all(self, items: Iterable[HookItem]) -> bool:
        """Whether all of it is settled."""
        chats: dict[str, list[HookItem]] = {}
        for item in items:
            chats.setdefault(_name_chat(item), []).append(item)
        return all(await asyncio.gather(*map(self._take_chat, chats.values())))

    async def _take_chat(self, items: list[HookItem]) -> bool:
        """One that is not settled keeps those after it waiting, so that order is kept."""
        for item in items:
            try:
                settled = await self._take(item)
            except Exception:  # noqa: BLE001 - the boundary to the gateway: WhatsApp brings it again
                _log.exception("Something that WhatsApp brought could not be handed over; it comes again.")
                settled = False
            if not settled:
                return False
        return True

    async def _take(self, item: HookItem) -> bool:
        match item:
            case Inbound():
                return await self._hand_over(item)
            case SentStatus():
                return await self._note_status(item)
            case NumberChange(old, new):
                _log.warning(
                    "%s has another number on WhatsApp now, %s. Nobody is let in by that: they get a code there. Take "
                    "the old number out with `hermes people`, since somebody else may be given it.",
                    old,
                    new,
                )
            case PassedOver(reason):
                _log.info("Something that WhatsApp brought is left out: %s.", reason)
        return True

    async def _hand_over(self, inbound: Inbound) -> bool:
        """True when the message is stored, or its sender knows that it is not; otherwise it comes again."""
        taken = await self._core.take(inbound)
        chat = inbound.address.chat
        self._memory.note_heard(chat, inbound.message, inbound.received)
        self._wake(chat)
        return await self._notes.settle(inbound, taken)

    async def _note_status(self, status: SentStatus) -> bool:
        """What becomes of messages is no matter, but for one that fails after it was taken."""
        if status.state != FAILED or status.trouble is None:
            self._memory.note_arrived(status.key, status.message)
            return True
        return await self._take_back(status, as_late_failure(status.trouble))

    async def _take_back(self, status: SentStatus, failure: DeliveryFailure) -> bool:
        """Its message waits for whoever has to write first, from before it is looked for, so that nothing is sent to
        them meanwhile. One that is being sent is not noted yet, and is told of again."""
        address, message = status.address, status.message
        waits = isinstance(failure, NotNow) and not self._memory.has_written_since(address.chat, status.at)
        is_new = waits and self._memory.note_away(address, message)
        if await self._look_for(status, failure):
            _log.warning("A message to %s was taken and did not arrive: %s", address.chat, failure)
            self._memory.forget_sent(message)
            return True
        if is_new and self._memory.take_away_back(address, message):
            self._core.wake_delivery(address)
        return not self._memory.is_awaited(message, status.key)

    async def _look_for(self, status: SentStatus, failure: DeliveryFailure) -> bool:
        """Whether the message was found. Nothing is waited for but messages of ours (other programs may use the number
        as well), and by no more than a few requests: whoever writes is to be heard meanwhile."""
        if await self._core.take_back(status.address, status.message, failure):
            return True
        if self._waiting >= MOST_WAITING or not self._memory.is_awaited(status.message, status.key):
            return False
        self._waiting += 1
        try:
            for _ in range(LOOKS - 1):
                await asyncio.sleep(LOOK_SECONDS)
                if await self._core.take_back(status.address, status.message, failure):
                    return True
        finally:
            self._waiting -= 1
        self._memory.note_look(status.message)
        return False

    def _wake(self, chat: str) -> None:
        for address in self._memory.come_back(chat):
            self._core.wake_delivery(address)


def _name_chat(item: HookItem) -> str:
    match item:
        case Inbound():
            return item.address.chat
        case SentStatus():
            return f"{item.message} of ours"  # it waits for nothing that people say
    return ""
