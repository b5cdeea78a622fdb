"""Retention: what a sweep takes and what it leaves, in the store and in the home's folders."""

import asyncio
import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from gateway.service.retention import COPIES, DAY, ROWS_AT_ONCE, Retention, find_old_copies
from hermes_base.inbound import FILE, Address, FileRef, Inbound, Outgoing, write_inbound
from hermes_base.setting_table import SETTINGS, make_settings
from hermes_base.turn.journal import Row
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.turns import NodeInfo

CHAT, ACCOUNT = "agent:main:web:dm:1", "web:main"
ADDRESS = Address("web", "main", "1")


@dataclass
class Place:
    """A home with its store, whose clock stands `days` ahead of the machine's."""

    home: Path
    store: Store
    days: float = 0.0
    limits: dict[str, float] = field(default_factory=lambda: {"queue_days": 30.0, "session_days": 0.0})

    def sweep(self) -> dict[str, int]:
        return Retention(self.home, self.store, lambda: make_settings({"retention": self.limits})).sweep()

    def put(self, folder: str, name: str, *, days_old: float) -> Path:
        """A copy of a file, in a folder of its own."""
        path = self.home / folder / name / "picture.png"
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
        then = self.store.turns.now() - days_old * DAY
        for place in (path, path.parent):
            os.utime(place, (then, then))
        return path

    def deal(self, count: int = 1) -> None:
        turns, node = self.store.turns, self.store.turns.join(NodeInfo("1", alone=True))
        for _ in range(count):
            seq = turns.latest(CHAT)[1] + 1
            assert turns.accept(CHAT, ACCOUNT, f"1/{seq}/", "x", node) == seq
        (claim,) = turns.ready(node)
        turns.complete(claim, turns.open_seqs(CHAT))
        turns.leave(node)


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    made = make_place(tmp_path / "home")
    yield made
    made.store.close()


def make_place(home: Path) -> Place:
    def read_clock() -> float:
        return time.time() + made.days * DAY

    made = Place(home, Store(home / "hermes-store.db", clock=read_clock))
    return made


def test_the_settings_are_there_with_their_defaults() -> None:
    """F7: retention exists by default, and conversations are not deleted by default."""
    defaults = {setting.key: setting.default for setting in SETTINGS if setting.key.startswith("retention.")}
    assert defaults == {"retention.queue_days": 30.0, "retention.session_days": 0.0}


# --- rows and sessions


