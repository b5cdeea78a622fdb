"""Many small writes and one commit: who comes while others write waits, and then one of those who wait writes for all.

A commit costs far more than the statements in it, and so does handing a connection from thread to thread.
"""

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

from hermes_base.errors import StoreFailure

T = TypeVar("T")


class PendingWrite(Generic[T]):
    """One writer's work, and what came of it; the work is done on any thread, and may be done again."""

    def __init__(self, work: Callable[..., T]) -> None:
        self.work = work
        self.result: T
        self.error: Exception | None = None
        self.leads = False  # its writer writes the next group
        self.called = threading.Lock()  # held until there is something to do for its writer
        self.called.acquire()


class GroupCommit:
    """`perform` writes a group: when it returns, each of its writes is committed or has an error."""

    def __init__(self, perform: Callable[[list[PendingWrite[Any]]], None]) -> None:
        self._perform = perform
        self._lock = threading.Lock()
        self._waiting: list[PendingWrite[Any]] = []
        self._has_leader = False

    def write(self, work: Callable[..., T]) -> T:
        """What `work` gives back, once that is committed."""
        mine = PendingWrite(work)
        try:
            with self._lock:
                self._waiting.append(mine)
                mine.leads, self._has_leader = not self._has_leader, True
            if not mine.leads:
                mine.called.acquire()
            if mine.leads:
                self._write_group()
        finally:
            self._step_back(mine)
        if mine.error is not None:
            raise mine.error
        return mine.result

    def _write_group(self) -> None:
        with self._lock:
            group, self._waiting = self._waiting, []
        try:
            self._perform(group)
        except BaseException:  # this thread is to end; the others learn that nothing was written
            for one in group:
                one.error = StoreFailure("A write was broken off.", kept="Nothing of it was stored.")
            raise
        finally:
            for one in group:
                one.called.release()

    def _step_back(self, mine: PendingWrite[Any]) -> None:
        """Whatever ends a wait: its write is not left behind, and the next group has somebody who writes it."""
        with self._lock:
            if mine in self._waiting:
                self._waiting.remove(mine)
            if not mine.leads:
                return
            self._has_leader = bool(self._waiting)
            if self._waiting:
                self._waiting[0].leads = True
                self._waiting[0].called.release()
