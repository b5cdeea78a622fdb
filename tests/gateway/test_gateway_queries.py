"""What the page is told about the house: status, usage, log, and whether it would take a message."""

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from house import House
from waiting import wait_until

from gateway.service import pulse
from gateway.service.queries.all_queries import GatewayQueries
from hermes_base.inbound import Address, Inbound
from hermes_cli.cmds.gateway.gateway_cmd import write_status
from hermes_cli.config.logs import keep_log
from hermes_constants import STORE_FILE
from hermes_lab.server import LabServer


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    with keep_log(home), House(home, lab.base_url, pretend={"owner": "olga"}) as made:
        yield made


@pytest.fixture
def queries(house: House) -> GatewayQueries:
    return house.gateway.queries.gateway


def find_unready(house: House) -> str:
    return house.wait_for(house.gateway.operations.find_unready())


def test_the_status_has_what_the_page_shows(house: House, home: Path) -> None:
    """C13, E11, G5: everything at once, while a turn runs."""
    olga = house.person("olga")
    olga.say("[[stall 30]] A long story")
    wait_until(
        lambda: any(lane.slot is not None and lane.slot.is_turn for lane in house.gateway.lanes.at_work.values())
    )
    status = house.wait_for(house.gateway.operations.status({}))
    [turn] = status["working"]
    assert (turn["conversation"], turn["starter"]) == (olga.conversation, status["working"][0]["starter"])
    assert 0 <= time.time() - turn["since"] < 60
    assert (status["pid"], status["home"], status["profile"]) == (os.getpid(), str(home), "default")
    assert (status["model"]["model"], status["model"]["window"] > 0, bool(status["model"]["source"])) == (
        "lab",
        True,
        True,
    )
    assert status["sandbox"]
    assert status["disk_free"] > 0
    assert {"agents", "hits", "builds", "evictions"} == set(status["cache"])
    pretend = next(one for one in status["platforms"] if one["name"] == "pretend")
    assert pretend["connected"]
    assert pretend["label"]
    assert status["config"]["problem"] == ""
    assert set(status["web"]) == {"address", "watchers"}
    assert any(olga.conversation in line for line in write_status(status))
    olga.ask("/stop")


def test_usage_by_day_and_model(house: House, queries: GatewayQueries) -> None:
    """A10"""
    olga = house.person("olga")
    olga.ask("[[say one]]")
    olga.ask("/undo")
    olga.ask("[[say two]]")
    used = house.wait_for(queries.usage(7))
    [day], [model] = used["days"], used["models"]
    total = house.gateway.store.usage()
    assert day["day"] == time.strftime("%Y-%m-%d")
    assert (day["calls"], model["model"]) == (2, "lab")
    assert day["input_tokens"] == used["total"]["input_tokens"] == total.input_tokens
    assert day["hit_rate"] == total.hit_rate
    assert used["breaks"] == [{"reason": "undo", "count": 1}]
    assert used["recent_breaks"][0]["reason"] == "undo"


def test_the_end_of_the_log_is_readable(house: House, queries: GatewayQueries) -> None:
    """H9: a line of a turn names its conversation."""
    olga = house.person("olga")
    olga.ask("[[say one]]")
    last = house.wait_for(queries.log_tail(5))
    [line] = [line for line in last if "the turn completed" in line]
    assert f"conversation={olga.conversation}" in line
    assert "turn=" in line
    assert "provider=custom" in line
    assert house.wait_for(queries.log_tail(1)) == last[-1:]


def test_it_is_ready_until_it_stops(house: House) -> None:
    """H10: the probe is honest."""
    assert find_unready(house) == ""
    house.gateway.host.closing = True
    assert "shutting down" in find_unready(house)
    house.gateway.host.closing = False


def test_a_full_disk_is_told(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """H10, F7: what is said and what is done agree, since both ask the same."""
    monkeypatch.setattr(pulse, "LEAST_FREE_BYTES", 2**62)
    wait_until(lambda: "disk is nearly full" in find_unready(house))


@pytest.mark.file_store
def test_a_store_that_is_held_is_told_and_comes_back(house: House, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """H10, F6: another process holds the store for long."""
    monkeypatch.setattr(pulse, "ANSWER_SECONDS", 0.1)
    wait_until(lambda: find_unready(house) == "")
    with closing(sqlite3.connect(home / STORE_FILE, isolation_level=None)) as other:
        other.execute("begin exclusive")
        inbound = Inbound(Address("pretend", "bot", "chat-olga"), "m-held", "olga", "Hello")
        house.call(lambda: house.gateway.spawn(house.gateway.take(replace(inbound, received=time.time()))))
        wait_until(lambda: "has not answered" in find_unready(house))
        other.execute("rollback")
    monkeypatch.setattr(pulse, "ANSWER_SECONDS", 5.0)
    wait_until(lambda: find_unready(house) == "")


def test_a_dead_socket_of_the_house_is_told(house: House) -> None:
    """H10, C13"""
    local = next(adapter for adapter in house.gateway.adapters if adapter.spec.name == "local")
    local.last_seen = time.time() - 120
    assert local.spec.label in find_unready(house)


def test_a_dead_account_is_told_though_the_clock_was_set_back(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """C13: what was heard two minutes ago was, whatever the time of day is by now."""
    adapter = next(adapter for adapter in house.gateway.adapters if adapter.spec.name == "pretend")
    clock = time.time
    adapter.last_seen = clock() - 120
    monkeypatch.setattr(time, "time", lambda: clock() - 3600)
    (told,) = (one for one in house.operate("status")["platforms"] if one["name"] == "pretend")
    assert not told["connected"]
    assert 110 < time.time() - told["last_seen"] < 600
