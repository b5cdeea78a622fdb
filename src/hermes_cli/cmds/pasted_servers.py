"""Servers as other programs write them down, pasted from their documents: what of that is an entry of ours. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from hermes_base.errors import ConfigProblem

#: The sections in which programs keep their servers.
_SECTIONS = ("mcpServers", "mcp_servers", "servers", "mcp", "context_servers")
#: What is taken over. How far a server is trusted, and what it may do, is nobody's word but the owner's.
TAKEN = frozenset(
    {
        *(
            "command",
            "args",
            "env",
            "environment",
            "cwd",
            "url",
            "serverUrl",
            "httpUrl",
            "headers",
            "transport",
            "type",
        ),
        *("timeout", "enabled", "disabled"),
    }
)
_DEEPEST = 3
_FIX = """It looks like '{"mcpServers": {"NAME": {"command": "npx", "args": ["-y", "PACKAGE"]}}}'."""


def read_pasted(text: str, name: str) -> dict[str, Mapping[str, Any]]:
    """The servers in it, by their names; `name`: what a single one is called that comes without one."""
    try:
        told = json.loads(text if text.lstrip().startswith("{") else f"{{{text}}}")
    except (ValueError, RecursionError) as problem:
        raise ConfigProblem("What was pasted is no JSON that can be read.", fix=_FIX) from problem
    for _ in range(_DEEPEST):
        section = next((told[key] for key in _SECTIONS if isinstance(told.get(key), Mapping)), None)
        if section is None or _is_server(told):
            break
        told = section
    if _is_server(told):
        if not name:
            raise ConfigProblem("The server has no name.", fix="Write one before it: hermes mcp add NAME JSON")
        return {name: told}
    if not told or not all(isinstance(entry, Mapping) for entry in told.values()):
        raise ConfigProblem("What was pasted holds no servers.", fix=_FIX)
    if name and len(told) == 1:
        return {name: next(iter(told.values()))}
    if name:
        raise ConfigProblem(f"It holds {len(told)} servers with names of their own.", fix="hermes mcp add JSON")
    return dict(told)


def take_over(entry: Mapping[str, Any]) -> tuple[dict[str, Any], list[str]]:
    """The entry that is written, and the keys that are left out of it."""
    return {key: value for key, value in entry.items() if key in TAKEN}, sorted(set(entry) - TAKEN)


def _is_server(told: Mapping[str, Any]) -> bool:
    return any(isinstance(told.get(key), str | list) for key in ("command", "url", "serverUrl", "httpUrl"))
