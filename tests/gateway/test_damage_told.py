"""What the disk, the clock or a hand does to the files of a gateway: it is noticed, told, and the talk goes on."""

import json
import os
import sqlite3
import subprocess
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from gateway_process import HERMES, GatewayProcess, Person, read_store, wait_quiet, write_store
from other_engine import IS_POSTGRES
from waiting import wait_until
from warm_python import run_text

from hermes_base.inbound import Address, Inbound, Outgoing, write_inbound
from hermes_base.store_place import find_place
from hermes_constants import STORE_FILE
from hermes_lab.server import LabServer
from hermes_state.damage import LOST_TEXT, WORDS
from hermes_state.home_lock import LOCK_FILE, holder
from hermes_state.sql.engines.sqlite import MARK
from hermes_state.sql.store_sql import Store

ME = Address("local", "local", "me")
#: What a disk makes of a text. PostgreSQL itself notices bytes that are none, so there it is one that breaks off.
BAD = b'{"broken' if IS_POSTGRES else b"\xa5\xff\x00\xfe\x81"


@pytest.fixture
def gateway(home: Path, lab: LabServer) -> Iterator[GatewayProcess]:
    with GatewayProcess(home, lab.base_url, web={"port": 0}) as process:
        yield process


@pytest.fixture
def person(gateway: GatewayProcess) -> Iterator[Person]:
    made = Person(gateway.home, "me")
    yield made
    made.close()


def damage(home: Path, table: str, word: str) -> None:
    """The row that holds this word: five bytes of the file, where the word begins."""
    if IS_POSTGRES:
        write_store(home, f"update {table} set body = cast(? as text) where body like ?", BAD, f"%{word}%")
        return
    path = home / STORE_FILE
    with closing(sqlite3.connect(path)) as db:
        db.execute("pragma wal_checkpoint(truncate)").fetchone()
    body = path.read_bytes()
    assert body.count(word.encode()) == 1, "the word must stand in one place"
    path.write_bytes(body.replace(word.encode(), BAD + word.encode()[len(BAD) :]))


def accept(home: Path, person: Person, *texts: str) -> None:
    """Messages that were stored and not looked at before the process died."""
    with closing(Store(find_place(home))) as store:
        for number, text in enumerate(texts, 50):
            inbound = Inbound(ME, f"me-{number}", "owner", text, mentioned=True)
            store.turns.accept(person.conversation, ME.account_key, inbound.ext_id, write_inbound(inbound))


def texts_of(person: Person) -> list[str]:
    return [shown.outgoing.text for shown in person.shown]


