"""Who looks at which conversation, and what each of them is given: every message and every answer, once, in order."""

import asyncio
import itertools
from collections import OrderedDict
from collections.abc import Collection, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace

from gateway.platforms.face import Asking, Begun, Dealt, Heard, LiveEvent, Moved, NotNow, Part, Taken, Titled
from gateway.platforms.local.attached import Attached, Leaving
from gateway.platforms.local.house import LocalHouse, OpenedConversation, StoredRow
from gateway.platforms.local.missed import find_missed, read_rows
from hermes_base import local_wire as wire
from hermes_base.chat import Asked, Event, Said
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import FILE, NOTE, QUESTION, Address, FileRef, Inbound, Outgoing
from hermes_base.keys import parse_key

PLATFORM = "local"
CONFIRM_SECONDS = 10.0
_MOST_SENDERS = 1_000
MISSED_AT_ONCE = 100  # of what was missed, before it is seen whether the client reads


def address_of(account: str, conversation: str) -> Address:
    """Where a client of this conversation is spoken to; the chat of a foreign conversation is its whole key."""
    key = parse_key(conversation)
    own = key.platform == PLATFORM and key.kind == "dm" and key.thread is None
    return Address(PLATFORM, account, key.chat if own else conversation)


class Room:
    """The clients that look at one conversation. The lock keeps events and rows in the order in which they came."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        self.clients: list[Attached] = []
        self.holders = 0  # who is on the way in, or has something to say to whoever is there
        self.lock = asyncio.Lock()
        self.senders: OrderedDict[int, str] = OrderedDict()  # who sent which of the newest messages
        self.moves: dict[int, str] = {}  # moves of messages whose sender is not known yet


class Rooms:
    """All rooms of one account, by chat."""

    def __init__(self, house: LocalHouse, account: str, *, keyed: bool) -> None:
        self._house = house
        self._account = account
        self._keyed = keyed
        self._rooms: dict[str, Room] = {}
        self._asked: dict[int, asyncio.Future[None]] = {}  # rows that delivery waits for
        self._numbers = itertools.count(1)  # of parts that come from no row

    def is_there(self, chat: str) -> bool:
        return chat in self._rooms and bool(self._rooms[chat].clients)

    # --- coming and going

    async def enter(self, client: Attached, opened: OpenedConversation) -> None:
        """Let a client in: welcome it, and tell it what it missed. It reads that in its own time, and joins the room
        when it is abreast, so nobody else waits for it."""
        after = client.hello.after
        waiting: Collection[int] = ()
        with self._hold(self._room_of(opened.conversation)) as room:
            if after is not None and self._follows(client):
                waiting = await self._catch_up(client, opened, after)
            async with room.lock:
                await self._let_in(client, room, opened, waiting)

    async def _let_in(self, client: Attached, room: Room, opened: OpenedConversation, waiting: Collection[int]) -> None:
        """The last step into a room, whose lock is held: from here on the client hears what the others hear."""
        newest = wire.Cursor(*await self._house.latest(opened.conversation))
        open_now = tuple(await self._house.open_seqs(opened.conversation))
        if client.hello.after is None or not self._follows(client):
            self._welcome(client, opened, newest, open_now)
        else:
            newest = await self._tell_missed(client, opened.conversation, client.caught)
        self._join(client, room, newest.outbox)
        if open_now:
            client.skip_rest()
        if dealt := tuple(seq for seq in waiting if seq not in open_now):
            client.tell_dealt(wire.DealtWith(dealt, newest.outbox))  # while it caught up
        if opened.question is not None:
            client.push(wire.Happened(Asked(opened.question)))

    def leave(self, client: Attached) -> None:
        """Forget a client; whoever waits for it alone waits no longer."""
        if not client.conversation:
            return
        chat = address_of(self._account, client.conversation).chat
        room = self._rooms.get(chat)
        client.conversation, client.leaving = "", None
        client.forget_held()
        rows, client.given = client.given, {}
        if room is None or client not in room.clients:
            return
        room.clients.remove(client)
        if not room.clients:
            self._close_empty(room)
            for row in rows:
                self._settle_asked(row, DeliveryFailure("The client went away before it confirmed the message."))

    def note_sender(self, conversation: str, seq: int, client: Attached) -> None:
        """Remember whose message it was; a move that came first is caught up with."""
        room = self._rooms.get(address_of(self._account, conversation).chat)
        if room is None:
            return
        _remember(room, seq, client.hello.client)
        if seq in room.moves and client.conversation == conversation:
            client.leaving = Leaving(seq, room.moves.pop(seq))

    def _room_of(self, conversation: str) -> Room:
        return self._rooms.setdefault(address_of(self._account, conversation).chat, Room(conversation))

    @contextmanager
    def _hold(self, room: Room) -> Iterator[Room]:
        """A room stays the conversation's while somebody holds it, also when the last client leaves: whoever comes
        meanwhile comes into the same one."""
        room.holders += 1
        try:
            yield room
        finally:
            room.holders -= 1
            self._close_empty(room)

    def _close_empty(self, room: Room) -> None:
        if not room.clients and not room.holders:
            self._rooms.pop(address_of(self._account, room.conversation).chat, None)

    def _join(self, client: Attached, room: Room, newest: int) -> None:
        if client.ended:
            return  # it went away meanwhile
        room.clients.append(client)
        client.conversation = room.conversation
        client.cursor = newest

    def _follows(self, client: Attached) -> bool:
        """Whether it knows repetitions; one that does not is given what delivery sends, and nothing else."""
        return self._keyed and client.hello.keys

    def _welcome(
        self, client: Attached, opened: OpenedConversation, newest: wire.Cursor, waiting: tuple[int, ...]
    ) -> None:
        version = self._house.version
        client.push(wire.Welcome(opened.conversation, version, opened.banner, newest, waiting, opened.hint))

    async def _catch_up(self, client: Attached, opened: OpenedConversation, after: wire.Cursor) -> Collection[int]:
        """Welcome it and push what it missed, as fast as it reads; the messages that it was told are open."""
        newest = wire.Cursor(*await self._house.latest(opened.conversation))
        waiting = tuple(await self._house.open_seqs(opened.conversation))
        self._welcome(client, opened, newest, waiting)
        client.cursor = min(after.outbox, newest.outbox)
        before, client.caught = None, wire.Cursor(client.cursor, after.seq)
        while client.caught != before and not client.ended:
            before = client.caught
            client.caught = await self._tell_missed(client, opened.conversation, before, MISSED_AT_ONCE)
            await client.wait_for_room()
        return waiting

    async def _tell_missed(
        self, client: Attached, conversation: str, after: wire.Cursor, most: int | None = None
    ) -> wire.Cursor:
        """Push what came after the cursor, or the first of it; up to where that is."""
        row, seq, count = after.outbox, after.seq, 0
        async with aclosing(find_missed(self._house, conversation, after)) as missed:
            async for item in missed:
                if isinstance(item, tuple):
                    seq = item[0]
                    self._tell_said(client, *item)
                else:
                    row = item.id
                    self._push_row(client, item.id, item.outgoing, str(item.id))
                count += 1
                if count == most:
                    break
        return wire.Cursor(row, seq)

    # --- live events

    async def show(self, conversation: str, event: LiveEvent) -> None:
        room = self._rooms.get(address_of(self._account, conversation).chat)
        if room is None:
            return
        with self._hold(room):
            async with room.lock:
                await self._show_in(room, event)
            await self._move_leavers(room)

    async def _show_in(self, room: Room, event: LiveEvent) -> None:
        match event:
            case Heard(seq, inbound):
                _remember(room, seq, _client_of(inbound))
                for client in room.clients:
                    self._tell_said(client, seq, inbound)
            case Moved(seq, target):
                _plan_move(room, seq, target)
            case Dealt(seqs):
                for client in list(room.clients):
                    await self._tell_dealt(client, room, seqs)
            case Begun() | Taken() | Asking() | Titled():
                pass  # clients follow the outbox, where questions stand in their place
            case _:
                _show_all(room, event)

    def _tell_said(self, client: Attached, seq: int, inbound: Inbound) -> None:
        if _client_of(inbound) != client.hello.client:
            by = inbound.sender_name or ("" if inbound.address.platform == PLATFORM else inbound.sender)
            client.push(wire.Happened(Said(inbound.text, by), seq))

    async def _tell_dealt(self, client: Attached, room: Room, seqs: tuple[int, ...]) -> None:
        """Tell the client once it has the rows; one that leaves is told by its move."""
        newest, ours = await self._tell_foreign_rows(client, room)
        leaving = client.leaving
        if leaving is not None and leaving.seq in seqs:
            leaving.row = max(ours, *client.given) if client.given else ours
        else:
            client.tell_dealt(wire.DealtWith(seqs, newest))

    async def _tell_foreign_rows(self, client: Attached, room: Room) -> tuple[int, int]:
        """Push rows for other platforms up to the first one that delivery will bring; the newest row that comes, and
        the newest that delivery brings (0: none)."""
        newest, ours = client.cursor, 0
        async for row in read_rows(self._house, room.conversation, client.cursor):
            if self._is_ours(row):
                ours = newest = row.id
            elif self._follows(client):
                newest = row.id
                if not ours:
                    self._push_row(client, row.id, row.outgoing, str(row.id))
        return newest, ours

    def _is_ours(self, row: StoredRow) -> bool:
        return row.outgoing.address.account_key == f"{PLATFORM}:{self._account}"

    def _push_row(self, client: Attached, row: int, outgoing: Outgoing, key: str) -> None:
        client.deliver(row, outgoing, key if self._follows(client) else "")

    # --- delivery

    async def send(self, part: Part, file: FileRef | None = None) -> str:
        """Give the part to everyone in its room; done when one of them has confirmed it."""
        row = part.row or -next(self._numbers)
        outgoing = _outgoing_of(part, file)
        room = self._rooms.get(part.address.chat)
        if room is None:
            raise NotNow("Nobody looks at this conversation now.")
        with self._hold(room):
            return await self._send_to(room, row, outgoing, part.key)

    async def _send_to(self, room: Room, row: int, outgoing: Outgoing, key: str) -> str:
        confirmed = self._asked.setdefault(row, asyncio.get_running_loop().create_future())
        try:
            async with room.lock:
                for client in list(room.clients):
                    await self._give(client, room, row, outgoing, key)
                if not room.clients:
                    raise NotNow("Nobody looks at this conversation now.")
                if any(client.given.get(row) for client in room.clients):
                    self._settle_asked(row)
            await asyncio.wait_for(asyncio.shield(confirmed), CONFIRM_SECONDS)
        except TimeoutError as error:
            raise DeliveryFailure("No client confirmed the message.") from error
        finally:
            self._forget_asked(row)
        for client in room.clients:
            client.given.pop(row, None)
        await self._move_leavers(room, row)
        return str(row) if self._keyed else f"{row}.{next(self._numbers)}"  # there a repetition is another message

    async def _give(self, client: Attached, room: Room, row: int, outgoing: Outgoing, key: str) -> None:
        """Push the row, what came before it, and what came after it for other platforms, in order."""
        if row in client.given:
            return  # it has it from this connection
        client.given[row] = False
        around = await self._find_around(client, room, row)
        for stored in around:
            if stored.id < row:
                self._push_row(client, stored.id, stored.outgoing, str(stored.id))
        self._push_row(client, row, outgoing, key or str(row))
        for stored in around:
            if stored.id > row:
                self._push_row(client, stored.id, stored.outgoing, str(stored.id))

    async def _find_around(self, client: Attached, room: Room, row: int) -> list[StoredRow]:
        """Rows that the client has not been given, up to the next one that delivery will bring."""
        found: list[StoredRow] = []
        if row <= client.cursor or not self._follows(client):
            return found
        async for stored in read_rows(self._house, room.conversation, client.cursor):
            if stored.id > row and self._is_ours(stored):
                break
            found.append(stored)
        return found

    def confirm(self, client: Attached, row: int) -> None:
        if row in client.given:
            client.given[row] = True
            self._settle_asked(row)

    def _settle_asked(self, row: int, failure: DeliveryFailure | None = None) -> None:
        waiting = self._asked.get(row)
        if waiting is None or waiting.done():
            return
        waiting.set_exception(failure) if failure is not None else waiting.set_result(None)

    def _forget_asked(self, row: int) -> None:
        waiting = self._asked.pop(row, None)
        if waiting is not None and waiting.done() and not waiting.cancelled():
            waiting.exception()  # it was seen: asyncio must not complain
        elif waiting is not None:
            waiting.cancel()

    # --- moving

    async def _move_leavers(self, room: Room, sent: int | None = None) -> None:
        """Clients whose farewell has arrived go where their message sent them."""
        for client in list(room.clients):
            leaving = client.leaving
            if leaving is None or leaving.row is None:
                continue
            if leaving.row == 0 or (sent is not None and sent >= leaving.row):
                await self._move(client, leaving)

    async def _move(self, client: Attached, leaving: Leaving) -> None:
        self.leave(client)
        client.conversation = leaving.target  # what it says from now on goes there
        with self._hold(self._room_of(leaving.target)) as room:
            async with room.lock:
                cursor = wire.Cursor(*await self._house.latest(leaving.target))
                self._join(client, room, cursor.outbox)
                client.push(wire.MovedTo(leaving.target, cursor))
        self._house.wake_delivery(address_of(self._account, leaving.target))


def _remember(room: Room, seq: int, client: str) -> None:
    room.senders[seq] = client
    while len(room.senders) > _MOST_SENDERS:
        room.senders.popitem(last=False)


def _plan_move(room: Room, seq: int, target: str) -> None:
    sender = room.senders.get(seq)
    if sender is None:
        room.moves[seq] = target
    for client in room.clients:
        if sender is not None and client.hello.client == sender:
            client.leaving = Leaving(seq, target)


def _show_all(room: Room, event: Event) -> None:
    for client in room.clients:
        client.show(event)


def _client_of(inbound: Inbound) -> str:
    """Which client sent it; empty: it came another way."""
    return inbound.message.partition("-")[0] if inbound.address.platform == PLATFORM else ""


def _outgoing_of(part: Part, file: FileRef | None) -> Outgoing:
    """The message as the client shows it: the text as delivery has rendered it, a mark of repetition included."""
    if part.outgoing is not None:
        return replace(part.outgoing, text=part.text, file=file or part.outgoing.file)
    kind = FILE if file is not None else QUESTION if part.question else NOTE
    return Outgoing(part.address, part.text, kind, question=part.question, choices=part.choices, file=file)
