"""Who looks at which conversation, and what each of them is given: every message and every answer, once, in order."""

import asyncio
import itertools
import logging
from collections import OrderedDict, deque
from collections.abc import Callable, Coroutine, Iterator
from contextlib import aclosing, contextmanager
from dataclasses import replace
from typing import Any

from gateway.platforms.face import Asking, Begun, Dealt, Heard, Judged, LiveEvent, Moved, NotNow, Part, Taken, Titled
from gateway.platforms.local.attached import Attached, Leaving
from gateway.platforms.local.house import LocalHouse, OpenedConversation, StoredRow
from gateway.platforms.local.missed import find_missed, read_rows
from hermes_base import local_wire as wire
from hermes_base.chat import Asked, ReasoningDelta, Said, TextDelta
from hermes_base.conversation_key import parse_key
from hermes_base.errors import DeliveryFailure, HermesError
from hermes_base.inbound import ANSWER, FILE, NOTE, QUESTION, Address, FileRef, Inbound, Outgoing

log = logging.getLogger(__name__)

PLATFORM = "local"
CONFIRM_SECONDS = 10.0
_MOST_SENDERS = 1_000
_PAUSE = 0.5  # before the store is asked again
#: Events that wait for the store in one conversation; from here on pieces of text are dropped, since the answer comes
#: whole, and from twice as many on everything is: whoever looks again reads the store.
MOST_WAITING = 5_000
MISSED_AT_ONCE = 100  # of what was missed, before it is seen whether the client reads


def address_of(account: str, conversation: str) -> Address:
    """Where a client of this conversation is spoken to; the chat of a foreign conversation is its whole key."""
    key = parse_key(conversation)
    own = key.platform == PLATFORM and key.kind == "dm" and key.thread is None
    return Address(PLATFORM, account, key.chat if own else conversation)


class Viewers:
    """Clients that look at one conversation. The lock keeps events and rows in the order in which they came."""

    def __init__(self, conversation: str) -> None:
        self.conversation = conversation
        self.clients: list[Attached] = []
        self.holders = 0  # who is on the way in, or has something to say to whoever is there
        self.lock = asyncio.Lock()
        self.senders: OrderedDict[int, str] = OrderedDict()  # who sent which of the newest messages
        self.moves: dict[int, str] = {}  # moves of messages whose sender is not known yet
        self.under_way: tuple[int, ...] = ()  # the messages of the turn whose events come now
        self.waiting: deque[LiveEvent] = deque()  # while the store is read for an earlier one
        self.telling: asyncio.Task[None] | None = None


