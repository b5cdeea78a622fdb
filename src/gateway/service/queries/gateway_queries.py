"""What the gateway costs, logs and measures, and what its operator should look at."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from gateway.core.usage_report import UsageReport, read_report
from gateway.service import metrics
from gateway.turns.threads import start_thread
from hermes_cli.config import logs
from hermes_state.damage import describe_damage
from hermes_state.store import UsageSum

if TYPE_CHECKING:
    from gateway.service.gateway import Gateway

RECENT_BREAKS = 50
MOST_DAYS, MOST_LINES = 366, 2000


class GatewayQueries:
    def __init__(self, gateway: "Gateway") -> None:
        self._gateway = gateway

    async def usage(self, days: int) -> Mapping[str, Any]:
        """By day and by model, with hit rate, cost and prefix breaks by reason."""
        gateway, days = self._gateway, min(max(days, 1), MOST_DAYS)
        report = await gateway.call(lambda: read_report(gateway.store, "", days=days))
        return write_usage(report)

    async def log_tail(self, lines: int) -> Sequence[str]:
        """As people read them; the file itself holds JSON."""
        path, count = logs.log_path(self._gateway.home), min(max(lines, 0), MOST_LINES)
        found = await start_thread(lambda: logs.read_tail(path, count), "log")
        return [logs.write_line(line) for line in found]

    async def metrics(self) -> str:
        """In the text format of Prometheus (H9)."""
        gateway = self._gateway
        depth = await gateway.call(gateway.turns.depth)
        return metrics.write_text(metrics.collect(gateway, depth))

    def warning(self) -> str:
        """What the operator should look at, though messages are taken; empty: nothing."""
        return describe_damage(self._gateway.chores.damaged)


def write_usage(report: UsageReport) -> dict[str, Any]:
    """The days asked for, as plots and tables need them."""
    counted = Counter(row.reason for row in report.breaks)
    recent = report.breaks[-RECENT_BREAKS:][::-1]
    return {
        "days": [{"day": group.keys[0], **write_sum(group.sum)} for group in report.days],
        "models": [
            {"provider": group.keys[0], "model": group.keys[1], **write_sum(group.sum)} for group in report.models
        ],
        "total": write_sum(report.total),
        "breaks": [{"reason": reason, "count": count} for reason, count in counted.most_common()],
        "recent_breaks": [
            {"session": row.session, "reason": row.reason, "position": row.position, "at": row.created}
            for row in recent
        ],
    }


def write_sum(spent: UsageSum) -> dict[str, Any]:
    return {**asdict(spent), "hit_rate": spent.hit_rate}
