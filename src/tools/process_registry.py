"""Processes that work for a task. They belong to the task, outlive the agent that started them, and end with it."""

import logging
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from tools.shell.shells import ShellStart
from tools.shell.spawning import END_SECONDS, Running

log = logging.getLogger(__name__)

KEPT_ENDED = 16  # of each task: what has ended can still be read, the oldest gives way


@dataclass(eq=False)
class TaskProcess:
    """A command that runs, or has run, for a task."""

    task: str
    start: ShellStart
    running: Running
    background: bool = False
    sender: str = ""  # who asked for the turn that started it; empty: not known
    id: str = field(default_factory=lambda: uuid.uuid4().hex[:8])
    started: float = field(default_factory=time.time)
    seen: int = 0  # how much of its output the model was shown
    killed: bool = False  # on purpose, so nobody needs to be told
    pty: bool = False
    network: bool = False  # what it says may be anybody's words
    replaced: threading.Event = field(default_factory=threading.Event)  # a file under it was, and so it was ended
    waiters: int = 0  # calls of tools that wait for it
    drained: threading.Event = field(default_factory=threading.Event)  # it has ended and all of its output is kept

    @property
    def command(self) -> str:
        return self.start.command

    @property
    def is_running(self) -> bool:
        return not self.running.ended.is_set()


class ProcessRegistry:
    """Which commands run for which task, and which background processes have ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._entries: list[TaskProcess] = []

    def add(self, entry: TaskProcess) -> None:
        with self._lock:
            self._entries.append(entry)
            ended = [old for old in self._entries if old.task == entry.task and old.background and not old.is_running]
            dropped = ended[:-KEPT_ENDED]
            self._entries = [old for old in self._entries if old not in dropped]
        for old in dropped:
            old.running.spool.close()

    def remove(self, entry: TaskProcess) -> None:
        with self._lock:
            if entry in self._entries:
                self._entries.remove(entry)
        entry.running.spool.close()

    def running(self, task_id: str | None = None) -> list[TaskProcess]:
        """What runs now, commands of the terminal included."""
        with self._lock:
            return [entry for entry in self._entries if entry.is_running and task_id in (None, entry.task)]

    def awaited(self, task_id: str) -> list[TaskProcess]:
        """What runs now and a call waits for: a turn that waits for it is not silent (C12). A background process that
        nobody waits for says nothing about the turn."""
        return [entry for entry in self.running(task_id) if entry.waiters or not entry.background]

    @contextmanager
    def waiting_for(self, entry: TaskProcess) -> Iterator[None]:
        """Around a call's wait for a background process."""
        with self._lock:
            entry.waiters += 1
        try:
            yield
        finally:
            with self._lock:
                entry.waiters -= 1

    def background(self, task_id: str) -> list[TaskProcess]:
        """The background processes of a task, the ended ones included, oldest first."""
        with self._lock:
            return [entry for entry in self._entries if entry.background and entry.task == task_id]

    def kill_all(self, task_id: str | None = None) -> int:
        """End the processes of a task (of all tasks without one), with everything they started; how many there were."""
        count = end_all(self.running(task_id))
        with self._lock:
            gone = [entry for entry in self._entries if entry.background and task_id in (None, entry.task)]
        for entry in gone:
            self.remove(entry)
        return count

    def kill_commands(self, task_id: str | None = None) -> int:
        """End what the terminal runs for a task; background processes stay."""
        return end_all([entry for entry in self.running(task_id) if not entry.background])


def end_all(entries: list[TaskProcess]) -> int:
    """End them at the same time, and wait until all have."""
    for entry in entries:
        entry.killed = True
        entry.running.end()
    for entry in entries:
        if not entry.running.ended.wait(END_SECONDS):
            log.warning("command %d of task %s does not end", entry.running.id, entry.task)
    return len(entries)


process_registry = ProcessRegistry()
