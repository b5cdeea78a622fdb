"""What a turn costs the store: its writing transactions are counted, for each of them waits for the disk."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pytest
from local_gateway import LocalHouse
from waiting import wait_until

from hermes_cli import config
from hermes_state.sql import turn_statements as sql
from hermes_state.sql.engines.engine import Transaction
from hermes_state.sql.engines.sqlite import SqliteEngine, SqliteTransaction

T = TypeVar("T")
#: Of a message from its arrival until its answer is known to have arrived; who joins is looked after in a first one.
FIRST_TURN, LATER_TURN = 7, 5
#: What a gateway writes by the clock, whether there is a turn or not, and who looks in.
BY_THE_CLOCK = {sql.BEAT, sql.CLAIM, sql.TAKE_CONTROLS, sql.ADD_LEASE}


@pytest.fixture
def written(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The statements of each transaction that a turn has committed."""
    seen: list[list[str]] = []
    now = threading.local()
    write, execute = SqliteEngine.write, SqliteTransaction.execute

    def write_and_note(self: SqliteEngine, work: Callable[[Transaction], T]) -> T:
        statements: list[str] = []

        def do(db: Transaction) -> T:
            now.statements = statements
            return work(db)

        written = write(self, do)
        if not BY_THE_CLOCK.intersection(statements):
            seen.append(statements)
        return written

    def execute_and_note(self: SqliteTransaction, statement: str, values: object = ()) -> object:
        getattr(now, "statements", []).append(statement)
        return execute(self, statement, values)  # type: ignore[arg-type]

    monkeypatch.setattr(SqliteEngine, "write", write_and_note)
    monkeypatch.setattr(SqliteTransaction, "execute", execute_and_note)
    return seen


@pytest.mark.file_store
def test_a_turn_without_tools_is_few_transactions(settings: None, home: Path, written: list[list[str]]) -> None:
    """C1, C2, C9: message, turn, rows, end, shown; a first one opens its session besides."""
    config.set_value("titles.enabled", "false")
    house = LocalHouse(home)
    try:
        client = house.client()
        for number, most in enumerate((FIRST_TURN, LATER_TURN, LATER_TURN)):
            written.clear()
            client.say(f"[[say answer {number}]]", str(number))
            wait_until(lambda: f"answer {number}" in client.answers() and house.gateway.turns.depth() == (0, 0))  # noqa: B023
            assert len(written) <= most, written
            assert any(sql.ADD_MESSAGE in one for one in written)
            assert any(sql.CLOSE_MESSAGE in one and sql.ADD_ANSWER in one for one in written)
    finally:
        house.stop()
