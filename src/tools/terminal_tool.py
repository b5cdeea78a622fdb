"""The terminal: runs a command for the model in a shell that its task remembers from call to call.

A command runs when the policy allows it or a person agrees to it; nobody there to answer means no.
"""

import os
import shlex
from collections.abc import Mapping
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.tool_context import ToolContext
from tools.command_gate import approve_command
from tools.process_registry import TaskProcess, process_registry
from tools.registry import registry, tool_result
from tools.shells import forget_all_shells, forget_shell, launch, read_state, shell_of
from tools.spawning import END_SECONDS, HEAD_BYTES, Spool, keeper

TOOLSET = "terminal"
OUTPUT_CHARS = 30_000
DEFAULT_SECONDS = 120.0

SCHEMA = {
    "name": "terminal",
    "description": "Run a shell command (bash). Folder and exported variables are kept from call to call. "
    "What it leaves running ends with it: use `process` for the background.",
    "parameters": {
        "type": "object",
        "properties": {
            "command": {"type": "string"},
            "timeout": {"type": "number", "description": "Seconds it may take."},
            "pty": {"type": "boolean", "description": "Give it a terminal."},
        },
        "required": ["command"],
    },
}


def run_terminal(args: Mapping[str, Any], *, context: ToolContext) -> str:
    """Ask, run, report: output, exit code and the folder it ended in."""
    command = args.get("command")
    if not isinstance(command, str) or not command.strip():
        raise ToolFailure("The terminal needs a command.")
    if "\0" in command:
        raise ToolFailure("A command cannot contain a NUL character.")
    seconds = _seconds(args.get("timeout"), float(context.setting("terminal", "timeout", DEFAULT_SECONDS)))
    require_approval(context, command)
    return _run(command, context, seconds, pty=args.get("pty") is True)


def require_approval(context: ToolContext, command: str) -> None:
    """Judged where it will run: a shell that has moved is shown with its move, or names of files would mislead."""
    folder = shell_of(context).snapshot().folder
    moved = folder != os.path.abspath(context.folder)
    refusal = approve_command(context, f"cd {shlex.quote(folder)}\n{command}" if moved else command)
    if refusal is not None:
        raise ToolFailure(refusal)


def cleanup_vm(task_id: str) -> None:
    """Forget the shell of a task and end the commands that still run in it."""
    process_registry.kill_commands(task_id)
    forget_shell(task_id)


def close_all() -> None:
    """End every command, every background process and the keeper."""
    process_registry.kill_all()
    forget_all_shells()
    keeper.close()


def _seconds(asked: object, limit: float) -> float:
    return min(float(asked), limit) if isinstance(asked, int | float) and asked > 0 else limit


def _run(command: str, context: ToolContext, seconds: float, *, pty: bool) -> str:
    shell = shell_of(context)
    launched = launch(command, shell, context, pty=pty)
    running = launched.running
    entry = TaskProcess(context.task, command, running)
    process_registry.add(entry)
    try:
        outcome = _watch(entry, context, seconds)
        output = read_output(running.spool)
    finally:
        running.end()  # does something only when we were thrown out of waiting
        after = read_state(running.finish(), launched.before)
        process_registry.remove(entry)
    shell.merge(launched.before, after)
    if pty:
        output = output.replace("\r\n", "\n")
    return tool_result(output=output, exit_code=running.exit_code, folder=after.folder, **outcome)


def _watch(entry: TaskProcess, context: ToolContext, seconds: float) -> dict[str, Any]:
    """Until the end; the whole tree ends with its time or with the turn."""
    forget = context.cancel.on_cancel(entry.running.end)
    try:
        in_time = entry.running.pump(seconds)
        if not in_time:
            entry.running.end()
            entry.running.pump(END_SECONDS)
    finally:
        forget()
    if context.cancel.cancelled:
        return {"interrupted": True}
    return {} if in_time else {"timed_out_after": seconds}


def read_output(spool: Spool) -> str:
    """The output, cut in the middle where it is too long."""
    half = OUTPUT_CHARS // 2
    if spool.total > HEAD_BYTES:
        head, tail = spool.read(0, half)[1], spool.read(spool.total - half, half)[1]
        left_out = f"{spool.total - 2 * half} bytes"
        return f"{_decode(head)}\n[… {left_out} left out …]\n{_decode(tail)}"
    text = _decode(spool.read(0, HEAD_BYTES)[1])
    if len(text) <= OUTPUT_CHARS:
        return text
    return f"{text[:half]}\n[… {len(text) - OUTPUT_CHARS} characters left out …]\n{text[-half:]}"


def _decode(data: bytes) -> str:
    return data.decode("utf-8", "replace")


registry.register("terminal", TOOLSET, SCHEMA, run_terminal, emoji="💻")
