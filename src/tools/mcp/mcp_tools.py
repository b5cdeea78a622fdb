"""Tools of servers in the registry: what the model is offered, who is asked before a call, and what comes back."""

import json
import threading
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.settings import Settings
from hermes_base.text.harmless import show_hidden
from hermes_base.turn.tool_context import ToolContext
from tools.approval import ask_approval, make_deed
from tools.mcp.mcp_host import McpHost, host_of
from tools.mcp.mcp_memory import KnownServer, KnownTool
from tools.mcp.mcp_names import show_name
from tools.mcp.mcp_results import clean_line, read_contents, read_prompt, read_result
from tools.mcp.mcp_specs import ServerSpec, read_servers
from tools.registry import make_schema, registry, tool_result

ORIGIN = "MCP server {server}"
SHOWN_CHARS = 20_000  # of arguments; what is longer nobody would read, so nobody is asked
#: The tools for what servers have beside tools.
TOOLSET = "mcp"
RESOURCES, PROMPTS = "mcp_resources", "mcp_prompts"
_TEXT = {"type": "string"}
_RESOURCES_SCHEMA = make_schema(
    RESOURCES, "List the resources of an MCP server, or read one by its uri.", ("server",), server=_TEXT, uri=_TEXT
)
_PROMPTS_SCHEMA = make_schema(
    PROMPTS,
    "List the prompts of an MCP server, or get one by its name.",
    ("server",),
    server=_TEXT,
    name=_TEXT,
    arguments={"type": "object"},
)

_lock = threading.Lock()
_registered: dict[str, tuple[Path, ServerSpec, KnownServer]] = {}


def list_toolsets(settings: Settings) -> tuple[str, ...]:
    """The toolsets of the servers that are set; none costs nothing."""
    if not settings.mcp_servers:
        return ()
    specs, _ = read_servers(settings.mcp_servers)
    return (*(spec.toolset for spec in specs if spec.enabled), TOOLSET)


def offer_tools(settings: Settings, home: Path | None = None) -> dict[str, str]:
    """Put the tools of the servers into the registry, as they are known; which servers are not, and why."""
    host = host_of(home)
    host.take_settings(settings)
    missing = host.find_unknown()
    with _lock:
        _register(host)
    return missing


def reload_tools(settings: Settings, home: Path | None = None) -> dict[str, str]:
    """Ask every server anew, and put what they say into the registry; what became of each, in words."""
    host = host_of(home)
    host.take_settings(settings)
    faults = host.look_at_all()
    with _lock:
        _register(host)
    known = host.known()
    told = {name: f"{len(server.offered(spec))} tools" for name, (spec, server) in known.items()}
    kept = " What was known of it is kept."
    return told | {name: f"{fault}{kept if name in known else ''}" for name, fault in faults.items()}


def _register(host: McpHost) -> None:
    """The registry is touched only where something is another than before: each change makes agents anew."""
    known = host.known()
    for name in [name for name, (home, *_) in _registered.items() if home == host.home and name not in known]:
        _, spec, _ = _registered.pop(name)
        for old in registry.names(spec.toolset):
            registry.deregister(old)
    for name, (spec, server) in known.items():
        if _registered.get(name) == (host.home, spec, server):
            continue
        _registered[name] = host.home, spec, server
        offered = server.offered(spec)
        for old in set(registry.names(spec.toolset)) - {tool.name for tool in offered}:
            registry.deregister(old)
        for tool in offered:
            schema = {"name": tool.name, "description": tool.description, "parameters": tool.schema}
            handler = partial(call_tool, server=name, tool=tool)
            registry.register(tool.name, spec.toolset, schema, handler, emoji="🔌", origin=_find_origin(spec))
    _register_others(any(one.resources for _, one in known.values()), any(one.prompts for _, one in known.values()))


def _find_origin(spec: ServerSpec) -> str:
    """Whose words the descriptions of its tools are; a server that is trusted as a whole may say what it likes."""
    return "" if spec.trust is True else ORIGIN.format(server=spec.name)


def _register_others(resources: bool, prompts: bool) -> None:
    wanted = {RESOURCES: resources, PROMPTS: prompts}
    parts = {RESOURCES: (_RESOURCES_SCHEMA, use_resources), PROMPTS: (_PROMPTS_SCHEMA, use_prompts)}
    for name, is_wanted in wanted.items():
        if not is_wanted:
            registry.deregister(name)
        elif registry.get_entry(name) is None:
            registry.register(name, TOOLSET, *parts[name], emoji="🔌")


