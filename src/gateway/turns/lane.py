"""One conversation at work: its messages are routed as they arrive, at most one runs, and the rest waits in order.

A lane lives on the event loop while its conversation has open messages, and ends when it has none. What it decides is
`route`; what it performs goes through its `LaneHost`. All rows are in the store: a lane that dies loses nothing.
"""

import asyncio
import contextlib
import logging
import math
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from gateway.core import bursts, clocks
from gateway.core.bursts import Item
from gateway.core.route import (
    ANSWERED,
    MAX_WAITING,
    NOTHING_RUNS,
    AnswerQuestion,
    ConversationView,
    Decision,
    Drop,
    Interrupt,
    Queue,
    ReplyAtOnce,
    RunCommand,
    StartTurn,
    Steer,
    route,
)
from gateway.platforms.face import Begun, Dealt, Judged, Moved
from gateway.platforms.platform_list import spec_of
from gateway.turns.commands.slash_commands import CommandPerformer
from gateway.turns.fetching import Fetcher, FileArrivals
from gateway.turns.run_turn import (
    BY_NEW_MESSAGE,
    GatewayParts,
    Job,
    JobDone,
    LiveTurn,
    TurnPerformer,
)
from gateway.turns.sender import LOOKED_AT, Senders
from gateway.turns.threads import start_thread
from hermes_base import command_table
from hermes_base.chat import Notice
from hermes_base.errors import Fenced, HermesError, StoreFailure
from hermes_base.inbound import NOTE, Inbound, Outgoing
from hermes_state.turns import MAX_ATTEMPTS, Claim

log = logging.getLogger(__name__)

#: A turn that was told to stop and does not is left behind after so many seconds (C4: five, with what comes after).
STOP_PATIENCE = 4.0
LONGEST_BACK_OFF = 60.0
STORE_PAUSE = 1.0
TAKEN = (StartTurn, Queue, Steer, Interrupt)  # decisions by which a message is, or will be, read by the model
TRIED_ENOUGH = f"It was tried {MAX_ATTEMPTS} times, and is not tried again."


