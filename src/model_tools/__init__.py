"""The few names that introduce the tools to the loop; plugins import them from here."""

import asyncio
import json
import threading
import time
from collections.abc import Awaitable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from agent import display
from hermes_base.turn.hooks import find_hooks
from hermes_base.turn.tool_context import ToolContext
from model_tools.hooked import RefusedByPlugin, edit_args, run_hooked, tell_after
from model_tools.outside import make_context
from tools.approval import ask_approval
from tools.builtin import load_tools
from tools.registry import registry, tool_error
from tools.toolsets import tool_names

__all__ = ["check_toolset_requirements", "get_tool_definitions", "handle_function_call"]

load_tools()
_lock = threading.Lock()
_rendered: dict[tuple[int, frozenset[str]], list[dict[str, Any]]] = {}


def get_tool_definitions(
    enabled_toolsets: Sequence[str] | None = None,
    disabled_toolsets: Sequence[str] | None = None,
    quiet_mode: bool = False,
) -> list[dict[str, Any]]:
    """The schemas of the tools in these toolsets that can be used now, in a fixed order; one list shared by all who
    ask for the same. A tool whose check failed is back with the first agent after it passes."""
    names = tool_names(registry, enabled_toolsets, disabled_toolsets)
    key = registry.generation, frozenset(name for name in names if registry.is_available(name))
    found = _rendered.get(key)
    if found is None:
        found = registry.get_definitions(key[1], quiet=quiet_mode)
        with _lock:
            for old in [known for known in _rendered if known[0] != key[0]]:
                del _rendered[old]
            _rendered[key] = found
    return found


def check_toolset_requirements() -> dict[str, bool]:
    """For each toolset whether all of its tools can be used now."""
    return {
        toolset: all(registry.is_available(name) for name in registry.names(toolset)) for toolset in registry.toolsets()
    }


def handle_function_call(
    function_name: str,
    function_args: Mapping[str, Any] | str,
    task_id: str | None = None,
    tool_call_id: str | None = None,
    session_id: str | None = None,
    turn_id: str | None = None,
    api_request_id: str | None = None,
    user_task: str | None = None,
    enabled_tools: Collection[str] | None = None,
    skip_pre_tool_call_hook: bool = False,
    context: ToolContext | None = None,
    **others: Any,
) -> str:
    """Run a tool by name; arguments may be JSON text. Errors come back as text.

    With `context` it is a step of a turn, which asks the plugins itself; without one they are asked here, and the tool
    works for the turn that this thread works for, or for the owner.
    """
    del others  # that callers know more than we use is no fault
    name, args = function_name, function_args
    if isinstance(args, str):
        try:
            args = json.loads(args or "{}")
        except ValueError as problem:
            return tool_error(f"The arguments of {name} are not valid JSON ({problem}).")
    if not isinstance(args, Mapping):
        return tool_error(f"The arguments of {name} must be a JSON object.")
    told = {"task_id": task_id or "", "session_id": session_id or "", "user_task": user_task or ""}
    if context is not None:
        return registry.dispatch(name, args, **told, context=context)
    if enabled_tools is not None and name not in enabled_tools:
        return tool_error(f"There is no tool called '{name}'.", available=sorted(enabled_tools))
    ids = {
        "tool_name": name,
        "task_id": told["task_id"],
        "session_id": told["session_id"],
        "tool_call_id": tool_call_id or "",
        "turn_id": turn_id or "",
        "api_request_id": api_request_id or "",
    }
    return _run_outside(ids, args, told, asks=not skip_pre_tool_call_hook)


def _run_outside(ids: Mapping[str, Any], args: Mapping[str, Any], told: Mapping[str, Any], *, asks: bool) -> str:
    """A call that no turn makes, with everything that plugins may say about it."""
    hooks, context, begun, refused = find_hooks(), make_context(told), time.monotonic(), False

    def perform(given: Mapping[str, Any]) -> str:
        return registry.dispatch(ids["tool_name"], given, **told, context=context)

    try:
        if asks:
            args = edit_args(hooks, ids, args)
            result = run_hooked(hooks, ids, args, perform, lambda what: bool(ask_approval(context, what)))
        else:
            result = perform(args)
    except RefusedByPlugin as refusal:
        result, refused = tool_error(str(refusal)), True
    return tell_after(hooks, ids, args, result, time.monotonic() - begun, refused=refused)


def _run_async(awaitable: Awaitable[Any], seconds_beside_a_loop: float | None = None) -> Any:
    """Run something awaitable from synchronous code, also where this thread has a loop of its own to keep turning."""

    async def settle(seconds: float | None) -> Any:
        async with asyncio.timeout(seconds):
            return await awaitable

    try:
        asyncio.get_running_loop()
        has_loop = True
    except RuntimeError:
        has_loop = False
    if not has_loop:  # outside of the handler: what it raises does not come with the trace of our question
        return asyncio.run(settle(None))
    with ThreadPoolExecutor(1, thread_name_prefix="async-bridge") as beside:
        return beside.submit(asyncio.run, settle(seconds_beside_a_loop)).result()


registry.run_async = _run_async
registry.make_context = make_context


def _find_emoji(tool_name: str) -> str:
    entry = registry.get_entry(tool_name)
    return entry.emoji if entry is not None else ""


display.find_emoji = _find_emoji
