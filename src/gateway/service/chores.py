"""What the gateway does again and again: looks for work that nobody does, watches turns, lets idle agents go, connects
platforms that could not be reached. A chore that fails is told in the log and done again."""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING

from gateway.core import clocks
from gateway.platforms.face import Adapter, Core, Dealt
from gateway.platforms.hub import HubAdapter
from gateway.service.retention import Retention
from gateway.turns.lane import Lane
from gateway.turns.run_turn import LiveTurn
from gateway.turns.threads import start_thread
from hermes_base.errors import HermesError, StoreFailure
from hermes_base.inbound import NOTE, Outgoing
from hermes_base.settings import GatewaySettings
from hermes_cli import config as cli_config
from hermes_state import home_lock
from hermes_state.sql.damage_sql import SetAside

if TYPE_CHECKING:
    from gateway.service.gateway import Gateway

log = logging.getLogger(__name__)

POLL_SECONDS = 1.0
WATCH_SECONDS = 2.0
SWEEP_SECONDS = 60.0
FIRST_RETENTION_SECONDS, RETENTION_SECONDS = 120.0, 3600.0
CLAIMED_AT_ONCE = 1000
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0  # between two tries to connect a platform
TAKEN_OVER = "The lock of the home was deleted, and another process owns the home now."


