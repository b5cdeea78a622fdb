"""Tools of other programs: servers that speak the Model Context Protocol (MCP).

What stands here needs no server and no SDK: the section `mcp_servers`, the names and schemas that the model is told,
and what is remembered of servers. What speaks to a server is in `live`, and is loaded when the first one is called.
"""

import importlib
from collections.abc import Collection
from typing import Any

from hermes_base.settings import Settings
from tools.registry import registry

#: Tools of servers are called so; those that are ours, and say nothing of a server, are not meant.
PREFIX, OWN = "mcp_", frozenset({"mcp_resources", "mcp_prompts"})
GONE = "an MCP server that is gone"

_offered = False  # something of ours stands in the registry


def list_toolsets(settings: Settings) -> tuple[str, ...]:
    """The toolsets of the servers that are set."""
    return tuple(_load().list_toolsets(settings)) if settings.mcp_servers else ()


def offer_tools(settings: Settings) -> dict[str, str]:
    """Put the tools of the servers into the registry; which servers could not be asked for theirs, and why."""
    global _offered
    if not settings.mcp_servers and not _offered:
        return {}
    _offered = True
    missing: dict[str, str] = _load().offer_tools(settings)
    return missing


def reload_tools(settings: Settings) -> dict[str, str]:
    """Ask every server anew; what became of each, in words."""
    global _offered
    if not settings.mcp_servers and not _offered:
        return {}
    _offered = True
    told: dict[str, str] = _load().reload_tools(settings)
    return told


def owns(toolset: str) -> bool:
    """Whether a toolset is one of servers."""
    return toolset == "mcp" or toolset.startswith("mcp-")


def find_origins(names: Collection[str]) -> tuple[str, ...]:
    """Whose words stand in an array of these tools, beside ours and those of trusted servers. One may be older than the
    settings: what nobody knows any more was a server's."""
    known = registry.find_origins(names)
    gone = any(name.startswith(PREFIX) and name not in OWN and registry.get_entry(name) is None for name in names)
    return (*known, *((GONE,) if gone else ()))


def _load() -> Any:
    """Late: a Hermes without servers pays nothing for them."""
    return importlib.import_module("tools.mcp.mcp_tools")
