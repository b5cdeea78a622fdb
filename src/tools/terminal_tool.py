"""The terminal: runs a command for the model in a shell that its task remembers from call to call.

A command runs when the policy allows it or a person agrees to it; nobody there to answer means no.
"""

import logging
import re
from collections.abc import Mapping, Sequence
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.text.foreign import NETWORKED
from hermes_base.turn.hooks import find_hooks
from hermes_base.turn.tool_context import ToolContext
from tools.files.encodings import printable
from tools.files.sensitive import names_prompt
from tools.policy.command_gate import clear_command
from tools.process_registry import TaskProcess, process_registry
from tools.registry import make_schema, registry, tool_result
from tools.shell.new_prompts import ASIDE, settle_new_prompts
from tools.shell.sandbox import BUBBLEWRAP, MOVED, NOT_BUILT, Walls, choose_backend
from tools.shell.shells import (
    Launched,
    ShellStart,
    find_new_obeyed,
    forget_shell,
    launch,
    note_end,
    shell_of,
)
from tools.shell.spawning import END_SECONDS, HEAD_BYTES, Spool

log = logging.getLogger(__name__)

TOOLSET = "terminal"
TRANSFORM = "transform_terminal_output"
OUTPUT_CHARS = 30_000
SHOWN_NEW = 5
ASKABLE = (Walls.WORK, Walls.SETUP, Walls.OUTSIDE)
LOOKED = (
    "This ran read-only, without network, secrets and home. If that was in its way, call again with level work: "
    "a person may be asked."
)
WORKED = (
    "This ran in the sandbox: it sees the working folder, the system and /tmp only, and the network of this "
    "conversation's commands, in which servers of the machine are not. It reaches others through http_proxy alone. "
    "Level setup asks a person, shows files with secrets and can change git's settings and hooks, start files and "
    "installed programs, which stayed as they were; level outside leaves the sandbox."
)
SET_UP = (
    "This ran in the sandbox, which shows the working folder, the system and /tmp only, and others through http_proxy "
    "alone; level outside leaves it."
)
REFUSED = "The proxy refused: {refused}"
SET_ASIDE = (
    "{names} would become a part of prompts, this conversation holds foreign text, and no person agreed: set aside, as "
    f"the same name with {ASIDE} behind it. Tell the person."
)
REPLACED = "It was ended: a file that is hidden from it, or must not change, was replaced by somebody else meanwhile."
#: What programs say when the walls of `work` may be the reason.
HELD_BACK = re.compile(
    r"permission denied|read-only file system|device or resource busy|no such file|resolve|unreachable|cannot connect"
    r"|n.t connect|failed to connect|connection refused|EACCES|EROFS|EBUSY|ENOTFOUND|ECONNREFUSED",
    re.IGNORECASE,
)
#: What they say when it certainly is, also when they end well: git goes on without a file that it could not change.
HELD_FAST = re.compile(
    r"read-only file system|device or resource busy|unable to unlink|could not write config file|EROFS|EBUSY",
    re.IGNORECASE,
)
BLIND = "It saw the sandbox and not the machine: for the machine's own processes and connections use level outside."

LEVEL = {"type": "string", "enum": [str(level) for level in ASKABLE]}
SCHEMA = make_schema(
    "terminal",
    "Run a shell command (bash). Folder and exported variables are kept from call to call. "
    "What it leaves running ends with it: use `process` for the background.",
    ("command",),
    command={"type": "string"},
    timeout={"type": "number", "description": "Seconds it may take."},
    pty={"type": "boolean", "description": "Give it a terminal."},
    level=LEVEL | {"description": "Only when the sandbox was in the way. A person may be asked."},
)


def run_terminal(args: Mapping[str, Any], *, context: ToolContext) -> str:
    """Ask, run, report: output, exit code and the folder it ended in."""
    command = args.get("command")
    if not isinstance(command, str) or not command.strip():
        raise ToolFailure("The terminal needs a command.")
    if "\0" in command:
        raise ToolFailure("A command cannot contain a NUL character.")
    asked, limit = args.get("timeout"), float(context.settings.terminal.timeout)
    seconds = min(float(asked), limit) if isinstance(asked, int | float) and asked > 0 else limit
    start = clear_command(context, command, read_level(args))
    return run_start(start, context, seconds, pty=args.get("pty") is True)


