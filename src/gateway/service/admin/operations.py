"""What an operator asks of the running gateway: its state, sessions, people, its end. JSON in, JSON out."""

import os
import time
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict
from datetime import datetime
from types import MappingProxyType
from typing import Any

from gateway.core.delivery_rules import tell_wait
from gateway.core.feature_gate import find_withheld
from gateway.core.shared.node_facts import list_differences
from gateway.delivery.delivery import Delivery
from gateway.platforms.account_settings import is_on, plan_accounts, read_section
from gateway.platforms.face import FRESH_SECONDS, Adapter
from gateway.platforms.hub import HubAdapter
from gateway.platforms.platform_list import all_specs
from gateway.service.admin import approval_admin, key_admin, people_admin
from gateway.service.admin.access_ends import AccessEnds
from gateway.service.chores import Chores
from gateway.service.draining import Draining
from gateway.service.pulse import Pulse
from gateway.service.queries.setup_queries import SetupQueries
from gateway.service.settings_watch import SettingsWatch
from gateway.service.stopping import LENDING, Doors
from gateway.turns.controls import Controls
from gateway.turns.lanes import BY_OPERATOR
from gateway.turns.run_turn import GatewayParts
from gateway.turns.sender import LOCAL_OWNER, measure_free
from gateway.turns.threads import start_thread
from hermes_base.errors import HermesError
from hermes_base.inbound import Address
from hermes_base.store_place import describe_place
from hermes_base.text.harmless import clean_name
from hermes_base.turn.consent import describe_ways, label_choices
from hermes_cli import config as cli_config
from hermes_constants import VERSION
from hermes_state.damage import describe_damage
from hermes_state.turns import REFUSED_SHOWN
from tools.shell.sandbox import describe_walls

#: Without a look for waiting messages in this time they might wait for ever.
WORK_SECONDS = 15.0
UNMADE = "It is switched on and could not be started: the log says why."

Args = Mapping[str, Any]
_TOLD = ("id", "kind", "text", "choices", "reason", "expires_in")


