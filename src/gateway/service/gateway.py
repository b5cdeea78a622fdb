"""The gateway of one home: owns the store, keeps lanes for conversations at work, and performs what was decided.

It lives on one event loop. Agents work on threads of their own; the store is called on a few more.
"""

import asyncio
import logging
import threading
import time
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from agent.auxiliary_client import connect_runtime
from agent.http.clients import build_client, release_client
from gateway.core.meters import Meters
from gateway.delivery.delivery import Delivery
from gateway.delivery.live_events import DraftFeed, LiveEvents
from gateway.platforms.face import Accepted, Adapter, Asking, Heard, LiveEvent, Refused, Titled
from gateway.platforms.platform_list import all_specs, find_misspelt, make_adapter
from gateway.run import GatewayRunner
from gateway.service.admin import Operations
from gateway.service.chores import Chores
from gateway.service.local_door import LocalDoor
from gateway.service.notices import ProcessNotices
from gateway.service.pulse import Pulse
from gateway.service.settings_watch import SettingsWatch
from gateway.service.stopping import end_gateway
from gateway.turns.agent_builder import Builder, Choices
from gateway.turns.endings import Endings
from gateway.turns.jobs import Job
from gateway.turns.lane import Lane
from gateway.turns.places import Places
from gateway.turns.questions import Questions
from gateway.turns.run_turn import GatewayParts, LiveTurn, TurnPerformer
from gateway.turns.sender import CLOSING, DISK_FULL, Senders, has_room, spec_of
from gateway.turns.slash_commands import CommandPerformer, OperatorCalls
from gateway.turns.threads import EventPipe, StoreFace
from gateway.turns.titling import Titler
from hermes_base.chat import Notice, Question
from hermes_base.errors import HermesError, StoreFailure
from hermes_base.inbound import (
    FILE,
    OUTBOX,
    PEOPLE,
    PERSON,
    QUESTION,
    SHOWN,
    Address,
    FileRef,
    Inbound,
    Outgoing,
    read_way,
    write_inbound,
)
from hermes_base.settings import Settings
from hermes_cli import config as cli_config
from hermes_cli.plugins import discover_plugins
from hermes_cli.profiles import get_active_profile_name
from hermes_constants import VERSION
from hermes_state.sql.schema import STORE_FILE
from hermes_state.sql.store_sql import Store
from hermes_state.turns import Claim

log = logging.getLogger(__name__)

STORE_PATIENCE = 90.0  # another process may hold the file so long before a write fails
GRACE_SECONDS = 5.5  # for turns to end by themselves when the gateway stops
CUT_SECONDS = 1.0  # for turns to notice that they were cut
SLOW_STORE_SECONDS = 3.0
STORE_HELD = "Another process holds the store; your message waits for it."
RECOVERIES = 4  # turns that broke off go on so many at a time


