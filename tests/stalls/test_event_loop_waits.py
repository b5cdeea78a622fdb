"""F5: the event loop waits for nobody: not for a lock that somebody holds across a write, not for the disk."""

import asyncio
import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from local_gateway import LocalHouse
from loop_watch import watch_loop
from raw_client import Stop
from stalling import SERVED_SECONDS
from waiting import wait_until

from gateway.service import gateway
from gateway.turns import lane as lanes
from hermes_constants import STORE_FILE

AddTool = Callable[[str, Callable[..., str]], None]


@contextmanager
def held_store(home: Path) -> Iterator[None]:
    """Another process holds the store: nothing can be written meanwhile."""
    with closing(sqlite3.connect(home / STORE_FILE, isolation_level=None, timeout=60)) as other:
        other.execute("begin immediate")
        yield
        other.execute("rollback")


def is_moving(house: LocalHouse) -> bool:
    """Whether the loop does something that it is asked for now."""
    moved = threading.Event()
    assert house.thread._loop is not None
    house.thread._loop.call_soon_threadsafe(moved.set)
    return moved.wait(SERVED_SECONDS)


@pytest.mark.file_store
@pytest.mark.parametrize("how", ["a stop", "the end of the gateway"])
def test_suspending_a_turn_that_writes_keeps_nobody_waiting(
    house: LocalHouse, home: Path, add_tool: AddTool, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """F5: a turn is in the middle of a write to a store that does not answer, and is told to end."""
    waits = watch_loop(monkeypatch)
    monkeypatch.setattr(lanes, "STOP_PATIENCE", 0.1)
    monkeypatch.setattr(gateway, "GRACE_SECONDS", 0.1)
    begun, go_on = threading.Event(), threading.Event()
    add_tool("meet", lambda args: str((begun.set(), go_on.wait(60))))
    client = house.client()
    conversation = client.welcome.conversation
    client.say("[[tool meet {}]] [[then]] [[say done]]")
    assert begun.wait(SERVED_SECONDS)
    slot = house.gateway.lanes.at_work[conversation].slot
    assert slot is not None
    with held_store(home):
        go_on.set()
        wait_until(lambda: slot.live._journal._lock.locked())  # its result is being written
        if how == "a stop":
            client.send(Stop("s"))
            wait_until(lambda: slot.abandoned, SERVED_SECONDS)
        else:
            house.thread._loop.call_soon_threadsafe(house.gateway.shut_down, "the test ends it")
            wait_until(lambda: slot.live.suspended, SERVED_SECONDS)
        assert is_moving(house)
        assert not waits
    if how == "a stop":
        wait_until(lambda: any("Interrupted" in text for text in client.answers()), 60)


def test_the_watch_sees_waiting_and_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """F5: the watch itself: a callback that waits for a lock is named, one that is only slow to begin is not."""
    waits = watch_loop(monkeypatch, "watched loop")
    lock = threading.Lock()

    def wait_for_lock() -> None:
        with lock:
            pass

    async def run() -> None:
        await asyncio.sleep(0.5)  # nobody works: that is no waiting of a callback
        assert not waits
        asyncio.get_running_loop().call_soon(wait_for_lock)
        await asyncio.sleep(0)

    with lock:
        thread = threading.Thread(target=lambda: asyncio.run(run()), name="watched loop")
        thread.start()
        wait_until(lambda: bool(waits))
    thread.join(20)
    assert "wait_for_lock" in waits[0]
    assert "with lock:" in waits[0]


def test_the_watch_does_not_take_a_busy_machine_for_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    """F5: many threads want the interpreter; a callback that works a little in between is not accused of waiting."""
    waits = watch_loop(monkeypatch, "watched loop")
    over = threading.Event()

    def burn() -> None:
        while not over.is_set():
            sum(range(2_000))

    async def run() -> None:
        end = time.monotonic() + 1.0
        while time.monotonic() < end:
            sum(range(1_000))
            await asyncio.sleep(0)

    burning = [threading.Thread(target=burn) for _ in range(6)]
    for thread in burning:
        thread.start()
    thread = threading.Thread(target=lambda: asyncio.run(run()), name="watched loop")
    thread.start()
    thread.join(60)
    over.set()
    for each in burning:
        each.join(20)
    assert not [found for found in waits if found.startswith("waited")]