class Places:
    """A few places for many: whoever finds none is called when there is one, and asks again. On the event loop. Nobody
    holds a place while they wait, so whoever does not want it any more just never asks."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: dict[Callable[[], None], None] = {}  # in the order in which they asked first

    def take(self, call: Callable[[], None]) -> bool:
        """Whether there was a place, which has to be given back; otherwise `call` is called when there may be one."""
        if not self._free:
            self._waiting[call] = None
            return False
        self._free -= 1
        return True

    def give_back(self) -> None:
        self._free += 1
        called, self._waiting = self._waiting, {}
        for call in called:
            call()


@dataclass(slots=True)
class LaneHost:
    """What all lanes of a gateway share."""

    parts: GatewayParts
    senders: Senders
    turn_performer: TurnPerformer
    command_performer: CommandPerformer
    recovery: Places  # of turns that broke off
    fetcher: Fetcher
    closing: bool = False  # nothing new is begun
    draining: bool = False  # the same, and others take what waits


@dataclass(slots=True)
class Slot:
    """What runs now."""

    job: Job
    live: LiveTurn
    clocks: clocks.TurnClocks
    is_turn: bool
    has_place: bool = False  # in the recovery, which it gives back
    working: "asyncio.Future[JobDone] | None" = None  # on its thread
    abandoned: bool = False
    ended: asyncio.Event = field(default_factory=asyncio.Event)
    stopping: str = ""

    def abandon(self) -> None:
        """Wait for its thread no longer, unless that has just come back."""
        self.abandoned = self.working is not None and self.working.cancel()

    @property
    def asks_model(self) -> bool:
        """Whether it is a command that takes as long as a turn, so that it can be stopped like one."""
        asked = command_table.parse(self.job.first.inbound.text)
        return asked is not None and asked[0] is not None and asked[0].asks_model


@dataclass(eq=False, slots=True)
class NextStop:
    """Why the turn that begins next is stopped: it was told to before it had begun."""

    reason: str = ""
    before: float = math.inf  # what came after the word is not meant by it
    met: asyncio.Event = field(default_factory=asyncio.Event)  # that turn has begun, or none is left to begin

    def order(self, reason: str, before: float = math.inf) -> None:
        self.reason, self.before = reason, before
        self.met.clear()

    def choose(self, waiting: Sequence[Item]) -> Sequence[Item]:
        """Of what waits, what may be in one turn: nothing from both sides of the word."""
        meant = [item for item in waiting if item.row.seq < self.before]
        if not meant:
            self.meet()
        return meant or waiting

    def meet(self) -> str:
        """Why the turn that begins now is stopped; empty: it is not."""
        reason, self.reason = self.reason, ""
        self.met.set()
        return reason


class Lane:
    def __init__(self, host: LaneHost, claim: Claim) -> None:
        self.claim, self.key = claim, claim.conversation
        self.about = {"conversation": self.key}  # what its lines in the log are about
        self.slot: Slot | None = None
        self._host, self._parts = host, host.parts
        self._call, self._turns = host.parts.call, host.parts.store.turns
        self._woken = asyncio.Event()
        self.wake = self._woken.set
        self._unseen = True  # the store may hold messages that were not looked at
        self._looking = False  # at what the store holds: a turn may come of it
        self._next_stop = NextStop()
        self._known: set[int] = set()
        self._put_back: set[int] = set()  # to be looked at again before anything is begun: they may be older (C3)
        self._queue: list[Item] = []
        self._files = FileArrivals(host.fetcher, self.key)
        self._steered: set[int] = set()
        self._judged: set[int] = set()  # put off: their place in the order is theirs, whatever came meanwhile
        self._depth = self._refusals = self._failures = 0
        self._told: set[tuple[str, str]] = set()  # to whom which word on waiting was said during the turn under way
        self._progress = 0.0  # when the turn before this one last moved
        self._not_before = 0.0  # of the clock that is never set
        self.suspended, self._tasks = False, set[asyncio.Task[None]]()

    @property
    def starter(self) -> str:
        return self.slot.job.first.view.sender.person if self.slot else ""

    @property
    def coming(self) -> str:
        """Whose turn begins next, while none is under way."""
        return self._queue[0].view.sender.person if self.slot is None and self._queue else ""

    def look_for_new(self) -> None:
        """There may be new messages in the store."""
        self._unseen = True
        self.wake()

    async def work(self) -> None:
        """Route what is new and start what is next, until nothing is open or the conversation is another's."""
        while not self.suspended:
            self._woken.clear()
            pause: float | None = STORE_PAUSE  # until the next look; None: until woken
            try:
                if self._unseen:
                    await self._take_new()
                pause = self._start_next()
                pause = 0.0 if self._unseen else pause
            except Fenced:
                log.warning("%s belongs to another process now", self.key, extra=self.about)
                self.suspend("another process works on this conversation")
            except StoreFailure as problem:
                log.warning("%s waits for the store: %s", self.key, problem, extra=self.about)
            except Exception:  # the top of a lane: what runs in it goes on, and it looks again
                log.exception("%s could not look at its messages", self.key, extra=self.about)
                self._unseen = True
            finally:
                self._looking = False
            is_idle = self.slot is None and not self._queue and not self._tasks and not self._unseen
            if is_idle and not self._woken.is_set():
                self._next_stop.meet()
                return
            with contextlib.suppress(TimeoutError):  # its time has come
                async with asyncio.timeout(pause):
                    await self._woken.wait()
        self._files.cancel()
        while self._tasks:
            await asyncio.wait(set(self._tasks))

    def stop(self, reason: str, before: float = math.inf) -> bool:
        """Stop what runs, within five seconds, or what is about to and was said `before`; False: there is neither."""
        slot = self.slot
        if slot is None:
            if not (self._queue or self._unseen or self._looking):
                return False
            self._next_stop.order(reason, before)
            self._not_before = 0.0
            self.wake()
            return True
        if not slot.stopping:
            slot.stopping = reason
            slot.live.stop(reason)
            self._start(_insist(slot))
        return True

    async def stop_for_good(self, reason: str) -> bool:
        """Stop, and come back when the end is stored: whoever is told of it is told for good."""
        if not self.stop(reason):
            return False
        with contextlib.suppress(TimeoutError):  # the store does not take its end now; it is written when it does
            async with asyncio.timeout(STOP_PATIENCE + 1.0):
                if self.slot is None:
                    await self._next_stop.met.wait()
                if self.slot is not None:
                    await self.slot.ended.wait()
        return True

    def suspend(self, reason: str) -> None:
        """Leave everything as it stands in the store; whoever comes next goes on from there."""
        self.suspended = True
        if self.slot is not None:
            self.slot.live.suspend()
            self.stop(reason)
        self.wake()

    def look_again(self, person: str = "") -> None:
        """What may be said to this person, or to anybody, has changed: what they said and waits is judged anew."""
        running = self.slot.job.seqs if self.slot else ()
        theirs = {item.row.seq for item in self._queue if person in ("", item.view.sender.person)}.difference(running)
        self._look_again_at(theirs)
        self._judged -= theirs
        self.look_for_new()

    async def tell(self, name: str, note: Outgoing) -> None:
        """Say a word beside the answers; what has this name already is not said again."""
        await self._call(self._turns.post, self.key, name, note)
        self._parts.delivery.wake(note.address)

    # --- messages that come in

    async def _take_new(self) -> None:
        self._unseen, self._looking, known, senders = False, True, frozenset(self._known), self._host.senders
        put_back, self._put_back = self._put_back, set()
        try:
            if self._parts.questions.lines:
                await self._parts.look_for_shown(self.key)
            items = await self._call(partial(senders.look, self.claim, known, closing=self._host.closing))
            if items and senders.hooks.has("pre_gateway_dispatch"):
                asking = map(senders.ask_plugins, items)  # each when the thread comes to it
                items = await start_thread(partial(list, asking), f"plugins {self.key[-40:]}")
        except Exception:
            self._unseen = True
            self._put_back |= put_back
            raise
        self._unseen = self._unseen or len(items) >= LOOKED_AT  # there may be more of them
        for each in items:
            item, seq = each, each.row.seq
            if each.inbound.address.kind != "dm":
                item = bursts.hear_piece(each, (*self._queue, *items), bursts.find_windows(each))
            self._known.add(seq)
            try:
                facts = await self._drop_replaced(item) if item.replaces else item.view
                view = self._view(facts, item.inbound)
                decision = Drop("a plugin skips it") if item.skip else route(item.inbound, view)
                if seq in self._judged:
                    decision = StartTurn()
                refused = view.waiting >= MAX_WAITING and isinstance(decision, Drop | ReplyAtOnce)
                self._refusals = self._refusals + 1 if refused else 0
                await self._perform(item, decision)
                self._parts.live_events.show(self.key, Judged(seq))
            except Exception:
                self._look_again_at({seq})  # what was decided could not be stored
                raise

    def _look_again_at(self, seqs: set[int]) -> None:
        """They are read from the store again, which alone knows how far each message has come."""
        self._known -= seqs
        self._put_back |= seqs
        self._queue = [item for item in self._queue if item.row.seq not in seqs]
        self._unseen = self._unseen or bool(seqs)

    async def _drop_replaced(self, item: Item) -> ConversationView:
        """An edit takes the place of what still waits; what has begun is not touched, and the edit comes too late."""
        replaced = set(item.replaces).difference(self.slot.job.seqs if self.slot else ())
        waiting = tuple(other.row.seq for other in self._queue if other.row.seq in replaced)
        if not waiting:
            return replace(item.view, earlier=ANSWERED)
        await self._call(self._turns.complete, self.claim, waiting, None, ())
        self._note_closed(waiting, item.inbound)
        return item.view

    def _view(self, known: ConversationView, inbound: Inbound) -> ConversationView:
        """A short command under way makes nobody busy: what comes meanwhile just waits for it."""
        turn = self.slot if self.slot is not None and self.slot.is_turn else None
        slow = self.slot is not None and turn is None and self.slot.asks_model
        return replace(
            known,
            busy=turn is not None or slow,
            busy_mode="queue" if slow else known.busy_mode,
            starter=self.starter if self.slot is not None else "",
            coming=self.coming if self._queue else "",
            steerable=known.steerable and turn is not None and turn.live.steerable,
            depth=self._depth,
            question=self._parts.questions.open(self.key, inbound.question or known.replied, inbound.text),
            # What was put into the turn under way and is not read yet is open until it ends, too.
            waiting=len(self._queue) + len(self._steered),
            behind_command=any(item.is_command for item in self._queue),
            refusals=self._refusals,
        )

    async def _perform(self, item: Item, decision: Decision) -> None:
        sender, is_new = item.view.sender, not (item.begun or item.alone)
        if is_new and isinstance(decision, TAKEN) and spec_of(item.inbound.address.platform).has_receipts:
            self._parts.delivery.acknowledge(item.inbound.address, item.inbound.message)
        match decision:
            case Drop(reason):
                log.info("dropped message %d of %s: %s", item.row.seq, self.key, reason, extra=self.about)
                await self._close(item)
            case ReplyAtOnce(text, level, once):
                if once:
                    await self.tell(once, Outgoing(item.inbound.address, text, NOTE, level))
                await self._close(item, "" if once else text, level)
            case AnswerQuestion(question, text):
                taken = self._parts.questions.answer(question, text, sender, conversation=self.key)
                await self._close(item, "" if taken else "That question is not open any more.")
            case RunCommand():
                await self._take_command(item, decision)
            case Queue(told):
                self._enqueue(item)
                if told and (sender.person, told) not in self._told:
                    self._told.add((sender.person, told))
                    await self.tell(f"queued:{item.row.seq}", Outgoing(item.inbound.address, told, NOTE))
            case Steer():
                self._steer(item)
            case Interrupt():
                self._enqueue(item)
                if self.slot is not None and not self.slot.stopping:  # several messages interrupt a turn once
                    self._depth += 1
                    self.stop(BY_NEW_MESSAGE)
            case StartTurn():
                self._enqueue(item)

    def _enqueue(self, item: Item) -> None:
        self._queue = sorted((*self._queue, item), key=lambda waiting: waiting.row.seq)
        if item.inbound.files and self._files.begin(item):
            self._start(self._put_files_into(item))

    async def _put_files_into(self, item: Item) -> None:
        """Once they are here; what could not be had is told once."""
        seq, got = item.row.seq, await self._files.wait(item)
        self._queue = [got.put_into(one) if one.row.seq == seq else one for one in self._queue]
        for number, text in enumerate(() if self.suspended else got.told):
            await self.tell(f"file:{seq}:{number}", Outgoing(item.inbound.address, text, NOTE, "warning"))

    def _steer(self, item: Item) -> None:
        """What follows a message of the same sender that waits, waits too, unless it asks for more (C3)."""
        slot = self.slot
        running = slot.job.seqs if slot else ()
        behind = any(other.view.sender == item.view.sender and other.row.seq not in running for other in self._queue)
        open_to_it = slot is not None and (bool(item.inbound.way) or not behind)
        if slot and open_to_it and slot.live.steer(bursts.text_of([item]), (item.row.seq,)):
            self._steered.add(item.row.seq)
        else:
            self._enqueue(item)

    async def _take_command(self, item: Item, asked: RunCommand) -> None:
        """What may run beside a turn runs now; the rest takes its place in the order, and so does a plugin's command:
        nobody knows what it touches."""
        command = None if asked.plugin else command_table.find_command(asked.name)
        if asked.name == "stop":
            reason = f"stopped by {item.inbound.sender_name or 'the user'}"
            stopped = bool(self.slot or self._queue) and self.stop(reason, item.row.seq)
            await self._close(item, "" if stopped else NOTHING_RUNS)
        elif command is not None and command.when_busy == command_table.NOW:
            self._start(self._run_beside(item))
        else:
            self._enqueue(item)

    async def _close(self, item: Item, text: str = "", level: str = "info") -> None:
        answers = [Outgoing(item.inbound.address, text, NOTE, level)] if text else []
        await self._call(self._turns.complete, self.claim, (item.row.seq,), None, answers)
        self._note_closed((item.row.seq,), item.inbound)

    def _note_closed(self, seqs: tuple[int, ...], inbound: Inbound) -> None:
        self._known.difference_update(seqs)
        self._judged.difference_update(seqs)
        self._queue = [item for item in self._queue if item.row.seq not in seqs]
        if self._files.under_way:
            self._files.cancel(seqs)
        self._parts.delivery.wake(inbound.address)
        self._parts.live_events.show(self.key, Dealt(seqs))

    # --- what runs

    def _start_next(self) -> float | None:
        """Start what is next if nothing runs; seconds to wait if its time has not come, None to wait for a wake."""
        if self.slot is not None or not self._queue or self._put_back:
            return None
        if self.suspended or self._host.closing or self._host.draining:
            return None
        now = time.monotonic()
        if now < self._not_before:
            return self._not_before - now
        first, stop = self._queue[0], self._next_stop
        waiting = stop.choose(self._queue) if stop.reason else self._queue
        items: tuple[Item, ...] = (first,)
        is_turn, recovers = first.row.taken or not first.is_command, False
        if is_turn:
            items, pause = bursts.next_turn(waiting, bursts.find_windows(first), time.time() + first.row.ahead)
            if pause:
                return pause
            if self._files.under_way and self._files.are_awaited(items, cut=bool(stop.reason)):
                return None
            # What broke off waits for a place, behind fresh messages of others (C15); what is stopped does not.
            recovers = first.row.attempts > 0 and not stop.reason
            if recovers and not self._host.recovery.take(self.wake):
                return None
        job = Job(self.claim, items, self._depth if is_turn else 0, failed=self._failures > 0)
        self._queue = [item for item in self._queue if item not in items]
        # A turn that goes on after an interruption keeps the silence clock of the one before running.
        running = clocks.TurnClocks(now, self._progress if job.depth and self._progress else now)
        self.slot = Slot(job, LiveTurn(job, self._parts.questions), running, is_turn, has_place=recovers)
        self._start(self._run_slot(self.slot))
        if reason := stop.meet():
            self.stop(reason)
        return None

    async def _run_slot(self, slot: Slot) -> None:
        commands, turns = self._host.command_performer, self._host.turn_performer
        try:
            done = JobDone() if slot.is_turn else await _unless_abandoned(slot, commands.perform, turns.give_up)
            if done.again is not None:
                slot.is_turn, slot.job = True, replace(slot.job, again=done.again)
            if slot.is_turn:
                self._parts.live_events.show(self.key, await _make_begun(self._parts, slot.job))
                done = await _unless_abandoned(slot, turns.perform, turns.give_up)
            self._failures = 0
            self._settle(slot, done)
        except Fenced:
            log.warning("%s is worked on elsewhere, or was stopped; its turn is dropped", self.key, extra=self.about)
            self.suspended = True
        except Exception as error:  # the top of a turn: it is told, and tried again later or given up
            log.exception("a turn of %s could not be run", self.key, extra=self.about)
            await self._put_off(slot, error)
        finally:
            self._progress = slot.clocks.progress
            self.slot = None
            slot.ended.set()
            if slot.has_place:
                self._host.recovery.give_back()
            self._steered.clear()
            self._told.clear()
            self.wake()

    def _settle(self, slot: Slot, done: JobDone) -> None:
        """The slot has ended: what was not dealt with is looked at again."""
        if slot.stopping != BY_NEW_MESSAGE:
            self._depth = 0
        if left := {*self._steered, *slot.job.seqs}.difference(done.closed):
            self._look_again_at(left)
        if done.moved:
            self._parts.live_events.show(self.key, Moved(slot.job.first.row.seq, done.moved, slot.job.first.inbound))
        self._note_closed(done.closed, slot.job.first.inbound)

    async def _put_off(self, slot: Slot, error: Exception) -> None:
        """The messages stay; the person is told, and it is tried again after a pause that grows. What was told to stop
        has only its end to write then."""
        self._failures += 1
        what = str(error) if isinstance(error, HermesError) else f"{type(error).__name__}: {error}"
        text, first = f"Your message could not be answered: {what}", slot.job.first
        if _is_hopeless(error, self._failures, slot.stopping) and await self._refuse(slot, f"{text} {TRIED_ENOUGH}"):
            return
        pause = min(LONGEST_BACK_OFF, 2.0**self._failures)
        self._not_before = time.monotonic() + pause
        left = {*self._steered, *slot.job.seqs}
        self._judged |= left
        self._look_again_at(left)
        told = f"{text} It is kept, and is tried again in {pause:.0f} s."
        try:
            if not slot.stopping:
                name = f"failed:{self.claim.epoch}:{first.row.seq}:{self._failures}"
                await self.tell(name, Outgoing(first.inbound.address, told, NOTE, "error"))
        except StoreFailure:
            log.warning("the store does not even take a word on the failure of %s", self.key, extra=self.about)
            self._parts.live_events.show(self.key, Notice(told, "error"))  # to whoever looks on
        if slot.stopping:  # perhaps since a moment ago
            self._next_stop.order(slot.stopping)
            self._not_before = time.monotonic() + STORE_PAUSE

    async def _refuse(self, slot: Slot, why: str) -> bool:
        """Close what can be neither answered nor ended in order; False: the store does not take that either."""
        try:
            done = await self._call(self._host.turn_performer.refuse, slot.job, why, slot.stopping)
        except StoreFailure as problem:
            log.warning("%s cannot even be refused: %s", self.key, problem, extra=self.about)
            return False
        self._failures = 0
        self._settle(slot, done)
        return True

    async def _run_beside(self, item: Item) -> None:
        job = Job(self.claim, (item,))
        try:
            perform = partial(self._host.command_performer.perform, job, LiveTurn(job, self._parts.questions))
            done = await start_thread(perform, f"command {self.key[-40:]}")
            self._note_closed(done.closed, item.inbound)
        except Fenced:
            log.info("the claim on %s was lost beside a command", self.key, extra=self.about)
        except Exception:  # the top of a command: its message is looked at again
            log.exception("a command of %s could not be run", self.key, extra=self.about)
            self._not_before = time.monotonic() + STORE_PAUSE
            self._look_again_at({item.row.seq})

    # --- the loop

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        task.add_done_callback(lambda _: self.wake())