def test_old_rows_go_in_many_steps(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    """F7"""
    caplog.set_level(logging.INFO, "gateway.service.retention")
    place.deal(ROWS_AT_ONCE + 10)
    assert place.sweep()["rows"] == 0
    assert not caplog.records
    place.days = 31
    assert place.sweep() == {"rows": ROWS_AT_ONCE + 10, "sessions": 0, "files": 0, "traces": 0}
    assert [record.message for record in caplog.records] == [f"let go of what is over: {ROWS_AT_ONCE + 10} rows"]
    assert place.sweep()["rows"] == 0


def test_nothing_goes_when_it_is_kept_for_ever(place: Place) -> None:
    """F7: 0 days mean for ever, for rows, files, traces and sessions alike."""
    place.deal()
    place.store.append(place.store.open_session(NewSession(CHAT)).id, "w", 0, [Row({"role": "user", "content": "x"})])
    copy = place.put("shown", "a1", days_old=900)
    place.days, place.limits = 900, {"queue_days": 0.0, "session_days": 0.0}
    assert set(place.sweep().values()) == {0}
    assert copy.exists()


def test_untouched_sessions_go_when_it_was_asked_for(place: Place) -> None:
    """F7"""
    sessions = []
    for number in range(45):
        session = place.store.open_session(NewSession(f"c{number}")).id
        place.store.append(session, "w", 0, [Row({"role": "user", "content": "x"})])
        sessions.append(session)
    place.store.turns.accept("c7", ACCOUNT, "1/1/", "still open")
    place.limits["session_days"] = 7.0
    assert place.sweep()["sessions"] == 0
    place.days = 8
    assert place.sweep()["sessions"] == 44
    assert [info.id for info in place.store.sessions(limit=100)] == [sessions[7]]


def test_somebody_who_comes_back_keeps_the_session(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """F7: between the list and the deletion a message may come."""
    session = place.store.open_session(NewSession(CHAT)).id
    found = place.store.stale_sessions

    def find_and_speak(before: float, limit: int) -> list[str]:
        stale = found(before, limit)
        place.store.turns.accept(CHAT, ACCOUNT, "1/1/", "wait!")
        return stale

    monkeypatch.setattr(place.store, "stale_sessions", find_and_speak)
    place.days, place.limits["session_days"] = 8, 7.0
    assert place.sweep()["sessions"] == 0
    assert place.store.session(session) is not None


# --- files


@pytest.mark.parametrize("own", ["", "people/p-1/"])
@pytest.mark.parametrize("folder", COPIES)
def test_old_copies_go_with_their_folders(place: Place, own: str, folder: str) -> None:
    """F7: for the owner and for each person."""
    old = place.put(own + folder, "a" * 16, days_old=31)
    young = place.put(own + folder, "b" * 16, days_old=29)
    other = place.put(own + "workspace", "c" * 16, days_old=900)
    assert place.sweep()["files"] == 1
    assert not old.parent.exists()
    assert young.exists()
    assert other.exists()


def test_a_file_that_a_kept_message_names_stays(place: Place) -> None:
    """F7: uploaded long ago and sent lately, or not delivered yet, or waiting to be answered."""
    waiting = place.put("uploads", "1" * 16, days_old=40)
    unsent = place.put("people/p-1/outbox", "2" * 16, days_old=40)
    gone = place.put("uploads", "3" * 16, days_old=40)
    inbound = Inbound(ADDRESS, "1/1", "p", "look", files=(FileRef(str(waiting), "picture.png"),))
    assert place.store.turns.accept(CHAT, ACCOUNT, "1/1/", write_inbound(inbound)) == 1
    outgoing = Outgoing(ADDRESS, "here", FILE, file=FileRef(str(unsent), "picture.png"))
    assert place.store.turns.post(CHAT, "file:1", outgoing)
    place.days = 365
    assert place.sweep()["files"] == 1
    assert [path.exists() for path in (waiting, unsent, gone)] == [True, True, False]


def test_links_lead_nowhere(place: Place, tmp_path: Path) -> None:
    """F7, G7: what lies outside of the home is never touched."""
    outside = tmp_path / "outside" / "letters"
    outside.mkdir(parents=True)
    (outside / "dear.txt").write_text("x")
    shown = place.home / "shown"
    shown.mkdir(parents=True)
    (shown / "link").symlink_to(outside)
    (place.home / "uploads").symlink_to(outside.parent)
    (place.home / "people").mkdir()
    (place.home / "people" / "p-1").symlink_to(tmp_path)
    place.days = 365
    assert place.sweep()["files"] == 1
    assert not (shown / "link").is_symlink()
    assert (outside / "dear.txt").read_text() == "x"


def test_a_file_in_an_old_folder_counts_by_its_own_age(place: Place) -> None:
    path = place.put("uploads", "a" * 16, days_old=40)
    fresh = path.parent / "second.png"
    fresh.write_bytes(b"x")
    then = place.store.turns.now() - 40 * DAY
    os.utime(path.parent, (then, then))
    assert find_old_copies(place.home, place.store.turns.now() - 30 * DAY) == []
    assert place.sweep()["files"] == 0


def test_old_crash_traces_go_and_logs_stay(place: Place) -> None:
    """F7"""
    logs = place.home / "logs"
    logs.mkdir(parents=True)
    for name in ("crash-20200101-000000-1.txt", "crash-20990101-000000-2.txt", "gateway.log"):
        (logs / name).write_text("x")
    os.utime(logs / "crash-20200101-000000-1.txt", (1, 1))
    os.utime(logs / "gateway.log", (1, 1))
    assert place.sweep()["traces"] == 1
    assert sorted(path.name for path in logs.iterdir()) == ["crash-20990101-000000-2.txt", "gateway.log"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may delete everything")
def test_what_cannot_be_deleted_is_told(place: Place, caplog: pytest.LogCaptureFixture) -> None:
    path = place.put("shown", "a" * 16, days_old=40)
    path.parent.chmod(0o500)
    assert place.sweep()["files"] == 0
    path.parent.chmod(0o700)
    assert "cannot be deleted" in caplog.text


# --- steps


def test_a_sweep_beside_the_event_loop_goes_step_by_step(place: Place) -> None:
    """F5, F7: no step is done on the loop's own thread, and others get their turn between two steps."""
    place.deal(3 * ROWS_AT_ONCE)
    place.days = 31
    threads: set[int] = set()
    turns: list[int] = []

    async def call(work: Callable[..., Any], *args: Any) -> Any:
        def run() -> Any:
            threads.add(threading.get_ident())
            return work(*args)

        turns.append(place.store.turns.depth()[0])
        return await asyncio.to_thread(run)

    gone = asyncio.run(Retention(place.home, place.store, lambda: make_settings({"retention": place.limits})).run(call))
    assert gone["rows"] == 3 * ROWS_AT_ONCE
    assert len(turns) >= 4
    assert threading.get_ident() not in threads


files = st.lists(st.tuples(st.sampled_from(COPIES), st.booleans(), st.floats(0, 60)), max_size=6)


@hypothesis_settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(files)
def test_whatever_is_named_or_young_is_there_after(
    tmp_path_factory: pytest.TempPathFactory, copies: list[tuple[str, bool, float]]
) -> None:
    """F7"""
    place = make_place(tmp_path_factory.mktemp("home"))
    expected = {}
    for number, (folder, named, days_old) in enumerate(copies):
        path = place.put(folder, f"{number:016x}", days_old=days_old)
        if named:
            outgoing = Outgoing(ADDRESS, "x", FILE, file=FileRef(str(path), "picture.png"))
            place.store.turns.post(CHAT, f"file:{number}", outgoing)
        expected[path] = named or days_old < 29.9
        if 29.9 <= days_old <= 30.1 and not named:
            del expected[path]
    place.sweep()
    assert {path: path.exists() for path in expected} == expected
    place.store.close()
