"""Processes that work for a task. They belong to the task, outlive the agent that started them, and end with it."""

import logging
import os
import signal
import subprocess
import threading
from dataclasses import dataclass

log = logging.getLogger(__name__)

TERM_SECONDS = 2.0


@dataclass(frozen=True)
class TaskProcess:
    task: str
    command: str
    process: subprocess.Popen[bytes]


class ProcessRegistry:
    """Which process groups run for which task."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: dict[int, TaskProcess] = {}

    def add(self, task: str, command: str, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._running[process.pid] = TaskProcess(task, command, process)

    def remove(self, process: subprocess.Popen[bytes]) -> None:
        with self._lock:
            self._running.pop(process.pid, None)

    def running(self, task_id: str | None = None) -> list[TaskProcess]:
        with self._lock:
            return [entry for entry in self._running.values() if task_id in (None, entry.task)]

    def kill_all(self, task_id: str | None = None) -> int:
        """End the processes of a task (of all tasks without one), with everything they started; how many there were."""
        entries = self.running(task_id)
        for entry in entries:
            end_group(entry.process)
            self.remove(entry.process)
        return len(entries)


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ask the process's group to end, then make it end."""
    _signal_group(process.pid, signal.SIGTERM)
    try:
        process.wait(TERM_SECONDS)
    except subprocess.TimeoutExpired:
        log.info("process %d did not end when asked and is killed", process.pid)
    _signal_group(process.pid, signal.SIGKILL)
    process.wait()


def _signal_group(pid: int, number: signal.Signals) -> None:
    try:
        os.killpg(pid, number)
    except ProcessLookupError:
        log.debug("group %d has ended already", pid)


process_registry = ProcessRegistry()
