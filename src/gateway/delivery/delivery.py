"""Empties the outbox: whoever holds an account's lease sends its messages, each chat in order, fresh chats first. What
happens in a turn is shown while it happens: as live events to platforms that take them, as growing drafts elsewhere."""

import asyncio
import logging
import math
import time
from collections import Counter
from collections.abc import Callable, Collection, Container, Iterable, Sequence
from dataclasses import replace

from gateway.core.delivery_rules import Pace, tell_refusal
from gateway.core.drafts import Draft, add_line, describe_progress
from gateway.delivery.accounts import Account, LivesUntil
from gateway.delivery.chats import CallStore, DropFile, FindFile, KeepFile, NoteShown
from gateway.delivery.hints import Hints
from gateway.delivery.late_sends import ClosedTurns
from gateway.delivery.purse import AskedPatience
from gateway.delivery.read_accounts import PassRow, ReadAccount
from gateway.platforms.face import Adapter, LiveEvent, NotNow
from gateway.platforms.hub import HubAdapter
from hermes_base.chat import TextDelta, TextEnded, ToolEnded, ToolStarted, TurnTexts
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Address, OutboxRow
from hermes_state.sql.turns_sql import TurnStore

log = logging.getLogger(__name__)

LEAVE_SECONDS = 5.0  # for calls under way when an account is taken out
_LIFE_PAUSE = 0.25  # between two looks at a life that is over
MOST_DRAFT = 20_000  # characters; a draft is one message, and the answer comes whole


def name_topic(account: str) -> str:
    """Of the hints that there is something to send by an account."""
    return f"account {account}"


