"""Searches the web with the service that is set up; without one it is not offered."""

import importlib
from collections.abc import Mapping
from typing import Any

from hermes_base.errors import ConfigProblem, ToolFailure
from hermes_base.turn.tool_context import ToolContext
from hermes_cli import config
from tools.builtin.web_extract_tool import TOOLSET
from tools.registry import make_schema, registry, tool_result

DEFAULT_HITS, MOST_HITS = 8, 20

SCHEMA = make_schema(
    "web_search",
    "Search the web: titles, addresses and excerpts. Read a hit with web_extract.",
    ("query",),
    query={"type": "string"},
    limit={"type": "integer"},
)


def search_web(args: Mapping[str, Any], *, context: ToolContext) -> str:
    query = args.get("query")
    if not isinstance(query, str) or not query.strip():
        raise ToolFailure("There is nothing to search for.")
    query = " ".join(query.split())
    if context.redact(query) != query:
        raise ToolFailure("The query holds a secret of the configuration, so it was not sent.")
    limit = args.get("limit")
    limit = min(limit, MOST_HITS) if isinstance(limit, int) and limit > 0 else DEFAULT_HITS
    try:
        service = _load_services().choose(context.settings)
    except ConfigProblem as problem:
        raise ToolFailure(problem.what, fix=problem.fix) from problem
    hits = service.search(query, limit, context.settings, context.cancel)
    if not hits:
        return tool_result(results=[], note=f"{service.label} found nothing. Try fewer or other words.")
    context.foreign.note(f"search results of {service.label}")
    found = [{"title": hit.title, "url": hit.url, "snippet": hit.snippet} for hit in hits]
    return tool_result(results=[{name: context.redact(value) for name, value in one.items()} for one in found])


def is_offered() -> bool:
    """Whether a service is set up; looked at when an agent is built, and nobody is asked."""
    settings = config.load_last_good()
    try:
        return not _load_services().choose(settings).find_missing(settings)
    except ConfigProblem:
        return False


def _load_services() -> Any:
    """Late: loaded with the first agent that could search, not with the program."""
    return importlib.import_module("tools.web.search_services").search_services


registry.register("web_search", TOOLSET, SCHEMA, search_web, is_offered, emoji="🔍")
