"""What the gateway does again and again: looks for work that nobody does, watches turns, lets idle agents go, keeps the
menus of platforms. A chore that fails is told in the log and done again."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable
from typing import Any

from gateway.core import clocks
from gateway.platforms.face import Dealt
from gateway.platforms.hub import HubAdapter
from gateway.service.approvers import Approvers
from gateway.service.connections import Connections
from gateway.service.retention import Retention
from gateway.service.settings_watch import SettingsWatch
from gateway.service.stopping import Doors
from gateway.turns.lane import Lane
from gateway.turns.lanes import Lanes
from gateway.turns.run_turn import GatewayParts, Job, LiveTurn
from gateway.turns.threads import start_thread
from hermes_base.errors import StoreFailure
from hermes_base.inbound import NOTE, NOTICE, Outgoing
from hermes_base.settings import GatewaySettings
from hermes_cli import config as cli_config
from hermes_state import home_lock
from hermes_state.sql.damage_sql import SetAside

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
WATCH_SECONDS = 2.0
SWEEP_SECONDS = 60.0
ORPHANS_SECONDS = 5.0
STORE_CHORES = "chores"  # the lease of whoever does them
FIRST_RETENTION_SECONDS, RETENTION_SECONDS = 120.0, 3600.0
TAKEN_OVER = "The lock of the home was deleted, and another process owns the home now."


class Chores:
    def __init__(
        self,
        parts: GatewayParts,
        lanes: Lanes,
        approvers: Approvers,
        doors: Doors,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
        shut_down: Callable[[str], None] | None,
    ) -> None:
        """Without `shut_down` the gateway lives in a terminal, which ends it."""
        self._parts = parts
        self._lanes = lanes
        self._approvers = approvers
        self._doors = doors
        self._spawn = spawn
        self._shut_down = shut_down
        self.broken = ""  # what is wrong with the store as a whole, as long as this process lives
        self.damaged = 0  # rows that could not be read and were set aside

    @property
    def trouble(self) -> str:
        """Why no message is taken now; a database that is away may be back in a moment."""
        return self.broken or self._parts.store.engine.absent

    def start(
        self,
        settings_watch: SettingsWatch,
        connections: Connections,
        looks: Iterable[Callable[[], Awaitable[object]]] = (),
    ) -> None:
        """`looks`: what else is done once a second."""
        parts = self._parts
        parts.store.when_damaged = self._tell_damage
        for seconds, work in (
            (lambda: POLL_SECONDS, self._lanes.look),
            (lambda: WATCH_SECONDS, self._lanes.give_up_surplus),
            (lambda: WATCH_SECONDS, self._watch_all),
            (lambda: WATCH_SECONDS, self._watch_home),
            (lambda: SWEEP_SECONDS, self._sweep),
            (lambda: WATCH_SECONDS, settings_watch.look),
            (lambda: SWEEP_SECONDS, connections.offer_menus),
            (lambda: ORPHANS_SECONDS, lambda: parts.call(self._approvers.void_orphans)),
            *((lambda: POLL_SECONDS, look) for look in looks),
        ):
            self._spawn(self._every(seconds, work))
        # F7: what is over goes, once an hour; not while the start has other things to do.
        retention = Retention(parts.home, parts.store, cli_config.load_last_good, parts.endings.expire)
        hourly = self._every(lambda: RETENTION_SECONDS, lambda: self._tidy(retention), FIRST_RETENTION_SECONDS)
        self._spawn(hourly)

    async def _tidy(self, retention: Retention) -> None:
        """What concerns the store is done by one process of all that have it (I3)."""
        turns, node = self._parts.store.turns, self._lanes.node
        held = await self._parts.call(turns.hold, STORE_CHORES, node, 2 * RETENTION_SECONDS)
        await retention.run(self._parts.call, of_store=held is not None)

    async def _every(
        self, seconds: Callable[[], float], work: Callable[[], Awaitable[object]], first: float = 0.0
    ) -> None:
        await asyncio.sleep(first)
        while True:
            try:
                await work()
            except StoreFailure as problem:
                log.warning("the store cannot be looked at: %s", problem)
            except Exception:  # the top of a chore
                log.exception("a chore of the gateway failed; it is done again")
            await asyncio.sleep(seconds())

    async def _watch_home(self) -> None:
        """The lock and the store are files that others can delete. Without them this process would lose what it is
        told, so it ends, and whoever starts it next sees what is there."""
        parts, before = self._parts, self.broken
        owned = await parts.call(home_lock.tend, parts.home)
        lost = await parts.call(parts.store.find_loss) if owned else TAKEN_OVER
        self.broken = lost or parts.store.broken
        if self.broken and not before:
            log.critical("%s No message is taken any more.", self.broken)
        if lost and self._shut_down is not None:
            self._shut_down(lost.rstrip("."))

    def _tell_damage(self, aside: SetAside) -> None:
        """On any thread."""
        self._parts.loop.call_soon_threadsafe(self._show_damage, aside)

    def _show_damage(self, aside: SetAside) -> None:
        """A stored row could not be read: its person is told by the outbox, and nobody waits for it any more."""
        self.damaged += 1
        if aside.seq:
            self._parts.live_events.show(aside.conversation, Dealt((aside.seq,)))
        if aside.address is not None:
            self._parts.delivery.wake(aside.address)

    # --- clocks

    async def _watch_all(self) -> None:
        turns = [lane for lane in self._lanes.at_work.values() if lane.slot is not None and lane.slot.is_turn]
        if turns:
            limits = await start_thread(lambda: read_limits(cli_config.load_last_good().gateway), "limits")
            for lane in turns:
                self._watch(lane, limits)

    def _watch(self, lane: Lane, limits: clocks.TurnTimes) -> None:
        """C11: each clock warns once before it ends a turn, and says which it is."""
        slot, now = lane.slot, time.monotonic()
        if slot is None or slot.stopping:
            return
        slot.clocks = clocks.observe(slot.clocks, read_signs(lane, slot.live), now)
        verdict = clocks.judge(slot.clocks, limits, now)
        if isinstance(verdict, clocks.Kill):
            lane.stop(verdict.text)
        elif isinstance(verdict, clocks.Warn):
            slot.clocks = clocks.note(slot.clocks, verdict, now)
            name = f"clock:{slot.job.first.row.seq}:{verdict.clock}:{time.time():.0f}"
            note = Outgoing(slot.job.first.inbound.address, verdict.text, NOTE, "warning")
            self._spawn(self._warn(lane, slot.job, name, note))  # a slow store must not keep other clocks waiting

    async def _warn(self, lane: Lane, job: Job, name: str, note: Outgoing) -> None:
        """Nobody is woken by a warning about a turn that nobody asked for."""
        if job.first.inbound.origin == NOTICE:
            note = await self._parts.call(self._parts.whereabouts.quieten, note, job.first.view.sender.person)
        await lane.tell(name, note)

    # --- agents and claims

    async def _sweep(self) -> None:
        """Let idle agents go, and the claims on conversations that nobody is warm for."""
        parts = self._parts
        for adapter in parts.adapters:
            is_served = isinstance(adapter, HubAdapter) and not adapter.has_own_socket
            if self._doors.address and (is_served or (adapter.spec.is_program and not adapter.problem)):
                adapter.last_seen = time.time()  # what comes over our server is alive while that listens (C13)
        self.damaged = await parts.call(parts.store.count_damaged)
        await parts.call(parts.runner._sweep_idle_cached_agents)
        await self._lanes.release_cold()


def read_signs(lane: Lane, live: LiveTurn) -> clocks.Signs:
    """What the turn is seen doing. One that cannot even be looked at is seen doing nothing: its clocks go on, and so do
    those of all others."""
    try:
        return live.signs()
    except Exception:  # the boundary to agents, engines and plugins
        log.exception("the turn of %s cannot be looked at", lane.key, extra=lane.about)
        return clocks.Signs()


def read_limits(section: GatewaySettings) -> clocks.TurnTimes:
    return clocks.TurnTimes(60.0 * section.silence_minutes, 60.0 * section.turn_minutes)