class Delivery:
    """All accounts. Calls are made on the event loop, but for `wake`, `find_draft` and `close_draft`, which any thread
    may call."""

    def __init__(
        self,
        turns: TurnStore,
        adapters: Iterable[Adapter],
        node: str,
        call: CallStore,
        pace: Pace | None = None,
        drop_file: DropFile = lambda file: None,
        note_shown: NoteShown = lambda said: None,
        keep_file: KeepFile = lambda file, data: file,
    ) -> None:
        """`keep_file` writes a file that is to be sent and says where it is, `drop_file` is called with one that was
        sent, both on a store thread; `note_shown`, on the event loop, with what was said when the whole of it
        has arrived."""
        self.counts: Counter[str] = Counter()  # sent, again, failed, waiting; progress: calls for drafts and typing
        self._turns, self._node, self._call, self._pace = turns, node, call, pace or Pace()
        self._drop_file, self._note_shown, self._keep_file = drop_file, note_shown, keep_file
        self._hints: Hints | None = None
        self._lives_until: LivesUntil = lambda: math.inf
        self._find_file: FindFile | None = None
        self._living: asyncio.Task[None] | None = None
        self._senders: dict[str, Account] = {}
        self._readers: dict[str, ReadAccount] = {}
        self._away: frozenset[Address] = frozenset()  # accounts whose settings are being changed
        self._gone: dict[str, Account] = {}  # that were taken out, until they come back: what they have shown
        self._closed = ClosedTurns()
        self._loop: asyncio.AbstractEventLoop | None = None
        for adapter in adapters:
            self._add(adapter)

    def share(self, hints: Hints, lives_until: LivesUntil, find_file: FindFile | None = None) -> None:
        """With other processes, before it starts: `hints` tells whoever sends for an account, and until `lives_until()`
        nobody takes this process for dead. `find_file`, on a store thread: where the file of a row is here, which
        another process may have kept; without it, it is where the row says."""
        self._hints, self._lives_until, self._find_file = hints, lives_until, find_file
        for account in self._senders.values():
            account.lives_until, account.find_file = lives_until, find_file
            hints.listen(name_topic(account.name), account.look_soon)

    def pass_rows_on(self, pass_on: PassRow) -> None:
        """What stands in the outbox for clients that read it is told to other processes, too."""
        for reader in self._readers.values():
            reader.pass_on = pass_on

    def _add(self, adapter: Adapter) -> Account | ReadAccount:
        account: Account | ReadAccount
        if isinstance(adapter, HubAdapter):
            account = ReadAccount(self._turns, adapter, self._call, self._pace, self.counts)
            self._readers[account.name] = account
        else:
            account = Account(self._turns, adapter, self._node, self._call, self._pace, self.counts)
            account.keep_file, account.lives_until = self._keep_file, self._lives_until
            account.find_file, account.closed = self._find_file, self._closed
            gone = self._gone.get(account.name)
            if gone is not None:
                account.take_over(gone)
            self._senders[account.name] = account
            self._gone.pop(account.name, None)  # whoever looks for a draft meanwhile finds it here or there
            if self._hints is not None:
                self._hints.listen(name_topic(account.name), account.look_soon)
        account.drop_file, account.note_shown = self._drop_file, self._note_shown
        return account

    async def swap(self, gone: Sequence[Adapter], come: Sequence[Adapter]) -> None:
        """These adapters send in the place of those, from `begin` on; what was not sent waits for whoever comes, and so
        do drafts for their answers (C7)."""
        names = {f"{adapter.spec.name}:{adapter.account}" for adapter in gone}
        self._away = frozenset(Address(adapter.spec.name, adapter.account, "") for adapter in gone)
        leaving = [self._senders[name] for name in names if name in self._senders]
        for account in leaving:
            self._gone[account.name] = account
            del self._senders[account.name]
        if self._hints is not None:
            for account in leaving:
                self._hints.end(name_topic(account.name), account.look_soon)
        await asyncio.gather(*(account.stop(LEAVE_SECONDS) for account in leaving))
        self._tell_free(leaving)
        for adapter in come:
            self._add(adapter)

    async def rest(self, adapters: Iterable[Adapter], grace: float = LEAVE_SECONDS) -> None:
        """These accounts send nothing more and are still ours: their calls end, and only then they are disconnected and
        given to others (`swap`). A call that is cut off may have arrived, and is made again."""
        names = [f"{adapter.spec.name}:{adapter.account}" for adapter in adapters]
        await asyncio.gather(*(self._senders[name].rest(grace) for name in names if name in self._senders))

    async def start(self, later: Collection[Adapter] = ()) -> None:
        """Send from now on; `later`: for these accounts only when they are connected (`begin`)."""
        self._loop = asyncio.get_running_loop()
        if self._lives_until() < math.inf:
            self._living = self._loop.create_task(self._watch_life(), name="delivery: life")
        for adapter in [account.adapter for account in self._list()]:
            if adapter not in later:
                self.begin(adapter)

    async def _watch_life(self) -> None:
        """Let go of all accounts before others may take them (I3)."""
        while True:
            left = self._lives_until() - self._pace.let_go - time.monotonic()
            if left <= 0:
                for account in self._senders.values():
                    account.suspend()
            await asyncio.sleep(max(left, _LIFE_PAUSE))

    def claim(self, adapter: Adapter) -> Account | None:
        """Hold the account of this platform, and nothing more, before it is connected (I3); None where nobody sends."""
        account = next((one for one in self._senders.values() if one.adapter is adapter), None)
        if account is not None and self._loop is not None:
            account.start(sends=False)
        return account

    def begin(self, adapter: Adapter) -> None:
        """Send for this account: somebody is there who takes it."""
        account = next((one for one in self._list() if one.adapter is adapter), None)
        if account is not None and self._loop is not None:
            account.start()

    async def penalty(self, adapter: Adapter) -> float:
        """Seconds for which the platform takes nothing of this account, which has begun."""
        account = self._senders.get(f"{adapter.spec.name}:{adapter.account}")
        return await account.find_penalty() if account else 0.0

    async def stop(self, grace: float = 5.0) -> None:
        """End the calls under way, give back what was not sent, let go of the leases."""
        if self._living is not None:
            self._living.cancel()
        await asyncio.gather(*(account.stop(grace) for account in self._list()))
        self._tell_free(self._senders.values())
        self._loop = None

    def _tell_free(self, accounts: Iterable[Account]) -> None:
        """Whoever waits for one of these has it at once."""
        if self._hints is not None:
            for account in accounts:
                self._hints.tell(name_topic(account.name))

    def _list(self) -> list[Account | ReadAccount]:
        return [*self._senders.values(), *self._readers.values()]

    def rejoin(self, node: str) -> None:
        """The process has another node id now; its leases are taken anew."""
        self._node = node
        for account in self._senders.values():
            account.rejoin(node)

    def wake(self, address: Address) -> None:
        """There is something for this chat, or somebody who could not be reached is there again."""
        sender, reader = self._senders.get(address.account_key), self._readers.get(address.account_key)
        account = sender or reader
        if self._hints is not None and (account is None or (sender is not None and sender.elsewhere)):
            self._hints.tell(name_topic(address.account_key), address.chat_key)
        elif self._loop is not None and account is not None:
            self._loop.call_soon_threadsafe(account.wake, address)

    def is_there(self, address: Address) -> bool:
        """Whether a message would find its person now: in a chat of an account of ours that can be reached, or where
        somebody looks on. Any thread may ask; nothing is waited for."""
        sender, reader = self._senders.get(address.account_key), self._readers.get(address.account_key)
        if sender is not None:
            return sender.adapter.replies and sender.adapter.reachable(address)
        return reader is not None and reader.adapter.hub.is_watched(address.chat)

    def is_elsewhere(self, adapter: Adapter) -> bool:
        """Whether another process has the account, and hears and sends for it. Any thread may ask."""
        account = self._senders.get(f"{adapter.spec.name}:{adapter.account}")
        return not isinstance(adapter, HubAdapter) and (account is None or account.elsewhere)

    def has(self, address: Address) -> bool:
        """Whether the account of this address sends to chats here."""
        return address.account_key in self._senders

    def away(self, platform: str) -> list[str]:
        """Accounts of a platform that were taken out a moment ago; whoever comes in their place sends what waits. Any
        thread may ask."""
        return sorted(one.account for one in self._away if one.platform == platform)

    def platforms(self) -> list[str]:
        """Those with an account that sends to chats."""
        return sorted({account.adapter.spec.name for account in self._senders.values()})

    def accounts(self, platform: str) -> list[str]:
        """Those of a platform that send to chats."""
        adapters = (account.adapter for account in self._senders.values())
        return sorted(adapter.account for adapter in adapters if adapter.spec.name == platform)

    def confirm(self, address: Address, rows: Sequence[int]) -> None:
        """Clients of this account have shown these messages."""
        self._readers[address.account_key].confirm(rows)

    async def find_unseen(self, address: Address) -> list[OutboxRow]:
        """What waits in this chat for a client that shows it."""
        return await self._readers[address.account_key].find_unseen(address.chat_key)

    async def take_back(self, address: Address, conversation: str, platform_id: str, failure: DeliveryFailure) -> bool:
        """A message that was sent has not arrived after all: it waits, or is kept with the reason and told of. False:
        none has this id."""
        reason = "" if isinstance(failure, NotNow) else str(failure)
        row = await self._call(self._turns.outbox_return, conversation, platform_id, reason)
        if row is None:
            return False
        told = tell_refusal(row.outgoing, reason) if reason else None
        if reason:
            self.counts["failed"] += 1
        if told is not None:
            await self._call(self._turns.post, conversation, f"refused:{row.id}", told)
        self.wake(row.outgoing.address)
        return True

    def draft(self, address: Address, text: str, turn: str = "") -> None:
        """The answer of the turn so far, from its beginning; shown as the platform and its budget allow."""
        self._show(address, turn, lambda draft: replace(draft, text=text))

    def progress(self, address: Address, line: str, turn: str = "") -> None:
        """A line on what a tool does; shown with the draft."""
        self._show(address, turn, lambda draft: add_line(draft, line))

    def typing(self, address: Address, turn: str = "", message: str = "") -> None:
        """The turn is at work: show so until its draft ends. `message`: where a process before us has shown it."""
        self._show(address, turn, lambda draft: draft if draft.message else replace(draft, message=message))

    def acknowledge(self, address: Address, message: str) -> None:
        """A message of a person was taken: the sign that its platform has for it is shown if there is room."""
        account = self._find_account(address)
        if account is not None:
            account.acknowledge(address, message)

    def find_draft(self, address: Address, turn: str) -> str:
        """Where the answer of the turn goes, as far as it is known by now, for `Outgoing.draft`. Any thread may ask;
        nothing is waited for."""
        name = address.account_key  # which moves between the two, and is always in one of them
        account = self._senders.get(name) or self._gone.get(name) or self._senders.get(name)
        draft = account.find_drafts(address.chat_key).get(turn) if account else None
        return draft.place if draft else ""

    def close_draft(self, address: Address, turn: str) -> str:
        """The same when the answer is about to be stored. The draft stays as it is from here on: what came later would
        take the answer's place, or stand beside it, unknown to a process after a kill (C7). Any thread may call."""
        self._closed.close(turn)
        return self.find_draft(address, turn)  # when nothing can begin any more

    async def tell(self, address: Address, text: str) -> None:
        """A word to a chat while the store does not answer; it may be lost. Platforms with events are shown it."""
        account = self._find_account(address)
        if account is not None:
            await account.tell(address, text)

    def leases(self) -> dict[str, int | None]:
        """The accounts that send, with the epoch of their lease; None: it is not ours."""
        return {name: account.epoch for name, account in self._senders.items()}

    def waits(self) -> dict[str, list[AskedPatience]]:
        """Where the services take nothing now, by account, in the time of the wall clock. Any thread may ask."""
        now, since = time.monotonic(), time.time() - time.monotonic()
        every = {name: account.purse.waits(now) for name, account in list(self._senders.items())}
        return {
            name: [replace(one, until=one.until + since) for one in found] for name, found in every.items() if found
        }

    def at_work(self) -> int:
        """Chats that are held in memory."""
        return sum(len(account.chats) for account in self._senders.values())

    def _show(self, address: Address, turn: str, change: Callable[[Draft], Draft]) -> None:
        account = self._find_account(address)
        if account is not None and turn not in self._closed:
            account.show(address, turn, change)

    def _find_account(self, address: Address) -> Account | None:
        """Who says what is not stored, while delivery runs; None where events are shown instead, or from where another
        process says it."""
        account = self._senders.get(address.account_key) if self._loop is not None else None
        return None if account is None or account.elsewhere else account


