"""Hands updates over to the gateway: in order within a chat, chats beside each other. What is stored, or whose sender
knows that it is not, is settled; the rest stays with Telegram and comes again."""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from gateway.platforms.face import Core, Part
from gateway.platforms.refusal_notes import RefusalNotes
from gateway.platforms.telegram.known_chats import KnownChats
from gateway.platforms.telegram.link import BotLink
from gateway.platforms.telegram.refusals import BotTrouble
from gateway.platforms.telegram.wire import (
    BotSelf,
    GroupMove,
    Ignored,
    Membership,
    OddUpdate,
    Press,
    UpdateRead,
    read_update,
    read_update_id,
)
from gateway.platforms.telegram.wire_out import BotCall
from hermes_base.inbound import Inbound

_log = logging.getLogger(__name__)


class Reception:
    def __init__(
        self,
        me: Callable[[], BotSelf],
        link: BotLink,
        core: Core,
        where: KnownChats,
        send: Callable[[Part], Awaitable[str]],
    ) -> None:
        self._me = me
        self._link = link
        self._core = core
        self._where = where
        self._notes = RefusalNotes(send)
        self._settled: set[int] = set()  # updates that come again only because one before them is not
        self._answering: set[asyncio.Task[None]] = set()

    async def take_all(self, updates: Sequence[Any]) -> tuple[int | None, bool]:
        """Settle a batch: the number from which Telegram has to go on (None: as before), and whether all is settled."""
        chats: dict[str, list[tuple[int, UpdateRead]]] = {}
        numbers = []
        for update in updates:
            number = read_update_id(update)
            if number is None:
                _log.warning("Telegram sent an update without a number; it is left out.")
                continue
            numbers.append(number)
            if number in self._settled:
                continue
            read = self._read(update, number)
            chats.setdefault(_name_chat(read), []).append((number, read))
        left = [number for number in await asyncio.gather(*map(self._take_chat, chats.values())) if number is not None]
        if not numbers:
            return None, True
        following = min(left) if left else max(numbers) + 1
        self._settled = {number for number in self._settled if number > following}
        return following, not left

    async def close(self) -> None:
        self._notes.close()
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    def _read(self, update: Any, number: int) -> UpdateRead:
        """One update that is not as documented takes none of the others with it; its text is in no log."""
        try:
            return read_update(update, self._me())
        except OddUpdate as odd:
            _log.warning("Update %s of Telegram cannot be read (%s); it is left out.", number, odd)
        except Exception as error:  # noqa: BLE001 - whatever it is: the same update would come for ever
            _log.error("Update %s of Telegram cannot be read (%s); it is left out.", number, type(error).__name__)
        return Ignored("it cannot be read")

    async def _take_chat(self, updates: list[tuple[int, UpdateRead]]) -> int | None:
        """The number of the first that is not settled; those after it wait, so that order is kept."""
        for number, read in updates:
            try:
                settled = await self._take(read)
            except Exception:  # noqa: BLE001 - the boundary to the gateway: the message stays with Telegram
                _log.exception("A message could not be handed over; it is read again.")
                settled = False
            if not settled:
                return number
            self._settled.add(number)
        return None

    async def _take(self, read: UpdateRead) -> bool:
        match read:
            case Inbound():
                return await self._hand_over(read)
            case Press(inbound, query):
                settled = await self._hand_over(inbound)
                if settled:
                    self._begin(self._answer(query))
                return settled
            case Membership(chat, is_in):
                _log.info("The bot is %s the chat %s now.", "in" if is_in else "not in", chat)
                if is_in:
                    self._wake(chat)
            case GroupMove(old, new):
                _log.info("The group %s is the supergroup %s now.", old, new)
                self._where.note_move(old, new)
            case Ignored(reason, query):
                _log.debug("An update of Telegram is ignored: %s.", reason)
                if query:
                    self._begin(self._answer(query))
        return True

    async def _hand_over(self, inbound: Inbound) -> bool:
        """True when the message is stored, or its sender knows that it is not; otherwise it comes again."""
        taken = await self._core.take(inbound)
        self._wake(inbound.address.chat)
        return await self._notes.settle(inbound, taken)

    def _wake(self, chat: str) -> None:
        for address in self._where.come_back(chat):
            self._core.wake_delivery(address)

    async def _answer(self, query: str) -> None:
        """The button stops to spin. One that was pressed long ago is not waited for any more."""
        try:
            await self._link.call(BotCall("answerCallbackQuery", {"callback_query_id": query}))
        except BotTrouble as trouble:
            _log.info("A pressed button got no sign: %s", trouble)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)


def _name_chat(read: UpdateRead) -> str:
    match read:
        case Inbound():
            return read.address.chat
        case Press(inbound):
            return inbound.address.chat
        case Membership(chat):
            return chat
        case GroupMove(old):
            return old
    return ""
