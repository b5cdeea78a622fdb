"""Threads that are kept: what they did leaves nothing behind, and a machine without room for one is waited for."""

import asyncio
import threading
import weakref
from typing import Any

import pytest
from waiting import wait_until

from gateway.turns import threads
from gateway.turns.threads import KeptThreads, start_thread


class Thing:
    """Something that a work holds."""

    def do(self) -> None:
        pass


def test_a_thread_that_cannot_be_started_is_started_later(monkeypatch: pytest.MonkeyPatch) -> None:
    """C2: nobody waits for ever because the machine had no room for a moment."""
    monkeypatch.setattr(threads, "_threads", KeptThreads())
    monkeypatch.setattr(threads, "_LOOK_SECONDS", 0.01)
    start, failed = threading.Thread.start, []

    def fail_once(thread: Any) -> None:
        if thread.name != "starter" and not failed:
            failed.append(thread)
            raise RuntimeError("can't start new thread")
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", fail_once)

    async def work_twice() -> list[int]:
        return [await start_thread(lambda: 1, "first"), await start_thread(lambda: 2, "second")]

    assert asyncio.run(work_twice()) == [1, 2]
    assert failed


def test_an_idle_thread_keeps_nothing_of_its_work() -> None:
    """F1"""
    kept, thing = KeptThreads(), Thing()
    known = weakref.ref(thing)
    kept.run("work", thing.do)
    del thing
    wait_until(lambda: bool(kept._idle))
    wait_until(lambda: known() is None)
