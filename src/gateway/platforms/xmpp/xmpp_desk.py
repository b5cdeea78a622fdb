"""Where what comes over the line is sorted: words into the lane of their archive, presences into the rooms, bounces
back to whoever sent. It outlives lines: a new one goes on with the same rooms, lanes and places."""

import asyncio
import functools
import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol
from xml.etree.ElementTree import Element

from gateway.platforms.face import Core, NotNow, Part
from gateway.platforms.xmpp import SPEC, wire_out
from gateway.platforms.xmpp.archive_lane import ArchiveLane
from gateway.platforms.xmpp.callers import XmppCallers
from gateway.platforms.xmpp.reception import XmppReception
from gateway.platforms.xmpp.refusals import XmppKind, XmppTrouble, as_failure
from gateway.platforms.xmpp.sent.sent_book import SentBook
from gateway.platforms.xmpp.sent.sent_search import SentSearch
from gateway.platforms.xmpp.server.link import XmppLink
from gateway.platforms.xmpp.server.room_service import is_room
from gateway.platforms.xmpp.server.room_visits import RoomVisits
from gateway.platforms.xmpp.server.xmpp_offers import ask_room, greet
from gateway.platforms.xmpp.wire import (
    Arrived,
    Bounced,
    OddStanza,
    XmppSelf,
    read_archive_id,
    read_direct,
    read_origin,
    read_writer,
    unwrap_carbon,
)
from gateway.platforms.xmpp.xmpp_files import XmppKept, copy_kept
from gateway.platforms.xmpp.xmpp_rooms import RoomChange, XmppRoom, XmppRooms
from gateway.platforms.xmpp.xmpp_settings import XmppSettings
from gateway.platforms.xmpp.xmpp_xml import (
    CLIENT,
    MUC_USER,
    find,
    has,
    read_bare,
    read_resource,
)
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Address

_log = logging.getLogger(__name__)
MOST_TRIED = 5  # messages to a room that the store may not know of yet
LOOK_UP_SECONDS = 5.0  # for one search: whoever writes next waits for it
MOST_PAGES = 2  # of the end of an archive that are searched for one message
BACK_TRIES, BACK_SECONDS = 20, 0.5  # until a message that came back is noted as sent
INVITED_NOWHERE = "I cannot come to {}: its server does not say that it is a room."
NO_IDS = (
    "The room %s gives its people no lasting ids (XEP-0421): nobody is known who speaks there while Hermes is away."
)
ELSEWHERE = (
    "The room {} is on a server that I do not trust to say who somebody is. The owner of this Hermes can add {} to "
    "`room_servers` of XMPP."
)


class DeskHost(Protocol):
    """What the desk asks of its account."""

    async def send(self, part: Part) -> str: ...

    async def wait_link(self) -> XmppLink: ...

    def wake(self, chat: str) -> None: ...

    def note_away(self, address: Address) -> None: ...

    def note_change(self) -> None: ...

    def start(self, run: Callable[[], Awaitable[Any]], what: str) -> None: ...