class Operations:
    def __init__(
        self,
        parts: GatewayParts,
        controls: Controls,
        chores: Chores,
        settings_watch: SettingsWatch,
        pulse: Pulse,
        doors: Doors,
        access_ends: AccessEnds,
        shut_down: Callable[[str], None] | None,
    ) -> None:
        """Without `shut_down` the gateway lives in a terminal, which ends it."""
        self._parts = parts
        self.draining: Draining | None = None
        self._controls, self._lanes = controls, controls.lanes
        self._chores = chores
        self._settings_watch = settings_watch
        self._pulse = pulse
        self._doors = doors
        self._access_ends = access_ends
        self._shut_down = shut_down
        self._call = parts.call

    async def perform(self, name: str, args: Args) -> dict[str, Any]:
        """Do what was asked; HermesError for what cannot be done."""
        kind, _, action = name.partition(".")
        if name not in _OPERATIONS and kind in _MANAGED and action:
            manage, store, home = _MANAGED[kind].get(action), self._parts.store, self._parts.home
            if manage is None:
                raise HermesError(f"There is no operation {name!r}.")
            if name == "people.forget":
                await self._access_ends.end_person(await self._call(people_admin.check_forget, store, home, args))
            result = await self._call(manage, store, home, args)
            if result.get("removed"):
                await self._access_ends.end_person(str(result["removed"]))
            if result.get("told"):
                self._parts.delivery.wake(Address(**result["told"]))
            if result.get("unlinked"):
                self._access_ends.end_there(str(result["person"]["id"]), str(result["unlinked"]))
            return result
        operation = _OPERATIONS.get(name)
        if operation is None:
            raise HermesError(f"There is no operation {name!r}.", fix=f"There are: {', '.join(sorted(_OPERATIONS))}.")
        return await operation(self, args)

    # --- the state of the gateway

    async def status(self, args: Args) -> dict[str, Any]:
        """For `hermes status`, `hermes gateway status` and the page."""
        del args
        parts, node, counters = self._parts, self._lanes.node, self._parts.runner.counters
        stored = {} if parts.store.engine.absent else await self._call(self._describe_stored)
        model = await SetupQueries(parts).model()
        return {
            "pid": os.getpid(),
            "version": VERSION,
            "since": parts.started,
            "node": node,
            "home": str(parts.home),
            "guest": self._shut_down is None,
            "profile": parts.profile,
            "store": describe_place(parts.store.place),
            **stored,
            "waits": list_waits(parts.delivery),
            "platforms": [
                *(_describe_platform(adapter, parts.delivery) for adapter in parts.adapters),
                *await start_thread(lambda: list(list_unmade(parts.adapters)), "platforms"),
            ],
            "hints": parts.hints.problem,
            "cache": {
                "agents": parts.runner.count(),
                "hits": counters["hit"],
                "builds": count_reasons(counters, "build"),
                "evictions": count_reasons(counters, "evict"),
            },
            "deliveries": dict(parts.delivery.counts),
            "config": self._settings_watch.describe(),
            **await start_thread(read_walls, "sandbox"),
            "disk_free": measure_free(parts.home),
            "trouble": self._chores.trouble,
            "warning": describe_damage(self._chores.damaged),
            "model": asdict(model),
            "web": {"address": self._doors.address, "watchers": count_watchers(parts.adapters)},
        }

    def _describe_stored(self) -> dict[str, Any]:
        """What only the store knows; on one of its threads."""
        turns = self._parts.store.turns
        waiting, unsent = turns.depth()
        held, _ = turns.outbox_held()
        nodes = turns.nodes()
        return {
            "working": self._describe_working(),
            "queue": {"inbox": waiting, "outbox": unsent, "held": held},
            "undelivered": [asdict(chat) for chat in turns.list_unsent()],
            "refused": [asdict(row) for row in turns.list_refused(time.time() - REFUSED_SHOWN)],
            "leases": [asdict(lease) for lease in turns.leases()],
            "nodes": [asdict(one) for one in nodes],
            "differences": list_differences(nodes),
            "owned": [asdict(holding) for holding in turns.holdings()],
        }

    def _describe_working(self) -> list[dict[str, Any]]:
        """The turns under way; on a store thread."""
        found = []
        for lane in list(self._lanes.at_work.values()):
            slot = lane.slot
            if slot is not None:
                session = self._parts.store.current(lane.key)
                title = (session.title or session.preview) if session else ""
                since = time.time() - (time.monotonic() - slot.clocks.started)
                about = {"since": since, "starter": slot.job.first.view.sender.person, "title": title}
                found.append({"conversation": lane.key, **about})
        return found

    def describe(self) -> Sequence[str]:
        """The same in a few lines, for `/status`."""
        parts, chores, counters = self._parts, self._chores, self._parts.runner.counters
        waiting, unsent = parts.store.turns.depth()
        busy = sum(1 for lane in self._lanes.at_work.values() if lane.slot is not None)
        now, free = time.time(), measure_free(parts.home) / 1e9
        lines = [
            f"Hermes {VERSION}, up for {(now - parts.started) / 60:.0f} min.",
            f"Turns under way: {busy}; messages that wait: {waiting}; answers not delivered yet: {unsent}.",
            *describe_held(*parts.store.turns.outbox_held()),
            f"Agents kept warm: {parts.runner.count()} ({counters['hit']} hits, "
            f"{sum(count_reasons(counters, 'build').values())} builds, "
            f"{sum(count_reasons(counters, 'evict').values())} evictions).",
        ]
        for adapter in parts.adapters:
            state = "connected" if is_connected(adapter) else "no sign of life"
            state = "another gateway has it" if parts.delivery.is_elsewhere(adapter) else state
            named = "" if adapter.account == adapter.spec.name else f" ({adapter.account})"
            said = [f"{state}."] if adapter.hears or not adapter.problem else []
            lines.append(f"{adapter.spec.label}{named}: {' '.join(filter(None, (*said, adapter.problem)))}")
        lines += [f"{unmade['label']}: {unmade['problem']}" for unmade in list_unmade(parts.adapters)]
        lines += map(tell_wait, list_waits(parts.delivery))
        if refused := len(parts.store.turns.list_refused(now - REFUSED_SHOWN)):
            lines.append(f"Messages that were refused for good this week: {refused}; `hermes doctor` names them.")
        lines.append(f"{read_walls()['walls']} Free on the disk: {free:.1f} GB.")
        lines += [line for line in (chores.trouble, describe_damage(chores.damaged)) if line]
        if self._settings_watch.problem:
            lines.append(f"An edit of the settings is not used: {self._settings_watch.problem}")
        return lines

    # --- sessions

    async def delete_session(self, args: Args) -> dict[str, Any]:
        session = str(args.get("session") or "")
        return {"deleted": await start_thread(lambda: self._parts.endings.delete(session), "end session")}

    async def stop_turn(self, args: Args) -> dict[str, Any]:
        return {"stopped": await self._controls.stop(str(args.get("conversation") or ""), BY_OPERATOR)}

    async def tell_ready(self, args: Args) -> dict[str, Any]:
        """The same as `/ready`, for where no page is served."""
        del args
        return {"reason": await self.find_unready()}

    async def find_unready(self) -> str:
        """Why no message would be taken and answered now; empty: it would. A yes means that the store has taken a
        heartbeat of this process just now; it is waited for, but not long."""
        if self._lanes.host.closing:
            return "Hermes is shutting down."
        if self._lanes.host.draining:
            return "This gateway is being emptied: others go on with what it has."
        problem = await self._pulse.check() or self._chores.trouble
        if problem:
            return problem
        waited = time.monotonic() - self._lanes.looked
        if waited > WORK_SECONDS:
            return f"Nobody has looked for waiting messages for {waited:.0f} s."
        # Our own socket; pages and API are alive when somebody asks through them, and networks may be away.
        own = [each for each in self._parts.adapters if isinstance(each, HubAdapter) and each.has_own_socket]
        down = [each.spec.label for each in own if not is_connected(each)]
        return f"{', '.join(down)}: no sign of life." if down else ""

    async def shut_down(self, args: Args) -> dict[str, Any]:
        if self._shut_down is None:
            raise HermesError(
                f"This gateway lives in a chat (process {os.getpid()}).", fix="Close that chat with /quit."
            )
        self._shut_down(str(args.get("reason") or "asked to by the operator"))
        return {"stopping": True}

    async def lend_store(self, args: Args) -> dict[str, Any]:
        """End all work, so that somebody can move the store; this process goes on when they are done."""
        return await self.shut_down({**args, "reason": LENDING})

    async def list_nodes(self, args: Args) -> dict[str, Any]:
        """For `hermes nodes`: the gateways on this store, with what each of them has."""
        del args
        turns, accounts = self._parts.store.turns, dict[str, list[str]]()
        for lease in await self._call(turns.leases):
            accounts.setdefault(lease.owner, []).append(lease.name)
        found = await self._call(turns.nodes)
        about = {"node": self._lanes.node, "shared": turns.is_shared, "hints": self._parts.hints.problem}
        withheld = sorted(find_withheld(node.version for node in found))
        nodes = [{**asdict(node), "holds": accounts.get(node.id, [])} for node in found]
        return {**about, "withheld": withheld, "nodes": nodes, "differences": list_differences(found)}

    async def drain(self, args: Args) -> dict[str, Any]:
        del args
        if self.draining is None:
            raise HermesError("This gateway is starting.", fix="Try again in a moment.")
        return await self.draining.begin()

    # --- questions

    async def list_waiting(self, args: Args) -> dict[str, Any]:
        """Questions of turns whose own people may not answer them (G4)."""
        del args
        asked = self._parts.questions.asked_of_approvers()
        names = {person.id: person.name for person in await self._call(self._parts.store.people.people)}
        return {
            "waiting": [
                {field: getattr(question, field) for field in _TOLD}
                | {"labels": label_choices(question.kind, question.choices)}
                | {"person": person, "name": clean_name(names.get(person, person))}
                for person, question in asked
            ]
        }

    async def answer_waiting(self, args: Args) -> dict[str, Any]:
        """Answer one of them, as the owner of the machine."""
        id, text = people_admin.read_text(args, "id"), people_admin.read_text(args, "answer")
        found = next((one for _, one in self._parts.questions.asked_of_approvers() if one.id == id), None)
        if found is None:  # it may be asked by another process
            found = await self._call(self._parts.questions.find_elsewhere, id)
        if found is None:
            raise approval_admin.not_waiting(id)
        if not await self._controls.answer(found.conversation, id, text, LOCAL_OWNER):
            ways = describe_ways(found.kind, found.choices)
            raise HermesError(f"{text[:60]!r} is not one of the choices.", kept="The question is still open.", fix=ways)
        return {"answered": id}


