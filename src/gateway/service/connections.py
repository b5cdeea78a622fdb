"""Connects the platforms and keeps at it: one that cannot be reached is tried again, one whose settings have changed is
made anew, and each shows the commands that there are now."""

import asyncio
import logging
import time
from collections.abc import Callable, Collection, Coroutine, Iterable, Sequence
from dataclasses import replace
from typing import Any

from gateway.delivery.delivery import Delivery
from gateway.platforms.backoff import Pauses
from gateway.platforms.face import Adapter, Core, MenuCommand, NeverTaken, NotNow, PlatformSpec
from gateway.platforms.platform_list import all_specs
from gateway.service.settings_watch import SettingChange
from gateway.service.stopping import StopStep, take_step
from gateway.turns.threads import start_thread
from hermes_base import command_table
from hermes_base.errors import DeliveryFailure, HermesError
from hermes_base.settings import Settings
from hermes_cli import config as cli_config
from hermes_cli.plugins import get_plugin_commands

log = logging.getLogger(__name__)

FIRST_PAUSE = 5.0  # between two tries to connect a platform; the longest is a fact of each
PATIENCE_SECONDS = 2.0  # for platforms that connect, before one goes on without them
MENU_SECONDS = 30.0
LEAVE_SECONDS = 5.0
UNEXPECTED = "It could not connect; the log says why. It is tried again."
#: Of a platform's section, what is looked up with each message: a change of it needs no new connection.
LIVE_KEYS = frozenset({"owner", "allow", "groups", "chats"})

MakeAdapters = Callable[[Settings], list[Adapter]]


