"""Calls of tools that do not stand in the array: the model names them in a call of `use_tool`.

Everybody but the transcript sees the tool that is meant: hooks, policy, approvals, the journal's steps, people. Pure.
"""

import json
from collections.abc import Mapping
from typing import Any

FIND_TOOLS, USE_TOOL = "find_tools", "use_tool"


def unwrap(name: str, args: Mapping[str, Any]) -> tuple[str, Mapping[str, Any]]:
    """The tool that a call means, and its arguments; some models send these as text, or beside the name."""
    meant = args.get("name")
    if name != USE_TOOL or not isinstance(meant, str) or not meant or meant in (USE_TOOL, FIND_TOOLS):
        return name, args
    given = args.get("arguments")
    if isinstance(given, str):
        try:
            given = json.loads(given or "{}")
        except ValueError:
            return name, args
    if given is None:
        given = {key: value for key, value in args.items() if key not in ("name", "arguments")}
    return (meant, given) if isinstance(given, Mapping) else (name, args)


def unwrap_text(name: str, arguments: str) -> str:
    """The name of the tool that a call means, by its arguments as the model wrote them."""
    if name != USE_TOOL:
        return name
    try:
        args = json.loads(arguments)
    except ValueError:
        return name
    return unwrap(name, args)[0] if isinstance(args, Mapping) else name