def run(home: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.CompletedProcess(args, *run_text([HERMES, *args], os.environ))


def test_a_damaged_message_is_told_and_the_next_one_is_answered(gateway: GatewayProcess, person: Person) -> None:
    """C2, H3, H8: five flipped bytes in a stored message; person, `/ready`, `status` and `doctor` say so."""
    gateway.start()
    person.ask("m1.1 [[say answer m1.1]]")
    gateway.terminate()
    accept(gateway.home, person, "unreadable", "m1.3 [[say answer m1.3]]")
    damage(gateway.home, "inbox", "unreadable")
    examined = run(gateway.home, "doctor")
    assert examined.returncode == 1
    assert "cannot be read" in examined.stdout
    assert "sound" not in examined.stdout
    gateway.start()
    person.wait_shown("answer m1.3")
    person.wait_shown(WORDS["inbox"])
    wait_quiet(gateway.home, [person])
    assert texts_of(person).count(WORDS["inbox"]) == 1
    status = json.loads(run(gateway.home, "status", "--json").stdout)
    assert "1 stored row" in status["warning"]
    with urllib.request.urlopen(status["web"]["address"].rstrip("/") + "/ready") as answer:
        assert "1 stored row" in json.load(answer)["warning"]
    examined = run(gateway.home, "doctor")
    assert "set aside" in examined.stdout
    assert BAD in read_store(gateway.home, "select body from damaged")[0][0]
    person.ask("m1.4 [[say answer m1.4]]")


def test_a_damaged_transcript_goes_on_and_its_person_is_told_once(
    gateway: GatewayProcess, person: Person, lab: LabServer
) -> None:
    """C2: two rows that cannot be read make one word, and the next message is answered as ever."""
    gateway.start()
    person.ask("m1.1 [[say answer m1.1]]")
    person.ask("m1.2 [[say answer m1.2]]")
    gateway.terminate()
    write_store(
        gateway.home, "update message set body = cast(? as text) where position in (1, 2)", b'{"role":"as' + BAD
    )
    write_store(gateway.home, "update blob set body = ?", BAD)
    gateway.start()
    person.ask("m1.3 [[say answer m1.3]]")
    person.wait_shown("answer m1.3")
    person.wait_shown(WORDS["message"])
    wait_quiet(gateway.home, [person])
    assert texts_of(person).count(WORDS["message"]) == 1
    sent = json.loads(lab.requests[-1].body)["messages"]
    assert [message["role"] for message in sent[-5:]] == ["user", "assistant", "user", "assistant", "user"]
    assert [LOST_TEXT in str(message["content"]) for message in sent[-5:]] == [False, True, True, False, False]


def test_a_damaged_answer_is_told_in_its_place_and_holds_nothing_up(gateway: GatewayProcess, person: Person) -> None:
    """C2, H8: nothing is sent twice, and the answer behind it arrives."""
    gateway.start()
    person.ask("m1.1 [[say answer m1.1]]")
    wait_quiet(gateway.home, [person])
    gateway.terminate()
    with closing(Store(find_place(gateway.home))) as store:
        for name in ("damaged", "whole"):
            store.turns.post(person.conversation, name, Outgoing(ME, f"the {name} answer"))
    damage(gateway.home, "outbox", "the damaged answer")
    gateway.start()
    person.wait_shown("the whole answer")
    wait_quiet(gateway.home, [person])
    assert texts_of(person) == ["answer m1.1", WORDS["outbox"], "the whole answer"]


def test_a_step_that_cannot_be_read_is_not_taken_for_a_tool_that_never_ran(
    gateway: GatewayProcess, person: Person
) -> None:
    """C2, C10: after a kill in mid-tool the model is told that nobody knows the outcome, and the person is told why."""
    gateway.start()
    said = person.say('m1.1 [[tool terminal {"command": "sleep 600"}]][[say answer m1.1]]')
    wait_until(lambda: bool(read_store(gateway.home, "select 1 from turn_step")))
    gateway.kill()
    write_store(gateway.home, "update turn_step set body = cast(? as text)", BAD)
    gateway.start()
    person.wait_dealt(said)
    person.wait_shown(WORDS["turn_step"])
    results = read_store(gateway.home, "select body from message where body like '%tool_call_id%'")
    assert ["outcome unknown" in body for (body,) in results] == [True]


def test_choices_that_cannot_be_read_do_not_end_a_conversation(gateway: GatewayProcess, person: Person) -> None:
    """C2: the defaults hold, and the person is told."""
    gateway.start()
    person.ask("m1.1 [[say answer m1.1]]")
    gateway.terminate()
    write_store(gateway.home, "update conversation set choices = cast(? as text)", BAD)
    gateway.start()
    person.ask("m1.2 [[say answer m1.2]]")
    person.wait_shown(WORDS["conversation"])
    person.wait_shown("answer m1.2")


def test_a_clock_that_was_set_back_silences_nobody(gateway: GatewayProcess, person: Person) -> None:
    """C2, B7: what was accepted, and what was to be sent again, an hour from now, is dealt with at once."""
    gateway.start()
    person.ask("m1.1 [[say answer m1.1]]")
    wait_quiet(gateway.home, [person])
    gateway.kill()
    accept(gateway.home, person, "m1.2 [[say answer m1.2]]")
    with closing(Store(find_place(gateway.home))) as store:
        store.turns.post(person.conversation, "late", Outgoing(ME, "a late word"))
    for table, column in (("inbox", "accepted"), ("outbox", "retry_at"), ("conversation", "ready_at")):
        write_store(gateway.home, f"update {table} set {column} = unixepoch() + 3600")
    write_store(gateway.home, "update node set expires = unixepoch() + 3608")
    write_store(gateway.home, "update meta set value = unixepoch() + 3600 where key = 'clock'")
    assert "behind" in run(gateway.home, "doctor").stdout
    gateway.start()
    person.wait_shown("a late word")
    person.wait_shown("answer m1.2")
    assert "set back" in (gateway.home / "logs" / "gateway.log").read_text()


@pytest.mark.file_store
@pytest.mark.parametrize("how", ["empty", "gone"])
def test_a_store_that_was_lost_is_not_taken_for_a_new_one(gateway: GatewayProcess, person: Person, how: str) -> None:
    """F7, H3, H8: gateway, terminal and doctor say what was found and what to do; beginning anew is one step."""
    gateway.start()
    person.ask("m1.1 [[say answer m1.1]]")
    gateway.terminate()
    path = gateway.home / STORE_FILE
    path.unlink()
    if how == "empty":
        path.touch()
    for args in (("gateway", "run"), ("people", "list"), ("doctor",), ("status",)):
        done = run(gateway.home, *args)
        said = done.stdout + done.stderr
        assert f"is {how}, and there was one before" in said, said
        assert "hermes backup restore" in said
    assert not path.exists() or not path.stat().st_size
    (gateway.home / (STORE_FILE + MARK)).unlink()
    path.unlink(missing_ok=True)
    gateway.start()


def test_deleting_the_lock_file_lets_no_second_gateway_in(gateway: GatewayProcess) -> None:
    """B6: the folder itself is locked, and the owner puts its file back."""
    gateway.start()
    (gateway.home / LOCK_FILE).unlink()
    second = run(gateway.home, "gateway", "run")
    assert second.returncode != 0
    assert "runs already" in second.stderr
    wait_until(lambda: (found := holder(gateway.home)) is not None and found.pid == gateway.pid)
    assert run(gateway.home, "gateway", "stop").returncode == 0


@pytest.mark.file_store
@pytest.mark.parametrize("name", [STORE_FILE, f"{STORE_FILE}-wal"])
def test_a_gateway_whose_store_was_taken_away_ends(gateway: GatewayProcess, name: str) -> None:
    """F7: what it would write from then on would be lost."""
    gateway.start()
    (gateway.home / name).rename(gateway.home / f"{name}.away")
    wait_until(lambda: gateway.is_dead)
    assert "deleted or replaced" in (gateway.home / "logs" / "gateway.log").read_text()
