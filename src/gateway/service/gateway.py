"""The gateway of one home: owns the store, keeps lanes for conversations at work, and performs what was decided.

It lives on one event loop. Agents work on threads of their own; the store is called on a few more.
"""

import asyncio
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from agent.auxiliary_client import connect_runtime
from agent.http.clients import build_client, release_client
from agent.providers.health import health
from gateway.core.chat_settings import find_faults
from gateway.core.meters import Meters
from gateway.delivery.delivery import Delivery, LiveEvents
from gateway.delivery.hints import Hints
from gateway.delivery.live_relay import LiveRelay
from gateway.platforms.account_settings import PRIVATE, is_on, plan_accounts, read_section
from gateway.platforms.face import Accepted, Adapter, Heard, PlatformSpec, Refused
from gateway.platforms.hub import HubAdapter
from gateway.platforms.platform_list import all_specs, find_misspelt, make_adapter, spec_of
from gateway.platforms.section_faults import find_odd_settings
from gateway.run import GatewayRunner
from gateway.service.admin.access_ends import AccessEnds
from gateway.service.admin.operations import Operations
from gateway.service.announcer import Announcer, keep_copy
from gateway.service.approvers import Approvers
from gateway.service.chat_messenger import make_messenger
from gateway.service.chores import Chores
from gateway.service.connections import Connections
from gateway.service.draining import Draining
from gateway.service.local_door import LocalDoor
from gateway.service.pulse import Pulse
from gateway.service.queries.all_queries import GatewayQueries, KeyQueries, Queries, TurnQueries
from gateway.service.queries.repeat_queries import RepeatQueries
from gateway.service.queries.setup_queries import SetupQueries
from gateway.service.queries.sign_in_queries import SignInQueries
from gateway.service.queries.thread_queries import ThreadQueries
from gateway.service.settings_watch import SettingsWatch
from gateway.service.shared.news_watch import NewsWatch
from gateway.service.shared.own_facts import OwnFacts
from gateway.service.shared.shared_health import SharedHealth
from gateway.service.shared.shared_settings import SharedSettings
from gateway.service.stopping import LENDING, Doors, list_steps, take_step
from gateway.turns.agent_builder import Builder
from gateway.turns.commands.command_scene import OperatorCalls
from gateway.turns.commands.slash_commands import CommandPerformer
from gateway.turns.controls import Controls
from gateway.turns.endings import Endings
from gateway.turns.fetching import Fetcher
from gateway.turns.lane import LaneHost, Places
from gateway.turns.lanes import Lanes
from gateway.turns.plugin_house import open_house
from gateway.turns.questions import Questions
from gateway.turns.run_turn import GatewayParts, TurnPerformer
from gateway.turns.sender import BARRED, CLOSING, DISK_FULL, LEAST_FREE_BYTES, MOVING, Senders, measure_free
from gateway.turns.threads import StoreFace, start_thread
from gateway.turns.titling import Titler
from gateway.turns.whereabouts import Whereabouts
from hermes_base.chat import Notice
from hermes_base.errors import DeliveryFailure, HermesError, StoreFailure
from hermes_base.files.home_files import HomeFiles
from hermes_base.inbound import (
    OUTBOX,
    PERSON,
    Address,
    FileRef,
    Inbound,
    read_way,
    write_inbound,
)
from hermes_base.settings import Settings
from hermes_base.store_place import find_place
from hermes_base.text.own_name import drop_guessed_name
from hermes_cli import config as cli_config
from hermes_cli.plugins import discover_plugins
from hermes_cli.profiles import get_active_profile_name
from hermes_constants import VERSION
from hermes_state.files import open_files, open_folders
from hermes_state.files.folder_files import FolderFiles
from hermes_state.sql.shared import news_sql
from hermes_state.sql.store_sql import Store

log = logging.getLogger(__name__)

STORE_PATIENCE = 90.0  # another process may hold the file so long before a write fails
GRACE_SECONDS = 5.5  # for turns to end by themselves when the gateway stops
CUT_SECONDS = 1.0  # for turns to notice that they were cut
SLOW_STORE_SECONDS = 3.0
AWAY_SECONDS = 10.0  # for which a message of a chat app waits for a store that is away
AGAIN_SECONDS = 0.25  # between two tries to store it
UNASKED_SECONDS = 3.0  # before a group's message that could not be stored is given back, and comes again
STORE_HELD = "The store does not answer yet; your message waits for it."
RECOVERIES = 4  # turns that broke off go on so many at a time


