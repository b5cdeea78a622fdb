"""The terminal: runs a command for the model in a folder that its task remembers from call to call.

Each command is asked for first (approval); nobody there to answer means no.
"""

import logging
import os
import shlex
import subprocess
import tempfile
import threading
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_base.cancel import CancelToken
from hermes_base.errors import ToolFailure
from hermes_base.tool_context import ToolContext
from tools.approval import ask_approval
from tools.process_registry import end_group, process_registry
from tools.registry import registry, tool_result

log = logging.getLogger(__name__)

TOOLSET = "terminal"
OUTPUT_CHARS = 30_000
DEFAULT_SECONDS = 120.0

SCHEMA = {
    "name": "terminal",
    "description": "Run a shell command on the person's machine. The working folder is kept from call to call. "
    "The person is asked first.",
    "parameters": {
        "type": "object",
        "properties": {
            "command": {"type": "string", "description": "The command, for bash."},
            "timeout": {"type": "number", "description": "Seconds it may take."},
        },
        "required": ["command"],
    },
}


@dataclass
class TaskShell:
    """What a task's terminal remembers."""

    folder: str


_lock = threading.Lock()
_shells: dict[str, TaskShell] = {}


def run_terminal(args: Mapping[str, Any], *, context: ToolContext) -> str:
    """Ask, run, report: output, exit code and the folder it ended in."""
    command = args.get("command")
    if not isinstance(command, str) or not command.strip():
        raise ToolFailure("The terminal needs a command.")
    seconds = _seconds(args.get("timeout"), float(context.setting("terminal", "timeout", DEFAULT_SECONDS)))
    if not ask_approval(context, command):
        raise ToolFailure("The person did not approve this command, so it was not run.")
    with _lock:
        shell = _shells.setdefault(context.task, TaskShell(context.folder))
    return _run(command, shell, context.task, seconds, context.cancel)


def cleanup_vm(task_id: str) -> None:
    """Forget the terminal of a task and end what still runs in it."""
    process_registry.kill_all(task_id=task_id)
    with _lock:
        _shells.pop(task_id, None)


def _seconds(asked: object, limit: float) -> float:
    return min(float(asked), limit) if isinstance(asked, int | float) and asked > 0 else limit


def _run(command: str, shell: TaskShell, task: str, seconds: float, cancel: CancelToken) -> str:
    before = shell.folder
    with tempfile.TemporaryDirectory(prefix="hermes-terminal-") as scratch:
        output_path, folder_path = Path(scratch, "output"), Path(scratch, "folder")
        with output_path.open("wb") as output:
            process = _start(command, shell, folder_path, output.fileno())
        process_registry.add(task, command, process)
        try:
            outcome = _wait(process, seconds, cancel)
        finally:
            process_registry.remove(process)
        folder = _note_folder(shell, before, folder_path)
        return tool_result(output=_read_output(output_path), exit_code=process.returncode, folder=folder, **outcome)


def _note_folder(shell: TaskShell, before: str, folder_path: Path) -> str:
    """Where the command ended; a command that did not move leaves the memory to one beside it that did."""
    after = folder_path.read_text("utf-8", "surrogateescape").rstrip("\n") if folder_path.exists() else before
    if after and after != before:
        shell.folder = after
    return after or before


def _start(command: str, shell: TaskShell, folder_path: Path, output: int) -> subprocess.Popen[bytes]:
    """The trap notes where the command ended, however it ended."""
    script = f"trap 'pwd > {shlex.quote(str(folder_path))}' EXIT\n{command}\n"
    folder = shell.folder if os.path.isdir(shell.folder) else str(Path.home())
    return subprocess.Popen(
        ["bash", "-c", script],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )


def _wait(process: subprocess.Popen[bytes], seconds: float, cancel: CancelToken) -> dict[str, Any]:
    """Wait for the end; the whole group ends with its time or with the turn."""
    forget = cancel.on_cancel(lambda: end_group(process))
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        end_group(process)
        return {"timed_out_after": seconds}
    finally:
        forget()
    return {"interrupted": True} if cancel.cancelled else {}


def _read_output(path: Path) -> str:
    """The output, cut in the middle where it is too long."""
    text = path.read_bytes().decode("utf-8", "replace")
    if len(text) <= OUTPUT_CHARS:
        return text
    half = OUTPUT_CHARS // 2
    return f"{text[:half]}\n[… {len(text) - OUTPUT_CHARS} characters left out …]\n{text[-half:]}"


registry.register("terminal", TOOLSET, SCHEMA, run_terminal, emoji="💻")
