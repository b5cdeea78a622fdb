"""The rooms of an account while the process lives: which we are in, and who is there. Their servers tell all of it
again when we come."""

import math
import time
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from xml.etree.ElementTree import Element

from gateway.platforms.xmpp.refusals import XmppTrouble, judge_join, read_error
from gateway.platforms.xmpp.wire import read_occupant
from gateway.platforms.xmpp.xmpp_xml import (
    ARCHIVE,
    CLIENT,
    DELAY,
    MUC_USER,
    OCCUPANTS,
    find,
    find_all,
    has,
    read_bare,
    read_resource,
)

AGAIN_SECONDS = 300.0  # until a room that did not take us, or put us out, is tried again
SOON_SECONDS = 60.0  # until one is that was too busy, or silent
MOST_OCCUPANTS = 200  # of a room who are known again when they are gone
MOST_OWN = 500  # of our messages in a room whose ids are remembered
CREATED, SELF, KICKED, BANNED, RENAMED = "201", "110", "307", "301", "303"
#: Why we are not in a room any more, where nobody means it (some servers call that a kick as well), and where
#: somebody does.
_LOST: Mapping[str, str] = {"332": "its server is being shut down", "333": "its server lost us"}
_PUT_OUT: Mapping[str, str] = {
    KICKED: "Hermes was put out",
    BANNED: "Hermes was banned",
    "321": "Hermes is no member any more",
    "322": "it is for members only now",
}


class RoomChange(StrEnum):
    NONE = "none"
    JOINED = "joined"
    MADE = "made"  # there was no such room, and our coming has made it
    LEFT = "left"  # somebody wants us out
    REFUSED = "refused"  # for good
    PUT_OFF = "put off"  # we are not in it now
    NICK_FREE = "our nick is free"  # whoever had it has gone, or has another one


@dataclass(slots=True)
class XmppRoom:
    jid: str
    nick: str
    password: str = ""
    named: bool = False  # by the settings: it is tried again and again
    joined: bool = False
    asked: float = 0.0  # when we asked to be let in, and have no answer yet
    again_at: float = 0.0
    told: bool = False  # since we came it has shown what it remembers, and its subject behind that
    archive: bool = False  # it keeps what was said, and gives ids to it
    problem: str = ""
    people: dict[str, str] = field(default_factory=dict)  # by nick: who it is, where the room tells
    occupants: dict[str, str] | None = None  # by the id that the room gives somebody for good: who it is; None: no ids
    own: dict[str, None] = field(default_factory=dict)  # ids, as the room gave them, of what we said


