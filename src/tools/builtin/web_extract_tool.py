"""Reads a web page: fetched where it may be, kept whole for the task, and shown page by page."""

import importlib
import json
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from hermes_base.errors import ConfigProblem, ToolFailure
from hermes_base.turn.tool_context import ToolContext
from tools.registry import make_schema, registry, tool_result
from tools.web.page_store import KeptPage, pages

TOOLSET = "web"
PAGE_CHARS = 24_000
LEAST_CHARS = 2_000
MOST_URLS = 5  # of one call of a plugin
_LATEST_END = 0.8  # a page ends between lines if one ends in its last fifth

SCHEMA = make_schema(
    "web_extract",
    "Read a web page, text file or PDF at an address, as markdown.",
    ("url",),
    url={"type": "string"},
    offset={"type": "integer", "description": "Go on from this character."},
)


def extract_page(args: Mapping[str, Any], *, context: ToolContext) -> str:
    """One page of a page. Without an offset it is fetched anew; with one it is the page that was fetched before."""
    urls = args.get("urls")
    if isinstance(urls, list) and not args.get("url"):
        return tool_result(results=[_extract_for_plugin(url, context) for url in urls[:MOST_URLS]])
    fetching = _load_fetching()
    url = fetching.read_url(args.get("url"), context)
    offset = args.get("offset")
    start = max(offset, 0) if isinstance(offset, int) else 0
    page = pages.find(context.task, url) if start else None
    if page is None:
        page = _read_elsewhere(url, context) or fetching.fetch_page(url, context)
        pages.keep(context.task, url, page)
    else:
        context.foreign.note(f"a web page of {page.host}")
    start = min(start, len(page.text))
    end = find_end(page.text, start, page_chars(context.window_tokens))
    more = {"next_offset": end} if end < len(page.text) else {}
    told = {name: value for name, value in (("title", page.title), ("note", page.note)) if value}
    return tool_result(url=page.url, **told, offset=start, of=len(page.text), **more, text=page.text[start:end])


def _extract_for_plugin(url: Any, context: ToolContext) -> dict[str, Any]:
    """One of several, as plugins name and read them; what is wrong with one is nothing of the others."""
    try:
        page = json.loads(extract_page({"url": url}, context=context))
    except ToolFailure as failure:
        return {"url": url, "title": "", "content": "", "error": str(failure)}
    return {"url": page["url"], "title": page.get("title", ""), "content": page["text"], "error": None}


def _read_elsewhere(url: str, context: ToolContext) -> KeptPage | None:
    """The page as a plugin reads it, where the settings name one; what it says is foreign text all the same (G9)."""
    if not (context.settings.web.extract_backend or context.settings.web.backend):
        return None
    try:
        reader = importlib.import_module("tools.web.search_services").search_services.find_reader(context.settings)
    except ConfigProblem as problem:
        raise ToolFailure(problem.what, fix=problem.fix) from problem
    if reader is None:
        return None
    host = urlsplit(url).hostname or ""
    context.foreign.note(f"a web page of {host}")
    title, text = reader.read_page(url)
    most = context.settings.web.page_megabytes << 20
    return KeptPage(url, host, context.redact(title), context.redact(text[:most]), f"Read by {reader.label}.")


def _load_fetching() -> Any:
    """Late: whoever reads no page does not pay for what fetches and reads them."""
    return importlib.import_module("tools.web.page_fetching")


def page_chars(window_tokens: int) -> int:
    """How much is shown at once: less to a model with a small window."""
    return max(LEAST_CHARS, min(PAGE_CHARS, window_tokens)) if window_tokens else PAGE_CHARS


def find_end(text: str, start: int, most: int) -> int:
    """Where a page that begins there ends: at its limit, or at the last end of a line shortly before it."""
    end = start + most
    if end >= len(text):
        return len(text)
    line = text.rfind("\n", start + int(most * _LATEST_END), end)
    return line + 1 if line >= 0 else end


registry.register("web_extract", TOOLSET, SCHEMA, extract_page, emoji="🌐")
