"""What a turn costs on a store behind a network: how often somebody waits for the server. A batch that is sent before
its first answer is read counts once."""

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import pytest
from local_gateway import LocalHouse
from postgres_server import get_server
from psycopg import Pipeline
from raw_client import RawClient
from waiting import wait_until

from gateway.service import gateway
from hermes_cli import config
from hermes_state.sql import turn_statements as sql
from hermes_state.sql.engines.engine import Found, Sql
from hermes_state.sql.engines.postgres import PostgresEngine, PostgresTransaction
from hermes_state.sql.store_sql import Store

T = TypeVar("T")
MOST = 14  # from a message's arrival until its answer is shown
#: What a gateway asks by the clock, who looks in, and what is noted when the answer has been read.
BESIDE = {
    *(sql.BEAT, sql.CLAIM, sql.TAKE_CONTROLS, sql.ADD_LEASE, sql.FIND_READY, sql.COUNT_OPEN),
    *(sql.OUTBOX_SINCE, sql.ARRIVED),
}


class Call:
    """A call on the engine: what was asked, and how often its thread waited."""

    def __init__(self) -> None:
        self.statements: list[str] = []
        self.waits = 0


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[Call]:
    seen: list[Call] = []
    now = threading.local()
    use, run = PostgresEngine._use, PostgresTransaction.run
    sync, leave = Pipeline.sync, Pipeline.__exit__

    def use_and_note(self: PostgresEngine, work: Callable[[Any], T]) -> T:
        now.call = Call()
        try:
            return use(self, work)
        finally:
            seen.append(now.call)
            now.call = None

    def run_and_note(self: PostgresTransaction, *batch: Sql) -> list[Found]:
        call = getattr(now, "call", None)
        if call is not None:
            call.statements += [one.statement for one in batch]
            if self._pipeline is None:
                call.waits += len(batch)
        return run(self, *batch)

    def wait_and_note(do: Callable[..., Any]) -> Callable[..., Any]:
        def wait(*given: Any) -> Any:
            call = getattr(now, "call", None)
            if call is not None:
                call.waits += 1
            return do(*given)

        return wait

    monkeypatch.setattr(PostgresEngine, "_use", use_and_note)
    monkeypatch.setattr(PostgresTransaction, "run", run_and_note)
    monkeypatch.setattr(Pipeline, "sync", wait_and_note(sync))
    monkeypatch.setattr(Pipeline, "__exit__", wait_and_note(leave))
    return seen


def have_turn(house: LocalHouse, client: RawClient, calls: list[Call], number: int) -> tuple[int, list[str]]:
    calls.clear()
    client.say(f"[[say answer {number}]]", str(number))
    wait_until(lambda: f"answer {number}" in client.answers() and house.gateway.turns.depth() == (0, 0))
    counted = [call for call in calls if not BESIDE.intersection(call.statements)]
    assert any(sql.ADD_MESSAGE in call.statements for call in counted)
    assert any({sql.CLOSE_MESSAGE, sql.ADD_ANSWER} <= set(call.statements) for call in counted)
    looks = 1  # of whoever is shown the answer
    return sum(call.waits for call in counted) + looks, [f"{call.waits} {call.statements[0]}" for call in counted]


def test_a_turn_without_tools_waits_for_the_server_a_few_times(
    settings: None, home: Path, calls: list[Call], monkeypatch: pytest.MonkeyPatch
) -> None:
    """I1: of later turns, the least of which has nothing of the clock in it; the first opens its session besides."""
    address = get_server().make_database()
    monkeypatch.setattr(gateway, "Store", lambda _, busy_timeout: Store(address, busy_timeout=busy_timeout))
    config.set_value("titles.enabled", "false")
    house = LocalHouse(home)
    try:
        client = house.client()
        turns = [have_turn(house, client, calls, number) for number in range(5)]
        waits, asked = min(turns[1:])
        assert waits <= MOST, asked
    finally:
        house.stop()
