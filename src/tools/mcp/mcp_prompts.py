"""Prompts of servers for people: `/mcp` lists them, and `/mcp SERVER PROMPT name=value` fills one in.

What comes back are words of the server, marked as such; the person chose them, so nobody is asked.
"""

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hermes_base.errors import HermesError, ToolFailure
from hermes_base.settings import Settings
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.tool_context import ToolContext
from tools.mcp.mcp_host import McpHost, host_of
from tools.mcp.mcp_results import clean_line, read_prompt
from tools.mcp.mcp_tools import ORIGIN

USAGE = "Say /mcp SERVER PROMPT name=value; a value with spaces stands in quotes."


@dataclass(frozen=True, slots=True)
class FilledPrompt:
    text: str
    origin: str  # whose words it is


def use_prompt(args: str, settings: Settings, home: Path, cancel: CancelToken) -> FilledPrompt | list[str]:
    """The prompt that is asked for, or, where none is, what there is, line by line."""
    try:
        words = shlex.split(args)
    except ValueError:
        raise HermesError("A quote is not closed.", fix=USAGE) from None
    server, name = [*words, "", ""][:2]
    host, context = host_of(home), ToolContext(home=home, settings=settings, cancel=cancel)
    host.take_first(settings)
    servers = [spec.name for spec in host.specs()]
    if not servers:
        return ["No MCP servers are set. `hermes mcp add` adds one."]
    if server and server not in servers:
        raise HermesError(f"There is no MCP server '{server}'.", fix=f"There are: {', '.join(servers)}.")
    if not name:
        rows = [line for one in ([server] if server else servers) for line in _list_prompts(host, one, context)]
        return rows or ["The servers have no prompts."]
    known = _read_arguments(_find_prompt(host, server, name, context))
    values = _read_values(words[2:], known)
    result = host.run(server, "get_prompt", context, name, values, context)
    return FilledPrompt(read_prompt(server, name, result), ORIGIN.format(server=server))


def _list_prompts(host: McpHost, server: str, context: ToolContext) -> Iterator[str]:
    """One line a prompt; of a server that does not answer, why."""
    try:
        prompts = host.run(server, "list_prompts", context)
    except ToolFailure as failure:
        known = host.known().get(server)
        if known is None or known[1].prompts:  # else it has none, and says so in its own way
            yield f"{server}: {failure}"
        return
    for row in prompts:
        words = [f"/mcp {shlex.quote(server)} {shlex.quote(clean_line(row.get('name', '')))}"]
        words += [f"{name}=…" if needed else f"[{name}=…]" for name, needed in _read_arguments(row).items()]
        about = clean_line(row.get("description") or "")
        yield " ".join(words) + (f" – {about}" if about else "")


def _find_prompt(host: McpHost, server: str, name: str, context: ToolContext) -> Mapping[str, Any]:
    prompts = host.run(server, "list_prompts", context)
    found = next((row for row in prompts if row.get("name") == name), None)
    if found is None:
        raise HermesError(f"The MCP server {server} has no prompt '{name}'.", fix=f"/mcp {server} lists them.")
    return dict(found)


def _read_arguments(row: Mapping[str, Any]) -> dict[str, bool]:
    """What a prompt takes, and whether it has to be given."""
    listed = row.get("arguments")
    rows = [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []
    return {clean_line(one["name"]): one.get("required") is True for one in rows if isinstance(one.get("name"), str)}


def _read_values(given: list[str], known: Mapping[str, bool]) -> dict[str, str]:
    """`name=value`; of a prompt that takes one value, all that is said may be it."""
    pairs = dict(word.partition("=")[::2] for word in given)
    if len(known) == 1 and not set(pairs) <= set(known):
        return {next(iter(known)): " ".join(given)}
    odd = sorted(set(pairs) - set(known))
    if odd:
        takes = f"It takes {', '.join(known)}." if known else "It takes none."
        raise HermesError(f"The prompt does not know {', '.join(odd)}.", fix=f"{takes} {USAGE}")
    missing = [name for name, needed in known.items() if needed and name not in pairs]
    if missing:
        raise HermesError(f"The prompt needs {', '.join(missing)}.", fix=USAGE)
    return pairs
