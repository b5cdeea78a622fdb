"""Runs an adapter of a plugin behind our face: on an event loop of its own, so that nothing it does holds up the house.

What it hears is stored before it is told so (C1); what it sends comes from the outbox, within the chat's budget (C7,
C8). One that fails is let go, and another object of it is made.
"""

import asyncio
import logging
import math
import os
import shutil
import tempfile
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from gateway.config import GatewayConfig, PlatformConfig, load_platform, merge_blocks, name_platform, read_house
from gateway.platform_registry import PlatformEntry
from gateway.platforms.backoff import Pauses
from gateway.platforms.base import BasePlatformAdapter
from gateway.platforms.face import Core, NeverTaken, NotNow, Part, PlatformSpec
from gateway.platforms.line_adapter import LineAdapter
from gateway.platforms.plugin_bridge.adapter_calls import AdapterCalls
from gateway.platforms.plugin_bridge.bridge_spec import choose_arguments, refine_spec
from gateway.platforms.plugin_bridge.event_forms import read_event
from gateway.platforms.plugin_bridge.messages import MessageEvent
from gateway.platforms.plugin_bridge.plugin_loop import PluginFault, PluginLoop
from gateway.platforms.plugin_bridge.runner_face import RunnerFace, find_runner
from gateway.platforms.refusal_notes import RefusalNotes
from hermes_base.errors import ConfigProblem, DeliveryFailure, HermesError, StoreFailure
from hermes_base.inbound import Address, FileRef, Inbound
from hermes_base.turn.consent import ALWAYS, CONVERSATION, DENY
from hermes_base.turn.plugin_asks import APPROVAL, open_asks
from hermes_constants import get_hermes_home

log = logging.getLogger(__name__)

MAKE_SECONDS = 20.0
CONNECT_SECONDS = 30.0
DISCONNECT_SECONDS = 3.0
PULSE_SECONDS = 20.0  # how often the plugin's loop is asked whether it moves
ANSWER_SECONDS = 5.0  # for that
FIRST_PAUSE, LONGEST_PAUSE = 5.0, 300.0  # before another adapter is made in the place of one that failed
STORE_PAUSE = 2.0
MOST_EVENTS = 500
#: Of the home, folders whose files an adapter does not hand over as received.
_CLOSED = frozenset({"people", "logs", "plugins", "plugin-seals", "profiles"})
_APPROVE = {"": "yes", "once": "yes", "session": CONVERSATION, "always": ALWAYS}