def describe_held(count: int, until: float) -> list[str]:
    """A line on messages that wait for quiet hours to end; none: no line."""
    ends = datetime.fromtimestamp(until).strftime("%H:%M")
    about = f"{count}; the first until {ends}, the machine's time."
    return [f"Messages that wait for the end of somebody's quiet hours: {about}"] if count else []


def list_waits(delivery: Delivery) -> list[dict[str, Any]]:
    """Where nothing is sent because a service asked for patience: `chat` is empty where it is the whole account."""
    return [{"account": name, **asdict(one)} for name, found in delivery.waits().items() for one in found]


def is_connected(adapter: Adapter) -> bool:
    """C13; and nothing is known that keeps the whole of it from working."""
    return adapter.silence < FRESH_SECONDS and (adapter.hears or not adapter.problem)


def count_watchers(adapters: Iterable[Adapter]) -> int:
    """Pages and clients of the API that look at a conversation now."""
    hubs = [adapter for adapter in adapters if isinstance(adapter, HubAdapter) and not adapter.has_own_socket]
    return sum(adapter.hub.count() for adapter in hubs)


def read_walls() -> dict[str, str]:
    """Where commands run, and which walls stand (G5). May start a program."""
    backend, walls = describe_walls(cli_config.load_last_good())
    return {"sandbox": backend, "walls": walls}


