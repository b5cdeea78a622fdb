"""`hermes usage`: what the model calls used and cost, by turn, conversation, day and model; also what `/usage` shows.

Everything is read from the ledger, beside the owner of the home; nothing is written.
"""

import argparse
import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import asdict
from datetime import date, timedelta
from types import MappingProxyType
from typing import Any

from gateway.core.usage_report import (
    UsageReport,
    count_reasons,
    describe_sum,
    read_report,
    write_cost,
    write_gaps,
    write_scopes,
)
from hermes_base.store_place import StorePlace, find_place, has_store
from hermes_constants import get_hermes_home
from hermes_state.sql.store_sql import Store
from hermes_state.store import BreakRow, UsageGroup, UsageSum

DAYS = 7
MOST_DAYS = 3660
JSON_FORM = 1  # raised when a name goes or changes its meaning, not when one is added
WIDTH = 40
#: Buckets in the order of a bar, with the sign each is drawn with.
BUCKETS: Mapping[str, tuple[str, str]] = MappingProxyType(
    {
        "input_tokens": ("█", "new input"),
        "cache_write_tokens": ("▓", "cache write"),
        "cache_read_tokens": ("▒", "cache read"),
        "output_tokens": ("░", "output"),
    }
)
_EIGHTHS = " ▏▎▍▌▋▊▉"


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser("hermes usage", description="Show what the model calls used and cost.")
    shape = parser.add_mutually_exclusive_group()
    shape.add_argument("--json", action="store_true", help="for programs")
    shape.add_argument("--plot", action="store_true", help="a bar for each day")
    parser.add_argument("--days", type=_read_days, default=DAYS, metavar="N", help=f"the last N days ({DAYS})")
    parsed = parser.parse_args(args)
    report = _read_report(find_place(get_hermes_home()), parsed.days)
    if parsed.json:
        print(json.dumps(describe_report(report), ensure_ascii=False, indent=2))
        return 0
    for line in plot_days(report) if parsed.plot else write_report(report):
        print(line)
    return 0


def _read_report(place: StorePlace, days: int) -> UsageReport:
    if not has_store(place):  # nothing was used
        return UsageReport(since=date.today() - timedelta(days=days - 1))
    with closing(Store.open_readonly(place)) as store:
        newest = store.sessions(limit=1)
        return read_report(store, newest[0].task if newest else "", days=days)


def _read_days(text: str) -> int:
    if text.isdecimal() and 0 < int(text) <= MOST_DAYS:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is not a number from 1 to {MOST_DAYS}")


# --- as text


def write_report(report: UsageReport) -> Iterator[str]:
    """What `hermes usage` says."""
    yield from write_scopes(report)
    yield ""
    if not report.days:
        yield f"No model was called since {report.since}."
        return
    yield f"Since {report.since}: {describe_sum(report.total)}"
    yield from write_gaps(report.total, f"Since {report.since}")
    yield from _write_groups("By day:", report.days)
    yield from _write_groups("By model:", report.models)
    if report.breaks:
        yield f"Prefix breaks: {count_reasons(report.breaks)}"


def _write_groups(title: str, groups: Sequence[UsageGroup]) -> Iterator[str]:
    yield title
    names = [" ".join(group.keys) for group in groups]
    width = max(map(len, names))
    yield from (f"  {name:<{width}}  {describe_sum(group.sum)}" for name, group in zip(names, groups, strict=True))


# --- as bars


def plot_days(report: UsageReport) -> Iterator[str]:
    """A bar for each day up to today, from the first one with a call on: tokens by bucket, then the cost."""
    if not report.days:
        yield f"No model was called since {report.since}."
        return
    by_day = {group.keys[0]: group.sum for group in report.days}
    first = date.fromisoformat(min(by_day))
    count = max((date.today() - first).days, 0) + 1  # a day may lie ahead when the clock was set back
    names = [(first + timedelta(days=n)).isoformat() for n in range(count)]
    days = [by_day.get(name, UsageSum()) for name in names]
    most = max(max(map(_count_tokens, days)), 1)
    dearest = max(max(day.cost for day in days), 1e-9)
    digits = len(f"{most:,}")
    yield "Tokens: " + "  ".join(f"{sign} {name}" for sign, name in BUCKETS.values()) + "    Cost: right"
    for name, day in zip(names, days, strict=True):
        tokens = f"{draw_buckets(day, most):<{WIDTH}}  {_count_tokens(day):>{digits},}"
        yield f"{name}  {tokens}  {write_cost(day):>14}  {draw_bar(day.cost / dearest, WIDTH // 4)}".rstrip()


def _count_tokens(spent: UsageSum) -> int:
    return spent.prompt_tokens + spent.output_tokens


def draw_buckets(spent: UsageSum, most: int) -> str:
    """A bar of the day's tokens, each bucket with its own sign; the ends are rounded, so that the length is right."""
    bar, tokens = "", 0
    for name, (sign, _) in BUCKETS.items():
        tokens += getattr(spent, name)
        bar += sign * (round(WIDTH * tokens / most) - len(bar))
    return bar


def draw_bar(share: float, width: int) -> str:
    """A bar of this share of the width, exact to an eighth of a sign."""
    eighths = round(share * width * 8)
    return "█" * (eighths // 8) + _EIGHTHS[eighths % 8].strip()


# --- for programs


def describe_report(report: UsageReport) -> dict[str, Any]:
    """The report as plain values; docs/usage.md names them."""
    return {
        "form": JSON_FORM,
        "since": report.since.isoformat(),
        "turn": _describe(report.turn),
        "conversation": {**_describe(report.conversation), "breaks": _describe_breaks(report.conversation_breaks)},
        "today": _describe(report.today),
        "total": {**_describe(report.total), "breaks": _describe_breaks(report.breaks)},
        "days": [{"day": group.keys[0], **_describe(group.sum)} for group in report.days],
        "models": [
            {"provider": group.keys[0], "model": group.keys[1], **_describe(group.sum)} for group in report.models
        ],
    }


def _describe(spent: UsageSum) -> dict[str, Any]:
    return {**asdict(spent), "hit_rate": spent.hit_rate}


def _describe_breaks(breaks: Sequence[BreakRow]) -> list[dict[str, Any]]:
    """Each reason with its count and with where and when the prefix last moved for it."""
    counted = Counter(row.reason for row in breaks)
    last = {row.reason: row for row in breaks}
    return [
        {"reason": reason, "count": count, "last_position": last[reason].position, "last": last[reason].created}
        for reason, count in counted.most_common()
    ]
