"""Hands what a webhook brings over to the gateway: in order within a chat, chats beside each other. All of it is
settled, or WhatsApp is not told so and brings all of it again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable

from gateway.platforms.face import Core, NotNow, Part, Refused
from gateway.platforms.refusal_notes import RefusalNotes
from gateway.platforms.whatsapp.refusals import as_late_failure
from gateway.platforms.whatsapp.sent_memory import SentMemory
from gateway.platforms.whatsapp.wire import FAILED, HookItem, NumberChange, PassedOver, SentStatus
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Inbound

_log = logging.getLogger(__name__)
LOOKS, LOOK_SECONDS = 5, 0.5  # for a message whose sending may not be noted yet when it is told to have failed


class HookReception:
    def __init__(self, core: Core, memory: SentMemory, send: Callable[[Part], Awaitable[str]]) -> None:
        self._core = core
        self._memory = memory
        self._failing = asyncio.Lock()
        self._notes = RefusalNotes(send)

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
        if not isinstance(taken, Refused):
            self._notes.note_taken(inbound.address.chat_key)
            return True
        return not taken.closing and await self._notes.tell(Part(inbound.address, taken.reason, markup="plain"))

    async def _note_status(self, status: SentStatus) -> bool:
        """What becomes of messages is no matter, but for one that fails after it was taken."""
        if status.state != FAILED or status.trouble is None:
            self._memory.note_arrived(status.key, status.message)
            return True
        failure = as_late_failure(status.trouble)
        _log.warning("A message to %s was taken and did not arrive: %s", status.address.chat, failure)
        async with self._failing:  # one after the other: the parts of one message fail together
            return await self._take_back(status, failure)

    async def _take_back(self, status: SentStatus, failure: DeliveryFailure) -> bool:
        """Its message waits for whoever has to write first, from before it is looked for, so that nothing is sent to
        them meanwhile. One that is being sent is not noted yet, and is told of again."""
        chat, was_away = status.address.chat, self._memory.is_away(status.address)
        if isinstance(failure, NotNow) and not self._memory.has_written_since(chat, status.at):
            self._memory.note_away(status.address)
        for look in range(LOOKS):
            if await self._core.take_back(status.address, status.message, failure):
                return True
            if look + 1 < LOOKS:
                await asyncio.sleep(LOOK_SECONDS)
        if not was_away:
            self._wake(chat)
        return not self._memory.may_be_noted_yet(status.message)

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
