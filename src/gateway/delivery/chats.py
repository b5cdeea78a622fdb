"""Sends to one chat, one call at a time: its stored messages in order, and between them the draft of a turn."""

import asyncio
import functools
import logging
import math
import random
import time
from collections import deque
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from gateway.core.budget import PROGRESS, kind_of, progress_pause
from gateway.core.delivery_rules import GiveUp, SendAgain, judge, tell_refusal
from gateway.core.drafts import (
    Draft,
    EditDraft,
    SendDraft,
    ShowTyping,
    Wait,
    begin_draft,
    end_draft,
    find_turn,
    next_step,
    read_place,
    settle_draft,
)
from gateway.core.markup.dialects import PLAIN, write_literally
from gateway.core.text.render import carries_file, end_question, make_plain, mark_repeated
from gateway.delivery.file_sender import FileSender
from gateway.delivery.late_sends import LateSends
from gateway.platforms.face import NeverTaken, NotNow, Part
from hermes_base.errors import DeliveryFailure, Fenced, StoreFailure
from hermes_base.inbound import ANSWER, Address, FileRef, OutboxRow, Outgoing, name_question

if TYPE_CHECKING:
    from gateway.delivery.accounts import Account

T = TypeVar("T")
_log = logging.getLogger(__name__)
_MOST_DRAFTS = 20  # of turns whose answers were not sent yet; an older one is forgotten, and its answer comes below it
_MOST_RECEIPTS = 20  # that wait in a chat; the others are left out
_PLACE_PAUSE = 0.25  # until one looks again whether another file may go
_LEASE_PAUSE = 0.5  # until one looks again whether the lease was renewed
_LONG_TEXT = 2_000  # rendering more than this is no work for the event loop


class CallStore(Protocol):
    """Runs a synchronous call of the store off the event loop."""

    async def __call__(self, call: Callable[..., T], *args: Any) -> T: ...


DropFile = Callable[[FileRef], None]
KeepFile = Callable[[FileRef, bytes], FileRef]
FindFile = Callable[[str], Path | None]
NoteShown = Callable[[Outgoing], None]


class Halted(Exception):
    """Delivery is closing down: make no further call."""


