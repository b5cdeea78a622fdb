"""Background processes for the model: start one, look after it, end it.

They belong to the task: they outlive the agent that started them, and end with the task.
"""

import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.text.foreign import NETWORKED
from hermes_base.text.whole_text import decode_whole
from hermes_base.turn.tool_context import ToolContext
from tools.policy.command_gate import approve_input, clear_command
from tools.process_registry import TaskProcess, end_all, process_registry
from tools.registry import make_schema, registry, tool_result
from tools.shell.shells import Launched, launch, shell_of, take_note
from tools.terminal_tool import LEVEL, REPLACED, describe_new_files, describe_walls_met, read_level

log = logging.getLogger(__name__)

TOOLSET = "process"
MAX_RUNNING = 16
SHOWN_BYTES = 20_000
NOTICE_BYTES = 1_000
COMMAND_CHARS = 200
WAIT_SECONDS = 60.0
MAX_WAIT_SECONDS = 600.0
DRAIN_SECONDS = 5.0
SLICE_SECONDS = 0.2
END_OF_INPUT = b"\x04"  # what a terminal takes for the end of the file

SCHEMA = make_schema(
    "process",
    "Background processes. start: run a bash command (no `&`); poll, wait: state and new output; "
    "read: output from an offset; write: send input. You are told when one ends.",
    ("action",),
    action={"type": "string", "enum": ["start", "list", "poll", "wait", "read", "write", "kill"]},
    command={"type": "string"},
    id={"type": "string"},
    input={"type": "string"},
    eof={"type": "boolean", "description": "Close its input."},
    offset={"type": "integer"},
    timeout={"type": "number"},
    pty={"type": "boolean"},
    level=LEVEL,
)


def run_process(args: Mapping[str, Any], *, context: ToolContext) -> str:
    act = _ACTIONS.get(str(args.get("action")))
    if act is None:
        raise ToolFailure(f"The action is one of {', '.join(_ACTIONS)}.")
    return tool_result(act(args, context))


def _start(args: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    command = args.get("command")
    if not isinstance(command, str) or not command.strip() or "\0" in command:
        raise ToolFailure("To start a process, give its command.")
    if sum(entry.is_running for entry in process_registry.background(context.task)) >= MAX_RUNNING:
        raise ToolFailure(f"{MAX_RUNNING} processes run already.", fix="Kill one first.")
    start = clear_command(context, command, read_level(args))
    pty = args.get("pty") is True
    launched = launch(start, shell_of(context), context, pty=pty, with_stdin=True)
    entry = TaskProcess(
        context.task,
        start,
        launched.running,
        background=True,
        sender=context.sender,
        pty=pty,
        network=launched.network,
        replaced=launched.replaced,
    )
    process_registry.add(entry)
    threading.Thread(target=_follow, args=(entry, launched, context), name=f"process-{entry.id}", daemon=True).start()
    return {"id": entry.id, "state": "running"}


def _follow(entry: TaskProcess, launched: Launched, context: ToolContext) -> None:
    """Take in the output until the end, then tell the conversation once."""
    try:
        entry.running.pump()
        entry.running.finish()
        take_note(launched)  # a background process leaves nothing to the next command
        entry.drained.set()
        new = describe_new_files(launched, context, may_ask=False)
        if context.post_notice is not None and (new or not entry.killed):
            spool, code = entry.running.spool, entry.running.exit_code
            tail = spool.read(spool.total - NOTICE_BYTES, NOTICE_BYTES)[1].decode("utf-8", "replace").strip()
            said = f"Its last output:\n{tail}" if tail else "It printed nothing."
            ended = (
                f"Background process {entry.id} ended with exit code {code}: {entry.command[:COMMAND_CHARS]}\n{said}"
            )
            notice = "\n".join([ended, *describe_walls_met(launched, ended, context), *new])
            context.post_notice(entry.task, f"proc:{entry.id}:exit", context.redact(notice))
    except Exception:
        log.exception("following background process %s failed", entry.id)


def _list(_args: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    return {
        "processes": [
            {
                "id": entry.id,
                "command": entry.command[:COMMAND_CHARS],
                **_state(entry),
                "started": round(entry.started),
                "output_bytes": entry.running.spool.total,
            }
            for entry in process_registry.background(context.task)
        ]
    }


def _poll(args: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    return _show_news(_find(args, context))


def _wait(args: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    entry = _find(args, context)
    asked = args.get("timeout")
    seconds = min(float(asked), MAX_WAIT_SECONDS) if isinstance(asked, int | float) and asked > 0 else WAIT_SECONDS
    deadline = time.monotonic() + seconds
    with process_registry.waiting_for(entry):
        while entry.is_running and not context.cancel.cancelled and (left := deadline - time.monotonic()) > 0:
            entry.running.ended.wait(min(left, SLICE_SECONDS))
    return _show_news(entry)


def _read(args: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    entry = _find(args, context)
    offset = args.get("offset")
    return _show_output(entry, offset if isinstance(offset, int) else 0)


def _write(args: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    entry = _find(args, context)
    text, eof = args.get("input"), args.get("eof") is True
    if not isinstance(text, str) and not eof:
        raise ToolFailure("Give the input to write.")
    data = b""
    if isinstance(text, str):
        approve_input(context, entry.start, text)
        data = text.encode("utf-8", "surrogateescape")
    written = entry.running.write(data + (END_OF_INPUT if eof and entry.pty else b""))
    if eof and not entry.pty:
        entry.running.close_stdin()
    return {"written": min(written, len(data)), "of": len(data)}


def _kill(args: Mapping[str, Any], context: ToolContext) -> dict[str, Any]:
    entry = _find(args, context)
    end_all([entry])
    return _show_news(entry)


def _find(args: Mapping[str, Any], context: ToolContext) -> TaskProcess:
    entries = process_registry.background(context.task)
    for entry in entries:
        if entry.id == args.get("id"):
            if entry.network:
                context.foreign.note(NETWORKED)
            return entry
    known = ", ".join(entry.id for entry in entries) or "none"
    raise ToolFailure(f"There is no process {args.get('id')!r}; known: {known}.")


def _state(entry: TaskProcess) -> dict[str, Any]:
    if entry.is_running:
        return {"state": "running"}
    ended = {"state": "ended", "exit_code": entry.running.exit_code}
    return {**ended, "note": REPLACED} if entry.replaced.is_set() else ended


def _show_news(entry: TaskProcess) -> dict[str, Any]:
    """State, and the newest output that was not shown before."""
    if not entry.is_running:
        entry.drained.wait(DRAIN_SECONDS)  # the last words may still be on their way
    state = _state(entry)
    shown = _show_output(entry, max(entry.seen, entry.running.spool.total - SHOWN_BYTES))
    entry.seen = shown["next_offset"]
    return {"id": entry.id} | state | shown


def _show_output(entry: TaskProcess, offset: int) -> dict[str, Any]:
    ended = entry.drained.is_set()  # asked first: what comes after it is more to come
    start, data = entry.running.spool.read(offset, SHOWN_BYTES)
    text, length = decode_whole(data, more=not ended or start + len(data) < entry.running.spool.total)
    return {"offset": start, "output": text, "next_offset": start + length}


_ACTIONS: Mapping[str, Callable[[Mapping[str, Any], ToolContext], dict[str, Any]]] = {
    "start": _start,
    "list": _list,
    "poll": _poll,
    "wait": _wait,
    "read": _read,
    "write": _write,
    "kill": _kill,
}

registry.register("process", TOOLSET, SCHEMA, run_process, emoji="⚙️")
