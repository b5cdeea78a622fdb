"""Asks rooms to let us in where we are not, and now and then whether we are where we think. Each room is asked by
itself: one whose server is silent keeps us out of no other."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable

from gateway.platforms.xmpp import wire_out
from gateway.platforms.xmpp.refusals import SILENT, XmppTrouble
from gateway.platforms.xmpp.server.link import XmppLink
from gateway.platforms.xmpp.server.room_service import is_room
from gateway.platforms.xmpp.server.xmpp_offers import ask_room
from gateway.platforms.xmpp.xmpp_rooms import RoomChange, XmppRoom, XmppRooms
from gateway.platforms.xmpp.xmpp_xml import PING, make

_log = logging.getLogger(__name__)
JOIN_SECONDS = 20.0  # a room that has not answered by then is asked again
TEND_SECONDS = 5.0
SELF_PING_SECONDS = 300.0  # between two looks whether a room still knows us
NO_ROOM = "it is no room"
HISTORY = 30  # messages that a room without an archive is asked for: ours among them were shown


class RoomVisits:
    def __init__(
        self,
        rooms: XmppRooms,
        find_link: Callable[[], Awaitable[XmppLink]],
        note: Callable[[XmppRoom, RoomChange], None],
    ) -> None:
        """`note`: called with what came of asking a room, where that is not told by a presence."""
        self._rooms = rooms
        self._find_link = find_link
        self._note = note
        self._poked = asyncio.Event()
        self._looked_at = 0.0  # when rooms were last asked whether they know us
        self._under_way: dict[str, asyncio.Task[None]] = {}

    def poke(self) -> None:
        """Something has changed: look at once."""
        self._poked.set()

    def end(self) -> None:
        for task in self._under_way.values():
            task.cancel()

    async def run(self) -> None:
        """For ever."""
        while True:
            self._poked.clear()
            link, now = await self._find_link(), time.monotonic()
            for room in self._rooms.list_due(now, JOIN_SECONDS):
                self._begin(self._enter, link, room)
            if now - self._looked_at > SELF_PING_SECONDS:
                self._looked_at = now
                for room in self._rooms.list_joined():
                    self._begin(self._look_after, link, room)
            try:
                async with asyncio.timeout(TEND_SECONDS):
                    await self._poked.wait()
            except TimeoutError:
                pass

    def _begin(self, visit: Callable[[XmppLink, XmppRoom], Awaitable[None]], link: XmppLink, room: XmppRoom) -> None:
        if room.jid not in self._under_way:
            task = asyncio.create_task(self._make(visit, link, room), name=f"xmpp asks {room.jid}")
            self._under_way[room.jid] = task

    async def _make(
        self, visit: Callable[[XmppLink, XmppRoom], Awaitable[None]], link: XmppLink, room: XmppRoom
    ) -> None:
        try:
            await visit(link, room)
        except Exception as error:  # noqa: BLE001 - the top of a task; an error may hold what people wrote
            _log.error("The room %s could not be asked (%s).", room.jid, type(error).__name__)
        finally:
            del self._under_way[room.jid]

    async def _enter(self, link: XmppLink, room: XmppRoom) -> None:
        if room.asked:
            room.problem = SILENT
            self._note(room, RoomChange.PUT_OFF)
        room.asked = time.monotonic()
        try:
            if not await is_room(link, room.jid):
                self._rooms.put_off(room, NO_ROOM)
                self._note(room, RoomChange.REFUSED)
                return
            self._rooms.note_offers(room, await ask_room(link, room.jid))
        except XmppTrouble as trouble:
            if not link.is_open:
                room.asked = 0.0
                return
            if trouble.passes or trouble.condition in ("item-not-found", "gone"):
                self._note(room, self._rooms.note_refusal(room, trouble))
                return
            self._rooms.note_offers(room, ())
        history = 0 if room.archive else HISTORY
        link.put(wire_out.make_join(room.jid, room.nick, room.password, history))

    async def _look_after(self, link: XmppLink, room: XmppRoom) -> None:
        """A room whose server was away may have forgotten us (XEP-0410)."""
        try:
            await link.ask(make(PING, "ping"), f"{room.jid}/{room.nick}")
        except XmppTrouble as trouble:
            if trouble.condition == "not-acceptable":
                room.joined, room.asked = False, 0.0
                self.poke()
            elif trouble.passes:
                _log.info("The room %s does not say whether it knows us: %s", room.jid, trouble)
