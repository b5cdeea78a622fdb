"""Hands what happens over to the gateway: in order within a channel, channels beside each other. What was missed is
read from the history of each known channel first; what is not stored is tried again, and read there after a crash."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from gateway.platforms.discord import SPEC, wire_out
from gateway.platforms.discord.channel_book import ChannelBook
from gateway.platforms.discord.lanes import RETRY_SECONDS, CatchUp, ChannelLane, ChannelLanes, Told
from gateway.platforms.discord.link import DiscordLink
from gateway.platforms.discord.refusals import TOKEN_SECONDS, DiscordTrouble, Trouble
from gateway.platforms.discord.wire import (
    BUTTON,
    COMMAND,
    ChannelPlace,
    DiscordSelf,
    Interacted,
    LeftOut,
    OddDiscordEvent,
    find_channel,
    is_unedited,
    make_snowflake,
    read_channel_id,
    read_interaction,
    read_message,
    read_own_roles,
    read_place,
    read_places,
    read_snowflake,
)
from gateway.platforms.face import Accepted, Core, Part
from gateway.platforms.refusal_notes import RefusalNotes
from hermes_base.inbound import Address, Inbound

_log = logging.getLogger(__name__)
ABSENCE_SECONDS = 86_400.0  # what is older is not answered any more
ANSWER_SECONDS = 1.5  # of the three in which Discord wants an answer to a press
READERS, READ_PAUSE = 2, 0.15  # histories that are read at the same time, and the seconds after each look
LEFT_OUT = "What Discord told (%s) cannot be read (%s); it is left out."
MESSAGES = ("MESSAGE_CREATE", "MESSAGE_UPDATE")
INTERACTION = "INTERACTION_CREATE"
_CHANNELS = ("CHANNEL_CREATE", "CHANNEL_UPDATE", "THREAD_CREATE", "THREAD_UPDATE")
_GUILD_CHANGES = ("GUILD_ROLE_UPDATE", "GUILD_UPDATE")
#: What the gateway is listened for.
KINDS = ("READY", "RESUMED", "GUILD_CREATE", *_GUILD_CHANGES, *_CHANNELS, *MESSAGES, INTERACTION)
_FOR_GOOD = (Trouble.FORBIDDEN, Trouble.MISSING, Trouble.REFUSED)


class DiscordReception:
    def __init__(
        self,
        me: Callable[[], DiscordSelf],
        link: DiscordLink,
        core: Core,
        book: ChannelBook,
        send: Callable[[Part], Awaitable[str]],
    ) -> None:
        self._me = me
        self._link = link
        self._core = core
        self._book = book
        self.roles: frozenset[str] = frozenset()  # our own, of all servers
        self._notes = RefusalNotes(send)
        self._intake: asyncio.Queue[tuple[str, Any]] = asyncio.Queue()
        self._lanes = ChannelLanes(self._settle)
        self._reading = asyncio.Semaphore(READERS)
        self._answering: set[asyncio.Task[None]] = set()

    def hear(self, kind: str, data: Any) -> None:
        self._intake.put_nowait((kind, data))

    async def run(self) -> None:
        """Sort what comes, for ever. One event that is not as documented takes none of the others with it."""
        while True:
            kind, data = await self._intake.get()
            try:
                await self._sort(kind, data)
            except Exception as error:  # noqa: BLE001 - somebody else's data; it may hold what people wrote
                _log.warning(LEFT_OUT, kind, _name_oddity(error))

    async def close(self) -> None:
        self._notes.close()
        await self._lanes.close()
        for task in self._answering:
            task.cancel()
        await asyncio.gather(*self._answering, return_exceptions=True)

    async def _sort(self, kind: str, data: Any) -> None:
        if kind == "READY":
            await self._begin_catch_up()
        elif kind == "GUILD_CREATE":
            self.roles |= read_own_roles(data, self._me().id)
            places = read_places(data)
            self._book.note(places)
            self._open(*(place.channel for place in places))
        elif kind in _CHANNELS:
            place = read_place(data)
            self._book.note([place])
            self._open(place.channel)
        elif kind in _GUILD_CHANGES:
            guild = str(data.get("guild_id") or data.get("id") or "")
            unread = [channel for channel, lane in self._lanes.lanes.items() if lane.unread is not None]
            self._open(*self._book.list_away(guild), *self._book.pick(unread, guild))
        elif kind in MESSAGES:
            self._lanes.put(read_channel_id(data), Told(kind, data))
        elif kind == INTERACTION:
            self._take_interaction(data)

    # --- what was missed

    async def _begin_catch_up(self) -> None:
        """A new session tells nothing of what was said before it: each known channel is read first (C1)."""
        oldest = int(make_snowflake(time.time() - ABSENCE_SECONDS))
        last_heard = await self._find_last()
        known = {find_channel(address): (address, read_snowflake(last)) for address, last in last_heard.items()}
        for channel, lane in self._lanes.lanes.items():
            lane.read_back.clear()
            if lane.unread is not None:
                lane.unread.after = max(lane.unread.after, oldest)
                self._lanes.put_unread(channel)
                known.pop(channel, None)
            elif lane.address is not None:  # heard in this session, and perhaps not stored
                known.setdefault(channel, (lane.address, lane.newest))
        for channel, (address, last) in known.items():
            self._book.note([] if self._book.find(channel) else [_guess_place(channel, address.chat, address.kind)])
            self._lanes.put(channel, CatchUp(address, max(last, oldest)))

    async def _find_last(self) -> Mapping[Address, str]:
        while True:
            try:
                return await self._core.find_last(f"{SPEC.name}:{self._me().account}")
            except Exception as error:  # noqa: BLE001 - the boundary to the gateway; without it messages would be lost
                _log.error("It cannot be found out what was heard last (%s); it is tried again.", type(error).__name__)
                await asyncio.sleep(RETRY_SECONDS)

    async def _read_history(self, lane: ChannelLane, missed: CatchUp) -> bool:
        """Whether nothing more is to be done about it now: it was read to its end, is gone, or is kept from us."""
        if lane.unread is not missed:
            missed.after = max(missed.after, lane.newest)
        while True:
            try:
                async with self._reading:
                    page = await self._link.call(wire_out.make_history(lane.channel, str(missed.after)))
                    await asyncio.sleep(READ_PAUSE)
            except DiscordTrouble as trouble:
                _log.info("The history of the channel %s cannot be read: %s", lane.channel, trouble)
                await asyncio.sleep(TOKEN_SECONDS if trouble.kind is Trouble.TOKEN else trouble.seconds)
                if trouble.kind in _FOR_GOOD:
                    lane.unread = missed if trouble.kind is Trouble.FORBIDDEN else None
                    return True
                return False
            rows = page if isinstance(page, list) else []
            for body in reversed(rows):  # the newest comes first
                number = read_snowflake(str(body.get("id"))) if isinstance(body, dict) else 0
                if not await self._hand_over_read(lane, body):
                    return False
                lane.read_back.add(str(number))
                missed.after = max(missed.after, number)
            if len(rows) < wire_out.PAGE:
                lane.unread = None
                return True

    async def _hand_over_read(self, lane: ChannelLane, body: Any) -> bool:
        place = self._book.find(lane.channel) or ChannelPlace(lane.channel)
        try:
            found = read_message(body, place, self._me())
        except Exception as error:  # noqa: BLE001 - somebody else's data; it would stand in the way for ever
            _log.warning(LEFT_OUT, "history", _name_oddity(error))
            return True
        return not isinstance(found, Inbound) or await self._hand_over(lane, found) is not None

    # --- what happens now

    async def _settle(self, lane: ChannelLane, item: CatchUp | Told) -> bool:
        """Whether it is dealt with; otherwise it is tried again, and what came after it waits."""
        if isinstance(item, CatchUp):
            return await self._read_history(lane, item)
        if lane.unread is not None and not await self._read_history(lane, lane.unread):
            return False
        try:
            found = await self._read(lane, item)
        except DiscordTrouble as trouble:
            _log.info("It cannot be found out what the channel %s is: %s", lane.channel, trouble)
            return False
        except Exception as error:  # noqa: BLE001 - somebody else's data; it would stand in the way for ever
            _log.warning(LEFT_OUT, item.kind, _name_oddity(error))
            found = LeftOut("it cannot be read")
        if isinstance(found, LeftOut):
            _log.debug("An event of Discord is ignored: %s.", found.reason)
            item.settled.set()
            return True
        taken = await self._hand_over(lane, found.inbound if isinstance(found, Interacted) else found)
        if taken is None:
            return False
        item.is_taken = taken
        item.settled.set()
        return True

    async def _read(self, lane: ChannelLane, item: Told) -> Inbound | Interacted | LeftOut:
        place = await self._find_place(lane.channel, item.data)
        if item.kind == INTERACTION:
            return read_interaction(item.data, place, self._me())
        if item.kind == "MESSAGE_UPDATE" and is_unedited(item.data):
            return LeftOut("only its looks have changed")
        number = str(item.data.get("id"))
        if item.kind == "MESSAGE_CREATE" and number in lane.read_back:
            lane.read_back.discard(number)
            return LeftOut("it was read in the history")
        return read_message(item.data, place, self._me())

    async def _find_place(self, channel: str, data: Any) -> ChannelPlace:
        """Where the channel is; of one that was never told of, Discord is asked."""
        known = self._book.find(channel)
        if known is not None:
            return known
        if isinstance(data.get("channel"), dict):
            place = read_place({"guild_id": data.get("guild_id"), **data["channel"]})
        elif "guild_id" not in data:
            place = ChannelPlace(channel, is_dm=True)
        else:
            try:
                place = read_place(await self._link.call(wire_out.make_channel_look(channel)))
            except DiscordTrouble as trouble:
                if trouble.kind not in _FOR_GOOD:
                    raise
                place = ChannelPlace(channel, guild=str(data["guild_id"]))
        self._book.note([place])
        return place

    async def _hand_over(self, lane: ChannelLane, inbound: Inbound) -> bool | None:
        """True when the message is stored; False when it will not be, and its sender knows, or is nobody to us; None:
        it has to be tried again."""
        taken = await self._core.take(inbound)
        self._wake(lane.channel)
        if not await self._notes.settle(inbound, taken):
            return None  # after the end of the gateway the next start finds it in the history
        lane.address = inbound.address
        if not inbound.revision and not inbound.question:
            lane.newest = max(lane.newest, read_snowflake(inbound.message))
        return isinstance(taken, Accepted) and taken.seq is not None

    def _wake(self, *channels: str) -> None:
        for channel in channels:
            for address in self._book.come_back(channel):
                self._core.wake_delivery(address)

    def _open(self, *channels: str) -> None:
        """We may be let into these channels by now."""
        self._wake(*channels)
        for channel in channels:
            self._lanes.put_unread(channel)

    # --- buttons and commands

    def _take_interaction(self, data: Any) -> None:
        item = Told(INTERACTION, data)
        self._lanes.put(read_channel_id(data), item)
        if data.get("type") in (COMMAND, BUTTON):
            is_command = data["type"] == COMMAND
            self._begin(self._answer(item, str(data.get("id")), str(data.get("token")), is_command))

    async def _answer(self, item: Told, number: str, token: str, is_command: bool) -> None:
        """When it is stored, or when Discord would not wait much longer: else its person reads that it failed. A
        command of somebody who is nobody to us gets no word (G1)."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                await item.settled.wait()
        if is_command and not item.is_taken:
            return
        try:
            await self._link.call(wire_out.make_answer(number, token, is_command=is_command))
        except DiscordTrouble as trouble:
            _log.info("Somebody who pressed a button got no sign: %s", trouble)

    def _begin(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._answering.add(task)
        task.add_done_callback(self._answering.discard)


def _name_oddity(error: Exception) -> str:
    """Without what people wrote."""
    return str(error) if isinstance(error, OddDiscordEvent) else type(error).__name__


def _guess_place(channel: str, chat: str, kind: str) -> ChannelPlace:
    """Where a channel is, by an address that was stored of it."""
    return ChannelPlace(channel, kind == "dm", "" if chat == channel else chat)
