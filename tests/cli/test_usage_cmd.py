"""`hermes usage` and `/usage` against a real ledger (A10)."""

import json
import time
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import pytest
from fresh_store import fresh_store
from hypothesis import given
from hypothesis import strategies as st
from store_places import write_rows

from gateway.core.usage_report import describe_sum, read_report, write_money, write_scopes
from hermes_base.store_place import find_place
from hermes_base.turn.journal import Row, UsageRow
from hermes_cli.cmds.usage_cmd import WIDTH, draw_bar, draw_buckets
from hermes_cli.main import main
from hermes_state.home_lock import HomeLock
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession, UsageSum

TODAY, YESTERDAY = date.today().isoformat(), (date.today() - timedelta(days=1)).isoformat()
SUM_NAMES = {
    "calls", "input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens",
    "cost", "saved", "unpriced", "unsettled", "hit_rate",
}  # fmt: skip


def call(turn: str = "", **fields: Any) -> UsageRow:
    buckets = {"input_tokens": 100, "cache_read_tokens": 800, "cache_write_tokens": 100, "output_tokens": 50}
    return UsageRow("anthropic", "claude", turn=turn, **{**buckets, "cost": 0.25, "saved": 0.5, **fields})


def charge(store: Store, name: str, *calls: UsageRow) -> str:
    session = store.open_session(NewSession(f"agent:main:local:dm:{name}", id=name)).id
    store.append(session, "w", 0, [Row({"role": "user", "content": "hello"})], calls)
    return session


@pytest.fixture
def store(home: Path) -> Iterator[Store]:
    """Yesterday's conversation, and today's with two turns, a title, a cut call and two breaks."""
    store = Store(find_place(home))
    charge(store, "old", call("t0", cost=1.0))
    write_rows(find_place(home), "update usage set created = ?", time.time() - 86_400)
    session = charge(store, "new", call("t1"), call("t1"), call("t2", reasoning_tokens=20))
    store.charge(session, [UsageRow("custom", "mine", "title", input_tokens=10)])
    store.charge(session, [UsageRow("anthropic", "claude", settled=False)])
    for reason in ("undo", "compression", "undo"):
        store.note_break(session, reason, 3)
    yield store
    store.close()


def ask(capsys: pytest.CaptureFixture[str], *args: str) -> str:
    assert main(["usage", *args]) == 0
    return capsys.readouterr().out


