"""What an operator asks of the running gateway: its state, sessions, people, its end. JSON in, JSON out."""

import logging
import os
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from gateway.core.route import Standing
from gateway.platforms.face import Adapter
from gateway.platforms.hub import HubAdapter
from gateway.service import key_admin, people_admin
from gateway.service.queries.setup_queries import SetupQueries
from gateway.turns.sender import measure_free
from gateway.turns.threads import start_thread
from hermes_base.errors import HermesError
from hermes_cli import config as cli_config
from hermes_state.damage import describe_damage
from hermes_state.turns import Control
from tools.shell.sandbox import describe_walls

if TYPE_CHECKING:
    from gateway.service.gateway import Gateway

log = logging.getLogger(__name__)

#: "Connected" means a sign of life in this time (C13).
FRESH_SECONDS = 90.0
#: Without a look for waiting messages in this time they might wait for ever.
WORK_SECONDS = 15.0
BY_OPERATOR = "stopped by the operator"
REMOVED = "the person was removed"

Args = Mapping[str, Any]


class Operations:
    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway

    async def perform(self, name: str, args: Args) -> dict[str, Any]:
        """Do what was asked; HermesError for what cannot be done."""
        kind, _, action = name.partition(".")
        if kind in _MANAGED and action:
            manage, gateway = _MANAGED[kind].get(action), self._gateway
            if manage is None:
                raise HermesError(f"There is no operation {name!r}.")
            if name == "people.forget":
                await self._end_access(await gateway.call(people_admin.check_forget, gateway.store, gateway.home, args))
            result = await gateway.call(manage, gateway.store, gateway.home, args)
            if result.get("removed"):
                await self._end_access(str(result["removed"]))
            return result
        operation = _OPERATIONS.get(name)
        if operation is None:
            raise HermesError(f"There is no operation {name!r}.", fix=f"There are: {', '.join(sorted(_OPERATIONS))}.")
        return await operation(self, args)

    def take_control(self, control: Control) -> None:
        """A word from another process to a conversation that is worked on here (B8)."""
        lane = self._gateway.lanes.get(control.conversation)
        if control.kind == "stop" and lane is not None:
            lane.stop(str(control.body.get("reason") or BY_OPERATOR))
        elif control.kind == "answer":
            by = Standing(str(control.body.get("by", "")), str(control.body.get("role", "")))
            question, text = str(control.body.get("question", "")), str(control.body.get("text", ""))
            self._gateway.questions.answer(question, text, by, conversation=control.conversation)
        else:
            log.info("nothing to do for %s of %s", control.kind, control.conversation)

    # --- the state of the gateway

    async def status(self, args: Args) -> dict[str, Any]:
        """For `hermes status`, `hermes gateway status` and the page."""
        del args
        gateway, counters = self._gateway, self._gateway.runner.counters
        waiting, unsent = await gateway.call(gateway.turns.depth)
        holdings = await gateway.call(gateway.turns.holdings)
        model = await SetupQueries(gateway).model()
        return {
            "pid": os.getpid(),
            "version": gateway.version,
            "since": gateway.started,
            "node": gateway.node,
            "home": str(gateway.home),
            "guest": gateway.guest,
            "profile": gateway.profile,
            "working": await gateway.call(self._describe_working),
            "queue": {"inbox": waiting, "outbox": unsent},
            "platforms": [_describe_platform(adapter) for adapter in gateway.adapters],
            "leases": [
                {"name": name, "owner": gateway.node if epoch else "", "epoch": epoch or 0, "live": bool(epoch)}
                for name, epoch in gateway.delivery.leases().items()
            ],
            "owned": [asdict(holding) for holding in holdings],
            "cache": {
                "agents": gateway.runner.count(),
                "hits": counters["hit"],
                "builds": count_reasons(counters, "build"),
                "evictions": count_reasons(counters, "evict"),
            },
            "deliveries": dict(gateway.delivery.counts),
            "config": gateway.settings_watch.describe(),
            **await start_thread(read_walls, "sandbox"),
            "disk_free": measure_free(gateway.home),
            "trouble": gateway.chores.trouble,
            "warning": describe_damage(gateway.chores.damaged),
            "model": asdict(model),
            "web": {"address": gateway.address, "watchers": count_watchers(gateway.adapters)},
        }

    def _describe_working(self) -> list[dict[str, Any]]:
        """The turns under way; on a store thread."""
        gateway, found = self._gateway, []
        for lane in list(gateway.lanes.values()):
            slot = lane.slot
            if slot is not None:
                session = gateway.store.current(lane.key)
                title = (session.title or session.preview) if session else ""
                about = {"since": slot.clocks.started, "starter": slot.job.first.sender.person, "title": title}
                found.append({"conversation": lane.key, **about})
        return found

    def describe(self) -> Sequence[str]:
        """The same in a few lines, for `/status`."""
        gateway = self._gateway
        waiting, unsent = gateway.turns.depth()
        busy = sum(1 for lane in gateway.lanes.values() if lane.slot is not None)
        counters = gateway.runner.counters
        now, free = time.time(), measure_free(gateway.home) / 1e9
        lines = [
            f"Hermes {gateway.version}, up for {(now - gateway.started) / 60:.0f} min.",
            f"Turns under way: {busy}; messages that wait: {waiting}; answers not delivered yet: {unsent}.",
            f"Agents kept warm: {gateway.runner.count()} ({counters['hit']} hits, "
            f"{sum(count_reasons(counters, 'build').values())} builds, "
            f"{sum(count_reasons(counters, 'evict').values())} evictions).",
        ]
        for adapter in gateway.adapters:
            state = "connected" if is_connected(adapter, now) else "no sign of life"
            lines.append(f"{adapter.spec.label}: {state}.")
        lines.append(f"{read_walls()['walls']} Free on the disk: {free:.1f} GB.")
        lines += [line for line in (gateway.chores.trouble, describe_damage(gateway.chores.damaged)) if line]
        if gateway.settings_watch.problem:
            lines.append(f"An edit of the settings is not used: {gateway.settings_watch.problem}")
        return lines

    # --- sessions

    async def delete_session(self, args: Args) -> dict[str, Any]:
        gateway = self._gateway
        session = str(args.get("session") or "")
        return {"deleted": await start_thread(lambda: gateway.endings.delete(session), "end session")}

    async def stop_turn(self, args: Args) -> dict[str, Any]:
        lane = await self._gateway.find_lane(str(args.get("conversation") or ""))
        return {"stopped": lane is not None and lane.stop(BY_OPERATOR)}

    async def tell_ready(self, args: Args) -> dict[str, Any]:
        """The same as `/ready`, for where no page is served."""
        del args
        return {"reason": await self.find_unready()}

    async def find_unready(self) -> str:
        """Why no message would be taken and answered now; empty: it would. A yes means that the store has taken a
        heartbeat of this process just now; it is waited for, but not long."""
        gateway = self._gateway
        if gateway.closing:
            return "Hermes is shutting down."
        problem = await gateway.pulse.check() or gateway.chores.trouble
        if problem:
            return problem
        waited = time.monotonic() - gateway.chores.looked
        if waited > WORK_SECONDS:
            return f"Nobody has looked for waiting messages for {waited:.0f} s."
        now = time.time()
        # Our own socket; pages and API are alive when somebody asks through them, and networks may be away.
        own = [each for each in gateway.adapters if isinstance(each, HubAdapter) and each.has_own_socket]
        down = [each.spec.label for each in own if not is_connected(each, now)]
        return f"{', '.join(down)}: no sign of life." if down else ""

    async def shut_down(self, args: Args) -> dict[str, Any]:
        if self._gateway.guest:
            raise HermesError(
                f"This gateway lives in a chat (process {os.getpid()}).", fix="Close that chat with /quit."
            )
        self._gateway.shut_down(str(args.get("reason") or "asked to by the operator"))
        return {"stopping": True}

    # --- people

    async def _end_access(self, person: str) -> None:
        """G3: turns stopped, approvals void, what they have going ended."""
        gateway = self._gateway
        gateway.questions.void_person(person)
        for lane in gateway.lanes.values():
            lane.look_again(person)
        for lane in [lane for lane in gateway.lanes.values() if lane.starter == person]:
            lane.stop(REMOVED)
            while lane.slot is not None and lane.starter == person:
                await lane.slot.ended.wait()  # within five seconds, whatever it waits for
        await start_thread(lambda: gateway.endings.end_person(person), "end person")


