"""Hands over what a sync brought: in order within a room, rooms beside each other. What is stored, or whose sender
knows that it is not, is settled; a room of which not all is, is a gap that is read again, and holds up no other."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from gateway.platforms.face import Core, NeverTaken, NotNow, Part
from gateway.platforms.matrix import SPEC
from gateway.platforms.matrix.account_files import ListenedTo
from gateway.platforms.matrix.link import MatrixLink, SyncNews
from gateway.platforms.matrix.refusals import MatrixKind, MatrixTrouble
from gateway.platforms.matrix.room_gaps import READ_PAUSE, STORE_PAUSE, RoomPauses, Stretch, find_stretches
from gateway.platforms.matrix.rooms import KnownRooms
from gateway.platforms.matrix.soundness import JsonObject
from gateway.platforms.matrix.wire import (
    DIRECT,
    ENCRYPTED,
    MatrixSelf,
    OddMatrixEvent,
    Skipped,
    find_arrival,
    find_inviter,
    find_referred,
    read_event,
)
from gateway.platforms.refusal_notes import RefusalNotes
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Address, Inbound

_log = logging.getLogger(__name__)
MOST_MISSED = 5_000  # events of one room that are read back after an absence
MOST_REFERRED = 500  # events that others speak of; kept to be looked up once
MOST_UNREAD = 200  # encrypted events that wait for their keys
MOST_INVITATIONS = 100  # that wait for somebody to be let in
CANNOT_READ = (
    "This room is encrypted, and I cannot read encrypted messages. The owner of this Hermes can install "
    "matrix-nio[e2e]; or write to me in a room without encryption."
)
NO_KEY = "I cannot decrypt a message of yours: its key never came. Please send it again."
WEIGH_SECONDS = 20.0  # between two looks whether somebody was let in who had invited us before
LATE_KEY_SECONDS = 120.0  # so long a key may take
TOLD, READABLE = "told", "readable"  # marks on events that are kept: its sender knows; its key came
LATE = ""  # those, among the rooms that are tried again
FINAL_KINDS = (MatrixKind.FORBIDDEN, MatrixKind.MISSING, MatrixKind.REFUSED)  # it will be so the next time


class MatrixReception:
    def __init__(
        self,
        me: MatrixSelf,
        link: MatrixLink,
        core: Core,
        rooms: KnownRooms,
        send: Callable[[Part], Awaitable[str]],
        tell_plainly: Callable[[str, str], Awaitable[None]],
    ) -> None:
        self._me = me
        self._link = link
        self._core = core
        self._rooms = rooms
        self._send = send
        self._tell_plainly = tell_plainly
        self._notes = RefusalNotes(send)
        self._settled: dict[str, set[str]] = {}  # by room: events that come again only because others are not settled
        self._pauses = RoomPauses()
        self._referred: dict[str, JsonObject | None] = {}
        self._strange: set[tuple[str, str]] = set()  # rooms, and who led there and was not known lately
        self._led: set[str] = set()  # rooms in the place of others that were joined, or never will be
        self._weigh_at = 0.0

    def close(self) -> None:
        self._notes.close()

    async def settle(self, news: SyncNews, heard: ListenedTo, marks: Mapping[str, set[str]]) -> ListenedTo:
        """Where the account has got to, with the gaps that are left. `marks`: messages that are known, of each room,
        where it is not known how far was listened."""
        for room, room_news in news.joined.items():
            self._rooms.note_news(room, [*room_news.state, *room_news.events], room_news.people)
        for room in news.left:
            _log.info("Hermes is not in the room %s any more.", room)
            self._rooms.note_left(room)
            self._pauses.forget(room)
        stretches = find_stretches(news, heard, marks)
        work = [self._take_room(room, stretch, heard) for room, stretch in stretches.items()]
        *done, late = await asyncio.gather(*work, self._take_unread(news, heard))
        for room in news.joined:
            self._wake(room)
        gaps = {room: stretches[room].as_gap() for room, unread in zip(stretches, done, strict=True) if unread is None}
        self._settled = {room: known for room, known in self._settled.items() if room in gaps}
        unread = [event for events in (*done, late) for event in events or ()]
        invited = self._list_invited(news, heard)
        return ListenedTo(heard.user, news.since, invited, heard.told, unread[-MOST_UNREAD:], gaps)

    def find_patience(self, heard: ListenedTo, longest: float) -> float:
        """How many seconds the account may wait for news before something is to be tried again."""
        late = [LATE] if any(event.get(READABLE) for event in heard.unread) else []
        return self._pauses.find_wait([*heard.gaps, *late], longest)

    def _list_invited(self, news: SyncNews, heard: ListenedTo) -> dict[str, list[str]]:
        invited = {room: known for room, known in heard.invited.items() if room not in (*news.joined, *news.left)}
        for room, state in news.invited.items():
            inviter, name = find_inviter(state, self._me.id)
            if inviter:
                invited[room] = [inviter, name]
        while len(invited) > MOST_INVITATIONS:
            del invited[next(iter(invited))]
        return invited

    # --- rooms

    async def _take_room(self, room: str, stretch: Stretch, heard: ListenedTo) -> list[dict[str, Any]] | None:
        """The encrypted events that could not be read; None: not all of it is settled."""
        if not self._pauses.is_due(room):
            return None
        try:
            unread, pause = await self._hear(room, stretch, heard), STORE_PAUSE
        except MatrixTrouble as trouble:
            _log.warning("What was said in %s cannot be read to its end (%s); it is tried again.", room, trouble)
            unread, pause = None, max(READ_PAUSE, trouble.seconds)
        except Exception:  # noqa: BLE001 - the boundary to the gateway: the message stays with the homeserver
            _log.exception("A message could not be handed over; it is read again.")
            unread, pause = None, STORE_PAUSE
        if unread is None:
            self._pauses.note_failure(room, pause)
        else:
            self._pauses.forget(room)
        return unread

    async def _hear(self, room: str, stretch: Stretch, heard: ListenedTo) -> list[dict[str, Any]] | None:
        unread = []
        for event in await self._collect(room, stretch):
            if not await self._take_event(room, event):
                return None
            if event.get("type") == ENCRYPTED and "redacted_because" not in (event.get("unsigned") or {}):
                if not await self._note_unread(room, event, heard):
                    return None
                unread.append({**event, "room_id": room})
        return unread

    async def _collect(self, room: str, stretch: Stretch) -> list[JsonObject]:
        """What was said in a room since we listened, the oldest first, also where the sync has left it out."""
        since, marks = stretch.since, stretch.marks
        if not since and not marks:
            return []  # before our time
        events, before = list(stretch.events), stretch.before
        while True:
            start, invited = find_arrival(events, self._me.id, marks)
            if start is not None:
                return events[start:]
            if not before or not (stretch.is_cut or invited):
                return events
            if len(events) > MOST_MISSED:
                _log.error("More than %d events of %s were missed: the oldest are left out.", MOST_MISSED, room)
                return events
            try:
                page, before = await self._link.read_back(room, before, "" if invited else since)
            except MatrixTrouble as trouble:
                if trouble.kind not in FINAL_KINDS:
                    raise
                _log.error("What was missed in %s cannot be read (%s): it is left out.", room, trouble)
                return events
            events = [*page, *events]

    async def _take_event(self, room: str, event: JsonObject) -> bool:
        number = str(event.get("event_id") or "")
        settled = self._settled.setdefault(room, set())
        if number in settled:
            return True
        referred = await self._look_up(room, event)
        try:
            read = read_event(event, referred, self._rooms.view(room), self._me)
        except OddMatrixEvent as odd:
            _log.warning("The event %s in %s cannot be read (%s); it is left out.", number, room, odd)
            return True
        except Exception as error:  # noqa: BLE001 - what cannot be read now never can: the others must be heard
            _log.error("The event %s in %s cannot be read (%s); it is left out.", number, room, type(error).__name__)
            return True
        if isinstance(read, Skipped):
            _log.debug("An event in %s is ignored: %s.", room, read.reason)
            return True
        if not await self._hand_over(read):
            return False
        settled.add(number)
        return True

    async def _look_up(self, room: str, event: JsonObject) -> Mapping[str, JsonObject | None]:
        """What an event speaks of: what it edits, what it replies to, what its thread began with."""
        found: dict[str, JsonObject | None] = {}
        while wanted := find_referred(event, found):
            for number in wanted:
                found[number] = await self._read_referred(room, number)
        while len(self._referred) > MOST_REFERRED:
            del self._referred[next(iter(self._referred))]
        return found

    async def _read_referred(self, room: str, number: str) -> JsonObject | None:
        """An event that others speak of; None: there is none, or nobody can say. All rooms wait for it: only where the
        homeserver answers nothing at all is it tried for longer."""
        for last in (False, True):
            if number in self._referred:
                break
            try:
                self._referred[number] = await self._link.read_event(room, number)
            except MatrixTrouble as trouble:
                if trouble.kind in (MatrixKind.UNSENT, MatrixKind.TOKEN):
                    raise
                if last:
                    _log.warning("What an event in %s refers to cannot be had (%s); it is left out.", room, trouble)
        return self._referred.get(number)

    async def _hand_over(self, inbound: Inbound) -> bool:
        """True when the message is stored, or its sender knows that it is not; otherwise it comes again."""
        return await self._notes.settle(inbound, await self._core.take(inbound))

    def _wake(self, room: str) -> None:
        if self._rooms.is_encrypted(room) and not self._link.encrypts:
            return
        for address in self._rooms.come_back(room):
            self._core.wake_delivery(address)

    # --- encrypted rooms

    async def _note_unread(self, room: str, event: JsonObject, heard: ListenedTo) -> bool:
        """Its people hear once that they are not understood; where we could be, the key is asked for. False: they could
        not be told now. MatrixTrouble: nor may they before a time."""
        if self._link.encrypts:
            await self._link.ask_for_key(room, event)
            return True
        if room in heard.told:
            return True
        try:
            await self._tell_plainly(room, CANNOT_READ)
        except NotNow as wait:
            if wait.seconds is not None:
                raise MatrixTrouble(MatrixKind.PENALTY, str(wait), seconds=wait.seconds) from None
        except NeverTaken as refusal:
            _log.warning("Nobody in %s can be told that they are not understood: %s", room, refusal)
        except DeliveryFailure:
            return False
        heard.told.append(room)
        return True

    async def _take_unread(self, news: SyncNews, heard: ListenedTo) -> list[dict[str, Any]]:
        """What could not be read before, and still cannot, or could not be stored."""
        left: list[dict[str, Any]] = []
        for event in heard.unread:
            room = str(event.get("room_id"))
            is_behind = any(one["room_id"] == room and one.get(READABLE) for one in left)
            is_due = news.keys or (event.get(READABLE) and self._pauses.is_due(LATE))
            clear = self._link.unlock(room, event) if is_due else None
            if clear is None:
                left.append(await self._note_late(room, event))
            elif is_behind or not await self._take_late(room, clear):
                left.append({**event, READABLE: True})
        return left

    async def _take_late(self, room: str, event: JsonObject) -> bool:
        """Whether an event whose key came late is settled."""
        try:
            taken = await self._take_event(room, event)
        except MatrixTrouble as trouble:
            _log.warning("What a message in %s speaks of cannot be read (%s); it is tried again.", room, trouble)
            taken = False
        except Exception:  # noqa: BLE001 - the boundary to the gateway, as above
            _log.exception("A message could not be handed over; it is read again.")
            taken = False
        if taken:
            self._pauses.forget(LATE)
        else:
            self._pauses.note_failure(LATE, STORE_PAUSE)
        return taken

    async def _note_late(self, room: str, event: dict[str, Any]) -> dict[str, Any]:
        """Whoever waits in a direct chat for the answer to what cannot be read hears of it, once."""
        age = time.time() - int(event.get("origin_server_ts") or 0) / 1000
        if event.get(TOLD) or age < LATE_KEY_SECONDS:
            return event
        view = self._rooms.view(room)
        if view.kind == DIRECT and await self._core.knows(SPEC.name, str(event.get("sender"))):
            key = f"no key {event.get('event_id')}"
            try:
                place = Address(SPEC.name, self._me.account, view.name_chat(str(event.get("sender"))))
                await self._send(Part(place, NO_KEY, key=key, markup="plain"))
            except DeliveryFailure as problem:
                _log.warning("Nobody in %s was told that a message cannot be read: %s", room, problem)
        return {**event, TOLD: True}

    # --- invitations

    async def answer_invitations(self, heard: ListenedTo) -> None:
        """Join where somebody who was let in invites us, and follow them from a room that ended to the one in its
        place. Whoever was not let in gets nothing, not even a no; they are asked about again now and then."""
        if time.monotonic() >= self._weigh_at:
            self._weigh_at = time.monotonic() + WEIGH_SECONDS
            self._strange.clear()
        for room, (inviter, name) in list(heard.invited.items()):
            if await self._is_welcome(room, inviter, name) and await self._join(room):
                _log.info("Hermes was invited to the room %s by %s, and is in it now.", room, inviter)
                del heard.invited[room]
        for old, new, sender in self._rooms.list_successors():
            if not await self._is_welcome(old, sender, ""):
                continue
            if not self._rooms.is_in(new):
                if new not in self._led and await self._join(new):
                    self._led.add(new)
            elif self._rooms.succeeds(old, new):
                _log.info("The room %s ended; %s is in its place.", old, new)
                await self._meet_members(new)
                self._rooms.note_move(old, new)
                for address in self._rooms.come_back(old) | self._rooms.come_back(new):
                    self._core.wake_delivery(address)
            else:
                _log.warning("The room %s ended, but %s does not say that it is in its place.", old, new)
                self._rooms.note_move(old, old)

    async def _meet_members(self, room: str) -> None:
        """Whose direct chat goes on there is known by who is there."""
        try:
            self._rooms.note_members(room, await self._link.list_members(room))
        except MatrixTrouble as trouble:
            _log.warning("Who is in %s is not told: %s", room, trouble)

    async def _is_welcome(self, room: str, person: str, name: str) -> bool:
        """Whether this person may lead us somewhere. Who was a stranger a moment ago is not asked about again."""
        if (room, person) in self._strange:
            return False
        known = await self._core.knows(SPEC.name, person, name)
        if not known:
            self._strange.add((room, person))
        return known

    async def _join(self, room: str) -> bool:
        """True when there is nothing left to do about it."""
        try:
            await self._link.join(room)
        except MatrixTrouble as trouble:
            _log.warning("The room %s could not be joined: %s", room, trouble)
            return trouble.kind in FINAL_KINDS
        return True