def test_an_empty_home_has_used_nothing(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """H8: no error, and no file is made."""
    for args in ([], ["--plot"], ["--days", "30"]):
        assert "No model was called since" in ask(capsys, *args)
    told = json.loads(ask(capsys, "--json"))
    assert told["total"]["calls"] == 0
    assert told["days"] == told["models"] == []
    assert not home.exists() or not list(home.glob("*.db*"))


def test_turn_conversation_and_day_are_told_apart(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """A10: tokens by bucket, hit rate, cost and saving for the last turn, the conversation and the day."""
    lines = ask(capsys).splitlines()
    assert lines[0] == (
        "Last turn:         1 calls, 1,000 tokens in (100 new, 800 cached, 100 written), 50 out (20 reasoning), "
        "hit rate 80 %, $0.2500, the cache saved $0.5000"
    )
    assert lines[1].startswith("This conversation: 5 calls, 3,010 tokens in (310 new, 2,400 cached, 300 written)")
    assert lines[1].endswith("hit rate 80 %, $0.7500, the cache saved $1.50")
    assert lines[2].startswith("Today:             5 calls")


def test_what_the_cost_does_not_hold_is_named(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """A10, A11: calls without a price and calls that were cut; breaks by reason (A2)."""
    told = ask(capsys)
    assert "Today: 2 calls have no known price" in told
    assert "Today: 1 calls were cut before their count arrived" in told
    assert "Prefix breaks in this conversation: 2 undo, 1 compression" in told
    assert "Prefix breaks: 2 undo, 1 compression" in told


def test_days_and_models_are_listed(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """A10"""
    lines = ask(capsys).splitlines()
    assert any(line.startswith(f"  {YESTERDAY}  1 calls") and "$1.00" in line for line in lines)
    assert any(line.startswith(f"  {TODAY}  5 calls") for line in lines)
    assert any(line.split()[:4] == ["custom", "mine", "1", "calls,"] and "no price known" in line for line in lines)
    assert YESTERDAY not in ask(capsys, "--days", "1").partition("By day:")[2]


def test_json_is_stable(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """A10: the names that docs/usage.md promises."""
    told = json.loads(ask(capsys, "--json", "--days", "2"))
    assert list(told) == ["form", "since", "turn", "conversation", "today", "total", "days", "models"]
    assert (told["form"], told["since"]) == (1, YESTERDAY)
    assert set(told["turn"]) == set(told["today"]) == SUM_NAMES
    assert set(told["conversation"]) == set(told["total"]) == SUM_NAMES | {"breaks"}
    assert [(day["day"], day["calls"]) for day in told["days"]] == [(YESTERDAY, 1), (TODAY, 5)]
    assert [(row["provider"], row["model"], row["calls"]) for row in told["models"]] == [
        ("anthropic", "claude", 5),
        ("custom", "mine", 1),
    ]
    assert told["total"]["cost"] == 1.75
    assert told["turn"]["hit_rate"] == 0.8
    breaks = told["conversation"]["breaks"]
    assert [(row["reason"], row["count"], row["last_position"]) for row in breaks] == [
        ("undo", 2, 3),
        ("compression", 1, 3),
    ]
    assert abs(breaks[0]["last"] - time.time()) < 600


def test_the_documented_names_are_the_real_ones(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """H11: docs/usage.md explains each name of the JSON."""
    page = (Path(__file__).resolve().parents[2] / "docs" / "usage.md").read_text("utf-8")
    told = json.loads(ask(capsys, "--json"))
    names = {*told, *told["conversation"], *told["days"][0], *told["models"][0], *told["total"]["breaks"][0]}
    assert [name for name in sorted(names) if f"`{name}`" not in page] == []


def test_the_plot_has_a_bar_for_each_day(store: Store, capsys: pytest.CaptureFixture[str]) -> None:
    """A10: tokens by bucket and cost, in plain signs."""
    head, first, second = ask(capsys, "--plot").splitlines()
    assert "█ new input" in head
    assert first.split()[0] == YESTERDAY
    assert "$1.00" in first
    bar = second.split()[1]
    assert second.split()[0] == TODAY
    assert bar == "█" * bar.count("█") + "▓" * bar.count("▓") + "▒" * bar.count("▒") + "░" * bar.count("░")
    assert (len(bar), bar.count("▒")) == (WIDTH, 30)


def test_days_without_a_call_have_an_empty_bar(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = Store(find_place(home))
    charge(store, "old", call("t0"))
    write_rows(find_place(home), "update usage set created = created - 3 * 86400")
    store.close()
    lines = ask(capsys, "--plot").splitlines()[1:]
    assert len(lines) == 4
    assert ["█" in line for line in lines] == [True, False, False, False]


def test_reading_works_beside_the_owner(store: Store, home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """F6: the ledger is read only."""
    with HomeLock(home):
        assert "5 calls" in ask(capsys)


@pytest.mark.parametrize("args", [["--days", "0"], ["--days", "x"], ["--json", "--plot"], ["--nonsense"]])
def test_wrong_use_is_said(args: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["usage", *args]) == 2
    assert "usage: hermes usage" in capsys.readouterr().err


def test_the_chat_says_the_same(store: Store) -> None:
    """A10: `/usage` shows turn, conversation and day."""
    lines = list(write_scopes(read_report(store, "old")))
    assert [line.partition(":")[0] for line in lines[:3]] == ["Last turn", "This conversation", "Today"]
    assert "$1.00" in lines[1]
    assert not any("Prefix breaks" in line for line in lines)
    assert next(write_scopes(read_report(fresh_store(), "nobody"))) == "Last turn:         no calls"


# --- words and bars


def test_money_is_readable() -> None:
    assert [write_money(dollars) for dollars in (0, 0.00012, 0.5, 1, 1234.5)] == [
        "$0.00", "$0.0001", "$0.5000", "$1.00", "$1,234.50",
    ]  # fmt: skip


def test_a_cache_that_cost_more_than_it_saved_is_named() -> None:
    """A10: writes that nobody read."""
    assert describe_sum(UsageSum(1, 5, 0, 5, 5, cost=1.0, saved=-0.5)).endswith("the cache cost $0.5000")
    assert describe_sum(UsageSum(1, output_tokens=5)) == "1 calls, 0 tokens in (0 new, 0 cached, 0 written), " + (
        "5 out (0 reasoning), $0.00"
    )


COUNTS = st.integers(0, 10**9)


@given(COUNTS, COUNTS, COUNTS, COUNTS)
def test_a_bar_is_as_long_as_its_day(new: int, read: int, wrote: int, out: int) -> None:
    spent = UsageSum(1, new, read, wrote, out)
    most = max(new + read + wrote + out, 1)
    assert len(draw_buckets(spent, most)) == (WIDTH if new + read + wrote + out else 0)
    assert len(draw_buckets(spent, most * 3)) <= WIDTH // 3 + 1


@given(st.floats(0, 1))
def test_a_share_is_drawn_in_eighths(share: float) -> None:
    bar = draw_bar(share, 10)
    assert len(bar) <= 10
    assert abs(len(bar) - share * 10) <= 1.01
