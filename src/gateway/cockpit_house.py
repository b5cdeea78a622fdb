"""The state of the house for the page: what runs, what it costs, who is there, and whether it would take a message."""

import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gateway import metrics
from gateway.front import has_room
from gateway.operations import is_connected
from gateway.platforms.hub import HubAdapter
from gateway.turn import start_thread
from gateway.usage_report import UsageReport, read_report
from hermes_cli import logs
from hermes_state.damage import describe_damage
from hermes_state.interface import UsageSum

if TYPE_CHECKING:
    from gateway.service import Gateway

#: A store that has not answered for so long is not reachable; shorter waits are told to who waits.
STORE_SECONDS = 15.0
RECENT_BREAKS = 50
MOST_DAYS, MOST_LINES = 366, 2000


class HouseDesk:
    """Implements `HousePanel`."""

    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway

    async def status(self) -> Mapping[str, Any]:
        return await self._gateway.operations.status({})

    async def usage(self, days: int) -> Mapping[str, Any]:
        gateway, days = self._gateway, min(max(days, 1), MOST_DAYS)
        report = await gateway.call(lambda: read_report(gateway.store, "", days=days))
        return describe_usage(report)

    async def log_tail(self, lines: int) -> Sequence[str]:
        """As people read them; the file itself holds JSON."""
        path, count = logs.log_path(self._gateway.home), min(max(lines, 0), MOST_LINES)
        found = await start_thread(lambda: logs.read_tail(path, count), "log")
        return [logs.write_line(line) for line in found]

    async def perform(self, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return await self._gateway.operations.perform(name, args)

    async def metrics(self) -> str:
        gateway = self._gateway
        depth = await gateway.call(gateway.turns.depth)
        return metrics.write_text(metrics.collect(gateway, depth))

    def is_ready(self) -> str:
        gateway, now = self._gateway, time.monotonic()
        if gateway.closing:
            return "Hermes is shutting down."
        if now - gateway.chores.stored > STORE_SECONDS:
            return f"The store has not answered for {now - gateway.chores.stored:.0f} s."
        if gateway.chores.trouble:
            return gateway.chores.trouble
        if not has_room(gateway.home):
            return "The disk is nearly full: no message is taken until there is room."
        down = [adapter.spec.label for adapter in gateway.adapters if _must_live(adapter) and not _lives(adapter)]
        return f"{', '.join(down)}: no sign of life." if down else ""

    def warning(self) -> str:
        return describe_damage(self._gateway.chores.damaged)


def _must_live(adapter: Any) -> bool:
    """The house's own socket; pages and API are alive when somebody asks through them, and networks may be away."""
    return adapter.spec.always_on and not isinstance(adapter, HubAdapter)


def _lives(adapter: Any) -> bool:
    return is_connected(adapter, time.time())


def describe_usage(report: UsageReport) -> dict[str, Any]:
    """The days asked for, as plots and tables need them."""
    counted = Counter(row.reason for row in report.breaks)
    recent = report.breaks[-RECENT_BREAKS:][::-1]
    return {
        "days": [{"day": group.keys[0], **describe_sum(group.sum)} for group in report.days],
        "models": [
            {"provider": group.keys[0], "model": group.keys[1], **describe_sum(group.sum)} for group in report.models
        ],
        "total": describe_sum(report.total),
        "breaks": [{"reason": reason, "count": count} for reason, count in counted.most_common()],
        "recent_breaks": [
            {"session": row.session, "reason": row.reason, "position": row.position, "at": row.created}
            for row in recent
        ],
    }


def describe_sum(spent: UsageSum) -> dict[str, Any]:
    return {**asdict(spent), "hit_rate": spent.hit_rate}
