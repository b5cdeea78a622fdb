"""The few names that introduce the tools to the loop; plugins import them from here."""

import asyncio
import json
import threading
from collections.abc import Awaitable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

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


def handle_function_call(name: str, args: Mapping[str, Any] | str, **context: Any) -> str:
    """Run a tool by name; arguments may be JSON text. Errors come back as text."""
    if isinstance(args, str):
        try:
            args = json.loads(args or "{}")
        except ValueError as problem:
            return tool_error(f"The arguments of {name} are not valid JSON ({problem}).")
    if not isinstance(args, Mapping):
        return tool_error(f"The arguments of {name} must be a JSON object.")
    return registry.dispatch(name, args, **context)


def _run_async(awaitable: Awaitable[Any], seconds_beside_a_loop: float | None = None) -> Any:
    """Run something awaitable from synchronous code, also where this thread has a loop of its own to keep turning."""

    async def settle(seconds: float | None) -> Any:
        async with asyncio.timeout(seconds):
            return await awaitable

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return asyncio.run(settle(None))
    with ThreadPoolExecutor(1, thread_name_prefix="async-bridge") as beside:
        return beside.submit(asyncio.run, settle(seconds_beside_a_loop)).result()


registry.run_async = _run_async