def _ask_plugins(command: str, output: str, exit_code: int | None, context: ToolContext) -> str:
    """What a command printed, as a plugin wants the model to read it."""
    hooks = find_hooks()
    if not hooks.has(TRANSFORM):
        return output
    facts = {"command": command, "output": output, "returncode": exit_code, "task_id": context.task}
    answers = hooks.invoke(TRANSFORM, **facts, env_type="local")
    return next((text for text in answers if isinstance(text, str)), output)


def read_level(args: Mapping[str, Any]) -> Walls | None:
    """The level that the model asks for; None: as far as the command goes by itself."""
    level = args.get("level")
    if level is None:
        return None
    if level not in ASKABLE:
        raise ToolFailure(f"The level is one of {', '.join(ASKABLE)}.", fix="Leave it out unless it is needed.")
    return Walls(level)


def cleanup_vm(task_id: str) -> None:
    """Forget the shell of a task and end the commands that still run in it."""
    process_registry.kill_commands(task_id)
    forget_shell(task_id)


def run_start(start: ShellStart, context: ToolContext, seconds: float, *, pty: bool) -> str:
    shell = shell_of(context)
    launched = launch(start, shell, context, pty=pty)
    if launched.network:
        context.foreign.note(NETWORKED)
    running = launched.running
    entry = TaskProcess(context.task, start, running, sender=context.sender)
    process_registry.add(entry)
    try:
        outcome = _watch(entry, context, seconds)
        output = read_output(running.spool)
    finally:
        running.end()  # does something only when we were thrown out of waiting
        running.finish()
        after = note_end(launched)
        process_registry.remove(entry)
    # A sandbox that could not be built is not the command's own failure.
    moved = running.exit_code == NOT_BUILT and output.strip() == MOVED
    if start.walls is not Walls.OUTSIDE and (moved or (running.exit_code == 1 and output.startswith("bwrap: "))):
        why = "files of the folder were moved meanwhile" if moved else output.strip().removeprefix("bwrap: ")
        raise ToolFailure(f"The sandbox could not be built ({why}); nothing was run.", fix="Call it again.")
    if pty:
        output = output.replace("\r\n", "\n")
    if notes := [*describe_walls_met(launched, output, context), *describe_new_files(launched, context)]:
        outcome["note"] = " ".join(notes)
    output = _ask_plugins(start.command, output, running.exit_code, context)
    return tool_result(output=output, exit_code=running.exit_code, folder=after.folder, **outcome)


def describe_walls_met(launched: Launched, output: str, context: ToolContext) -> list[str]:
    """What the model must know about the walls to read the result right."""
    start, exit_code = launched.start, launched.running.exit_code
    if launched.replaced.is_set():
        return [REPLACED]
    if choose_backend(context) != BUBBLEWRAP or start.walls is Walls.OUTSIDE:
        return []
    notes = [BLIND] if start.blind else []
    if exit_code != 0 and start.walls is Walls.LOOK:
        notes.insert(0, LOOKED)
    elif start.walls is Walls.WORK and (HELD_FAST.search(output) or (exit_code != 0 and HELD_BACK.search(output))):
        notes.insert(0, WORKED)
    elif start.walls is Walls.SETUP and exit_code != 0 and HELD_BACK.search(output):
        notes.insert(0, SET_UP)
    if refused := launched.list_refusals():
        notes.insert(0, REFUSED.format(refused=" ".join(refused)))
    return notes


def describe_new_files(launched: Launched, context: ToolContext, *, may_ask: bool = True) -> list[str]:
    """Files that other programs obey and that the command made: a person should know, and the model says so. What
    would become a part of prompts stays only if the person agrees."""
    new = find_new_obeyed(launched, context)
    aside = settle_new_prompts([path for path in new if names_prompt(path)], context, may_ask=may_ask)
    left = [path for path in new if path not in aside]
    notes = []
    if left:
        log.warning("a command of task %s made what other programs obey: %s", context.task, ", ".join(left))
        notes.append(f"New files that other programs obey: {_list_some(left)}. Tell the person.")
    if aside:
        log.warning("what a command of task %s made a prompt was set aside: %s", context.task, ", ".join(aside))
        notes.append(SET_ASIDE.format(names=_list_some(aside)))
    return notes


def _list_some(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - SHOWN_NEW} more" if len(paths) > SHOWN_NEW else ""
    return ", ".join(map(printable, paths[:SHOWN_NEW])) + more


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
