"""What was used and what it cost, read from the ledger, and the lines that say it (`/usage`, `hermes usage`)."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from functools import reduce

from hermes_state.records import add_sums
from hermes_state.sql.store_sql import Store
from hermes_state.store import BreakRow, UsageGroup, UsageSum

_NOTHING = UsageSum()


@dataclass(frozen=True, slots=True)
class UsageReport:
    """What was used: the last turn and the conversation it belongs to, today, and the days asked for."""

    turn: UsageSum = _NOTHING
    conversation: UsageSum = _NOTHING
    today: UsageSum = _NOTHING
    conversation_breaks: Sequence[BreakRow] = ()
    since: date = date.min
    days: Sequence[UsageGroup] = ()
    models: Sequence[UsageGroup] = ()
    breaks: Sequence[BreakRow] = ()

    @property
    def total(self) -> UsageSum:
        return reduce(add_sums, (group.sum for group in self.days), UsageSum())


def read_report(store: Store, task: str, *, days: int = 0, person: str | None = None) -> UsageReport:
    """What the ledger says about a conversation and today; with `days` also about that many days up to today."""
    midnight = datetime.now().replace(hour=0, minute=0, second=0, microsecond=0)
    report = UsageReport(today=store.usage(since=midnight.timestamp(), person=person))
    if task:
        turns = [group.sum for group in store.usage_by("turn", task=task) if group.keys != ("",)]
        report = replace(
            report,
            turn=turns[-1] if turns else _NOTHING,
            conversation=store.usage(task=task),
            conversation_breaks=store.breaks(task=task),
        )
    if not days:
        return report
    first = midnight - timedelta(days=days - 1)
    since = first.timestamp()
    return replace(
        report,
        since=first.date(),
        days=store.usage_by("day", since=since),
        models=store.usage_by("model", since=since),
        breaks=store.breaks(since=since),
    )


# --- as text


def write_scopes(report: UsageReport) -> Iterator[str]:
    """What `/usage` says: the last turn, the conversation and today."""
    yield f"Last turn:         {describe_sum(report.turn)}"
    yield f"This conversation: {describe_sum(report.conversation)}"
    yield f"Today:             {describe_sum(report.today)}"
    yield from write_gaps(report.today, "Today")
    if report.conversation_breaks:
        yield f"Prefix breaks in this conversation: {count_reasons(report.conversation_breaks)}"


def describe_sum(spent: UsageSum) -> str:
    """One line: calls, tokens by bucket, hit rate, cost, and what the cache saved."""
    if not spent.calls:
        return "no calls"
    parts = [
        f"{spent.calls:,} calls",
        f"{spent.prompt_tokens:,} tokens in ({spent.input_tokens:,} new, {spent.cache_read_tokens:,} cached, "
        f"{spent.cache_write_tokens:,} written)",
        f"{spent.output_tokens:,} out ({spent.reasoning_tokens:,} reasoning)",
    ]
    if spent.hit_rate is not None:
        parts.append(f"hit rate {100 * spent.hit_rate:.0f} %")
    parts.append(write_cost(spent))
    if spent.saved:
        parts.append(f"the cache {'saved' if spent.saved > 0 else 'cost'} {write_money(abs(spent.saved))}")
    return ", ".join(parts)


def write_cost(spent: UsageSum) -> str:
    """The cost as far as prices are known: what has none did not cost nothing."""
    return "no price known" if spent.calls and spent.unpriced >= spent.calls else write_money(spent.cost)


def write_money(dollars: float) -> str:
    """Cents, or four digits where they would be lost."""
    return f"${dollars:,.2f}" if dollars >= 1 or not dollars else f"${dollars:.4f}"


def write_gaps(spent: UsageSum, where: str) -> Iterator[str]:
    """What the sums cannot hold."""
    if spent.unpriced:
        yield f"{where}: {spent.unpriced:,} calls have no known price and are not in the cost."
    if spent.unsettled:
        yield f"{where}: {spent.unsettled:,} calls were cut before their count arrived; the provider may bill them."


def count_reasons(breaks: Sequence[BreakRow]) -> str:
    counted = Counter(row.reason for row in breaks)
    return ", ".join(f"{count} {reason}" for reason, count in counted.most_common())
