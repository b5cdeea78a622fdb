"""Hands over what people said: in order within an archive, archives beside each other. What is stored, or whose sender
knows that it is not, is settled."""

import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from gateway.platforms.face import Core, Part
from gateway.platforms.refusal_notes import RefusalNotes
from gateway.platforms.xmpp import SPEC
from gateway.platforms.xmpp.callers import XmppCallers
from gateway.platforms.xmpp.wire import (
    Arrived,
    Invited,
    Locked,
    OddStanza,
    Reflected,
    StanzaRead,
    XmppPassed,
    XmppRoomView,
    XmppSaid,
    XmppSelf,
    read_direct,
    read_room,
)
from gateway.platforms.xmpp.xmpp_rooms import XmppRoom, XmppRooms
from hermes_base.inbound import Address, Inbound

_log = logging.getLogger(__name__)
MOST_REMEMBERED = 1_000
MOST_LOOKS, LOOK_SECONDS = 5, 60.0  # so often within such a time an archive is searched for what one person corrects
CANNOT_READ = (
    "Your message is encrypted from end to end (OMEMO or OpenPGP) and cannot be read here. Switch the encryption off "
    "for this chat, and send it again."
)


@dataclass(frozen=True, slots=True)
class ClientName:
    """What a message is called by its client, for receipts, markers and replies."""

    id: str
    client: str
    markable: bool


class XmppReception:
    def __init__(
        self,
        me: XmppSelf,
        core: Core,
        rooms: XmppRooms,
        callers: XmppCallers,
        send: Callable[[Part], Awaitable[str]],
        receipt: Callable[[str, str], None],
        look_up: Callable[[Address, str, str], Awaitable[str]],
    ) -> None:
        """`receipt`: tell a client that a message of this id arrived; `look_up`: the archive's name of a message, by
        its chat, its sender and its client's id; empty: it is not known."""
        self.me = me
        self._core = core
        self._rooms = rooms
        self._callers = callers
        self._receipt = receipt
        self._look_up = look_up
        self._notes = RefusalNotes(send)
        self._locked_notes = RefusalNotes(send)  # what others say in clear makes them no news
        self._names: dict[tuple[str, str, str], str] = {}  # chat, sender, client's id: the message
        self._clients: dict[str, ClientName] = {}  # by message
        self._looked: dict[str, tuple[float, ...]] = {}  # by sender: when something was looked up for them

    def close(self) -> None:
        self._notes.close()
        self._locked_notes.close()

    def find_client(self, message: str) -> ClientName | None:
        return self._clients.get(message)

    async def settle_direct(self, arrived: Arrived) -> bool:
        return await self._settle(arrived, None)

    async def settle_room(self, room: XmppRoom, arrived: Arrived) -> bool:
        return await self._settle(arrived, room)

    async def _settle(self, arrived: Arrived, room: XmppRoom | None) -> bool:
        """False: it is to be settled again."""
        read = self._read(arrived, room)
        try:
            match read:
                case XmppSaid():
                    return await self._take_said(read)
                case Locked():
                    return await self._take_locked(read.inbound)
                case Invited():
                    self._callers.note_invitation(read)
                case Reflected() if room is not None:
                    self._rooms.note_own(room.jid, read.archive)
                case XmppPassed():
                    _log.debug("A stanza is ignored: %s.", read.reason)
        except Exception:  # noqa: BLE001 - the boundary to the gateway: the message is tried again
            _log.exception("A message could not be handed over; it is tried again.")
            return False
        return True

    def _read(self, arrived: Arrived, room: XmppRoom | None) -> StanzaRead:
        """What cannot be read now never can: it is left out, or nobody behind it would be heard."""
        try:
            if room is None:
                return read_direct(arrived, self.me)
            other, known = self._rooms.find_other_name(room), room.occupants or {}
            view = XmppRoomView(room.jid, room.nick, other, room.archive, frozenset(room.own), known)
            return read_room(arrived, self.me, view)
        except Exception as error:  # noqa: BLE001 - the boundary to what others wrote; their words are in no log
            what = str(error) if isinstance(error, OddStanza) else type(error).__name__
            _log.warning("A stanza cannot be read (%s); it is left out.", what)
            return XmppPassed("it cannot be read")

    async def _take_said(self, said: XmppSaid) -> bool:
        inbound = said.inbound
        place = (inbound.address.chat, inbound.sender)
        if said.corrects:
            original = self._names.get((*place, said.corrects)) or await self._look_for(inbound, said.corrects)
            if original:
                revision = f"{int(inbound.received * 1000)}-{inbound.message}"
                inbound = replace(inbound, message=original, revision=revision)
        if not await self._hand_over(inbound):
            return False
        if said.id:
            _remember(self._names, (*place, said.id), inbound.message)
            _remember(self._clients, inbound.message, ClientName(said.id, said.client, said.markable))
        if said.receipt and said.id and await self._core.knows(SPEC.name, inbound.sender):
            self._receipt(said.client, said.id)
        return True

    async def _look_for(self, inbound: Inbound, corrected: str) -> str:
        """The archive's name of what a correction corrects; empty: it is a message of its own. Everybody behind it
        waits for that, so nothing is looked up for strangers, and little for one person."""
        sender, now = inbound.sender, time.monotonic()
        looked = [at for at in self._looked.get(sender, ()) if now - at < LOOK_SECONDS]
        if len(looked) >= MOST_LOOKS or not await self._core.knows(SPEC.name, sender):
            return ""
        found = await self._look_up(inbound.address, sender, corrected)
        _remember(self._looked, sender, (*looked, now))
        if found:
            _remember(self._names, (inbound.address.chat, sender, corrected), found)
        return found

    async def _take_locked(self, inbound: Inbound) -> bool:
        """A stranger gets a code as for any other message; whoever is known hears what to do."""
        if not await self._core.knows(SPEC.name, inbound.sender):
            return inbound.address.kind != "dm" or await self._hand_over(inbound)
        note = Part(inbound.address, CANNOT_READ, key=f"locked {inbound.ext_id}", markup="plain")
        return await self._locked_notes.tell(note)

    async def _hand_over(self, inbound: Inbound) -> bool:
        """True when the message is stored, or its sender knows that it is not; otherwise it comes again."""
        return await self._notes.settle(inbound, await self._core.take(inbound))


def _remember(memory: dict, key: object, value: object) -> None:  # type: ignore[type-arg]
    memory[key] = value
    while len(memory) > MOST_REMEMBERED:
        del memory[next(iter(memory))]