class ChatSender:
    """One chat at work. It is dropped when it has nothing to say."""

    def __init__(self, account: "Account", key: str) -> None:
        self.key = key
        self.address: Address | None = None
        self.task: asyncio.Task[None] | None = None
        self.has_rows = False
        self.epoch: int | None = None  # of the lease under which it took its last message
        self.parked_until = -math.inf
        self.drafts: dict[str, Draft] = {}  # by turn, in order, until the answer was sent
        self.receipts: deque[tuple[Address, str]] = deque(maxlen=_MOST_RECEIPTS)  # messages to be marked as taken
        self._account = account
        self._failures = 0
        self._files = FileSender(account, key)
        self.poked = asyncio.Event()  # something changed: look again
        self._drafting = asyncio.Lock()
        self.late = LateSends(account, self)

    @property
    def is_parked(self) -> bool:
        return time.monotonic() < self.parked_until

    @property
    def draft(self) -> Draft | None:
        """The one that is drawn: of the newest turn that is not over."""
        return next((draft for draft in reversed(self.drafts.values()) if not draft.ended), None)

    @property
    def is_idle(self) -> bool:
        """Whether nothing is lost by forgetting the chat."""
        return not (self.task or self.has_rows or self.drafts or self.receipts or self.is_parked)

    def show(self, turn: str, change: Callable[[Draft], Draft]) -> None:
        """Change the draft of a turn. That of a turn before stays: its answer may not have been sent."""
        self.drafts[turn] = change(self.drafts.get(turn) or Draft(turn))
        while len(self.drafts) > _MOST_DRAFTS:
            del self.drafts[next(iter(self.drafts))]

    async def work(self) -> None:
        """Do what there is to do; returns when nothing is left or nothing may be done."""
        while not self._account.closing and not self.is_parked and self._account.epoch is not None:
            self.poked.clear()
            if await self._send_first_row() or self.is_parked:
                continue
            while self.receipts:
                await self._acknowledge(*self.receipts.popleft())
            pause = await self._step_draft() if self.draft is not None else math.inf
            if self.has_rows:
                pause = 0.0 if self._account.may_call() else _LEASE_PAUSE
            if pause == math.inf:
                return
            if pause:
                await _rest(self.poked, pause)

    async def tell(self, address: Address, text: str) -> None:
        """A word that cannot be stored now: said at once if the budget has room for it, and not again."""
        adapter = self._account.adapter
        say = functools.partial(adapter.send, _make_word(address, text, adapter.spec.markup))
        await self._spare(address, say, "A word to %s was not taken: %s")

    async def _acknowledge(self, address: Address, message: str) -> None:
        """Mark a message as taken."""
        mark = functools.partial(self._account.adapter.acknowledge, address, message)
        always = self._account.adapter.spec.marks_each
        await self._spare(address, mark, "A message in %s was not marked as taken: %s", always=always)

    async def _spare(
        self, address: Address, call: Callable[[], Awaitable[object]], failed: str, *, always: bool = False
    ) -> None:
        """A call that may be left out: made if there is room for it, or `always`, and no loss if it fails."""
        async with self._drafting:
            if not self._account.adapter.reachable(address):
                return
            if self._pay_progress(address, time.monotonic()) and not always:
                return
            self._account.counts["progress"] += 1
            try:
                await _within(self._account.pace.draft_call, call())
            except NotNow as wait:
                self._account.heed(address, wait)
            except DeliveryFailure as problem:
                _log.info(failed, self.key, problem)
            except Exception:  # noqa: BLE001 - an adapter is somebody else's code
                _log.exception("The adapter of %s failed at a call that may be left out.", self._account.name)

    # --- stored messages

    async def _send_first_row(self) -> bool:
        """Send the first message that waits; False when there is none."""
        epoch = self.epoch = self._account.epoch
        if not self.has_rows or epoch is None or not self._account.may_call():
            return False
        self.has_rows = False
        row = await self._account.call(self._account.turns.outbox_take, self._account.name, self.key, epoch)
        if row is None:
            await self._wait_for_first()
            return False
        self.has_rows = True
        self.address = row.outgoing.address
        self._end_drafts(row.outgoing)
        try:
            await self._send_row(row, epoch)
        except Halted:
            penalty = self._account.purse.penalty(row.outgoing.address, time.monotonic())  # for whoever comes next, too
            await self._give_back(row, epoch, SendAgain(penalty, certain=True))
        except StoreFailure:  # of our own: what an adapter meets is a DeliveryFailure
            raise
        except Exception as error:  # noqa: BLE001 - an adapter is somebody else's code; the message is kept
            await self._settle(row, epoch, error)
        return True

    async def _wait_for_first(self) -> None:
        """A message that waits for its time, as a process before us has noted, holds up what comes after it (C9). Its
        time is one of the store's clock, which may be set: it is looked at again before long."""
        account = self._account
        pause = await account.call(account.turns.outbox_pause, account.name, self.key)
        if pause:
            self.has_rows = True
            self.parked_until = max(self.parked_until, time.monotonic() + min(pause, account.pace.longest_pause))

    async def _send_row(self, row: OutboxRow, epoch: int) -> None:
        account, outgoing = self._account, row.outgoing
        if not account.adapter.reachable(outgoing.address):
            await self._give_back(row, epoch, SendAgain(math.inf, certain=True))
            return
        platform_id = await (self._end_question if outgoing.ends_question else self._send_parts)(row, epoch)
        why = self._files.why_without(row)
        if why and outgoing.file is not None:
            kept = f"The file {outgoing.file.name} could not be sent: {why} It is kept: {outgoing.file.path}"
            account.counts["failed"] += 1
            await self._note(account.turns.outbox_fail, row.id, epoch, kept)
            return
        self.has_rows = False  # what comes from here on says so itself
        more = await self._note(account.turns.outbox_sent, row.id, epoch, platform_id)
        self.has_rows = self.has_rows or more
        account.counts["sent"] += 1
        if outgoing.file is not None:
            await self._files.drop(outgoing.file)
        if outgoing.kind == ANSWER:
            self._forget_drafts(outgoing.turn)

    async def _send_parts(self, row: OutboxRow, epoch: int) -> str:
        """The parts that are not known to have arrived; the platform's id of the last one."""
        account, parts, platform_id = self._account, await self._render(row), ""
        for index in range(row.parts_sent, len(parts)):
            if platform_id:
                await self._note(account.turns.outbox_part, row.id, epoch, platform_id)
                row = replace(row, parts_sent=index, unsure=False)
            platform_id = await self._deliver(row, parts, index, epoch)
            self._failures = 0
        account.note_shown(row.outgoing)
        return platform_id

    async def _render(self, row: OutboxRow) -> list[Part]:
        is_long = len(row.outgoing.text) > _LONG_TEXT
        return await self._account.call(self._files.render, row) if is_long else self._files.render(row)

    async def _end_question(self, row: OutboxRow, epoch: int) -> str:
        """The message that asks says how it ended; its id. One that never arrived, or is gone, needs no such word."""
        account, outgoing = self._account, row.outgoing
        named = name_question(outgoing.question)
        asked = await account.call(account.turns.outbox_named, row.conversation, named)
        parts = await self._render(asked) if asked is not None and asked.platform_ids else []
        if asked is None or not parts:
            return ""
        edit = functools.partial(account.adapter.edit, asked.platform_ids[-1])
        part = end_question(parts[-1], outgoing.text, account.adapter.spec)
        try:
            await self._attempt(edit, part, kind=kind_of(outgoing), epoch=epoch)
        except NeverTaken as refusal:
            _log.info("A question in %s keeps its looks: %s", self.key, refusal)
        return asked.platform_ids[-1]

    async def _deliver(self, row: OutboxRow, parts: list[Part], index: int, epoch: int) -> str:
        """One part; an answer's first part takes the place of its draft. The platform's id of the message."""
        adapter, part, outgoing, file = self._account.adapter, parts[index], row.outgoing, row.outgoing.file
        attempt = functools.partial(self._attempt, kind=kind_of(outgoing), epoch=epoch)
        draft = await self.late.wait(self._find_draft(outgoing)) if index == 0 else None
        is_lost = draft is not None and draft.is_lost and not adapter.spec.takes_keys
        may_stand = (is_lost and outgoing.kind == ANSWER) or (row.unsure and index == row.parts_sent)
        again = mark_repeated(part, adapter.spec) if may_stand and not adapter.spec.takes_keys else part
        if draft and not is_lost:
            # Who tried before edited the same message; but not if the answer was stored without knowing of it.
            part = part if draft.message == outgoing.draft else again
            try:
                # Of a draft whose sending broke off the key gives the id; if it never arrived, the answer is there now.
                message = draft.message or await attempt(adapter.send, replace(part, key=draft.key))
                await attempt(functools.partial(adapter.edit, message), part)
                return message
            except NeverTaken as refusal:
                _log.info("The draft in %s cannot be edited (%s); its answer is sent.", self.key, refusal)
        self._account.counts["again"] += may_stand
        part = again
        goes_without = bool(self._files.why_without(row))
        if file and carries_file(outgoing, adapter.spec) and index == len(parts) - 1 and not goes_without:
            return await self._files.send(row, part, file, attempt)
        if part.document:
            return await self._files.send_document(row, part, attempt)
        return await attempt(adapter.send, part)

    def _find_draft(self, outgoing: Outgoing) -> Draft | None:
        """The draft that the answer takes the place of, or the word that its turn begins anew."""
        if not self._account.adapter.spec.can_edit:
            return None
        return self._own_draft(outgoing) or read_place(outgoing.draft, outgoing.turn)

    def _own_draft(self, outgoing: Outgoing) -> Draft | None:
        """The draft of this answer, if this process has one."""
        drawn = (one for one in reversed(self.drafts.values()) if find_turn(one.turn) == outgoing.turn)
        return next(drawn, None) if outgoing.kind == ANSWER else None

    def _forget_drafts(self, turn: str) -> None:
        self.drafts = {name: draft for name, draft in self.drafts.items() if find_turn(name) != turn}

    def _end_drafts(self, outgoing: Outgoing) -> None:
        """An answer is next: nothing more is drafted for its turn."""
        own = self._own_draft(outgoing)
        self.drafts = end_draft(self.drafts, own) if own is not None else self.drafts

    async def _attempt(
        self, do: Callable[[Part], Awaitable[T]], part: Part, *, kind: str, epoch: int, size: int | None = None
    ) -> T:
        """One call within the budget; once more as plain text when the platform did not like the markup. `size`: bytes
        of the file that goes along."""
        call = functools.partial(self._call, do, kind=kind, epoch=epoch, size=size)
        try:
            return await call(part)
        except NeverTaken as refusal:
            if not refusal.markup:
                raise
        return await call(make_plain(part))

    async def _call(
        self, do: Callable[[Part], Awaitable[T]], part: Part, *, kind: str, epoch: int, size: int | None
    ) -> T:
        """The platform's time for a call begins when there is room for it."""
        account, uploads = self._account, int(size is not None)
        await self._wait_for_room(part.address, kind, epoch, uploads)
        account.uploading += uploads
        try:
            return await _within(account.pace.call + (size or 0) / account.pace.slowest_upload, do(part))
        finally:
            account.uploading -= uploads

    async def _wait_for_room(self, address: Address, kind: str, epoch: int, uploads: int) -> None:
        """Returns when the budgets, the places for files and the lease allow the call, which then counts as made."""
        account, ticket = self._account, None
        while True:
            self.poked.clear()
            now = time.monotonic()
            if account.closing:
                raise Halted
            if account.epoch not in (epoch, None):
                raise Fenced(f"The lease of {account.name} was lost meanwhile.")
            pause = 0.0 if account.may_call() else _LEASE_PAUSE
            if uploads and account.uploading >= account.pace.uploads:
                pause = _PLACE_PAUSE
            if not pause:
                pause, ticket = account.purse.pay(address, kind, now, ticket)
            if not pause:
                return
            await _rest(self.poked, pause)

    def _pay_progress(self, address: Address, now: float) -> float:
        """Pay for a call that may be left out; if there is no room for it, the seconds until there might be."""
        if not self._account.may_call():
            return _LEASE_PAUSE
        return self._account.purse.pay(address, PROGRESS, now)[0]

    # --- what becomes of it

    async def _settle(self, row: OutboxRow, epoch: int, error: Exception) -> None:
        account = self._account
        if not isinstance(error, DeliveryFailure):
            _log.error("The adapter of %s failed in a way it must not.", account.name, exc_info=error)
        verdict = judge(error, self._failures, row.attempts, account.pace, random.random())
        if isinstance(verdict, GiveUp):
            _log.error("A message to %s in %s was refused and is kept: %s", self.key, account.name, verdict.reason)
            account.counts["failed"] += 1
            if row.outgoing.kind == ANSWER:
                self._forget_drafts(row.outgoing.turn)
            await self._note(account.turns.outbox_fail, row.id, epoch, verdict.reason)
            told = tell_refusal(row.outgoing, verdict.reason)
            if told is not None:
                await self._note(account.turns.post, row.conversation, f"refused:{row.id}", told)
                account.wake(told.address)
            return
        _log.warning("A message to %s in %s waits %.1f s: %s", self.key, account.name, verdict.seconds, error)
        self._failures += 0 if verdict.certain else 1
        await self._give_back(row, epoch, verdict)

    async def _give_back(self, row: OutboxRow, epoch: int, verdict: SendAgain) -> None:
        """The message waits in the store. Parked first: what the platform asked for holds even if the store does not
        answer."""
        account, now = self._account, time.monotonic()
        account.counts["waiting"] += 1
        self.parked_until = max(self.parked_until, now + verdict.seconds)
        if verdict.penalty:
            account.punish(row.outgoing.address, verdict.seconds, verdict.reason, whole_account=verdict.whole_account)
        delay = 0.0 if verdict.seconds == math.inf else verdict.seconds

        def give_back() -> None:
            account.turns.outbox_back(row.id, epoch, account.turns.now() + delay, certain=verdict.certain)

        await self._note(give_back)

    async def _note(self, write: Callable[..., T], *args: Any) -> T:
        """Write down what happened, however long the store needs: a message that is not noted is sent again."""
        pause = 0.1
        while True:
            try:
                return await self._account.call(write, *args)
            except Fenced:
                raise
            except StoreFailure as problem:
                if self._account.closing:
                    raise
                _log.warning("The store could not note a delivery (%s); trying again.", problem)
                await asyncio.sleep(pause)
                pause = min(2 * pause, 5.0)

    # --- the draft

    async def _step_draft(self) -> float:
        """Make the draft's next step if there is one; seconds until the one after it, infinity: none."""
        async with self._drafting:
            await self.late.look()
            draft, account, now = self.draft, self._account, time.monotonic()
            if draft is None or self.address is None or not account.adapter.reachable(self.address):
                return math.inf
            spec, address = account.adapter.spec, self.address
            # Without room nothing is made ready; by the time there is, the text has grown.
            pause = account.purse.pause_for(address, PROGRESS, now)
            if pause:
                return max(pause, spec.edit_seconds * random.uniform(0.5, 1.5))  # many chats do not ask all at once
            step = next_step(draft, spec, now, progress_pause(spec, address.kind))
            if isinstance(step, Wait):
                return step.seconds
            pause = self._pay_progress(address, now)
            if not pause:
                after = await self._perform(step, draft, address)
                grown = self.drafts.get(after.turn)
                if grown is not None:
                    self.drafts[after.turn] = replace(after, text=grown.text, lines=grown.lines)
            return pause

    async def _perform(self, step: SendDraft | EditDraft | ShowTyping, draft: Draft, address: Address) -> Draft:
        """The draft after the step. A failed one costs nothing: the answer comes through the store."""
        now, adapter, before = time.monotonic(), self._account.adapter, draft
        self._account.counts["progress"] += 1
        try:
            if isinstance(step, ShowTyping):
                draft = replace(draft, typed_at=now)
                await _within(self._account.pace.draft_call, adapter.typing(address))
                return draft
            written, markup = step.written, PLAIN if draft.plain else adapter.spec.markup
            draft = replace(draft, shown=written.text, shown_at=now)
            part = Part(address, written.text, key=draft.key, markup=markup, plain=written.plain)
            if isinstance(step, EditDraft):
                draft = replace(draft, edits=draft.edits + 1)
                await _within(self._account.pace.draft_call, adapter.edit(step.message, part))
                return draft
            draft = begin_draft(draft, takes_keys=adapter.spec.takes_keys)
            if not self._begin(draft):
                return replace(before, given_up=True)
            message = await _within(self._account.pace.draft_call, self.late.send(draft, part))
            draft = settle_draft(draft, message)
            await self.late.note(draft)
            return draft
        except NotNow as wait:
            self._account.heed(address, wait)
            return replace(before, shown="", shown_at=draft.shown_at, typed_at=draft.typed_at)
        except NeverTaken as refusal:
            _log.info("A draft in %s was refused: %s", self.key, refusal)
            if isinstance(step, ShowTyping):
                return draft
            bare = refusal.markup and not draft.plain
            return replace(before, shown="", shown_at=now, plain=draft.plain or bare, given_up=not bare)
        except DeliveryFailure as problem:
            _log.info("A draft in %s was not shown: %s", self.key, problem)
        except Exception:  # noqa: BLE001 - an adapter is somebody else's code
            _log.exception("The adapter of %s failed at a draft.", self._account.name)
        return draft if isinstance(step, ShowTyping) else replace(draft, shown="")

    def _begin(self, draft: Draft) -> bool:
        """Know of a draft before it is sent; False: its answer is stored without it."""
        return self._account.closed.unless_closed(draft.turn, lambda: self.drafts.update({draft.turn: draft}))


def _make_word(address: Address, text: str, markup: str) -> Part:
    word = write_literally(text, markup)
    return Part(address, word.text, markup=markup, plain=word.plain)


async def _rest(poked: asyncio.Event, seconds: float) -> None:
    """Wait so long, or until poked."""
    try:
        async with asyncio.timeout(min(seconds, 3600.0)):
            await poked.wait()
    except TimeoutError:
        pass


async def _within(seconds: float, call: Awaitable[T]) -> T:
    """Every call of an adapter. A store that it could not read says nothing about our rows and our lease."""
    try:
        async with asyncio.timeout(seconds):
            return await call
    except TimeoutError as late:
        raise DeliveryFailure(f"The platform did not answer within {seconds:.0f} s.") from late
    except StoreFailure as problem:
        raise DeliveryFailure(str(problem)) from problem