class AllViewers:
    """The viewers of all conversations of one account, by chat."""

    def __init__(
        self,
        house: LocalHouse,
        account: str,
        start: Callable[[Coroutine[Any, Any, None]], asyncio.Task[None]],
        *,
        keyed: bool,
    ) -> None:
        """`start` begins work that nobody waits for."""
        self._house = house
        self._start = start
        self._account = account
        self._keyed = keyed
        self._viewers: dict[str, Viewers] = {}
        self._asked: dict[int, asyncio.Future[None]] = {}  # rows that delivery waits for
        self._numbers = itertools.count(1)  # of parts that come from no row

    def is_there(self, chat: str) -> bool:
        return chat in self._viewers and bool(self._viewers[chat].clients)

    # --- coming and going

    async def enter(self, client: Attached, opened: OpenedConversation) -> None:
        """Let a client in: welcome it, and tell it what it missed. It reads that in its own time, and joins the others
        when it is abreast, so nobody else waits for it."""
        after = client.hello.after if self._follows(client) else None
        waiting: tuple[int, ...] = ()  # messages that it was told are open
        with client.must_hear(), self._hold(self._viewers_of(opened.conversation)) as viewers:
            if after is not None:
                waiting, after = await self._catch_up(client, opened, after)
            async with viewers.lock:  # from here on the client hears what the others hear
                newest, open_now = await self._find_newest(opened.conversation)
                if after is None:
                    self._welcome(client, opened, newest, open_now)
                else:
                    newest = await self._tell_missed(client, opened.conversation, after)
                self._join(client, viewers, newest.outbox)
                if open_now:
                    client.skip_rest()
                if dealt := tuple(seq for seq in waiting if seq not in open_now):
                    client.tell_dealt(wire.DealtWith(dealt, newest.outbox))  # while it caught up
                if opened.question is not None:
                    client.push(wire.Happened(Asked(opened.question)))

    async def _find_newest(self, conversation: str) -> tuple[wire.Cursor, tuple[int, ...]]:
        """How far the conversation is, and which of its messages are open."""
        newest = wire.Cursor(*await self._house.latest(conversation))
        return newest, tuple(await self._house.open_seqs(conversation))

    def leave(self, client: Attached) -> None:
        """Forget a client; whoever waits for it alone waits no longer."""
        if not client.conversation:
            return
        chat = address_of(self._account, client.conversation).chat
        viewers = self._viewers.get(chat)
        client.conversation, client.leaving = "", None
        client.forget_held()
        rows, client.given = client.given, {}
        if viewers is None or client not in viewers.clients:
            return
        viewers.clients.remove(client)
        if not viewers.clients:
            self._close_empty(viewers)
            for row in rows:
                self._settle_asked(row, DeliveryFailure("The client went away before it confirmed the message."))

    def note_sender(self, conversation: str, seq: int, client: Attached) -> None:
        """Remember whose message it was; a move that came first is caught up with."""
        viewers = self._viewers.get(address_of(self._account, conversation).chat)
        if viewers is None:
            return
        _remember(viewers, seq, client.hello.client)
        if seq in viewers.moves and client.conversation == conversation:
            client.leaving = Leaving(seq, viewers.moves.pop(seq))

    def _viewers_of(self, conversation: str) -> Viewers:
        return self._viewers.setdefault(address_of(self._account, conversation).chat, Viewers(conversation))

    @contextmanager
    def _hold(self, viewers: Viewers) -> Iterator[Viewers]:
        """They are kept while somebody holds them, also when the last client leaves: whoever comes meanwhile joins the
        same ones."""
        viewers.holders += 1
        try:
            yield viewers
        finally:
            viewers.holders -= 1
            self._close_empty(viewers)

    def _close_empty(self, viewers: Viewers) -> None:
        if not viewers.clients and not viewers.holders:
            self._viewers.pop(address_of(self._account, viewers.conversation).chat, None)

    def _join(self, client: Attached, viewers: Viewers, newest: int) -> None:
        if client.ended:
            return  # it went away meanwhile
        viewers.clients.append(client)
        client.conversation = viewers.conversation
        client.cursor = newest

    def _follows(self, client: Attached) -> bool:
        """Whether it knows repetitions; one that does not is given what delivery sends, and nothing else."""
        return self._keyed and client.hello.keys

    def _welcome(
        self, client: Attached, opened: OpenedConversation, newest: wire.Cursor, waiting: tuple[int, ...]
    ) -> None:
        version = self._house.version
        client.push(wire.Welcome(opened.conversation, version, opened.banner, newest, waiting, opened.hint))

    async def _catch_up(
        self, client: Attached, opened: OpenedConversation, after: wire.Cursor
    ) -> tuple[tuple[int, ...], wire.Cursor]:
        """Welcome it and push what it missed, as fast as it reads; the messages that it was told are open, and how far
        it has come."""
        newest, waiting = await self._find_newest(opened.conversation)
        self._welcome(client, opened, newest, waiting)
        client.cursor = min(after.outbox, newest.outbox)
        before, caught = None, wire.Cursor(client.cursor, after.seq)
        while caught != before and not client.ended:
            before = caught
            caught = await self._tell_missed(client, opened.conversation, before, MISSED_AT_ONCE)
            await client.wait_for_room()
        return waiting, caught

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

    def show(self, conversation: str, event: LiveEvent) -> None:
        """At once, or in its place behind what is being read from the store."""
        viewers = self._viewers.get(address_of(self._account, conversation).chat)
        if viewers is None:
            return
        if not viewers.waiting and not viewers.lock.locked() and not isinstance(event, Dealt):
            self._tell(viewers, event)
            return
        if not viewers.waiting:
            viewers.telling = self._start(self._tell_waiting(viewers))
        if len(viewers.waiting) < (MOST_WAITING if isinstance(event, TextDelta | ReasoningDelta) else 2 * MOST_WAITING):
            viewers.waiting.append(event)

    async def settle(self, seconds: float) -> None:
        """Wait until what happened so far has been told."""
        telling = {viewers.telling for viewers in self._viewers.values() if viewers.telling is not None}
        if telling:
            await asyncio.wait(telling, timeout=seconds)

    async def _tell_waiting(self, viewers: Viewers) -> None:
        with self._hold(viewers):
            while viewers.waiting:
                async with viewers.lock:
                    event = viewers.waiting[0]  # it stays the first until it is told: nothing overtakes it
                    try:
                        if isinstance(event, Dealt):
                            await self._tell_all_dealt(viewers, event.seqs)
                        else:
                            self._tell(viewers, event)
                    except Exception:  # the boundary to clients: the next event is told all the same
                        log.exception("an event could not be told")
                    finally:
                        viewers.waiting.popleft()

    def _tell(self, viewers: Viewers, event: LiveEvent) -> None:
        match event:
            case Heard(seq, inbound):
                _remember(viewers, seq, _client_of(inbound))
                for client in viewers.clients:
                    self._tell_said(client, seq, inbound)
            case Moved(seq, target):
                _plan_move(viewers, seq, target)
                self._move_leavers(viewers)
            case Begun(seqs):
                viewers.under_way = seqs
            case Dealt() | Judged() | Taken() | Asking() | Titled():
                pass  # clients follow the outbox, where questions stand in their place
            case _:
                for client in viewers.clients:
                    client.show(event)

    async def _tell_all_dealt(self, viewers: Viewers, seqs: tuple[int, ...]) -> None:
        viewers.under_way = () if {*seqs} & {*viewers.under_way} else viewers.under_way
        for client in list(viewers.clients):
            with client.must_hear():
                await self._tell_dealt(client, viewers, seqs)
        self._move_leavers(viewers)

    def _tell_said(self, client: Attached, seq: int, inbound: Inbound) -> None:
        if _client_of(inbound) != client.hello.client:
            by = inbound.sender_name or ("" if inbound.address.platform == PLATFORM else inbound.sender)
            client.push(wire.Happened(Said(inbound.text, by), seq))

    async def _tell_dealt(self, client: Attached, viewers: Viewers, seqs: tuple[int, ...]) -> None:
        """Push rows for other platforms up to the first one that delivery will bring. Tell the client once it has all
        of them; one that leaves is told by its move. The store may be ahead of the events: the answer of a turn that
        they have not told the end of waits for that, or its text would be shown live after it."""
        newest, ours = client.cursor, 0  # the newest row that comes, and that delivery brings (0: none)
        async for row in read_rows(self._house, viewers.conversation, client.cursor):
            if row.outgoing.kind == ANSWER and (row.seq > max(seqs, default=0) or row.seq in viewers.under_way):
                break
            if self._is_ours(row):
                ours = newest = row.id
            elif self._follows(client):
                newest = row.id
                if not ours:
                    self._push_row(client, row.id, row.outgoing, str(row.id))
        leaving = client.leaving
        if leaving is not None and leaving.seq in seqs:
            leaving.row = max(ours, *client.given) if client.given else ours
        else:
            client.tell_dealt(wire.DealtWith(seqs, newest))

    def _is_ours(self, row: StoredRow) -> bool:
        return row.outgoing.address.account_key == f"{PLATFORM}:{self._account}"

    def _push_row(self, client: Attached, row: int, outgoing: Outgoing, key: str) -> None:
        client.deliver(row, outgoing, key if self._follows(client) else "")

    # --- delivery

    async def send(self, part: Part, file: FileRef | None = None) -> str:
        """Give the part to everyone who looks at its conversation; done when one of them has confirmed it."""
        row = part.row or -next(self._numbers)
        viewers = self._viewers.get(part.address.chat)
        if viewers is None:
            raise NotNow("Nobody looks at this conversation now.")
        with self._hold(viewers):
            await self._send_to(viewers, row, _outgoing_of(part, file), part.key)
        return str(row) if self._keyed else f"{row}.{next(self._numbers)}"  # there a repetition is another message

    async def _send_to(self, viewers: Viewers, row: int, outgoing: Outgoing, key: str) -> None:
        confirmed = self._asked.setdefault(row, asyncio.get_running_loop().create_future())
        try:
            while viewers.waiting and viewers.telling is not None:  # an answer does not overtake its own text
                await asyncio.wait({viewers.telling})
            async with viewers.lock:
                for client in list(viewers.clients):
                    await self._give(client, viewers, row, outgoing, key)
                if not viewers.clients:
                    raise NotNow("Nobody looks at this conversation now.")
                if any(client.given.get(row) for client in viewers.clients):
                    self._settle_asked(row)
            async with asyncio.timeout(CONFIRM_SECONDS):
                await asyncio.shield(confirmed)
        except TimeoutError as error:
            raise DeliveryFailure("No client confirmed the message.") from error
        finally:
            waiting = self._asked.pop(row, None)
            if waiting is not None and waiting.done() and not waiting.cancelled():
                waiting.exception()  # it was seen: asyncio must not complain
            elif waiting is not None:
                waiting.cancel()
        for client in viewers.clients:
            client.given.pop(row, None)
        self._move_leavers(viewers, row)

    async def _give(self, client: Attached, viewers: Viewers, row: int, outgoing: Outgoing, key: str) -> None:
        """Push the row, what came before it, and what came after it for other platforms, in order, up to the next one
        that delivery will bring."""
        if row in client.given:
            return  # it has it from this connection
        around: list[StoredRow] = []
        if row > client.cursor and self._follows(client):
            async for stored in read_rows(self._house, viewers.conversation, client.cursor):
                if stored.id > row and self._is_ours(stored):
                    break
                around.append(stored)
        for stored in around:
            if stored.id < row:
                self._push_row(client, stored.id, stored.outgoing, str(stored.id))
        client.given[row] = False  # with the push: a read that is cut before has given nothing
        self._push_row(client, row, outgoing, key or str(row))
        for stored in around:
            if stored.id > row:
                self._push_row(client, stored.id, stored.outgoing, str(stored.id))

    def confirm(self, client: Attached, row: int) -> None:
        if row in client.given:
            client.given[row] = True
            self._settle_asked(row)

    def _settle_asked(self, row: int, failure: DeliveryFailure | None = None) -> None:
        waiting = self._asked.get(row)
        if waiting is None or waiting.done():
            return
        waiting.set_exception(failure) if failure is not None else waiting.set_result(None)

    # --- moving

    def _move_leavers(self, viewers: Viewers, sent: int | None = None) -> None:
        """Clients whose farewell has arrived go where their message sent them."""
        for client in list(viewers.clients):
            leaving = client.leaving
            if leaving is None or leaving.row is None:
                continue
            if leaving.row == 0 or (sent is not None and sent >= leaving.row):
                self.leave(client)
                client.conversation = leaving.target  # what it says from now on goes there
                self._start(self._arrive(client, leaving.target))

    async def _arrive(self, client: Attached, target: str) -> None:
        """However long the store needs: who has left the one conversation comes into the other, or goes elsewhere."""
        with self._hold(self._viewers_of(target)) as viewers:
            while client.conversation == target and client not in viewers.clients and not client.ended:
                try:
                    async with viewers.lock:
                        cursor = wire.Cursor(*await self._house.latest(target))
                        if client.conversation == target:
                            self._join(client, viewers, cursor.outbox)
                            client.push(wire.MovedTo(target, cursor))
                except HermesError as problem:
                    log.warning("a client waits between two conversations: %s", problem)
                    await asyncio.sleep(_PAUSE)
        self._house.wake_delivery(address_of(self._account, target))


def _remember(viewers: Viewers, seq: int, client: str) -> None:
    viewers.senders[seq] = client
    while len(viewers.senders) > _MOST_SENDERS:
        viewers.senders.popitem(last=False)


def _plan_move(viewers: Viewers, seq: int, target: str) -> None:
    sender = viewers.senders.get(seq)
    if sender is None:
        viewers.moves[seq] = target
    for client in viewers.clients:
        if sender is not None and client.hello.client == sender:
            client.leaving = Leaving(seq, target)


def _client_of(inbound: Inbound) -> str:
    """Which client sent it; empty: it came another way."""
    return inbound.message.partition("-")[0] if inbound.address.platform == PLATFORM else ""


def _outgoing_of(part: Part, file: FileRef | None) -> Outgoing:
    """The message as the client shows it: the text as delivery has rendered it, a mark of repetition included."""
    if part.outgoing is not None:
        return replace(part.outgoing, text=part.text, file=file or part.outgoing.file)
    kind = FILE if file is not None else QUESTION if part.question else NOTE
    return Outgoing(part.address, part.text, kind, question=part.question, choices=part.choices, file=file)