class Connections:
    """On the event loop. `adapters` is the one list of them, which everybody else only reads."""

    def __init__(
        self,
        adapters: list[Adapter],
        delivery: Delivery,
        core: Core,
        make: MakeAdapters,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        self._adapters = adapters
        self._delivery = delivery
        self._core = core
        self._make = make
        self._spawn = spawn
        self._told: dict[Adapter, str] = {}  # the problem of each that is not connected, as we have put it
        self._offered: dict[Adapter, tuple[MenuCommand, ...]] = {}  # of each that is: the menu that it was given
        self._menus_wait: dict[Adapter, float] = {}  # of each that asked for patience with its menu: until then
        self._leaving: set[Adapter] = set()  # of the adapters, those whose settings are others by now
        self._renewing = asyncio.Lock()
        self._handed_over = False

    async def connect(self, adapters: Iterable[Adapter], core: Core) -> None:
        """Connect platforms side by side. One that is slow goes on by itself, and one that cannot be reached is tried
        again: nobody waits for it."""
        under_way = {adapter: asyncio.Event() for adapter in adapters}
        for adapter, answered in under_way.items():
            self._spawn(self._keep_connecting(adapter, core, answered))
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                for answered in under_way.values():
                    await answered.wait()
        except TimeoutError:
            late = sorted({adapter.spec.label for adapter, answered in under_way.items() if not answered.is_set()})
            log.info("not connected yet, and left to themselves: %s", ", ".join(late))

    async def _keep_connecting(self, adapter: Adapter, core: Core, answered: asyncio.Event) -> None:
        """Connected as long as no other process has its account: who hears for an account is who sends for it (I3)."""
        account = self._delivery.claim(adapter)
        if account is None:
            await self._connect_until_done(adapter, core, answered)
            return
        if not await account.is_ours():
            log.info("%s is left to another process, which has it", account.name)
            answered.set()
        if not await account.wait_until(ours=True):
            return
        connecting = asyncio.ensure_future(self._connect_until_done(adapter, core, answered))
        try:
            is_lost = await account.wait_until(ours=False)
        finally:
            connecting.cancel()
        if is_lost and self._is_ours(adapter):
            self._spawn(self._begin_anew(adapter))

    async def _begin_anew(self, adapter: Adapter) -> None:
        """Another process may have its account now: it is disconnected at once, and a fresh one waits for its turn."""
        await self._disconnect(adapter)
        async with self._renewing:
            if not self._is_ours(adapter):
                return
            name = adapter.spec.name
            made = await start_thread(lambda: self._make_anew([name]), "platforms")
            self._leaving.add(adapter)
            await self._delivery.swap([adapter], ())
            come = [one for one in made if one.account == adapter.account]
            await self._put_in_place([adapter], come)

    async def _connect_until_done(self, adapter: Adapter, core: Core, answered: asyncio.Event) -> None:
        pauses = Pauses(FIRST_PAUSE, adapter.spec.longest_pause)
        try:
            least = await self._try_connect(adapter, core)
        finally:
            answered.set()
        while least is not None and self._is_ours(adapter):
            await asyncio.sleep(max(pauses.next(), least))
            if self._is_ours(adapter):
                least = await self._try_connect(adapter, core)

    async def _try_connect(self, adapter: Adapter, core: Core) -> float | None:
        """None: it is connected. Else the seconds for which the platform asked not to be tried again (C8), or 0."""
        label, least = adapter.spec.label, 0.0
        try:
            await adapter.connect(core)
        except HermesError as problem:
            if not self._is_ours(adapter):  # whoever switched it off has ended this
                return None
            log.error("%s is not connected, and will be tried again: %s", label, problem)
            sentence = str(problem)
            self._told[adapter] = await start_thread(lambda: cli_config.redactor()(sentence), "redact")
            least = (problem.seconds or 0.0) if isinstance(problem, NotNow) else 0.0
        except Exception:  # the boundary to platforms: what one of them did not expect is no end of the others
            log.exception("%s is not connected, and will be tried again.", label)
            self._told[adapter] = UNEXPECTED
        else:
            if adapter.problem == self._told.pop(adapter, ""):
                adapter.problem = ""
            self._delivery.begin(adapter)
            self._spawn(self._offer_menu(adapter))
            return None
        adapter.problem, adapter.hears = self._told[adapter], False
        return least

    def _is_ours(self, adapter: Adapter) -> bool:
        return adapter in self._adapters and adapter not in self._leaving

    # --- menus

    async def offer_menus(self) -> None:
        """To each platform whose menu is not what it would be now: a plugin has come or gone, or it was not taken."""
        for adapter in list(self._offered):
            await self._offer_menu(adapter)

    async def _offer_menu(self, adapter: Adapter) -> None:
        menu = list_menu()
        if not adapter.spec.has_menu or not self._is_ours(adapter) or self._offered.get(adapter) == menu:
            return
        if self._menus_wait.get(adapter, 0.0) > time.monotonic() or await self._delivery.penalty(adapter):
            self._offered[adapter] = ()  # later
            return
        self._offered[adapter] = menu
        try:
            async with asyncio.timeout(MENU_SECONDS):
                await adapter.offer_commands(menu)
        except NeverTaken as problem:
            log.warning("%s does not take the menu of commands: %s", adapter.spec.label, problem)
        except (DeliveryFailure, TimeoutError) as problem:
            log.warning("%s could not be told the menu of commands, and is later: %s", adapter.spec.label, problem)
            if self._is_ours(adapter):
                self._offered[adapter] = ()
                patience = (problem.seconds or 0.0) if isinstance(problem, NotNow) else 0.0
                self._menus_wait[adapter] = time.monotonic() + patience
        except Exception:  # the boundary to platforms
            log.exception("%s could not be told the menu of commands.", adapter.spec.label)

    # --- settings

    def follow(self, changes: Sequence[SettingChange]) -> None:
        """Make platforms anew whose settings or secrets are others now."""
        self._spawn(self._renew([change.key for change in changes]))

    async def _renew(self, keys: Collection[str]) -> None:
        async with self._renewing:
            names = await start_thread(lambda: find_changed(all_specs(), keys), "platforms")
            if not names or self._handed_over:
                return
            come = await start_thread(lambda: self._make_anew(names), "platforms")
            gone = [adapter for adapter in self._adapters if _is_one_of(adapter, names)]
            self._leaving.update(gone)  # nobody connects these any more
            await self._delivery.rest(gone)
            for adapter in gone:
                await self._disconnect(adapter)
            await self._delivery.swap(gone, ())
            log.info("platforms with other settings were made anew: %s", ", ".join(sorted(names)))
            await self._put_in_place(gone, come)

    async def hand_over(self) -> None:
        """Nobody is heard here any more; other processes take the accounts."""
        async with self._renewing:
            self._handed_over = True
            chats = [adapter for adapter in self._adapters if not adapter.spec.always_on]
            self._leaving.update(chats)
            await self._delivery.rest(chats)
            await asyncio.gather(*map(self._disconnect, chats))
            await self._delivery.swap(chats, ())

    async def _disconnect(self, adapter: Adapter) -> None:
        await take_step(StopStep(f"disconnecting {adapter.spec.label}", LEAVE_SECONDS, adapter.disconnect))

    async def _put_in_place(self, gone: Sequence[Adapter], come: Sequence[Adapter]) -> None:
        for adapter in gone:
            for known in (self._offered, self._menus_wait, self._told):
                known.pop(adapter, None)
        self._adapters[:] = [*(one for one in self._adapters if one not in gone), *come]
        self._leaving.difference_update(gone)
        await self._delivery.swap((), come)
        await self.connect(come, self._core)

    def _make_anew(self, names: Collection[str]) -> list[Adapter]:
        """On a thread: what a platform needs may take its time to load."""
        given = cli_config.load_last_good()
        only = {name: section for name, section in given.platforms.items() if name in names}
        made = self._make(replace(given, platforms=only))
        return [adapter for adapter in made if _is_one_of(adapter, names)]


def _is_one_of(adapter: Adapter, names: Collection[str]) -> bool:
    return adapter.spec.name in names and not adapter.spec.always_on


def find_changed(specs: Iterable[PlatformSpec], keys: Collection[str]) -> frozenset[str]:
    """The platforms that have to be made anew when these settings and variables have changed."""
    found = set()
    for spec in specs:
        own = [key.split(".")[2:3] for key in keys if key.startswith(f"platforms.{spec.name}.")]
        section = f"platforms.{spec.name}" in keys or any(name and not is_live(name[0]) for name in own)
        secret = any(map(spec.asks_for, keys))
        found.update([spec.name] if (section or secret) and not spec.always_on else [])
    return frozenset(found)


def is_live(name: str) -> bool:
    return name.partition("[")[0] in LIVE_KEYS


def list_menu() -> tuple[MenuCommand, ...]:
    """What a platform shows its people: the commands that make sense in a chat, and those of plugins."""
    own = [MenuCommand(command.name, command.summary) for command in command_table.COMMANDS if command.in_menu]
    added = sorted(get_plugin_commands().items())
    return (*own, *(MenuCommand(name, str(facts.get("description") or name)) for name, facts in added))