class Chores:
    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway
        self.looked = time.monotonic()  # when work that nobody does was last looked for
        self.trouble = ""  # what is wrong with the store as a whole: no message is taken then
        self.damaged = 0  # rows that could not be read and were set aside

    def start(self) -> None:
        gateway = self._gateway
        gateway.store.when_damaged = lambda aside: gateway.call_soon(self._show_damage, aside)  # on any thread
        self.set_limits()
        for seconds, work in (
            (lambda: POLL_SECONDS, self._poll),
            (lambda: WATCH_SECONDS, self._watch_all),
            (lambda: WATCH_SECONDS, self._watch_home),
            (lambda: SWEEP_SECONDS, self._sweep),
            (lambda: WATCH_SECONDS, gateway.settings_watch.look),
        ):
            gateway.spawn(self._every(seconds, work))
        # F7: what is over goes, once an hour; not while the start has other things to do.
        retention = Retention(gateway.home, gateway.store, cli_config.load_last_good, gateway.endings.expire)
        hourly = self._every(lambda: RETENTION_SECONDS, lambda: retention.run(gateway.call), FIRST_RETENTION_SECONDS)
        gateway.spawn(hourly)

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

    async def _poll(self) -> None:
        """Take up what nobody works on: messages of a dead process, and those whose wake was lost. What runs here under
        the claim of an earlier node is left alone: it would be taken over from ourselves."""
        gateway = self._gateway
        if not gateway.closing and all(lane.claim.node == gateway.node for lane in gateway.lanes.values()):
            for claim in await gateway.call(gateway.turns.claim, gateway.node, CLAIMED_AT_ONCE):
                gateway.claims[claim.conversation] = claim
                gateway.wake(claim.conversation)
        elif not gateway.closing:
            for holding in await gateway.call(gateway.turns.holdings, CLAIMED_AT_ONCE):
                if holding.pending and not holding.live and holding.conversation not in gateway.lanes:
                    gateway.wake(holding.conversation)  # which claims it
        for claim in await gateway.call(gateway.turns.ready, gateway.node):
            gateway.wake(claim.conversation)
        for control in await gateway.call(gateway.turns.take_controls, gateway.node):
            gateway.operations.take_control(control)
        self.looked = time.monotonic()

    async def _watch_home(self) -> None:
        """The lock and the store are files that others can delete. Without them this process would lose what it is
        told, so it ends, and whoever starts it next sees what is there."""
        gateway, before = self._gateway, self.trouble
        owned = await gateway.call(home_lock.tend, gateway.home)
        lost = await gateway.call(gateway.store.find_loss) if owned else TAKEN_OVER
        self.trouble = lost or gateway.store.broken
        if self.trouble and not before:
            log.critical("%s No message is taken any more.", self.trouble)
        if lost and not gateway.guest:
            gateway.shut_down(lost.rstrip("."))

    def _show_damage(self, aside: SetAside) -> None:
        """A stored row could not be read: its person is told by the outbox, and nobody waits for it any more."""
        self.damaged += 1
        if aside.seq:
            self._gateway.live_events.show(aside.conversation, Dealt((aside.seq,)))
        if aside.address is not None:
            self._gateway.delivery.wake(aside.address)

    # --- clocks

    async def _watch_all(self) -> None:
        turns = [lane for lane in self._gateway.lanes.values() if lane.slot is not None and lane.slot.is_turn]
        if turns:
            limits = await start_thread(lambda: read_limits(cli_config.load_last_good().gateway), "limits")
            for lane in turns:
                self._watch(lane, limits)

    def _watch(self, lane: Lane, limits: clocks.TurnTimes) -> None:
        """C11: each clock warns once before it ends a turn, and says which it is."""
        slot, now = lane.slot, time.time()
        if slot is None or slot.stopping:
            return
        slot.clocks = clocks.observe(slot.clocks, read_signs(lane, slot.live), now)
        verdict = clocks.judge(slot.clocks, limits, now)
        if isinstance(verdict, clocks.Kill):
            lane.stop(verdict.text)
        elif isinstance(verdict, clocks.Warn):
            slot.clocks = clocks.note(slot.clocks, verdict, now)
            name = f"clock:{slot.job.first.row.seq}:{verdict.clock}:{now:.0f}"
            note = Outgoing(slot.job.first.inbound.address, verdict.text, NOTE, "warning")
            self._gateway.spawn(lane.tell(name, note))  # a slow store must not keep the clocks of others waiting

    # --- agents and claims

    def set_limits(self) -> None:
        settings = cli_config.load_last_good().gateway
        self._gateway.runner.set_limits(
            agents=settings.agents,
            idle_seconds=60.0 * settings.agent_idle_minutes,
            size=settings.agent_megabytes * 1024 * 1024,
        )

    async def _sweep(self) -> None:
        """Let idle agents go, and the claims on conversations that nobody is warm for."""
        gateway = self._gateway
        for adapter in gateway.adapters:
            if gateway.address and isinstance(adapter, HubAdapter) and not adapter.has_own_socket:
                adapter.last_seen = time.time()  # page and API are alive while their server listens (C13)
        self.damaged = await gateway.call(gateway.store.count_damaged)
        await gateway.call(gateway.runner._sweep_idle_cached_agents)
        cold = [key for key in gateway.claims if key not in gateway.lanes and not gateway.runner.cached_agent(key)]
        for key in cold:
            async with gateway.claiming:
                if key not in gateway.lanes and key in gateway.claims:
                    await gateway.call(gateway.turns.release, gateway.claims.pop(key))

    # --- platforms

    async def connect(self, adapter: Adapter, core: Core) -> None:
        """Connect a platform; one that cannot be now is tried again, our own socket has to work."""
        if adapter.spec.always_on:
            await adapter.connect(core)
        elif not await _try_connect(adapter, core):
            self._gateway.spawn(self._connect_later(adapter, core))

    async def _connect_later(self, adapter: Adapter, core: Core) -> None:
        pause = FIRST_PAUSE
        while not self._gateway.closing:
            await asyncio.sleep(pause)
            if await _try_connect(adapter, core):
                return
            pause = min(LONGEST_PAUSE, 2 * pause)


async def _try_connect(adapter: Adapter, core: Core) -> bool:
    try:
        await adapter.connect(core)
    except HermesError as problem:
        log.error("%s is not connected, and will be tried again: %s", adapter.spec.label, problem)
        return False
    except Exception:  # the boundary to platforms: what one of them did not expect is no end of the others
        log.exception("%s is not connected, and will be tried again.", adapter.spec.label)
        return False
    return True


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
