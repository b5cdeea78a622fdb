"""What a start asks of the store: every statement is caught on a real start, and none of them scans a table."""

import re
import sqlite3
import threading
import time
from contextlib import closing
from pathlib import Path

import pytest
from local_gateway import LocalHouse
from waiting import wait_until

from gateway.service import chores
from hermes_base import local_wire as wire
from hermes_constants import STORE_FILE
from hermes_state.sql.engines.sqlite import SqliteEngine, SqliteTransaction

#: Indexes that hold what is open and nothing else: reading one through costs what there is to do.
OPEN_ONLY = (
    *("conversation_ready", "conversation_ready_owner", "conversation_owner", "inbox_open", "outbox_open"),
    *("lease_owner", "control_open", "question_open", "question_node", "damaged_found"),
)
#: What does not grow: the engine's catalogue, what the search index notes about itself, and what a statement has just
#: found by an index, as many as are claimed at once.
FIXED = ("sqlite_master", "sqlite_schema", "main.search_config", "subquery_due")


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The statements, with their values, that any connection of the store executes."""
    seen: set[str] = set()
    connect, lock = SqliteEngine._connect, threading.Lock()

    def note(statement: str) -> None:
        with lock:
            seen.add(statement)

    def connect_traced(self: SqliteEngine, options: str) -> SqliteTransaction:
        db = connect(self, options)
        db.connection.set_trace_callback(note)
        return db

    monkeypatch.setattr(SqliteEngine, "_connect", connect_traced)
    return seen


def find_scans(path: Path, statements: set[str]) -> list[str]:
    """Statements with the step of their plan that reads a whole table."""
    found = []
    with closing(sqlite3.connect(path)) as db:
        db.create_function("clock", 0, time.time, deterministic=True)
        for statement in sorted(statements):
            readable = re.sub(r"(?<=[ (-])Inf\b", "9e999", statement)  # the trace writes what SQL does not know
            for row in db.execute(f"explain query plan {readable}"):
                if _is_scan(str(row[3])):
                    found.append(f"{row[3]}: {statement}")
    return found


def _is_scan(step: str) -> bool:
    words = step.split()
    if words[0] != "SCAN" or words[1:] == ["CONSTANT", "ROW"]:
        return False
    return words[-1] not in OPEN_ONLY and words[1] not in FIXED


def list_queries(traced: set[str]) -> set[str]:
    """Without what the engine is told about itself."""
    begins = ("select", "insert", "update", "delete", "with")
    return {statement for statement in traced if statement.lstrip().lower().startswith(begins)}


@pytest.mark.file_store
def test_no_query_of_a_start_scans_a_table(settings: None, home: Path, traced: set[str]) -> None:
    """F3: opening, joining, looking for work, voiding questions, taking the first message, answering it."""
    first = LocalHouse(home)
    client = first.client()
    client.say("an earlier word")
    client.wait(wire.DealtWith)
    first.stop()
    traced.clear()
    house = LocalHouse(home)
    try:
        ticks = house.gateway.lanes.looked
        client = house.client("two")
        client.say("hello", "2")
        client.wait(wire.DealtWith)
        wait_until(lambda: house.gateway.lanes.looked > ticks + chores.POLL_SECONDS)
    finally:
        house.stop()
    asked = list_queries(traced)
    assert_covers(asked)
    assert find_scans(home / STORE_FILE, asked) == []


def assert_covers(asked: set[str]) -> None:
    """The trace saw what a start does; otherwise the test would say nothing."""
    text = "\n".join(asked)
    for part in (
        "insert into node",  # join
        "c.ready_at <=",  # claim
        "c.owner = ",  # ready, controls
        "insert into inbox",  # accept
        "update inbox set done_epoch",  # complete
        "group by chat",  # outbox_chats
        "from question where state = 'open' and not exists",  # void_orphans
        "insert into message",
    ):
        assert part in text, part


def test_a_scan_would_be_seen(tmp_path: Path) -> None:
    path = tmp_path / "s.db"
    with closing(sqlite3.connect(path)) as db:
        db.execute("create table message (id integer primary key, session text)")
        db.execute("create index inbox_open on message(session)")
        db.commit()
    assert find_scans(path, {"select * from message"})
    assert find_scans(path, {"select * from message where session > ''"}) == []