class Gateway:
    """Implements `Core` for adapters. The caller holds the home's lock."""

    def __init__(self, home: Path, *, guest: bool = False) -> None:
        self.home = home
        self.doors = Doors()
        self._guest = guest  # it lives in a terminal, which ends it
        self._tasks: set[asyncio.Task[Any]] = set()
        self._ends = False
        self._closed = asyncio.Event()
        self._stopping: asyncio.Task[None] | None = None
        self.stopped_for = ""  # why it was shut down

    # --- from start to stop

    async def start(self) -> None:
        """Open the store, join, connect the platforms; what was left behind is taken up by the first look."""
        self._loop = asyncio.get_running_loop()
        self.call = StoreFace()
        self.store: Store = await self.call(lambda: Store(find_place(self.home), busy_timeout=STORE_PATIENCE))
        self.turns, self.people = self.store.turns, self.store.people
        self.files, self.folders = open_files(self.home, self.store), open_folders(self.home, self.store)
        self.meters = Meters()
        self.adapters: list[Adapter] = []
        discover_plugins()
        shared = self.shared_settings = SharedSettings(self.home, self.store)
        facts = self.own_facts = OwnFacts(
            self.turns, self.call, self.adapters, lambda: self.lanes.node, lambda: shared.problem
        )
        self.shared_health = SharedHealth(health, self.store.unwell, self.call)
        take_node = lambda node: self.lanes.take_node(node)  # noqa: E731 - they are made later
        self.pulse = Pulse(self.home, self.turns, self.meters, take_node, lambda: facts.about)
        if self.turns.is_shared:
            self.shared_health.begin()
            await start_thread(shared.sync, "settings")
            await start_thread(facts.collect, "facts")
        node = await self.call(self.pulse.join)
        self.hints = Hints(self.turns)
        self._assemble(node)
        find_file = self.files.find if self.files.travels else None
        self.delivery.share(self.hints, self.pulse.lives_until, find_file)
        looks = (
            [self.news_watch.look, shared.look, self.shared_health.look, facts.look, self._begin_relay()]
            if self.turns.is_shared
            else []
        )
        await self.call(self.approvers.void_orphans)
        await self.settings_watch.look()
        chats = [adapter for adapter in self.adapters if not adapter.spec.always_on]
        await self.delivery.start(later=chats)
        self.pulse.start()
        door = LocalDoor(self, self.parts, self.controls, self.operations, self.settings_watch)
        for adapter in self.adapters:
            if adapter.spec.always_on:  # our own socket has to work
                await adapter.connect(door)
        await self.connections.connect(chats, self)
        threading.Thread(target=self._warm_up, name="warm-up", daemon=True).start()
        self.chores.start(self.settings_watch, self.connections, looks)
        log.info("the gateway is ready, as node %s", node)

    def _make_parts(self, node: str) -> GatewayParts:
        """What turns, commands and queries work with. What is made later is looked up when it is called."""
        settings = cli_config.load_last_good
        self.runner, profile = GatewayRunner(), get_active_profile_name()
        self.senders = Senders(self.store, profile, self.runner, fetches_all=self.files.travels)
        self.adapters += make_adapters(settings(), self.home)
        self.live_events = LiveEvents(self.adapters)
        self.delivery = Delivery(
            self.turns,
            self.adapters,
            node,
            self.call,
            drop_file=partial(drop_copy, self.files),
            keep_file=partial(keep_copy, FolderFiles(self.home), "", OUTBOX),  # it is made where it is sent
            note_shown=lambda said: self.questions.note_arrival(said, profile),
        )
        self.whereabouts = Whereabouts(self.store, self.delivery, profile)
        self.announcer = announcer = Announcer(
            self.files,
            self.store,
            self.senders,
            self.delivery,
            self.whereabouts,
            self.live_events,
            wake=lambda key: self.lanes.wake(key),
            is_closing=lambda: self.host.closing,
        )
        self.questions = Questions(
            self.people,
            announcer.ask,
            approvals=self.store.approvals,
            ended=announcer.end_question,
            settled=announcer.settle_question,
            members_approve=lambda: settings().people.members_approve,
            node=node,
        )
        self.approvers = Approvers(self.store, announcer, self.whereabouts, profile, self.delivery.wake)
        self.questions.redirect = self.approvers
        self.builder = self._make_builder(announcer, profile)
        self.titler = Titler(self.store, announcer.name_session, self.meters)
        return GatewayParts(
            home=self.home,
            profile=profile,
            started=time.time(),
            loop=self._loop,
            call=self.call,
            store=self.store,
            files=self.files,
            folders=self.folders,
            runner=self.runner,
            builder=self.builder,
            questions=self.questions,
            adapters=self.adapters,
            delivery=self.delivery,
            whereabouts=self.whereabouts,
            live_events=self.live_events,
            endings=Endings(self.store, self.runner),
            titler=self.titler,
            meters=self.meters,
            hints=self.hints,
        )

    def _make_builder(self, announcer: Announcer, profile: str) -> Builder:
        messenger_of = partial(make_messenger, self.files, self.store, self.delivery, self.whereabouts, profile)
        return Builder(
            self.home,
            self.store,
            announcer.end_process,
            announcer.send_file,
            messenger_of,
            self.meters,
            self.runner.notes_of,
            self.runner.take_reset,
        )

    def _assemble(self, node: str) -> None:
        """The whole gateway: each part is given what it needs, and none reaches back."""
        self.parts = parts = self._make_parts(node)
        open_house(parts, self.senders)
        performer = TurnPerformer(parts)
        operator = OperatorCalls(lambda: self.operations.describe(), self._operate)
        commands = CommandPerformer(parts, performer, operator)
        self.host = LaneHost(parts, self.senders, performer, commands, Places(RECOVERIES), Fetcher(parts))
        self.lanes = lanes = Lanes(self.host, node, self.spawn)
        self.controls = controls = Controls(lanes)
        make = partial(make_adapters, home=self.home)
        self.connections = Connections(self.adapters, self.delivery, self, make, self.spawn)
        self.settings_watch = SettingsWatch(
            self.runner, lanes.tell_all, (self.connections.follow, lambda _: self.own_facts.note_change())
        )
        shut_down = None if self._guest else self.shut_down
        self.chores = Chores(parts, lanes, self.approvers, self.doors, self.spawn, shut_down)
        ends = AccessEnds(parts, lanes, self.senders)
        self.operations = Operations(
            parts, controls, self.chores, self.settings_watch, self.pulse, self.doors, ends, shut_down
        )
        sign_ins = SignInQueries(self.store, self.call, self.home)
        self.news_watch = NewsWatch(
            self.store.news,
            self.call,
            {
                news_sql.PEOPLE: ends.look,
                news_sql.SIGN_INS: sign_ins.forget,
                news_sql.HEALTH: self.shared_health.follow,
                news_sql.SETTINGS: lambda: start_thread(self.shared_settings.sync, "settings"),
            },
        )
        self.operations.draining = Draining(parts, lanes, self.connections, self.spawn)
        threads = ThreadQueries(parts, lanes)
        self.queries = Queries(
            version=VERSION,
            profile=parts.profile,
            files=self.files,
            threads=threads,
            turns=TurnQueries(parts, controls, threads),
            gateway=GatewayQueries(parts, lanes, self.chores, self.settings_watch),
            operations=self.operations,
            setup=SetupQueries(parts),
            keys=KeyQueries(self.store, self.call),
            repeats=RepeatQueries(self.store, self.call),
            sign_ins=sign_ins,
        )

    def _begin_relay(self) -> Callable[[], Awaitable[None]]:
        """What happens here and what happens in other processes is shown wherever somebody watches; what has to be done
        again and again for it."""
        hubs = [adapter for adapter in self.adapters if isinstance(adapter, HubAdapter)]
        relay = LiveRelay(self.hints, self.turns, self.call, self.live_events, hubs, self.spawn, self.parts.profile)
        relay.find_claim, relay.give_way = self.lanes.find_claim, self.lanes.give_way
        self.delivery.pass_rows_on(relay.pass_row)
        relay.start()
        return relay.look

    async def stop(self, reason: str) -> None:
        """End in order, within the times of `gateway.service.stopping` (C14)."""
        if self._ends:
            await self._closed.wait()
            return
        self._ends = True
        log.info("the gateway stops: %s", reason)
        try:
            self.host.closing = True
            steps = list_steps(self.parts, self.lanes, self.doors, self._end_tasks, reason, GRACE_SECONDS, CUT_SECONDS)
            for together in steps:
                await asyncio.gather(*map(take_step, together))
        finally:
            self._closed.set()

    def _end_tasks(self) -> None:
        """What is done again and again ends, and so does the heartbeat."""
        self.pulse.stop()
        for task in self._tasks - {asyncio.current_task()}:
            task.cancel()

    async def wait_closed(self) -> None:
        await self._closed.wait()

    def shut_down(self, reason: str) -> None:
        """Begin to stop; `wait_closed` tells when it is done."""
        if self._stopping is None:
            self.stopped_for = reason
            self._stopping = self._loop.create_task(self.stop(reason))

    # --- Core: what adapters call

    async def take(self, inbound: Inbound) -> Accepted | Refused:
        """Store a message; only then may its platform be told that it was received (C1)."""
        if self.host.closing and not spec_of(inbound.address.platform).forgets:
            return Refused(MOVING if self.stopped_for == LENDING else CLOSING, closing=True)
        inbound = as_from_outside(inbound)
        key = inbound.key(self.parts.profile)
        if self.chores.broken:
            return await refuse_unasked(inbound, StoreFailure(self.chores.trouble))
        claimer = self.lanes.node if self.lanes.takes(key) else ""
        slow = self._loop.call_later(SLOW_STORE_SECONDS, self._tell_held, key, inbound.address)
        try:
            if self.store.engine.absent:
                raise StoreFailure(self.chores.trouble)
            taken: Heard | Accepted | Refused | None = await self.call(self._store_message, key, inbound, claimer)
        except StoreFailure as problem:
            taken = await self._store_later(key, inbound, claimer, problem)
        finally:
            slow.cancel()
        if isinstance(taken, Heard):
            self.live_events.show(key, taken)
            if claimer or key in self.lanes.at_work:
                self.lanes.wake(key)
            else:
                self.spawn(self.lanes.tell_owner(key))
            return Accepted(key, taken.seq)
        return taken or Accepted(key, None)

    async def _store_later(
        self, key: str, inbound: Inbound, claimer: str, problem: StoreFailure
    ) -> Heard | Accepted | Refused | None:
        """In a chat app nobody has to say again what comes while the store is away for a moment; to say so twice is
        safe, also when only the reply was lost. Who sits at a terminal, or is a program, hears at once."""
        patient_until = time.monotonic() + (0.0 if spec_of(inbound.address.platform).always_on else AWAY_SECONDS)
        while time.monotonic() < patient_until:
            await asyncio.sleep(AGAIN_SECONDS)
            try:
                if not self.store.engine.absent:
                    return await self.call(self._store_message, key, inbound, claimer)
            except StoreFailure as again:
                problem = again
        return await refuse_unasked(inbound, problem)

    def _tell_held(self, key: str, address: Address) -> None:
        self.live_events.show(key, Notice(STORE_HELD, "warning"))
        if address.kind == "dm":  # in a group it may be a stranger's, or not for us
            self.spawn(self.delivery.tell(address, STORE_HELD))

    def _store_message(self, key: str, inbound: Inbound, claimer: str) -> Heard | Refused | None:
        """On a store thread: the message as it was stored; None: it was before, or it is a stranger's. Of what those
        send nothing is stored, or they could fill the disk. A program is told."""
        if measure_free(self.home) < LEAST_FREE_BYTES:
            return Refused(DISK_FULL) if self.senders.may_be_told(key, inbound) else None
        redact = cli_config.redactor()  # today's secrets; what is stored is what is sent and shown (G6)
        inbound = replace(inbound, text=redact(inbound.text), quote=redact(inbound.quote), facts=redact(inbound.facts))
        if self.senders.is_stranger(key, inbound):
            if spec_of(inbound.address.platform).is_program:
                return Refused(BARRED, barred=True)
            for address in self.senders.greet_stranger(key, inbound):
                self.delivery.wake(address)
            return None
        account = inbound.address.account_key
        is_mark = spec_of(inbound.address.platform).has_history and not inbound.revision and not inbound.question
        heard = (inbound.address, inbound.message) if is_mark else None
        if self.files.travels:
            for file in inbound.files:  # of terminals and editors; pages have kept theirs before
                self.files.keep(Path(file.path))
        seq = self.turns.accept(key, account, inbound.ext_id, write_inbound(inbound), claimer, heard)
        return None if seq is None else Heard(seq, inbound)

    async def find_last(self, account_key: str) -> Mapping[Address, str]:
        return await self.call(self.turns.find_last, account_key)

    async def knows(self, platform: str, sender: str, name: str = "") -> bool:
        return await self.call(self.senders.knows, platform, sender, name)

    async def take_back(self, address: Address, platform_id: str, failure: DeliveryFailure) -> bool:
        return await self.delivery.take_back(address, address.conversation(self.parts.profile), platform_id, failure)

    def wake_delivery(self, address: Address) -> None:
        self.delivery.wake(address)

    def _operate(self, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        """An operation asked for on the thread of a command."""
        work = self.operations.perform(name, args)
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(timeout=30)

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


async def refuse_unasked(inbound: Inbound, problem: StoreFailure) -> Refused:
    """While the store cannot be asked who somebody is, only a direct chat hears of it: strangers in groups do not (G1).
    What is said in a group is not lost for that: nobody says that it was taken, so it is handed over again (C2)."""
    if inbound.address.kind == "dm":
        return Refused(f"Your message was not taken: {problem}")
    await asyncio.sleep(UNASKED_SECONDS)
    raise problem


def as_from_outside(inbound: Inbound) -> Inbound:
    """Only Hermes speaks as Hermes; who may choose a conversation and a folder, and how an id is written, the
    platform's facts say."""
    spec, now = spec_of(inbound.address.platform), time.time()
    said = inbound if spec.drops_name or inbound.address.kind == "dm" else drop_guessed_name(inbound)
    return replace(
        read_way(said) if "/" in said.text else said,
        origin=PERSON,
        sender=spec.person_ids.bring(inbound.sender),
        received=min(inbound.received or now, now),  # a platform whose clock is ahead knows nothing of what we say next
        conversation=inbound.conversation if spec.joins else "",
        folder=inbound.folder if spec.trusted else "",
    )


def drop_copy(files: HomeFiles, file: FileRef) -> None:
    """Delete the copy of a file that was on its way; any other stays where it is."""
    if Path(file.path).parent.parent.name == OUTBOX:
        files.drop(file.path)


def make_adapters(settings: Settings, home: Path) -> list[Adapter]:
    """The accounts of the platforms of our own, and of those that the settings switch on; one that cannot be made is
    told and left out."""
    given = settings.platforms
    for problem in (*find_misspelt(map(str, given)), *find_odd_settings(given), *find_faults(given)):
        log.warning("platforms: %s", problem)
    made = []
    for spec in all_specs():
        section = read_section(settings.platforms, spec)
        if not is_on(spec, section):
            continue
        for planned in plan_accounts(spec, section, cli_config.env_value):
            with leaving_out(spec, planned.name):
                own = {**planned.read(), PRIVATE: settings.network.private}
                made.append(make_adapter(spec, planned.name, own, home))
    return made


@contextmanager
def leaving_out(spec: PlatformSpec, account: str) -> Iterator[None]:
    """What is wrong with a platform or one account of it is told, and it is left out."""
    try:
        yield
    except Exception as error:  # the boundary to platforms: one of them must not keep the others
        if spec.always_on:
            raise
        who = spec.label if account in ("", spec.name) else f"{spec.label}, account {account},"
        sentence = str(error) if isinstance(error, HermesError) else f"its settings do not do: {error}"
        log.error("%s is left out: %s", who, sentence, exc_info=not isinstance(error, HermesError))
