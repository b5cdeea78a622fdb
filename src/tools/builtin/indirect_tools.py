"""Many tools, small prompt: what MCP servers and plugins bring beyond a limit is looked up and called by name.

The array of tools stays what it is for a whole conversation (A5). `use_tool` is taken apart before anything is run
(`unwrap`), so hooks, approvals and people see the tool that is meant.
"""

import json
import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.turn.indirect import FIND_TOOLS, USE_TOOL
from hermes_base.turn.tool_context import ToolContext
from tools.registry import make_schema, registry

TOOLSET = "indirect"
MOST_HITS = 8
HIT_CHARS = 12_000  # of all schemas in an answer
MOST_NAMES = 300
GROUPS_CHARS = 300
_NAME, _NOTE = 3, 1  # what a word is worth in a name, and in a description

FIND_SCHEMA = make_schema(
    FIND_TOOLS, "Find more tools by what they do; gives their parameters.", ("query",), query={"type": "string"}
)
USE_SCHEMA = make_schema(
    USE_TOOL,
    "Call a tool that find_tools gave.",
    ("name", "arguments"),
    name={"type": "string"},
    arguments={"type": "object"},
)

Definition = Mapping[str, Any]


def split_tools(
    definitions: Sequence[Definition], brought: Collection[str], limit: int
) -> tuple[list[Definition], dict[str, Definition]]:
    """The tools of the array, and those that others bring (`brought`), by name. If these take more bytes than the
    limit, none of them stands in the array, and `use_tool` leads to them; a conversation that began so goes on so."""
    added = {name: tool["function"] for tool in definitions if (name := name_of(tool)) in brought}
    size = len(json.dumps(list(added.values()), ensure_ascii=False).encode())
    if not added or size <= limit:
        return list(definitions), added
    kept = [tool for tool in definitions if name_of(tool) not in added]
    kept += [{"type": "function", "function": _describe(added)}, {"type": "function", "function": USE_SCHEMA}]
    return sorted(kept, key=name_of), added


def name_of(tool: Definition) -> str:
    return str(tool["function"]["name"])


def _describe(added: Mapping[str, Definition]) -> dict[str, Any]:
    """The schema of `find_tools`, with a word on what there is to be found."""
    counts: dict[str, int] = {}
    for name in added:
        entry = registry.get_entry(name)
        group = entry.toolset.removeprefix("mcp-") if entry is not None else "others"
        counts[group] = counts.get(group, 0) + 1
    groups = ", ".join(f"{group} ({count})" for group, count in sorted(counts.items()))
    shown = groups if len(groups) <= GROUPS_CHARS else groups[:GROUPS_CHARS] + "…"
    return {**FIND_SCHEMA, "description": f"{FIND_SCHEMA['description']} There are {len(added)}: {shown}."}


def find_tools(args: Mapping[str, Any], *, context: ToolContext) -> str:
    """The tools that fit best, each with its parameters as JSON; without words, the names of all."""
    query, known = args.get("query"), context.indirect
    words = _split(query) if isinstance(query, str) else set()
    if not known:
        raise ToolFailure("There are no tools beside those that you have.")
    scored = sorted((-_score(words, name, tool), name) for name, tool in known.items())
    hits = [name for score, name in scored if score < 0][:MOST_HITS]
    if not hits:
        names = sorted(known)
        _note_origins(names, context)
        more = f" and {len(names) - MOST_NAMES} more" if len(names) > MOST_NAMES else ""
        return f"No tool fits these words. There are: {', '.join(names[:MOST_NAMES])}{more}."
    lines: list[str] = []
    for name in hits:
        tool = known[name]
        line = f"{name}: {tool.get('description', '')}\n{json.dumps(tool.get('parameters', {}), ensure_ascii=False)}"
        if lines and sum(map(len, lines)) + len(line) > HIT_CHARS:
            break
        lines.append(line)
    _note_origins(hits[: len(lines)], context)
    return "\n\n".join(lines)


def _note_origins(names: Sequence[str], context: ToolContext) -> None:
    """What a server says of its tools is foreign text as much as what they answer (G9)."""
    for origin in registry.find_origins(names):
        context.foreign.note(origin)


def use_tool(args: Mapping[str, Any], *, context: ToolContext) -> str:  # noqa: ARG001 - all tools are called alike
    """Reached only by a call that names no tool: one that does is taken apart before."""
    fix = "find_tools says which there are."
    raise ToolFailure("Give the name of a tool, and its arguments as an object.", fix=fix)


def _score(words: Collection[str], name: str, tool: Definition) -> int:
    in_name, in_note = _split(name), _split(str(tool.get("description", "")))
    found = sum(_NAME * (word in in_name) + _NOTE * (word in in_note) for word in words)
    parts = sum(_NOTE for word in words if len(word) > 3 and word not in in_name and word in name.lower())
    return found + parts


def _split(text: str) -> set[str]:
    """Words of a text; camelCase and under_scores are several."""
    spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", text)
    return {word for word in re.split(r"[^a-z0-9]+", spaced.lower()) if len(word) > 1}


registry.register(FIND_TOOLS, TOOLSET, FIND_SCHEMA, find_tools, emoji="🔎")
registry.register(USE_TOOL, TOOLSET, USE_SCHEMA, use_tool, emoji="🔌")