def is_connected(adapter: Adapter, now: float) -> bool:
    """C13."""
    return now - adapter.last_seen < FRESH_SECONDS


def count_watchers(adapters: Iterable[Adapter]) -> int:
    """Pages and clients of the API that look at a conversation now."""
    hubs = [adapter for adapter in adapters if isinstance(adapter, HubAdapter) and not adapter.has_own_socket]
    return sum(adapter.hub.count() for adapter in hubs)


def read_walls() -> dict[str, str]:
    """Where commands run, and which walls stand (G5). May start a program."""
    backend, walls = describe_walls(cli_config.load_last_good())
    return {"sandbox": backend, "walls": walls}


def _describe_platform(adapter: Adapter) -> dict[str, Any]:
    return {
        "name": adapter.spec.name,
        "label": adapter.spec.label,
        "account": adapter.account,
        "last_seen": adapter.last_seen,
        "connected": is_connected(adapter, time.time()),
    }


def count_reasons(counters: Mapping[str, int], kind: str) -> dict[str, int]:
    """The runner keeps its counts as "kind:reason"."""
    prefix = kind + ":"
    return {name.removeprefix(prefix): count for name, count in dict(counters).items() if name.startswith(prefix)}


_MANAGED = MappingProxyType({"people": people_admin.OPERATIONS, "keys": key_admin.OPERATIONS})
_OPERATIONS: Mapping[str, Callable[[Operations, Args], Awaitable[dict[str, Any]]]] = MappingProxyType(
    {
        "status": Operations.status,
        "ready": Operations.tell_ready,
        "shutdown": Operations.shut_down,
        "turns.stop": Operations.stop_turn,
        "sessions.delete": Operations.delete_session,
    }
)
