"""The ledger in groups and the breaks of the prefix, on every store (I1), and the layout that holds them (H4)."""

import sqlite3
import time
from contextlib import closing
from pathlib import Path

import pytest
from sqlite_file import migrate_file

from hermes_base.errors import StoreFailure
from hermes_base.turn.journal import Row, UsageRow
from hermes_state.sql import schema, statements
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession, UsageSum
from hermes_state.store_journal import StoreJournal

CHAT = "agent:main:local:dm:1"
CALL = UsageRow("p", "m", "turn", 1, 2, 4, 8, 3, cost=0.5, turn="t1", saved=0.25)
SUM = UsageSum(1, 1, 2, 4, 8, 3, 0.5, saved=0.25)


def begin(store: Store) -> str:
    return store.open_session(NewSession(CHAT)).id


def call(turn: str, **fields: object) -> UsageRow:
    return UsageRow("p", "m", turn=turn, **fields)  # type: ignore[arg-type]


# --- groups


def test_calls_are_grouped_by_turn_in_the_order_of_time(store: Store) -> None:
    """A10: a turn is the calls that were made for one message, over a rotation too; other calls have no turn."""
    session = begin(store)
    store.append(session, "w", 0, [Row({"role": "user", "content": "x"})], [CALL])
    store.charge(session, [UsageRow("p", "m", "title", input_tokens=100)])
    child = store.rotate(session, "w", 1, "compression", []).id
    store.charge(child, [CALL])
    store.charge(child, [call("t2", settled=False)])
    groups = store.usage_by("turn", task=session)
    assert [group.keys for group in groups] == [("t1",), ("",), ("t2",)]
    assert groups[0].sum == UsageSum(2, 2, 4, 8, 16, 6, 1.0, saved=0.5)
    assert groups[2].sum == UsageSum(1, unpriced=1, unsettled=1)
    assert [group.keys for group in store.usage_by("turn", session=child)] == [("t1",), ("t2",)]
    assert [group.keys for group in store.usage_by("turn", session=child, task=session)] == [("t1",), ("t2",)]
    assert groups[0].first <= groups[1].first <= groups[2].first


def test_calls_are_grouped_by_model(store: Store) -> None:
    """A10: the same name at another provider is another model."""
    session = begin(store)
    store.charge(session, [CALL, UsageRow("q", "m", output_tokens=5), UsageRow("p", "n"), CALL])
    groups = {group.keys: group.sum for group in store.usage_by("model")}
    assert groups[("p", "m")] == UsageSum(2, 2, 4, 8, 16, 6, 1.0, saved=0.5)
    assert groups[("q", "m")].output_tokens == 5
    assert set(groups) == {("p", "m"), ("q", "m"), ("p", "n")}


def test_calls_are_grouped_by_the_local_day(store: Store) -> None:
    """A10"""
    before = time.strftime("%Y-%m-%d")
    store.charge(begin(store), [CALL])
    (group,) = store.usage_by("day")
    assert before <= group.keys[0] <= time.strftime("%Y-%m-%d")
    assert group.sum == SUM
    assert store.usage_by("day", since=time.time() + 60) == []


def test_the_groups_add_up_to_the_sum(store: Store) -> None:
    """A8"""
    session = begin(store)
    store.charge(session, [CALL, call(""), call("t9", input_tokens=7), UsageRow("q", "z", turn="t1", cost=2.0)])
    for group in ("day", "model", "turn"):
        sums = [found.sum for found in store.usage_by(group, session=session)]
        assert sum(found.calls for found in sums) == 4
        assert sum(found.cost for found in sums) == store.usage(session=session).cost == 2.5
        assert sum(found.prompt_tokens for found in sums) == store.usage().prompt_tokens == 14


def test_an_unknown_group_is_refused(store: Store) -> None:
    with pytest.raises(StoreFailure, match="day, model, turn"):
        store.usage_by("weather")


def test_a_sum_knows_its_hit_rate() -> None:
    """A10: cache read against cache read, cache write and uncached input."""
    assert UsageSum(1, 10, 60, 30, 99).hit_rate == 0.6
    assert UsageSum(1, output_tokens=5).hit_rate is None


# --- breaks


def test_breaks_are_kept_with_reason_and_position(store: Store) -> None:
    """A2: each break is recorded, for its session and its task, and outlives both."""
    session = begin(store)
    store.note_break(session, "undo", 4)
    child = store.rotate(session, "w", 0, "compression", []).id
    store.note_break(child, "compression", 0)
    store.note_break(begin(store), "model", 0)
    assert [(row.reason, row.position) for row in store.breaks(task=session)] == [("undo", 4), ("compression", 0)]
    assert [row.session for row in store.breaks(session=child)] == [child]
    assert store.breaks(session=child, task="other") == []
    assert len(store.breaks()) == 3
    assert store.breaks(since=time.time() + 60) == []
    store.delete(session)
    assert len(store.breaks(task=session)) == 2
    store.note_break(session, "late", 1)
    assert [row.reason for row in store.breaks(session=session)] == ["undo", "late"]


@pytest.mark.parametrize("reason", ["", "  ", "unknown", "Unknown "])
def test_a_break_without_a_reason_is_refused(store: Store, reason: str) -> None:
    """A2: the reason is never unknown."""
    with pytest.raises(StoreFailure, match="needs a reason"):
        store.note_break(begin(store), reason, 0)
    assert store.breaks() == []


def test_a_journal_notes_breaks_where_it_stands(store: Store) -> None:
    """A2"""
    journal = StoreJournal(lambda: store, NewSession(CHAT))
    journal.broke("undo", 2)
    first = journal.load().session
    child = journal.rotate("compression", [])
    journal.broke("compression", 0)
    assert [(row.session, row.reason) for row in store.breaks(task=first)] == [(first, "undo"), (child, "compression")]


# --- layout 2

#: How the program of layout 1 wrote a call.
OLD_ADD_USAGE = (
    "insert into usage (conversation, session, task, provider, model, kind, input_tokens, cache_read_tokens, "
    "cache_write_tokens, output_tokens, reasoning_tokens, cost, settled, created) "
    "values ('c', 's', 's', 'p', 'm', 'turn', 1, 2, 4, 8, 3, 0.5, 1, 1000.0)"
)


def make_old_store(path: Path) -> None:
    migrate_file(path, schema.MIGRATIONS[:1])
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        db.execute(OLD_ADD_USAGE)


def test_an_old_ledger_is_taken_over(tmp_path: Path) -> None:
    """H4, A8: calls from before the turns were kept are in all sums, outside of turns."""
    make_old_store(tmp_path / "s.db")
    with closing(Store(tmp_path / "s.db")) as store:
        assert store.usage(session="s") == UsageSum(1, 1, 2, 4, 8, 3, 0.5)
        (group,) = store.usage_by("turn")
        assert (group.keys, group.sum) == (("",), UsageSum(1, 1, 2, 4, 8, 3, 0.5))
        assert store.breaks() == []


def test_the_program_of_layout_1_works_on_layout_2(tmp_path: Path) -> None:
    """H4: the new layout lets it in, and its statements still work beside those of this one."""
    path = tmp_path / "s.db"
    with closing(Store(path)) as store:
        store.charge(begin(store), [CALL])
    with closing(sqlite3.connect(path, isolation_level=None)) as db:
        assert db.execute(statements.GET_META, ("min_reader",)).fetchone() == ("1",)
        db.execute(OLD_ADD_USAGE)
    with closing(Store(path)) as store:
        assert store.usage().calls == 2
        assert {group.keys for group in store.usage_by("turn")} == {("",), ("t1",)}