# --- what is shown while it happens: live events, and drafts that grow


class LiveEvents:
    """Events for everyone who looks; on the event loop. No platform makes another wait: `show` never does."""

    def __init__(self, adapters: Sequence[Adapter]) -> None:
        self._adapters = adapters  # which may change
        self.elsewhere: Container[str] = ()  # conversations that are watched in other processes
        self.pass_on: Callable[[str, LiveEvent], None] = lambda conversation, event: None  # to those

    def show(self, conversation: str, event: LiveEvent, *, from_elsewhere: bool = False) -> None:
        if conversation in self.elsewhere and not from_elsewhere:
            self.pass_on(conversation, event)
        for adapter in [adapter for adapter in self._adapters if adapter.spec.shows_events]:
            try:
                adapter.show(conversation, event)
            except Exception:  # the boundary to a platform
                log.exception("%s could not show an event", adapter.spec.name)


class DraftFeed:
    """The answer of one turn as it grows, for a chat that shows drafts."""

    def __init__(self, delivery: Delivery, address: Address, turn: str, progress: str, message: str = "") -> None:
        """`message`: the draft that a process before us has sent."""
        self._delivery = delivery
        self._address = address
        self._turn = turn
        self._progress = progress  # off, short, full
        self._message = message
        self._texts = TurnTexts()
        self._head = ""  # of the texts

    def begin(self) -> None:
        """The turn is at work; on the event loop."""
        self._delivery.typing(self._address, self._turn, self._message)

    def show(self, event: LiveEvent) -> None:
        match event:
            case TextDelta(text) if len(self._head) < MOST_DRAFT:
                self._texts.add(text[:MOST_DRAFT])
                self._head = self._texts.kept + self._texts.open
                self._delivery.draft(self._address, self._head, self._turn)
            case TextEnded(kept):
                self._texts.end(kept)
                self._head = self._texts.kept + self._texts.open
            case ToolStarted() | ToolEnded():
                line = describe_progress(event, self._progress)
                if line:
                    self._delivery.progress(self._address, line, self._turn)