# --- calls


def call_tool(args: Mapping[str, Any], *, context: ToolContext, server: str, tool: KnownTool) -> str | dict[str, Any]:
    """Ask where the owner does not trust it, call, and read what came back as text of somebody else."""
    host, given = _find(context), {tool.renamed.get(name, name): value for name, value in args.items()}
    spec = host.find_spec(server)
    if not spec.offers(tool.tool):
        raise ToolFailure(f"The tool {tool.tool} of the MCP server {server} is not offered any more.")
    _ask(context, spec, f"the tool {show_name(tool.tool)}", given, trusted=spec.trusts(tool.tool))
    context.foreign.note(ORIGIN.format(server=server))
    return read_result(server, host.call_tool(server, tool.tool, given, context))


def use_resources(args: Mapping[str, Any], *, context: ToolContext) -> str:
    host, spec, uri = _find(context), _find_server(args, context), args.get("uri")
    if not isinstance(uri, str) or not uri:
        context.foreign.note(ORIGIN.format(server=spec.name))
        found = host.run(spec.name, "list_resources", context)
        rows = {kind: [_brief(row, "uri", "uriTemplate") for row in listed] for kind, listed in found.items()}
        return tool_result(server=spec.name, **rows)
    _ask(context, spec, "a resource", {"uri": uri}, trusted=spec.trust is True)
    context.foreign.note(ORIGIN.format(server=spec.name))
    return read_contents(spec.name, uri, host.run(spec.name, "read_resource", context, uri, context).get("contents"))


def use_prompts(args: Mapping[str, Any], *, context: ToolContext) -> str:
    host, spec, name = _find(context), _find_server(args, context), args.get("name")
    if not isinstance(name, str) or not name:
        context.foreign.note(ORIGIN.format(server=spec.name))
        rows = [_brief(row, "name") for row in host.run(spec.name, "list_prompts", context)]
        return tool_result(server=spec.name, prompts=rows)
    given = args.get("arguments")
    values = {str(key): str(value) for key, value in given.items()} if isinstance(given, Mapping) else {}
    _ask(context, spec, "a prompt", {"name": name, "arguments": values}, trusted=spec.trust is True)
    context.foreign.note(ORIGIN.format(server=spec.name))
    return read_prompt(spec.name, name, host.run(spec.name, "get_prompt", context, name, values, context))


def _brief(row: Mapping[str, Any], *keys: str) -> dict[str, str]:
    """What a list says of one thing, short."""
    wanted = (*keys, "name", "description", "mimeType")
    found = {key: clean_line(row[key]) for key in wanted if isinstance(row.get(key), str) and row[key]}
    arguments = row.get("arguments")
    if isinstance(arguments, list):
        found["arguments"] = ", ".join(clean_line(one.get("name", "")) for one in arguments if isinstance(one, Mapping))
    return found


def _find(context: ToolContext) -> McpHost:
    host = host_of(context.home)
    host.take_first(context.settings)
    return host


def _find_server(args: Mapping[str, Any], context: ToolContext) -> ServerSpec:
    host = _find(context)
    names = [spec.name for spec in host.specs()]
    if args.get("server") not in names:
        raise ToolFailure(f"There is no such MCP server. There are: {', '.join(names)}.")
    return host.find_spec(str(args["server"]))


def _ask(context: ToolContext, spec: ServerSpec, what: str, given: Mapping[str, Any], *, trusted: bool) -> None:
    """What a server says of its tools (that they only read, say) is no reason not to ask."""
    if trusted:
        return
    try:
        written = json.dumps(given, ensure_ascii=False, sort_keys=True)
        shown = json.dumps(given, ensure_ascii=False, indent=1)
    except (TypeError, ValueError) as problem:
        raise ToolFailure("The arguments cannot be written down.") from problem
    plain = show_hidden(shown)
    if len(plain) > SHOWN_CHARS:
        fix = "Send less at a time, or the owner says in the settings that it is trusted."
        raise ToolFailure("It was not called: its arguments are too long to be shown to whoever is asked.", fix=fix)
    question = f"{what} of the MCP server {spec.name}\n{plain}"
    words = [spec.name, spec.print, what, json.loads(written)]
    deed = make_deed(context, "mcp", "", words, f"{what} of {spec.name}: {written}", level=spec.level)
    consent = ask_approval(context, f"Use {question}", "it is a tool of another program", deed=deed)
    if not consent:
        raise ToolFailure(f"It was not called: {consent.why}.")
