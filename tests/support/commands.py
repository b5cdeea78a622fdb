"""Running commands in tests: a person who agrees, and a look at which processes are really there."""

import json
import os
import uuid
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hermes_base.chat import Answer, Question
from hermes_base.setting_table import make_settings
from hermes_base.turn.tool_context import ToolContext
from tools.builtin.process_tool import run_process
from tools.terminal_tool import run_terminal

#: Forks twice, leaves its session and ignores SIGTERM; argv[1] marks it.
DAEMON = (
    "import os, signal, sys, time\n"
    "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
    "for _ in range(2):\n"
    "    if os.fork(): os._exit(0)\n"
    "    os.setsid()\n"
    "time.sleep(300)\n"
)


class Person:
    """Gives the same answer to every question and keeps what was asked."""

    def __init__(self, word: str = "approve") -> None:
        self.word = word
        self.asked: list[Question] = []

    def __call__(self, question: Question) -> Answer:
        self.asked.append(question)
        return Answer(self.word)


class Hands:
    """Calls the terminal and process tools for one task."""

    def __init__(self, task: str, folder: Path, backend: str, **settings: Any) -> None:
        terminal = {"timeout": 60, "backend": backend, **settings}
        self.facts: dict[str, Any] = {
            "task": task,
            "folder": str(folder),
            "asker": Person(),
            "settings": {"terminal": terminal},
        }

    def context(self, **facts: Any) -> ToolContext:
        return ToolContext(**{**self.facts, "settings": make_settings(self.facts["settings"]), **facts})

    def run(self, command: str, args: Mapping[str, Any] | None = None, **facts: Any) -> dict[str, Any]:
        context = self.context(**facts)
        return dict(json.loads(run_terminal({"command": command, **(args or {})}, context=context)))

    def process(self, action: str, facts: Mapping[str, Any] | None = None, **args: Any) -> dict[str, Any]:
        context = self.context(**(facts or {}))
        return dict(json.loads(run_process({"action": action, **args}, context=context)))


def new_mark() -> str:
    """A word for the command line of a process, by which it is found again in every namespace."""
    return f"mark-{uuid.uuid4().hex}"


def daemon(mark: str) -> str:
    return f"python3 -c {json_quote(DAEMON)} {mark}"


def json_quote(text: str) -> str:
    return "$'" + text.replace("\\", "\\\\").replace("'", "\\'").replace("\n", "\\n") + "'"


def find_marked(mark: str) -> list[int]:
    """Processes with the mark among their arguments, apart from shells that were only given it to run."""
    return [pid for pid in _all_pids() if mark.encode() in _arguments(pid)]


def _all_pids() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isdigit() and int(name) != os.getpid()]


def _arguments(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
    except OSError:
        return []