async def _make_begun(parts: GatewayParts, job: Job) -> Begun:
    """With what stands in the transcript of a turn that was begun before; for a first try nobody is asked."""
    again = any(item.begun for item in job.items)
    rows = await parts.call(parts.store.turns.count_rows, job.claim.conversation, min(job.seqs)) if again else 0
    return Begun(job.seqs, rows=rows)


async def _unless_abandoned(
    slot: Slot, perform: Callable[[Job, LiveTurn], JobDone], give_up: Callable[[Job, LiveTurn, str], JobDone]
) -> JobDone:
    """The job's result; `give_up` writes its end when it was told to stop and its thread does not come back."""
    name = slot.job.claim.conversation[-40:]
    slot.working = start_thread(partial(perform, slot.job, slot.live), f"turn {name}")
    try:
        return await slot.working
    except asyncio.CancelledError:
        if not slot.abandoned:
            raise
    if slot.live.suspended:
        raise Fenced("The gateway stops, and the turn did not end in time.")
    slot.live.suspend()
    return await start_thread(partial(give_up, slot.job, slot.live, slot.stopping), f"give up {name}")


def _is_hopeless(error: Exception, failures: int, stopping: str) -> bool:
    """Whether nothing is left to try. A store that fails is waited for, longer by who is not stopped."""
    stopped, often = bool(stopping), failures >= MAX_ATTEMPTS
    return stopped and often if isinstance(error, StoreFailure) else stopped or often


async def _insist(slot: Slot) -> None:
    """The turn was told to stop; leave it behind when it does not end."""
    try:
        async with asyncio.timeout(STOP_PATIENCE):
            await slot.ended.wait()
    except TimeoutError:
        key = slot.job.claim.conversation
        log.error("a turn of %s does not stop; it is left behind", key, extra={"conversation": key})
        slot.abandon()