class Gateway:
    """Implements `LaneHost` for lanes and `Core` for adapters. The caller holds the home's lock."""

    def __init__(self, home: Path, *, guest: bool = False) -> None:
        self.home = home
        self.guest = guest  # it lives in a terminal, which ends it
        self.profile = get_active_profile_name()
        self.version = VERSION
        self.runner = GatewayRunner()
        self.call = StoreFace()
        self.adapters: list[Adapter] = []
        self._coming: dict[str, asyncio.Event] = {}  # set when the lane of a conversation has been made, or cannot be
        self.lanes: Mapping[str, Lane] = {}  # never changed in its place: other threads walk through it
        self.node = ""
        self.started = 0.0
        self.closing = False
        self.address = ""  # of the page; empty: it is not served
        self.doors: list[Callable[[], Awaitable[None]]] = []  # what else has to be closed before the store is
        self.recovery = Places(RECOVERIES)
        self.claims: dict[str, Claim] = {}
        self._tasks: set[asyncio.Task[Any]] = set()
        self._closed = asyncio.Event()
        self.claiming = asyncio.Lock()  # claims are taken and given back one after the other
        self.meters = Meters()
        self.settings_watch = SettingsWatch(self)
        self.chores = Chores(self)
        self._stopping: asyncio.Task[None] | None = None

    # --- from start to stop

    async def start(self) -> None:
        """Open the store, join, connect the platforms; what was left behind is taken up by the first poll."""
        self._loop = asyncio.get_running_loop()
        self.store: Store = await self.call(lambda: Store(self.home / STORE_FILE, busy_timeout=STORE_PATIENCE))
        self.turns, self.people = self.store.turns, self.store.people
        self.pulse = Pulse(self.home, self.turns, self.meters, self.take_node)
        self.node = await self.call(self.pulse.join)
        await self.call(self.people.void_questions)
        self._assemble()
        await self.settings_watch.look()
        await self.delivery.start()
        door = LocalDoor(self)
        for adapter in self.adapters:
            await self.chores.connect(adapter, door if adapter.spec.always_on else self)
        self.started = time.time()
        self.pulse.start()
        threading.Thread(target=self._warm_up, name="warm-up", daemon=True).start()
        self.chores.start()
        log.info("the gateway is ready, as node %s", self.node)

    def _assemble(self) -> None:
        discover_plugins()
        self.senders = Senders(self.turns, self.people, self)
        self.questions = Questions(
            self.people,
            self._announce,
            ended=lambda conversation: self._show_soon(conversation, Asking(None)),
            members_approve=lambda: cli_config.load_last_good().people.members_approve,
            node=self.node,
        )
        self.adapters = make_adapters(cli_config.load_last_good().platforms, self.home)
        self.live_events = LiveEvents(self.adapters)
        self.delivery = Delivery(
            self.turns,
            self.adapters,
            self.node,
            self.call,
            drop_file=drop_copy,
            note_shown=self.questions.note_shown,
        )
        self.builder = Builder(
            self.home, self.store, ProcessNotices(self).post, self._send_file, self.meters, self.runner.notes_of
        )
        self.endings = Endings(self.store, self.runner)
        self.titler = Titler(
            self.store,
            lambda conversation, session, title: self._show_soon(conversation, Titled(session, title)),
            self.meters,
        )
        parts = GatewayParts(
            self.home,
            self.store,
            self.runner,
            self.builder,
            self.questions,
            self.delivery,
            self.endings,
            self.titler,
            self.meters,
            self._make_pipe,
        )
        self.turn_performer = TurnPerformer(parts)
        self.operations = Operations(self)
        operator = OperatorCalls(self.operations.describe, self._operate)
        self.command_performer = CommandPerformer(parts, self.turn_performer, operator)

    async def stop(self, reason: str) -> None:
        """End in order, within the times of `gateway.service.stopping` (C14)."""
        if self.closing:
            await self._closed.wait()
            return
        self.closing = True
        log.info("the gateway stops: %s", reason)
        try:
            await end_gateway(self, reason, GRACE_SECONDS, CUT_SECONDS)
        finally:
            self._closed.set()

    def end_tasks(self) -> None:
        """What is done again and again ends, and so does the heartbeat."""
        self.pulse.stop()
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def shut_down(self, reason: str) -> None:
        """Begin to stop; `wait_closed` tells when it is done."""
        if self._stopping is None:
            self._stopping = self._loop.create_task(self.stop(reason))

    # --- Core: what adapters call

    async def take(self, inbound: Inbound) -> Accepted | Refused:
        """Store a message; only then may its platform be told that it was received (C1)."""
        if self.closing:
            return Refused(CLOSING, closing=True)
        if self.chores.trouble:
            return Refused(f"Your message was not taken: {self.chores.trouble}")
        inbound = as_from_outside(inbound)
        key = inbound.key(self.profile)
        # The message claims its conversation for this node, unless something runs there under an old claim.
        lane = self.lanes.get(key)
        claimer = self.node if lane is None or lane.claim.node == self.node else ""
        slow = self._loop.call_later(SLOW_STORE_SECONDS, self._tell_held, key, inbound.address)
        try:
            taken = await self.call(self._store_message, key, inbound, claimer)
        except StoreFailure as problem:
            return Refused(f"Your message was not taken: {problem}")
        finally:
            slow.cancel()
        if isinstance(taken, Heard):
            self.live_events.show(key, taken)
            self.wake(key)
            return Accepted(key, taken.seq)
        return taken or Accepted(key, None)

    def _tell_held(self, key: str, address: Address) -> None:
        self.live_events.show(key, Notice(STORE_HELD, "warning"))
        self.spawn(self.delivery.tell(address, STORE_HELD))

    def _store_message(self, key: str, inbound: Inbound, claimer: str) -> Heard | Refused | None:
        """On a store thread: the message as it was stored; None: it was before, or it is a stranger's. Of what those
        send nothing is stored, or they could fill the disk."""
        if not has_room(self.home):
            return Refused(DISK_FULL)
        redact = cli_config.redactor()  # today's secrets; what is stored is what is sent and shown (G6)
        inbound = replace(inbound, text=redact(inbound.text))
        if self.senders.is_stranger(key, inbound):
            if self.senders.greet_stranger(key, inbound):
                self.delivery.wake(inbound.address)
            return None
        account = inbound.address.account_key
        seq = self.turns.accept(key, account, inbound.ext_id, write_inbound(inbound), claimer)
        return None if seq is None else Heard(seq, inbound)

    def wake_delivery(self, address: Address) -> None:
        self.delivery.wake(address)

    # --- lanes

    def wake(self, key: str) -> None:
        """There is something to do for this conversation."""
        lane = self.lanes.get(key)
        if lane is not None:
            lane.look_for_new()
        elif not self.closing:
            self._coming.setdefault(key, asyncio.Event())
            self.spawn(self._work(key))

    async def find_lane(self, key: str) -> Lane | None:
        """The lane of a conversation at work; waits for one that is being made."""
        while key in self._coming:
            await self._coming[key].wait()
        return self.lanes.get(key)

    async def _work(self, key: str) -> None:
        try:
            claim = self.claims.get(key)
            if claim is None or claim.node != self.node:
                async with self.claiming:
                    claim = await self.call(self.turns.claim_one, self.node, key)
            if claim is None:
                log.info("%s is worked on by another process", key)
                return
            if key in self.lanes:
                self.lanes[key].look_for_new()
                return
            self.claims[key] = claim
            lane = Lane(self, claim)
            self.lanes = {**self.lanes, key: lane}
        except StoreFailure as problem:
            log.warning("%s cannot be claimed now: %s", key, problem)
            return
        finally:
            if key in self._coming:
                self._coming.pop(key).set()
        try:
            await lane.work()
        finally:
            self.lanes = {other: kept for other, kept in self.lanes.items() if other != key}
            if lane.suspended:
                self.claims.pop(key, None)

    # --- what others call

    def call_soon(self, call: Callable[..., object], *args: Any) -> None:
        """Have the loop do it; on any thread."""
        self._loop.call_soon_threadsafe(call, *args)

    def _show_soon(self, conversation: str, event: LiveEvent) -> None:
        self.call_soon(self.live_events.show, conversation, event)

    # --- what turns need

    def _make_pipe(self, job: Job, live: LiveTurn, settings: Settings) -> EventPipe:
        """Events of the turn: to everyone who looks at the conversation, and as a draft into the chat."""
        key, address = job.claim.conversation, job.first.inbound.address
        shows = spec_of(address.platform).shows_events
        progress = settings.gateway.tool_progress
        draft = None if shows else DraftFeed(self.delivery, address, live.draft_id, progress)
        if draft is not None:  # this is the turn's thread; drafts live on the loop
            self.call_soon(draft.begin)

        def show(event: LiveEvent) -> None:
            self.live_events.show(key, event)
            if draft is not None and not live.suspended:
                draft.show(event)

        return EventPipe(self._loop, show)

    def _announce(self, question: Question, person: str) -> None:
        """A question is on its way to a person; called on the asking thread."""
        del person
        address = self.address_of(question.conversation)
        self.turns.post(question.conversation, f"question:{question.id}", write_question(address, question))
        self._show_soon(question.conversation, Asking(question))
        self.delivery.wake(address)

    def address_of(self, conversation: str) -> Address:
        return Address(**Choices.of(self.turns.choices(conversation)).address)

    def _send_file(self, conversation: str, file: FileRef, caption: str, data: bytes) -> None:
        """The agent hands over a file; where it is sent or fetched later, as a copy. On a tool's thread."""
        address = self.address_of(conversation)
        spec = spec_of(address.platform)
        if spec.fetches_files or not spec.trusted:
            person = self.people.person_of(conversation)
            own = self.home / PEOPLE / person if person else self.home
            file = keep_copy(own / (SHOWN if spec.fetches_files else OUTBOX), file, data)
        outgoing = Outgoing(address, caption, FILE, file=file)
        self.turns.post(conversation, f"file:{uuid.uuid4().hex[:16]}", outgoing)
        self.delivery.wake(address)

    def _operate(self, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """An operation asked for on the thread of a command."""
        work = self.operations.perform(name, args)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

    def take_node(self, node: str) -> None:
        """This process is another node from now on. What runs goes on under its old claim, which holds as long as
        nobody has taken the conversation over."""
        self.node = node
        self.claims = {key: lane.claim for key, lane in self.lanes.items()}
        self.delivery.rejoin(node)

    # --- parts

    def _warm_up(self) -> None:
        """While nobody has asked yet, load what the first answer needs; a failure shows again, and clearly, then."""
        try:
            found = self.builder.find_runtime(cli_config.load_last_good(), "", "")
            if found.provider == "embedded":
                return  # it is large, and perhaps never asked: it loads when somebody comes
            runtime = connect_runtime(found)
            release_client(build_client(runtime.api_mode, api_key=runtime.api_key, base_url=runtime.base_url))
        except Exception:  # a thread's top
            log.debug("warming up failed", exc_info=True)

    def spawn(self, work: Any) -> None:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._end_task)

    def _end_task(self, task: asyncio.Task[Any]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and task.exception() is not None:
            log.error("a task of the gateway broke", exc_info=task.exception())


def as_from_outside(inbound: Inbound) -> Inbound:
    """Only Hermes speaks as Hermes; who may choose a conversation and a folder, the platform's facts say."""
    spec, now = spec_of(inbound.address.platform), time.time()
    return replace(
        read_way(inbound),
        origin=PERSON,
        received=min(inbound.received or now, now),  # a platform whose clock is ahead knows nothing of what we say next
        conversation=inbound.conversation if spec.joins else "",
        folder=inbound.folder if spec.trusted else "",
    )


def keep_copy(place: Path, file: FileRef, data: bytes) -> FileRef:
    """The file as it was, in a folder of its own below `place`."""
    folder = place / uuid.uuid4().hex[:16]
    folder.mkdir(parents=True, mode=0o700)
    path = folder / file.name
    path.write_bytes(data)
    return replace(file, path=str(path))


def drop_copy(file: FileRef) -> None:
    """Delete the copy of a file that was on its way; any other stays where it is."""
    path = Path(file.path)
    if path.parent.parent.name == OUTBOX:
        path.unlink(missing_ok=True)
        path.parent.rmdir()


def make_adapters(sections: Mapping[str, Any], home: Path) -> list[Adapter]:
    """The platforms of our own, and those that the settings switch on; one that cannot be made is told and left out."""
    for problem in find_misspelt(map(str, sections)):
        log.warning("platforms: %s", problem)
    made = []
    for spec in all_specs():
        section = sections.get(spec.name) or {}
        if not spec.always_on and section.get("enabled") is not True:
            continue
        try:
            made.append(make_adapter(spec, str(section.get("account") or spec.name), section, home))
        except Exception as error:  # the boundary to platforms: one of them must not keep the others
            if spec.always_on:
                raise
            sentence = str(error) if isinstance(error, HermesError) else f"its settings do not do: {error}"
            log.error("%s is left out: %s", spec.label, sentence, exc_info=not isinstance(error, HermesError))
    return made


def write_question(address: Address, question: Question) -> Outgoing:
    """The question as a chat is sent it."""
    return Outgoing(
        address,
        question.text,
        QUESTION,
        level=question.kind,
        question=question.id,
        choices=question.choices,
        reason=question.reason,
        turn=question.turn,
    )
