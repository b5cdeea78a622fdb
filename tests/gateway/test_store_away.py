"""A gateway whose database is away: before it starts, while somebody writes, in the midst of a turn (I6)."""

import json
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from gateway_nodes import running_nodes
from gateway_process import GatewayProcess, Person
from local_gateway import LocalHouse
from postgres_server import PostgresServer, get_server
from quick_folder import QUICK_FOLDER
from store_places import read_rows
from waiting import wait_until

from hermes_base.inbound import ANSWER
from hermes_cli import main as entry
from hermes_constants import STORE_FILE
from hermes_lab.database import PASSWORD
from hermes_lab.server import LabServer
from hermes_state.home_lock import holder

Output = pytest.CaptureFixture[str]


@pytest.fixture
def server() -> Iterator[PostgresServer]:
    get_server()
    made = PostgresServer(QUICK_FOLDER)
    yield made
    made.end()


@pytest.fixture
def database(server: PostgresServer) -> str:
    return server.make_database()


@pytest.fixture
def gateway(home: Path, lab: LabServer, database: str) -> Iterator[GatewayProcess]:
    with GatewayProcess(home, lab.base_url, store={"url": database}) as process:
        yield process


def test_a_database_that_comes_after_the_gateway_is_waited_for(
    home: Path, gateway: GatewayProcess, server: PostgresServer, database: str, capsys: Output
) -> None:
    """I6, F9: it says what it waits for, once, and goes on by itself; nothing is stored elsewhere."""
    server.crash()
    gateway.start(wait=False)
    wait_until(lambda: "The gateway waits for it, and takes no message" in gateway.log)
    assert entry.main(["status"]) == 0
    told = capsys.readouterr().out
    assert "cannot be reached" in told
    assert f"Store: postgresql://127.0.0.1:{urlsplit(database).port}/" in told
    server.start()
    gateway.wait_ready()
    ann = Person(home, "ann")
    ann.ask("hello")
    ann.close()
    assert gateway.terminate() == 0
    assert gateway.log.count("The gateway waits for it") == 1
    assert PASSWORD not in gateway.log
    assert not (home / STORE_FILE).exists()


def test_a_gateway_that_waits_for_its_database_can_be_ended_and_that_is_no_crash(
    home: Path, gateway: GatewayProcess, server: PostgresServer
) -> None:
    """C14, F9"""
    server.crash()
    gateway.start(wait=False)
    wait_until(lambda: "The gateway waits for it" in gateway.log)
    assert gateway.terminate() == 143
    assert holder(home) is None
    assert json.loads((home / "run" / "starts.json").read_text())["starts"] == []


def test_what_somebody_has_to_put_right_ends_the_start_with_a_sentence(
    home: Path, lab: LabServer, database: str
) -> None:
    """H8: to wait would change nothing."""
    with GatewayProcess(home, lab.base_url, store={"url": f"{database}_not_there"}) as gateway:
        gateway.start(wait=False)
        wait_until(lambda: gateway.is_dead)
        assert "does not exist. Create it (createdb), or correct store.url." in gateway.log
        assert gateway.terminate() == 1


def test_while_its_database_is_away_a_message_is_refused_with_the_reason_and_later_taken(
    home: Path, gateway: GatewayProcess, server: PostgresServer, database: str, capsys: Output
) -> None:
    """I6, C2: intake stops with a sentence and goes on by itself; status and the log say so."""
    gateway.start()
    ann = Person(home, "ann")
    ann.ask("before")
    server.crash()
    wait_until(lambda: "asks again until it is there" in gateway.log)
    refused = ann.wait_refused(ann.say("meanwhile"))
    assert "Your message was not taken: The store postgresql://" in refused
    assert "cannot be reached" in refused
    assert entry.main(["status"]) == 0
    told = capsys.readouterr().out
    assert "Running: process" in told
    assert "cannot be reached" in told
    server.start()
    wait_until(lambda: "is there again" in gateway.log)
    ann.ask("after")
    ann.close()
    assert gateway.terminate() == 0
    assert read_rows(database, "select count(*), count(done_epoch) from inbox") == [(2, 2)]
    assert PASSWORD not in gateway.log
    assert not (home / STORE_FILE).exists()


def test_a_turn_under_way_waits_for_its_database_and_is_answered_once(
    home: Path, gateway: GatewayProcess, server: PostgresServer, lab: LabServer, database: str
) -> None:
    """C2, C7: what the model said meanwhile is stored when it is there again."""
    gateway.start()
    ann = Person(home, "ann")
    ann.ask("before")
    said = ann.say("in the midst [[stall 2]]")
    wait_until(lambda: lab.in_flight > 0)
    server.crash()
    wait_until(lambda: "asks again until it is there" in gateway.log)
    server.start()
    ann.wait_dealt(said)
    ann.ask("after")
    assert ann.repeats == 0
    ann.close()
    assert gateway.terminate() == 0
    finals = "select count(*), count(distinct seq) from outbox where seq > 0"
    assert read_rows(database, finals) == [(3, 3)]


def test_a_turn_that_cannot_wait_so_long_is_taken_up_again_when_the_database_is_there(
    home: Path,
    server: PostgresServer,
    lab: LabServer,
    database: str,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """C2, C7: its writes fail; the message is open, and is answered once."""
    monkeypatch.setattr("gateway.service.gateway.STORE_PATIENCE", 0.3)
    home.mkdir()
    settings = {"model": {"base_url": lab.base_url, "default": "lab"}, "store": {"url": database}}
    (home / "config.yaml").write_text(json.dumps(settings))
    house = LocalHouse(home)
    ann = Person(home, "ann")
    try:
        ann.ask("before")
        said = ann.say("in the midst [[stall 1]]")
        wait_until(lambda: lab.in_flight > 0)
        server.crash()
        wait_until(lambda: "ann waits for the store" in caplog.text)
        server.start()
        ann.wait_dealt(said)
        ann.ask("after")
        assert ann.repeats == 0
    finally:
        ann.close()
        house.stop()
    said_by_us = [(json.loads(body)["kind"], seq) for seq, body in read_rows(database, "select seq, body from outbox")]
    assert [seq for kind, seq in sorted(said_by_us) if kind == ANSWER] == [1, 2, 3], said_by_us


def test_what_is_said_in_a_chat_app_while_the_database_begins_anew_is_answered(
    tmp_path: Path, lab: LabServer, server: PostgresServer, database: str
) -> None:
    """C2: nobody has to say it again; it waits, and is answered once."""
    with running_nodes(tmp_path, lab, database, "a", people=1) as nodes:
        (person,), node = nodes.people, nodes.nodes["a"]
        nodes.ask(person, "[[say before]]", "before")
        server.crash()
        wait_until(lambda: "asks again until it is there" in node.log)
        nodes.telegram.say(person, "[[say after]]")
        wait_until(lambda: nodes.telegram.pending() == [] or "is let go of" in node.log)  # then it waits over there
        server.start()
        wait_until(lambda: "after" in nodes.seen(person))
        assert [text for text in nodes.seen(person) if "not taken" in text] == []
        assert nodes.seen(person).count("after") == 1