class XmppDesk:
    def __init__(
        self,
        account: str,
        settings: XmppSettings,
        core: Core,
        kept: XmppKept,
        last: Mapping[Address, str],
        book: SentBook,
        host: DeskHost,
    ) -> None:
        """`last`: the last stored message of each chat."""
        self._account = account
        self._settings = settings
        self._core = core
        self._kept = kept
        self._book = book
        self._host = host
        self._link: XmppLink | None = None
        stamps = {archive: float(place[1]) for archive, place in kept.places.items()}
        self._search = SentSearch(settings.jid, book, stamps)
        self._returning: set[asyncio.Task[None]] = set()
        self._marks: dict[str, dict[str, str]] = {}
        for address, message in last.items():
            archive = settings.jid if address.kind == "dm" else address.chat
            self._marks.setdefault(archive, {})[address.chat] = message
        self.changed = asyncio.Event()
        self.has_archive = False
        trusted = {room: password for room, password in kept.rooms.items() if settings.trusts_room(room)}
        self.rooms = XmppRooms(settings.nick, settings.rooms, trusted, kept.occupants)
        self._visits = RoomVisits(self.rooms, host.wait_link, self._note_room)
        me = XmppSelf(account, settings.jid)
        self.callers = XmppCallers(core, kept, self._consent, self._accept, settings.trusts_room, self.changed.set)
        self.reception = XmppReception(
            me, core, self.rooms, self.callers, host.send, self._receipt, self._look_up_message
        )
        self._lanes: dict[str, ArchiveLane] = {}
        self._own_lane = self._make_lane(settings.jid, self.reception.settle_direct)

    @property
    def salt(self) -> str:
        return self._kept.salt

    def copy_kept(self) -> dict[str, Any]:
        return copy_kept(self._kept)

    def list_work(self) -> list[tuple[Callable[[], Awaitable[Any]], str]]:
        """What has to run while the account is on; rooms add theirs when we come there."""
        return [(self._own_lane.run, "hands over"), (self.callers.run, "callers"), (self._visits.run, "rooms")]

    async def wait_settled(self) -> None:
        for lane in list(self._lanes.values()):
            async with lane.settling:
                pass

    def end(self) -> None:
        self._search.end()
        self.reception.close()
        for task in self._returning:
            task.cancel()
        self._visits.end()

    def begin(self, link: XmppLink) -> None:
        """A line is there."""
        self._link = link
        if not link.resumed:
            self.rooms.begin_anew()
            trusting = XmppSelf(self._account, self._settings.jid, self.has_archive)
            self.reception.me = trusting
            self._own_lane.begin(has_archive=self.has_archive)
            greet(link)
        self._visits.poke()

    def _make_lane(self, archive: str, settle: Callable[[Arrived], Awaitable[bool]]) -> ArchiveLane:
        marks = self._marks.get(archive, {})
        lane = ArchiveLane(archive, self._kept, self._host.wait_link, settle, self.changed.set, marks)
        self._lanes[archive] = lane
        return lane

    # --- what comes

    def hear(self, xml: Element) -> None:
        """Each message and presence, in order; it takes no time."""
        if xml.tag == f"{{{CLIENT}}}presence":
            self._hear_presence(xml)
            return
        try:
            inner = unwrap_carbon(xml, self.reception.me)
        except OddStanza as odd:
            _log.warning("A stanza is left out: %s.", odd)
            return
        stanza = xml if inner is None else inner
        giver = read_bare(stanza.get("from"))
        if stanza.get("type") == "error":
            if inner is None:
                self._take_bounce(stanza)
            return
        room = self.rooms.find(giver)
        if room is not None:
            self._hear_room(room, stanza)
        elif stanza.get("type") != "groupchat":
            own = self._settings.jid
            archive = read_archive_id(stanza, own if self.has_archive else "")
            self._own_lane.put(Arrived(stanza, archive, live=True))
            if giver and giver != own:
                self._host.wake(giver)

    def _hear_room(self, room: XmppRoom, stanza: Element) -> None:
        nick = read_resource(stanza.get("from"))
        id_ = stanza.get("id") or ""
        if stanza.get("type") == "groupchat" and nick == room.nick:
            for shown in {id_, read_origin(stanza)} - {""}:
                if self._book.find_chat(shown) == room.jid or wire_out.is_message_id(shown):
                    self._book.note_arrived(shown, room.jid)
                if self._link is not None:
                    self._link.note_shown(shown)
        if stanza.get("type") != "groupchat":
            if has(find(stanza, MUC_USER, "x"), MUC_USER, "invite"):
                self._own_lane.put(Arrived(stanza, live=True))
            return  # a whisper is nobody's that could be known
        servers = {self._settings.jid, self._settings.domain}
        if not room.joined or not self.rooms.is_new(room, stanza, servers):
            return  # what was said before we came is in the archive, or gone
        lane = self._lanes.get(room.jid)
        if lane is not None:
            archive = read_archive_id(stanza, room.jid if room.archive else "")
            lane.put(Arrived(stanza, archive, live=True, person=room.people.get(nick, "")))

    def _hear_presence(self, xml: Element) -> None:
        giver, kind = read_bare(xml.get("from")), xml.get("type")
        known = self._kept.occupants.get(giver, {})
        before = len(known)
        room, change = self.rooms.take_presence(xml)
        if len(known) != before:
            self.changed.set()
        if room is None:
            if kind == "subscribe" and giver:
                self.callers.note_request(giver)
            elif kind is None and giver != self._settings.jid:
                self._host.wake(giver)
            return
        if change is RoomChange.NONE and room.joined and read_resource(xml.get("from")) == room.nick:
            self._host.wake(room.jid)  # what we may do there has changed
        self._note_room(room, change)

    # --- rooms

    def _note_room(self, room: XmppRoom, change: RoomChange) -> None:
        if change is RoomChange.JOINED:
            self._come_in(room)
        elif change is RoomChange.MADE:
            self._leave_made(room)
        elif change is RoomChange.NICK_FREE and self._link is not None:
            self._link.put(wire_out.make_rename(room.jid, self.rooms.nick))
        elif change in (RoomChange.LEFT, RoomChange.REFUSED) and not room.named:
            self._forget_room(room)
        if change is not RoomChange.NONE:
            _log.info("The room %s: %s%s", room.jid, change.value, f" ({room.problem})" if room.problem else "")
            self._host.note_change()
        self._visits.poke()

    def _come_in(self, room: XmppRoom) -> None:
        lane = self._lanes.get(room.jid)
        if lane is None:
            lane = self._make_lane(room.jid, functools.partial(self.reception.settle_room, room))
            self._host.start(lane.run, f"hands over {room.jid}")
        lane.begin(has_archive=room.archive and room.occupants is not None)  # else nobody there would be known
        if room.archive and room.occupants is None:
            _log.warning(NO_IDS, room.jid)
        self._host.wake(room.jid)

    def _leave_made(self, room: XmppRoom) -> None:
        """There was no such room: a misspelt one is not to be made by us. It goes when we do."""
        if self._link is not None:
            self._link.put(wire_out.make_leave(room.jid, room.nick))
        self.rooms.put_off(room, "there is no such room")
        if not room.named:
            self._forget_room(room)

    def _forget_room(self, room: XmppRoom) -> None:
        """Nobody has named it in the settings: it takes an invitation to come again. What waits there waits."""
        self.rooms.forget(room)
        self._kept.rooms.pop(room.jid, None)
        self._kept.occupants.pop(room.jid, None)
        self.changed.set()

    async def _accept(self, jid: str, password: str, person: str) -> bool:
        """Somebody who was let in invites us; False: nobody says now whether that is a room. What is none never gets
        among the rooms: what its person writes would be taken for words in a room."""
        service = jid.partition("@")[2]
        if not self._settings.trusts_room(jid):
            own = service == self._settings.domain
            await self._decline(person, (INVITED_NOWHERE if own else ELSEWHERE).format(jid, service))
            return True
        try:
            fits = await is_room(await self._host.wait_link(), jid)
        except XmppTrouble as trouble:
            _log.info("Whether %s is a room could not be asked now: %s", jid, trouble)
            return False
        if not fits:
            await self._decline(person, INVITED_NOWHERE.format(jid))
            return True
        _log.info("Hermes was invited to the room %s by %s.", jid, person)
        room = self.rooms.add(jid, password)
        if not room.named:
            self._kept.rooms[jid] = room.password  # it is ours until it says no: its server may be busy for long
            self.changed.set()
        self._visits.poke()
        return True

    async def _decline(self, person: str, words: str) -> None:
        try:
            await self._host.send(Part(Address(SPEC.name, self._account, person), words, markup="plain"))
        except DeliveryFailure as problem:
            _log.warning("Nobody was told why an invitation was not accepted: %s", problem)

    # --- small answers

    def _consent(self, person: str) -> None:
        if self._link is not None:
            self._link.put(wire_out.make_consent(person))

    def _receipt(self, client: str, id_: str) -> None:
        if self._link is not None:
            self._link.put(wire_out.make_receipt(client, id_))

    def make_reply(self, stanza: Element, part: Part) -> Element:
        """In a room it names the message that it answers."""
        client = self.reception.find_client(part.reply_to) if part.address.kind != "dm" else None
        return wire_out.add_reply(stanza, client.client, part.reply_to) if client is not None else stanza

    # --- what became of our own messages

    def _take_bounce(self, stanza: Element) -> None:
        """Only whoever it went to may say that it did not arrive."""
        read = read_direct(Arrived(stanza), self.reception.me)
        assert isinstance(read, Bounced)
        chat = self._book.find_chat(read.id)
        room = self.rooms.find(chat)
        if not chat or chat != read.chat or (room is not None and read_resource(stanza.get("from"))):
            return  # of a room the room alone: everybody there knows the ids of our messages
        if room is not None and read.trouble.condition == "not-acceptable":
            room.joined, room.asked = False, 0.0  # it does not know us any more
            self._visits.poke()
        arrived = self._book.has_arrived(read.id)
        self._book.note_unsent(read.id)
        told = self._link is not None and self._link.note_refused(read.id, read.trouble)
        if arrived and not told:
            address = Address(SPEC.name, self._account, chat, "dm" if room is None else "group")
            task = asyncio.get_running_loop().create_task(self._return(address, read), name="xmpp takes back")
            self._returning.add(task)
            task.add_done_callback(self._returning.discard)

    async def _return(self, address: Address, bounced: Bounced) -> None:
        """It waits until it is woken: by its person, or, where time may help, after that time."""
        failure = as_failure(bounced.trouble, address.chat)
        seconds = failure.seconds if isinstance(failure, NotNow) else None
        if isinstance(failure, NotNow):
            failure = NotNow(str(failure))
            self._host.note_away(address)
        for _ in range(BACK_TRIES):
            if await self._core.take_back(address, bounced.id, failure):
                break
            await asyncio.sleep(BACK_SECONDS)
        if seconds is not None:
            await asyncio.sleep(seconds)
            self._host.wake(address.chat)

    async def find_sent(self, link: XmppLink, address: Address, id_: str) -> bool | None:
        """Whether a message of ours stands in a chat; None: nobody can say, and it may."""
        chat, doubt = address.chat, self._book.find_doubt(id_)
        if self._book.has_arrived(id_):
            return True
        room = self.rooms.find(chat) if address.kind != "dm" else None
        if room is not None and not room.archive:
            doubted = bool(doubt) or id_ in self._kept.tried.get(chat, ())
            return await self._find_shown(link, room, id_) if doubted else False
        if not self.has_archive and room is None:
            return False
        try:
            await self._search.settle(link, chat if room is not None else self._settings.jid, doubt)
        except XmppTrouble as trouble:
            if trouble.passes:
                raise
            _log.warning("The archive of %s cannot be searched: %s", chat, trouble)
            return None if doubt else False
        return self._book.has_arrived(id_)

    async def _find_shown(self, link: XmppLink, room: XmppRoom, id_: str) -> bool | None:
        """A room without an archive shows what it has just got to a line that goes on, and its last messages to one
        that begins. It answers a question behind all of that: then we have seen what there is to see."""
        try:
            await ask_room(link, room.jid)
        except XmppTrouble as trouble:
            if trouble.kind is not XmppKind.REFUSED:
                raise
        return True if self._book.has_arrived(id_) else None

    def note_try(self, address: Address, id_: str) -> bool:
        """Whether it has to be kept that this goes to a room: killed before the store knows that it arrived, the next
        process could not say."""
        room = self.rooms.find(address.chat) if address.kind != "dm" else None
        if room is None or room.archive:
            return False
        tried = self._kept.tried.setdefault(address.chat, [])
        self._kept.tried[address.chat] = [*(one for one in tried if one != id_), id_][-MOST_TRIED:]
        return True

    def note_unsent(self, id_: str) -> None:
        """It certainly did not arrive."""
        tried = self._kept.tried.get(self._book.find_chat(id_), [])
        self._book.note_unsent(id_)
        if id_ in tried:
            tried.remove(id_)
            self.changed.set()

    async def _look_up_message(self, address: Address, sender: str, id_: str) -> str:
        """The archive's name of somebody's message; empty: it is not found, or not soon."""
        room = self.rooms.find(address.chat) if address.kind != "dm" else None
        if not (room.archive if room is not None else self.has_archive):
            return ""
        link = await self._host.wait_link()
        try:
            async with asyncio.timeout(LOOK_UP_SECONDS):
                return await self._search_end(link, room, address.chat, sender, id_)
        except TimeoutError:
            _log.warning("The archive of %s is slow: what a message corrects is not looked for.", address.chat)
        except XmppTrouble as trouble:
            if trouble.kind is not XmppKind.REFUSED:
                raise
        return ""

    async def _search_end(self, link: XmppLink, room: XmppRoom | None, chat: str, sender: str, id_: str) -> str:
        archive, before = chat if room is not None else "", ""
        for _ in range(MOST_PAGES):
            page = await link.read_archive(archive, before=before, with_="" if archive else chat)
            for one in page.messages:
                known = (room.occupants or {}) if room is not None else None
                writer = read_bare(one.stanza.get("from")) if known is None else read_writer(one.stanza, known)
                if writer == sender and id_ in (one.stanza.get("id"), read_origin(one.stanza)):
                    return one.id
            if page.complete or not page.messages:
                break
            before = page.first
        return ""
