"""A tool call as plugins see it: they may replace its arguments, refuse it, stand around it, and change its result."""

from collections.abc import Callable, Mapping
from typing import Any

from hermes_base.turn.hooks import Hooks
from tools.registry import tool_error

Perform = Callable[[Mapping[str, Any]], str]


class RefusedByPlugin(Exception):
    """A plugin, or the person whom it had asked, does not want the tool to run."""


def edit_args(hooks: Hooks, ids: Mapping[str, Any], args: Mapping[str, Any]) -> Mapping[str, Any]:
    """What plugins make of the arguments, before anybody judges or sees them."""
    return hooks.request("tool_request", args, **ids) if hooks.has("tool_request") else args


def run_hooked(
    hooks: Hooks,
    ids: Mapping[str, Any],
    args: Mapping[str, Any],
    perform: Perform,
    approve: Callable[[str], bool] | None,
) -> str:
    """What came of it; RefusedByPlugin when it was not run. `approve` asks a person on behalf of a plugin."""
    name = ids["tool_name"]
    refusal = hooks.refuse_tool(name, args, approve, **{key: ids[key] for key in ids if key != "tool_name"})
    if refusal:
        raise RefusedByPlugin(refusal)
    if not hooks.has("tool_execution"):
        return perform(args)
    result = hooks.execute("tool_execution", args, lambda given: perform(args if given is None else given), **ids)
    return result if isinstance(result, str) else tool_error(f"A plugin took the result of {name} away.")


def tell_after(
    hooks: Hooks, ids: Mapping[str, Any], args: Mapping[str, Any], result: str, seconds: float, *, refused: bool
) -> str:
    """Tell observers, and let a plugin replace the result."""
    if not (hooks.has("post_tool_call") or hooks.has("transform_tool_result")):
        return result
    failed = is_error(result)
    facts = {
        **ids,
        "args": args,
        "result": result,
        "duration_ms": int(seconds * 1000),
        "status": "blocked" if refused else "error" if failed else "ok",
        "error_type": "plugin_block" if refused else "tool_error" if failed else None,
        "error_message": result if failed else None,
    }
    hooks.invoke("post_tool_call", **facts, middleware_trace=[])
    changed = hooks.invoke("transform_tool_result", **facts)
    return next((text for text in changed if isinstance(text, str)), result)


def is_error(result: str) -> bool:
    return result.startswith('{"error"')