class BridgeAdapter(LineAdapter):
    """One account of a plugin's platform."""

    def __init__(
        self, spec: PlatformSpec, entry: PlatformEntry, account: str, settings: Mapping[str, Any], home: Path
    ) -> None:
        super().__init__(account, settings, home)
        if account != spec.name:
            raise ConfigProblem(
                f"The platform {spec.label} comes from a plugin, and has one account.",
                fix=f"Take platforms.{spec.name}.accounts and .account out of the settings.",
            )
        self.spec = spec
        self._plain_spec, self._entry = spec, entry
        self._loop: PluginLoop | None = None
        self._theirs: BasePlatformAdapter | None = None
        self._own_runner: RunnerFace | None = None
        self._made: BasePlatformAdapter | None = None  # the last one, until it was let go
        self._marks = False  # this adapter says itself whether it is connected
        self._tries = 0
        self._under_way: set[asyncio.Future[Any]] = set()
        self._broken = asyncio.Event()
        self._events: OrderedDict[tuple[str, str], MessageEvent] = OrderedDict()
        self._calls = AdapterCalls(self)
        self._refusals = RefusalNotes(self.send)

    # --- the line

    async def _begin(self, core: Core) -> None:
        self._core, self._house = core, asyncio.get_running_loop()
        if self._loop is None or not self._loop.is_alive:
            self._loop = PluginLoop(self.spec.label)
        await self._open()
        self._keep(self._watch, "watches")

    async def _open(self) -> None:
        """Make an adapter, and connect it."""
        config = await asyncio.to_thread(self._read_config)
        theirs = self._made = await self._make(config)
        self._equip(theirs)
        connect = choose_arguments(theirs.connect, {"is_reconnect": self._tries > 0})
        self._tries += 1
        try:
            connected = await self.run(lambda: theirs.connect(**connect), CONNECT_SECONDS)
        except BaseException:
            await self._let_go(theirs)
            raise
        if not connected:
            failure = self._describe_failure(theirs)
            await self._let_go(theirs)
            raise failure
        self._theirs, self._marks = theirs, theirs.is_connected
        self.spec = refine_spec(self._plain_spec, self._entry, theirs)
        runner = self._find_runner()
        runner.adapters[name_platform(self.spec.name)] = theirs
        self._note_life()

    async def _make(self, config: PlatformConfig) -> BasePlatformAdapter:
        entry = self._entry

        def make() -> Any:
            if not entry.check_fn():
                return entry.install_hint or "something that it needs is not installed, or not set"
            if entry.validate_config is not None and not entry.validate_config(config):
                return f"its settings are not complete ({', '.join(entry.required_env) or 'its plugin says which'})"
            return entry.adapter_factory(config)

        made = await self.run(make, MAKE_SECONDS)
        if isinstance(made, BasePlatformAdapter):
            return made
        why = made if isinstance(made, str) else "what its plugin made is no adapter"
        raise ConfigProblem(f"{self.spec.label} cannot be used: {why}.", fix=f"`hermes setup {self.spec.name}`.")

    def _equip(self, theirs: BasePlatformAdapter) -> None:
        runner = self._find_runner()
        runner._takers[self.spec.name] = self._take_event
        theirs.gateway_runner = runner
        theirs._stores_first = True
        theirs.set_message_handler(runner._handle_message)
        theirs.set_fatal_error_handler(self._hear_fatal)
        theirs.set_session_store(runner.session_store)
        theirs.set_busy_session_handler(None)
        theirs.set_topic_recovery_fn(None)
        theirs.set_authorization_check(runner._is_user_authorized)

    def _find_runner(self) -> RunnerFace:
        runner = find_runner()
        if isinstance(runner, RunnerFace):
            return runner
        if self._own_runner is None:  # no gateway is around it, as in a test of an adapter
            self._own_runner = RunnerFace()
            self._own_runner.open_alone()
        return self._own_runner

    def _read_config(self) -> PlatformConfig:
        """On a thread: what a plugin adds to its settings may take its time."""
        own = {name: value for name, value in self.settings.items() if "." not in name}
        config = load_platform(self._entry, {**merge_blocks(read_house(), self.spec.name), **own})
        shared = GatewayConfig()
        flags = (shared.group_sessions_per_user, shared.thread_sessions_per_user)
        config.extra["group_sessions_per_user"], config.extra["thread_sessions_per_user"] = flags
        config.enabled = True
        return config

    def _describe_failure(self, theirs: BasePlatformAdapter) -> DeliveryFailure:
        """Why it is not connected; one that will not get better by itself is not tried again (C8)."""
        why = theirs.fatal_error_message or "its adapter did not say why"
        what = f"{self.spec.label} could not connect: {why}"
        return DeliveryFailure(what) if theirs.fatal_error_retryable else NotNow(what, math.inf)

    async def run(self, work: Any, seconds: float) -> Any:
        """Do something on the plugin's loop; DeliveryFailure for whatever goes wrong there."""
        if self._loop is None:
            raise NotNow(f"{self.spec.label} is not connected.", FIRST_PAUSE)
        try:
            return await self._loop.call(work, seconds)
        except PluginFault as fault:
            log.warning("the plugin of %s failed", self.spec.label, exc_info=fault.__cause__)
            raise DeliveryFailure(f"The plugin of {self.spec.label} failed: {fault}.") from fault

    async def run_while_connected(self, work: Any, seconds: float) -> Any:
        """The same for a call of an adapter, which nobody waits for once it was let go."""
        call = asyncio.ensure_future(self.run(work, seconds))
        self._under_way.add(call)
        try:
            await asyncio.wait({call})
        finally:
            self._under_way.discard(call)
            is_cut = call.cancelled()
            call.cancel()
        if is_cut:
            raise DeliveryFailure(f"The connection to {self.spec.label} was lost meanwhile.")
        return call.result()

    async def _let_go(self, theirs: BasePlatformAdapter) -> None:
        """However it takes that: nobody waits long for it, and nothing comes of what it raises."""

        async def leave() -> None:
            await theirs.cancel_background_tasks()
            await theirs.disconnect()

        runner = find_runner()
        if isinstance(runner, RunnerFace) and runner.adapters.get(name_platform(self.spec.name)) is theirs:
            del runner.adapters[name_platform(self.spec.name)]
        try:
            await self.run(leave, DISCONNECT_SECONDS)
        except DeliveryFailure as problem:
            log.warning("%s did not part in order: %s", self.spec.label, problem)
        if self._made is theirs:
            self._made = None

    async def _close(self) -> None:
        theirs, loop = self._made, self._loop  # also one that somebody was about to let go, or to connect
        self._theirs = None
        self._refusals.close()
        try:
            if theirs is not None:
                await self._let_go(theirs)
        finally:
            self._loop = None
            if loop is not None:
                loop.stop()
        if loop is not None:
            await asyncio.to_thread(loop.join, ANSWER_SECONDS)

    # --- how it is

    def _hear_fatal(self, theirs: BasePlatformAdapter) -> None:
        """On the plugin's loop."""
        if theirs is self._theirs:
            self._house.call_soon_threadsafe(self._broken.set)

    async def _watch(self) -> None:
        while True:
            try:
                async with asyncio.timeout(PULSE_SECONDS):
                    await self._broken.wait()
            except TimeoutError:
                await self._look()
                continue
            self._broken.clear()
            await self._replace()

    async def _look(self) -> None:
        """C13: connected is whose loop moves, and who does not say otherwise."""
        theirs = self._theirs
        try:
            await self.run(lambda: None, ANSWER_SECONDS)
        except DeliveryFailure:
            self._note_problem(f"The plugin of {self.spec.label} stands still: something in it blocks.")
            return
        if theirs is not None and self._marks and not theirs.is_connected:
            self._note_problem(theirs.fatal_error_message or f"{self.spec.label} says that it is not connected.")
            return
        self._note_life()

    async def _replace(self) -> None:
        """The adapter has reported an error that ends it: another one takes its place, if that may help."""
        theirs, self._theirs = self._theirs, None
        if theirs is None:
            return
        for call in self._under_way:
            call.cancel()
        failure = self._describe_failure(theirs)
        await self._let_go(theirs)
        pauses = Pauses(FIRST_PAUSE, LONGEST_PAUSE)
        while True:
            self._note_problem(str(failure))
            if isinstance(failure, NotNow) and failure.seconds == math.inf:
                await asyncio.Event().wait()  # until its settings change, or the gateway starts anew
            await asyncio.sleep(pauses.next())
            try:
                await self._open()
                return
            except DeliveryFailure as problem:
                failure = problem
            except ConfigProblem as problem:
                failure = DeliveryFailure(str(problem))

    # --- what comes in

    async def _take_event(self, event: MessageEvent) -> str | None:
        """On the plugin's loop. Comes back when the message is stored, or its sender knows that it is not."""
        inbound = read_event(event, self.account)
        if inbound is None:
            log.warning("%s: a message of nobody in particular is left out", self.spec.label)
            return None
        handing = asyncio.run_coroutine_threadsafe(self._hand_over(self._read_command(inbound), event), self._house)
        await asyncio.wrap_future(handing)
        return None

    async def _hand_over(self, inbound: Inbound, event: MessageEvent) -> None:
        if inbound.address.kind == "dm" and self._ignores_strangers():
            sender, name = inbound.sender, inbound.sender_name
            if not await self._core.knows(self.spec.name, sender, name):
                return
        self._events[inbound.address.chat_key, inbound.message] = event
        while len(self._events) > MOST_EVENTS:
            self._events.popitem(last=False)
        while True:
            try:
                taken = await self._core.take(inbound)
                break
            except (StoreFailure, OSError) as problem:  # nobody brings it again: it is kept here until it is stored
                log.warning("a message of %s waits for the store: %s", self.spec.label, problem)
                await asyncio.sleep(STORE_PAUSE)
        await self._refusals.settle(inbound, taken, inbound.message)

    def _ignores_strangers(self) -> bool:
        theirs = self._theirs
        said = theirs.config.extra.get("unauthorized_dm_behavior") if theirs is not None else None
        return said == "ignore"

    def _read_command(self, inbound: Inbound) -> Inbound:
        """`/approve` and `/deny`, which messages of such adapters name, answer an approval that is open."""
        name, _, args = inbound.text.strip().partition(" ")
        key, args = self.find_key(inbound.address), args.strip()
        if name not in ("/approve", "/deny") or not open_asks.of_session(key, APPROVAL):
            return inbound
        if name == "/deny":
            return replace(inbound, text=f"no: {args}" if args else "no")
        return replace(inbound, text=_APPROVE.get(args.lower(), "yes"))

    def press(self, ask_id: str, address: Address, choices: tuple[str, ...], answer: str, word: str = "") -> None:
        """A button of the adapter was pressed: the answer enters as a message of whose direct chat it is (G4)."""
        event = next((one for (chat, _), one in reversed(self._events.items()) if chat == address.chat_key), None)
        sender = str(event.source.user_id) if event is not None and event.source is not None else address.chat
        chosen = answer if answer in choices else choices[0] if answer in (CONVERSATION, ALWAYS) else answer
        place = str(choices.index(chosen)) if chosen in choices else ""
        text = f"{DENY}: {word}" if word and chosen == DENY else chosen
        pressed = Inbound(
            address, f"button-{ask_id}", sender, text, mentioned=True, question=ask_id, choice="" if word else place
        )
        asyncio.run_coroutine_threadsafe(self._press(pressed), self._house)

    async def _press(self, pressed: Inbound) -> None:
        try:
            await self._core.take(pressed)
        except (HermesError, OSError) as problem:
            log.warning("a pressed button of %s did not arrive: %s", self.spec.label, problem)

    def find_key(self, address: Address) -> str:
        return address.conversation(self._find_runner().profile)

    @property
    def theirs(self) -> BasePlatformAdapter | None:
        return self._theirs

    @property
    def entry(self) -> PlatformEntry:
        return self._entry

    def find_event(self, address: Address, message: str) -> MessageEvent | None:
        return self._events.get((address.chat_key, message))

    # --- what goes out

    async def send(self, part: Part) -> str:
        return await self._calls.send(part)

    async def edit(self, platform_id: str, part: Part) -> None:
        await self._calls.edit(platform_id, part)

    async def typing(self, address: Address) -> None:
        await self._calls.typing(address)

    async def send_file(self, part: Part, file: FileRef) -> str:
        return await self._calls.send_file(part, file)

    async def acknowledge(self, address: Address, message: str) -> None:
        await self._calls.begin_processing(address, message)

    async def fetch(self, file: FileRef, path: Path) -> None:
        try:
            await asyncio.to_thread(_copy, file.remote, path)
        except OSError as problem:
            raise NeverTaken(f"the plugin did not keep it ({problem.strerror or problem})") from problem

    async def read_config(self) -> PlatformConfig:
        return await asyncio.to_thread(self._read_config)


def _copy(source: str, target: Path) -> None:
    """A file that an adapter has received: below the home or among the temporary ones, links resolved (G7)."""
    real, home = Path(source).resolve(strict=True), get_hermes_home().resolve()
    if real.is_relative_to(home):
        inner = real.relative_to(home).parts
        is_open = len(inner) > 1 and inner[0] not in _CLOSED and not inner[0].startswith(".")
    else:
        is_open = real.is_relative_to(Path(tempfile.gettempdir()).resolve())
    if not is_open or not real.is_file():
        raise PermissionError(1, "it is no file that was received")
    shutil.copyfile(real, target)
    os.chmod(target, 0o600)
