"""What is known of a server while it does not run: its tools, in a file of the home. So a server that is down for a
moment takes nothing out of a conversation, and a start of Hermes starts no servers (A5)."""

import hashlib
import json
import logging
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from hermes_cli.config.own_files import replace_file
from tools.mcp.mcp_names import is_readable, make_name
from tools.mcp.mcp_schemas import DESCRIPTION_CHARS, Schema, clean_text, find_renamed, repair_schema
from tools.mcp.mcp_specs import ServerSpec

log = logging.getLogger(__name__)

FOLDER, LISTS, TOKENS, WORK = "mcp", "lists", "tokens", "work"
MOST_TOOLS = 500  # of one server
NOTHING_SAID = "A tool of the MCP server {server}."
VERSION = 2


@dataclass(frozen=True, slots=True)
class KnownTool:
    """A tool of a server: what the model calls it, what the server does, and what the model is told."""

    name: str
    tool: str
    description: str
    schema: Schema
    renamed: Mapping[str, str] = field(default_factory=dict)  # parameters: our name, theirs


@dataclass(frozen=True, slots=True)
class KnownServer:
    tools: tuple[KnownTool, ...] = ()
    resources: bool = False
    prompts: bool = False
    print: str = ""

    def offered(self, spec: ServerSpec) -> tuple[KnownTool, ...]:
        return tuple(tool for tool in self.tools if spec.offers(tool.tool))


def take_tools(server: str, listed: Iterable[Mapping[str, Any]]) -> tuple[KnownTool, ...]:
    """The tools of a list as a server sent it, in a fixed order; of two with one name the first counts,
    and what cannot be shown as a name is none."""
    found: dict[str, KnownTool] = {}
    seen: set[str] = set()
    for given in listed:
        tool = given.get("name")
        if not isinstance(tool, str) or not is_readable(tool) or tool in seen:
            continue
        seen.add(tool)
        name, schema = make_name(server, tool), repair_schema(given.get("inputSchema"))
        told = clean_text(given.get("description") or given.get("title"), DESCRIPTION_CHARS)
        renamed = find_renamed(schema, given.get("inputSchema"))
        found.setdefault(name, KnownTool(name, tool, told or NOTHING_SAID.format(server=server), schema, renamed))
        if len(found) == MOST_TOOLS:
            log.warning("MCP server %s has more than %d tools; the others are left out", server, MOST_TOOLS)
            break
    return tuple(sorted(found.values(), key=lambda tool: tool.name))


def recall(home: Path, spec: ServerSpec) -> KnownServer | None:
    """What was kept of this very server; None: nothing, or of another program or address under its name."""
    try:
        kept = json.loads(_path(home, spec.name).read_bytes())
        if kept["version"] != VERSION or kept["print"] != spec.print:
            return None
        tools = tuple(KnownTool(**tool) for tool in kept["tools"])
        return KnownServer(tools, bool(kept["resources"]), bool(kept["prompts"]), spec.print)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as problem:
        log.warning("what was kept of MCP server %s cannot be read: %s", spec.name, type(problem).__name__)
        return None


def keep(home: Path, spec: ServerSpec, known: KnownServer) -> None:
    path = _path(home, spec.name)
    make_private(path.parent)
    tools = [{**asdict(tool), "renamed": dict(tool.renamed)} for tool in known.tools]
    kept = {"version": VERSION, "print": spec.print, "resources": known.resources, "prompts": known.prompts}
    replace_file(path, json.dumps({**kept, "tools": tools}, ensure_ascii=False))


def forget(home: Path, server: str) -> None:
    """Everything that is kept of a server: its tools, and the keys to it."""
    for folder in (LISTS, TOKENS):
        (home / FOLDER / folder / f"{file_name(server)}.json").unlink(missing_ok=True)


def make_private(folder: Path) -> Path:
    """A folder that is the owner's alone."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    os.chmod(folder, 0o700)
    return folder


def file_name(server: str) -> str:
    """The name of a server's files; what cannot be one is told apart by a hash."""
    if re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_-]{0,60}", server):
        return server
    return f"{re.sub(r'[^A-Za-z0-9]+', '-', server)[:40]}-{hashlib.sha256(server.encode()).hexdigest()[:12]}"


def _path(home: Path, server: str) -> Path:
    return home / FOLDER / LISTS / f"{file_name(server)}.json"
