"""One account's delivery: holds its lease, finds the chats with something to say, and gives each a sender."""

import asyncio
import logging
import math
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping

from gateway.core.delivery_rules import Pace
from gateway.core.drafts import Draft
from gateway.core.markup.dialects import find_dialect
from gateway.delivery.chats import CallStore, ChatSender, DropFile, FindFile, KeepFile, NoteShown
from gateway.delivery.late_sends import ClosedTurns
from gateway.delivery.purse import Purse
from gateway.platforms.face import Adapter, NotNow
from hermes_base.errors import Fenced, StoreFailure
from hermes_base.inbound import Address
from hermes_state.sql.turns_sql import TurnStore

_log = logging.getLogger(__name__)
_LONG_PENALTY = 1.0  # seconds; a shorter one is over before anybody else could be there
_MARGIN = 0.05  # the store's clock may be a little behind ours
_MOST_MARKED = 200
ASKED_BEFORE = "The service asked for it before this start."
_MOST_NAMES = 10_000  # of chats that wait for a place; the others are found in the store again

LivesUntil = Callable[[], float]
LeftDrafts = dict[str, tuple[Address, dict[str, Draft]]]


class Account:
    def __init__(
        self, turns: TurnStore, adapter: Adapter, node: str, call: CallStore, pace: Pace, counts: Counter[str]
    ) -> None:
        find_dialect(adapter.spec.markup)  # one that nobody can write is said at the start
        self.name = f"{adapter.spec.name}:{adapter.account}"
        self.adapter = adapter
        self.turns = turns
        self.call = call
        self.pace = pace
        self.counts = counts
        self.epoch: int | None = None
        self.elsewhere = False  # another process has the account, or may have it
        self.closing = False
        self.uploading = 0  # files on their way
        self.purse = Purse(adapter.spec, time.monotonic())
        self.drop_file: DropFile = lambda file: None
        self.keep_file: KeepFile = lambda file, data: file
        self.find_file: FindFile | None = None
        self.note_shown: NoteShown = lambda said: None
        self.lives_until: LivesUntil = lambda: math.inf
        self.closed = ClosedTurns()
        self.chats: dict[str, ChatSender] = {}
        self.left: LeftDrafts = {}  # when it has stopped: by chat, for whoever sends there next
        self._node = node
        self._lease_ends = -math.inf
        self._away: dict[str, Address] = {}  # chats where nobody is; all that is kept of them
        self._marked: deque[tuple[str, str]] = deque(maxlen=_MOST_MARKED)  # messages that were shown to be taken
        self._fresh: deque[str] = deque()  # chats that were woken and wait for a place
        self._old: deque[str] = deque()  # chats that the last look found
        self._recovering: set[str] = set()
        self._unsent: frozenset[str] = frozenset()  # chats with messages, when one last looked
        self._noting: set[asyncio.Task[None]] = set()  # penalties on their way into the store
        self._busy = 0
        self._sends = False  # somebody is there who takes what is sent
        self._looked = asyncio.Event()
        self._turned = asyncio.Event()  # whose the account is was found out; a new one for each time
        self._recalled = asyncio.Event()  # penalties that a process before us was given are known
        self._running: asyncio.Task[None] | None = None

    def start(self, *, sends: bool = True) -> None:
        """Hold the account from now on, and send if it is connected."""
        self._sends = self._sends or sends
        self._looked.set()
        if self._running is None:
            self.closing = False
            self._running = asyncio.create_task(self._run(), name=f"delivery {self.name}")

    async def is_ours(self) -> bool:
        """Waits until it is known."""
        while self.epoch is None and not self.elsewhere and self._running is not None:
            await self._turned.wait()
        return not self.elsewhere

    async def wait_until(self, *, ours: bool) -> bool:
        """Until the account is ours, or another's; False: it is taken out."""
        while self._running is not None and await self.is_ours() != ours:
            await self._turned.wait()
        return self._running is not None

    def suspend(self) -> None:
        """Others may take this process for dead in a moment: nothing of this account is under way then."""
        if self.epoch is None:
            return
        _log.warning("The store has not confirmed for long that this process lives: %s is let go of.", self.name)
        self.epoch, self._lease_ends, self.elsewhere = None, -math.inf, True
        for chat in self.chats.values():
            if chat.task is not None:
                chat.task.cancel()
        self._tell_waiting()

    def _tell_waiting(self) -> None:
        self._turned.set()
        self._turned = asyncio.Event()

    async def rest(self, grace: float) -> None:
        """Send nothing more, and hold the account until `stop`: calls under way end while they have their line."""
        if self._running is None:
            return
        self.closing, self._sends = True, False
        self._looked.set()
        tasks = [self._running, *self._noting, *(chat.task for chat in self.chats.values() if chat.task)]
        for chat in self.chats.values():
            chat.poked.set()
        _, late = await asyncio.wait(tasks, timeout=grace)
        for task in late:
            task.cancel()
        await asyncio.gather(*late, return_exceptions=True)

    async def stop(self, grace: float) -> None:
        if self._running is None:
            return
        await self.rest(grace)
        self._running = None
        self._tell_waiting()
        await self._let_go(grace)
        chats = self.chats.values()
        for chat in self.chats.values():
            chat.late.drop()
        self.left = {chat.key: (chat.address, chat.drafts) for chat in chats if chat.address and chat.drafts}
        self.chats.clear()

    def find_drafts(self, chat_key: str) -> Mapping[str, Draft]:
        """What was shown in the chat, by turn, also when the account has stopped."""
        chat = self.chats.get(chat_key)
        return chat.drafts if chat is not None else self.left[chat_key][1] if chat_key in self.left else {}

    def take_over(self, gone: "Account") -> None:
        """What an account of this name has shown before us: messages of its bot, which is ours now."""
        for address, drafts in gone.left.values():
            self._get(address).drafts.update(drafts)

    # --- penalties

    async def _recall(self) -> None:
        """What the platform has asked of a process before us holds for us, too (C8)."""
        try:
            for chat, kind, seconds in await self.call(self.turns.penalties, self.name):
                self.purse.close(chat, kind, time.monotonic(), seconds, ASKED_BEFORE)
        except StoreFailure as problem:
            _log.warning("Whether %s asks for patience is not known: %s", self.name, problem)
        self._recalled.set()

    async def find_penalty(self) -> float:
        """Seconds for which the account takes nothing at all."""
        await self._recalled.wait()
        return self.purse.account_penalty(time.monotonic())

    def heed(self, address: Address, wait: NotNow) -> None:
        """The platform asks for patience; where it names no time, until the next look. No message of ours was waiting
        that would tell of it, so it is told here, once."""
        seconds = self.pace.poll if wait.seconds is None else wait.seconds
        if self.punish(address, seconds, str(wait), whole_account=wait.whole_account) and seconds >= _LONG_PENALTY:
            where = "any chat" if wait.whole_account else address.chat_key
            _log.warning("Nothing is sent to %s in %s for %.1f s: %s", where, self.name, seconds, wait)

    def punish(self, address: Address, seconds: float, reason: str, *, whole_account: bool) -> bool:
        """Nothing is sent for so long; one that might outlive the process is noted. Whether it begins now."""
        now, begins = time.monotonic(), False
        for chat in (address.chat, "") if whole_account else (address.chat,):
            begins = self.purse.close(chat, address.kind, now, seconds, reason)
            if seconds >= _LONG_PENALTY and not self.closing:
                noting = asyncio.create_task(self._note_penalty(chat, address.kind, seconds), name="penalty")
                self._noting.add(noting)
                noting.add_done_callback(self._noting.discard)
        return begins

    async def _note_penalty(self, chat: str, kind: str, seconds: float) -> None:
        try:
            await self.call(self.turns.note_penalty, self.name, chat, kind, seconds)
        except StoreFailure as problem:
            _log.warning("A penalty of %s is known to this process only: %s", self.name, problem)

    def rejoin(self, node: str) -> None:
        self._node = node
        self._lose_lease(self.epoch)

    def may_call(self) -> bool:
        """Whether the lease lasts for one more call: another sender must never meet ours."""
        now = time.monotonic()
        return (
            self.epoch is not None
            and self._sends
            and now + self.pace.call < self._lease_ends
            and now + self.pace.let_go < self.lives_until()
        )

    def wake(self, address: Address) -> None:
        """A message was stored for this chat, or somebody is there again."""
        self._away.pop(address.chat_key, None)
        chat = self._get(address)
        chat.has_rows = True
        if chat.parked_until == math.inf:
            chat.parked_until = -math.inf
        self._begin(chat)

    def look_soon(self, chat_key: str) -> None:
        """Another process has stored a message for this chat; without one, whose the account is may have changed."""
        if not chat_key or self.elsewhere:
            self._looked.set()
            return
        chat = self.chats.setdefault(chat_key, ChatSender(self, chat_key))
        chat.has_rows = True
        self._begin(chat)

    def show(self, address: Address, turn: str, change: Callable[[Draft], Draft]) -> None:
        """Change the draft of a chat."""
        chat = self._get(address)
        chat.show(turn, change)
        self._begin(chat)

    def acknowledge(self, address: Address, message: str) -> None:
        """Show whoever wrote the message that it was taken, once; what is long past may be shown again."""
        name = (address.chat, message)
        if name in self._marked:
            return
        self._marked.append(name)
        chat = self._get(address)
        chat.receipts.append((address, message))
        self._begin(chat)

    async def tell(self, address: Address, text: str) -> None:
        """Say a word that is not stored."""
        await self._get(address).tell(address, text)

    # --- lease and look-out

    async def _run(self) -> None:
        """Renew the lease and look for messages, now and then, and at once when something is amiss."""
        await self._recall()
        while not self.closing:
            self._looked.clear()
            try:
                began = time.monotonic()
                epoch = await self.call(self.turns.hold, self.name, self._node, self.pace.lease)
                self._take_lease(epoch, began)
                if self.may_call():
                    self._take_up(await self.call(self.turns.outbox_chats, self.name))
            except StoreFailure as problem:
                _log.warning("The store does not answer the delivery of %s: %s", self.name, problem)
            except Exception:  # noqa: BLE001 - the top of a task that must not end
                _log.exception("The delivery of %s failed; it goes on.", self.name)
            try:
                async with asyncio.timeout(self.pace.claim if self.elsewhere else self.pace.poll):
                    await self._looked.wait()
                await asyncio.sleep(_MARGIN)  # never in a tight circle
            except TimeoutError:
                pass

    def _take_lease(self, epoch: int | None, asked: float) -> None:
        """What the store says: the lease from the moment on in which it was asked for, or that another has it."""
        if epoch is not None and asked + self.pace.let_go >= self.lives_until():
            epoch = None  # it was asked for by a process that others take for dead by now
        elif epoch is None and self.epoch is not None:
            _log.warning("Another process has %s now.", self.name)
        self.epoch, self.elsewhere = epoch, epoch is None
        self._lease_ends = -math.inf if epoch is None else asked + self.pace.lease
        self._tell_waiting()

    def _lose_lease(self, epoch: int | None) -> None:
        """Not ours any more, unless a newer one is held by now; it is asked for at once."""
        if self.epoch == epoch:
            self.epoch, self._lease_ends = None, -math.inf
            self._looked.set()

    async def _let_go(self, grace: float) -> None:
        if self.elsewhere:
            return
        self.epoch, self._lease_ends = None, -math.inf
        try:
            async with asyncio.timeout(grace):
                await self.call(self.turns.drop, self.name, self._node)
        except (StoreFailure, TimeoutError) as problem:
            _log.info("The lease of %s ends by itself: %s", self.name, problem)

    def _take_up(self, keys: list[str]) -> None:
        """What a look into the store found, and what has become forgettable since the last one."""
        for chat in [chat for chat in self.chats.values() if chat.is_idle]:
            del self.chats[chat.key]
        self.purse.forget(time.monotonic())
        self._unsent = frozenset(keys)
        self._away = {key: address for key, address in self._away.items() if key in self._unsent}
        self._old = deque(key for key in keys if self._is_open(key))
        while len(self._old) > _MOST_NAMES:
            self._old.pop()
        found = set(self._old)
        for chat in self.chats.values():
            chat.has_rows = chat.has_rows or chat.key in found
            if chat.has_rows or chat.drafts or chat.receipts:  # what came while the lease was not ours begins now
                self._begin(chat)
        self._fill()

    def _is_open(self, key: str) -> bool:
        address = self._away.get(key)
        if address is not None:
            return self.adapter.reachable(address)
        return key not in self.chats or not self.chats[key].is_parked

    # --- chats at work

    def _get(self, address: Address) -> ChatSender:
        chat = self.chats.get(address.chat_key)
        if chat is None:
            chat = self.chats[address.chat_key] = ChatSender(self, address.chat_key)
            chat.has_rows = chat.key in self._unsent  # what waits there goes before any draft
        chat.address = address
        return chat

    def _begin(self, chat: ChatSender) -> None:
        """Give the chat a sender, if there is a place; fresh messages do not wait for old ones."""
        chat.poked.set()
        if chat.task or chat.is_parked or self.closing or self.epoch is None:
            return
        if self._busy >= self.pace.busy:
            if len(self._fresh) < _MOST_NAMES:
                self._fresh.append(chat.key)
            return
        self._busy += 1
        chat.task = asyncio.create_task(self._work(chat), name=f"delivery {self.name} {chat.key}")

    def _fill(self) -> None:
        """Free places go to fresh chats first, then to a few of those with old messages."""
        if self.closing or self.epoch is None:
            return
        while self._fresh and self._busy < self.pace.busy:
            chat = self.chats.get(self._fresh.popleft())
            if chat is not None:
                self._begin(chat)
        while self._old and len(self._recovering) < self.pace.recovering and self._busy < self.pace.busy:
            key = self._old.popleft()
            chat = self.chats.setdefault(key, ChatSender(self, key))
            chat.has_rows = True
            if chat.task is None and not chat.is_parked:
                self._begin(chat)
                self._recovering.update([key] if chat.task else [])

    async def _work(self, chat: ChatSender) -> None:
        try:
            await chat.work()
        except Fenced:
            _log.warning("The lease of %s was lost; what is under way is left to its holder.", self.name)
            self._lose_lease(chat.epoch)
        except StoreFailure as problem:
            _log.warning("The store does not answer the delivery of %s: %s", self.name, problem)
        except Exception:  # noqa: BLE001 - the top of a task: the others go on
            _log.exception("The sender of %s in %s failed.", chat.key, self.name)
        finally:
            chat.task = None
            self._busy -= 1
            self._recovering.discard(chat.key)
        # It comes again at its time, waits for somebody, or is forgotten.
        if chat.parked_until == math.inf and not chat.drafts:
            if chat.address is not None and not self.adapter.reachable(chat.address):
                self._away[chat.key] = chat.address
                self.chats.pop(chat.key, None)
        elif chat.is_parked:
            pause = chat.parked_until - time.monotonic() + _MARGIN
            asyncio.get_running_loop().call_later(pause, self._come_again, chat.key)
        elif chat.is_idle:
            self.chats.pop(chat.key, None)
        self._fill()

    def _come_again(self, key: str) -> None:
        chat = self.chats.get(key)
        if chat is not None and self._running is not None:
            self._begin(chat)