class XmppRooms:
    def __init__(
        self,
        nick: str = "",
        named: Mapping[str, str] | None = None,
        kept: Mapping[str, str] | None = None,
        occupants: dict[str, dict[str, str]] | None = None,
    ) -> None:
        """`named` and `kept`: the password of each room; `occupants`: by room, who had which id there."""
        self.nick = nick
        self._occupants = occupants if occupants is not None else {}
        self._rooms: dict[str, XmppRoom] = {}
        for room, password in (named or {}).items():
            self._rooms[room] = XmppRoom(room, nick, password, named=True)
        for room, password in (kept or {}).items():
            self._rooms.setdefault(room, XmppRoom(room, nick, password))

    @property
    def problem(self) -> str:
        """What keeps us out of rooms, in a sentence."""
        every = [f"{room.jid}: {room.problem}" for room in self._rooms.values() if room.problem]
        return f"Not in every room: {'; '.join(every)}. Each is tried again within five minutes." if every else ""

    def find(self, jid: str) -> XmppRoom | None:
        return self._rooms.get(jid)

    def is_in(self, jid: str) -> bool:
        return jid in self._rooms and self._rooms[jid].joined

    def list_joined(self) -> list[XmppRoom]:
        return [room for room in self._rooms.values() if room.joined]

    def list_due(self, now: float, patience: float) -> list[XmppRoom]:
        """Those that we are not in and may ask now."""
        out = [room for room in self._rooms.values() if not room.joined and room.again_at <= now]
        return [room for room in out if not room.asked or room.asked + patience <= now]

    def add(self, jid: str, password: str) -> XmppRoom:
        """Somebody invites us: it is tried at once."""
        room = self._rooms.setdefault(jid, XmppRoom(jid, self.nick, password))
        room.password = password or room.password
        room.again_at = room.asked = 0.0
        return room

    def begin_anew(self) -> None:
        """Another session: we are nowhere yet, and may be called what we want to be."""
        for room in self._rooms.values():
            room.joined, room.asked, room.nick = False, 0.0, self.nick
            room.people.clear()

    def find_other_name(self, room: XmppRoom) -> str:
        """The nick that we want and have not, while nobody there has it: whoever says it means us."""
        return "" if self.nick in (room.nick, *room.people) else self.nick

    def is_new(self, room: XmppRoom, stanza: Element, servers: Collection[str]) -> bool:
        """Whether something is said now, and not shown to whoever comes as a memory: that carries a time which the room
        has put there, or comes before its subject (XEP-0045) with anybody's time. Behind the subject any other time
        says that it was late on its way: a client's own, or that of our `servers`, who send again what was cut off."""
        givers = {one.get("from") or "" for one in find_all(stanza, DELAY, "delay")}
        memory = room.jid in givers or (not room.told and not givers.issubset(servers))
        subject = has(stanza, CLIENT, "subject") and not has(stanza, CLIENT, "body")
        room.told = room.told or subject or not memory
        return not memory

    def note_offers(self, room: XmppRoom, offered: Collection[str]) -> None:
        """What a room says of itself before we come."""
        room.archive = ARCHIVE in offered
        room.occupants = self._occupants.setdefault(room.jid, {}) if OCCUPANTS in offered else None

    def note_own(self, jid: str, archive: str) -> None:
        room = self._rooms.get(jid)
        if room is not None and archive:
            room.own[archive] = None
            while len(room.own) > MOST_OWN:
                del room.own[next(iter(room.own))]

    def put_off(self, room: XmppRoom, problem: str, seconds: float = AGAIN_SECONDS) -> None:
        room.joined, room.problem = False, problem
        room.asked, room.again_at = 0.0, time.monotonic() + seconds
        room.people.clear()

    def forget(self, room: XmppRoom) -> None:
        """It takes an invitation to come again."""
        room.again_at, room.problem = math.inf, ""

    def take_presence(self, xml: Element) -> tuple[XmppRoom | None, RoomChange]:
        """What a presence changes: who is there, and whether we are."""
        room, nick, kind = self._rooms.get(read_bare(xml.get("from"))), read_resource(xml.get("from")), xml.get("type")
        if room is None:
            return None, RoomChange.NONE
        if kind == "error":
            return room, self._take_refusal(room, xml)
        told = find(xml, MUC_USER, "x")
        codes = {status.get("code") for status in find_all(told, MUC_USER, "status")}
        item = find(told, MUC_USER, "item")
        own = SELF in codes or (room.joined and nick == room.nick)
        if kind == "unavailable":
            room.people.pop(nick, None)
            if not room.joined:
                return room, RoomChange.NONE
            if not own:
                return room, RoomChange.NICK_FREE if nick == self.nick else RoomChange.NONE
            if RENAMED in codes and item is not None:
                room.nick = item.get("nick") or room.nick
                return room, RoomChange.NONE
            return room, self._note_left(room, codes)
        room.people[nick] = read_bare(item.get("jid")) if item is not None else ""
        if room.occupants is not None:
            _note_occupant(room.occupants, read_occupant(xml), room.people[nick])
        if SELF not in codes or room.joined:
            return room, RoomChange.NONE
        room.nick, room.joined, room.told, room.problem = nick, True, False, ""
        return room, RoomChange.MADE if CREATED in codes else RoomChange.JOINED

    def _note_left(self, room: XmppRoom, codes: Collection[str | None]) -> RoomChange:
        told = [words for code, words in {**_LOST, **_PUT_OUT}.items() if code in codes]
        meant = bool(told) and told[0] in _PUT_OUT.values()
        self.put_off(room, told[0] if told else "Hermes is not in it", AGAIN_SECONDS if meant else 0.0)
        return RoomChange.LEFT if meant else RoomChange.PUT_OFF

    def _take_refusal(self, room: XmppRoom, xml: Element) -> RoomChange:
        trouble = read_error(xml)
        if room.joined:
            return RoomChange.NONE  # a nick, or something else that we did not get: we are still there
        if trouble.condition == "conflict":
            room.nick, room.asked = f"{room.nick[:60]}_", 0.0  # somebody else has the nick: another one, at once
            return RoomChange.NONE
        return self.note_refusal(room, trouble)

    def note_refusal(self, room: XmppRoom, trouble: XmppTrouble) -> RoomChange:
        """We are not let in, or nobody says whether."""
        words, for_good = judge_join(trouble)
        self.put_off(room, words, AGAIN_SECONDS if for_good else SOON_SECONDS)
        return RoomChange.REFUSED if for_good else RoomChange.PUT_OFF


def _note_occupant(occupants: dict[str, str], id_: str, person: str) -> None:
    """An id that two had is nobody's."""
    if not id_ or not person:
        return
    known = occupants.pop(id_, person)
    occupants[id_] = person if known == person else ""
    while len(occupants) > MOST_OCCUPANTS:
        del occupants[next(iter(occupants))]