def _describe_platform(adapter: Adapter, delivery: Delivery) -> dict[str, Any]:
    return {
        "elsewhere": delivery.is_elsewhere(adapter),
        "name": adapter.spec.name,
        "label": adapter.spec.label,
        "account": adapter.account,
        "last_seen": time.time() - adapter.silence if adapter.last_seen else 0.0,  # by the clock as it is set now
        "connected": is_connected(adapter),
        "problem": adapter.problem,
        "hears": adapter.hears,
    }


def list_unmade(adapters: Sequence[Adapter]) -> Iterator[dict[str, Any]]:
    """Accounts of platforms that are switched on and could not even be made, with the reason where it is known."""
    made, sections = {(one.spec.name, one.account) for one in adapters}, cli_config.load_last_good().platforms
    for spec in all_specs():
        section = read_section(sections, spec)
        every = plan_accounts(spec, section, cli_config.env_value) if is_on(spec, section) else ()
        for planned in () if spec.always_on else every:
            if (spec.name, planned.name) not in made:
                about = {"name": spec.name, "label": spec.label, "account": planned.name}
                problem = str(planned.problem or UNMADE)
                yield {**about, "last_seen": 0.0, "connected": False, "problem": problem}


def count_reasons(counters: Mapping[str, int], kind: str) -> dict[str, int]:
    """The runner keeps its counts as "kind:reason"."""
    prefix = kind + ":"
    return {name.removeprefix(prefix): count for name, count in dict(counters).items() if name.startswith(prefix)}


_MANAGED = MappingProxyType(
    {"people": people_admin.OPERATIONS, "keys": key_admin.OPERATIONS, "approvals": approval_admin.OPERATIONS}
)
_OPERATIONS: Mapping[str, Callable[[Operations, Args], Awaitable[dict[str, Any]]]] = MappingProxyType(
    {
        "status": Operations.status,
        "ready": Operations.tell_ready,
        "shutdown": Operations.shut_down,
        "store.lend": Operations.lend_store,
        "nodes": Operations.list_nodes,
        "drain": Operations.drain,
        "turns.stop": Operations.stop_turn,
        "sessions.delete": Operations.delete_session,
        "approvals.waiting": Operations.list_waiting,
        "approvals.answer": Operations.answer_waiting,
    }
)
