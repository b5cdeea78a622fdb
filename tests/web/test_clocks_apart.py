"""The store's clock and this machine's tell different times. No times of the two are compared: what people see is the
same as with clocks that agree."""

import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import psycopg
import pytest
from api_house import ApiHouse
from postgres_server import get_server
from store_places import ENGINES, POSTGRES
from waiting import wait_until
from web_house import WebHouse

from hermes_lab.server import LabServer
from hermes_state.sql.engines import opening

pytestmark = pytest.mark.file_store  # it has both engines itself
HOUR = 3600.0
WORKS = '[[tool terminal {"command": "echo hi"}]][[then]][[chunks 40]][[pause 0.05]]'


@pytest.fixture(params=[HOUR, -HOUR], ids=["ahead", "behind"])
def ahead(request: pytest.FixtureRequest) -> float:
    return float(request.param)


@pytest.fixture(params=ENGINES)
def store_settings(request: pytest.FixtureRequest, ahead: float, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The settings of a store whose clock is so far ahead."""
    if request.param == POSTGRES:
        address = get_server().make_database()
        _move_clock(address, ahead)
        return {"url": address}
    monkeypatch.setattr(opening, "time", SimpleNamespace(time=lambda: time.time() + ahead))
    return {}


def _move_clock(address: str, ahead: float) -> None:
    """A function of the database stands before the server's of the same name."""
    name = psycopg.conninfo.conninfo_to_dict(address)["dbname"]
    with psycopg.connect(address, autocommit=True) as db:
        db.execute(
            "create function public.statement_timestamp() returns timestamptz stable language sql as "
            f"'select pg_catalog.statement_timestamp() + interval ''{ahead} s'''"
        )
        db.execute(f'alter database "{name}" set search_path = public, pg_catalog')  # type: ignore[arg-type]


@pytest.fixture(params=[WebHouse])
def house(
    request: pytest.FixtureRequest, home: Path, lab: LabServer, store_settings: dict[str, str], ahead: float
) -> Iterator[WebHouse]:
    with request.param(home, lab.base_url, store=store_settings) as made:
        assert abs(made.gateway.turns.now() - time.time() - ahead) < HOUR / 2
        yield made


def test_a_page_in_mid_turn_shows_it_once(house: WebHouse) -> None:
    """C7: what came before stands, what the turn has written is in its picture alone, and one snapshot is enough."""
    visitor = house.visit()
    conversation = visitor.open()
    first = visitor.watch(conversation)
    visitor.say(conversation, "[[say Good morning.]]")
    first.wait_for("settled")
    visitor.say(conversation, WORKS)
    first.wait_until(lambda state: len(state.live_text) > 10)
    second = visitor.watch(conversation)
    snapshot = second.events[0]
    assert [(entry["kind"], entry["text"]) for entry in snapshot["entries"]] == [
        ("user", "[[say Good morning.]]"),
        ("assistant", "Good morning."),
    ]
    assert [tool["ok"] for tool in snapshot["live"]["tools"]] == [True]
    for stream in (first, second):
        stream.wait_until(lambda state: state.live is None)
        assert [entry["kind"] for entry in stream.state.entries] == ["user", "assistant", "user", "tool", "assistant"]
        assert len(stream.of("snapshot")) == 1


def test_what_a_turn_wrote_before_it_broke_off_stands(house: WebHouse) -> None:
    """C10: its second attempt has a picture of its own, and the rows of the first one are in no picture."""
    visitor = house.visit()
    conversation = visitor.open()
    stream = visitor.watch(conversation)
    visitor.say(conversation, WORKS.replace("0.05", "0.2"))
    stream.wait_until(lambda state: len(state.live_text) > 5)
    house.stop()
    house.start()
    stream = house.visit().watch(conversation)
    stream.wait_until(lambda state: len(state.live_text) > 5)
    snapshot = house.visit().watch(conversation).events[0]
    assert [entry["kind"] for entry in snapshot["entries"] if entry["kind"] != "note"] == ["user", "tool"]
    assert snapshot["live"]["tools"] == []
    stream.wait_until(lambda state: state.live is None)
    assert [entry["kind"] for entry in stream.state.entries if entry["kind"] != "note"] == ["user", "tool", "assistant"]


@pytest.mark.parametrize("house", [ApiHouse], indirect=True)
def test_a_run_has_the_usage_of_its_turn(house: ApiHouse) -> None:
    """A8: neither nothing nor what was spent before."""
    http = house.http()
    spent = []
    for _ in range(2):
        run = http.post("/v1/runs", json={"input": "[[say ok]]", "conversation": "talk"}).json()["id"]
        wait_until(lambda run=run: http.get(f"/v1/runs/{run}").json()["status"] == "completed")  # type: ignore[misc]
        spent.append(http.get(f"/v1/runs/{run}").json()["usage"])
    assert spent[0]["total_tokens"] > 0
    assert spent[0]["completion_tokens"] == spent[1]["completion_tokens"]
