"""The search services as data: where each is, how its key is sent, how a query is written, and where in its answer the
hits stand. Pure: a row makes a call, and reads what came back."""

import importlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from hermes_base.errors import ToolFailure

TITLE_CHARS, SNIPPET_CHARS = 200, 500
_MARKS = re.compile(r"</?[a-zA-Z][^<>]{0,200}>")


@dataclass(frozen=True, slots=True)
class WebHit:
    title: str
    url: str
    snippet: str


@dataclass(frozen=True, slots=True)
class ServiceRow:
    """One service. `{query}` and `{limit}` stand for what is asked: in the path as text, in the body as values."""

    name: str  # of the setting `web.search_backend`; its address is the setting `web.<name>_url`
    label: str
    address: str  # empty: it has none of its own
    path: str
    hits: tuple[str, ...]  # the names on the way to the list of hits
    url: str = "url"
    title: str = "title"
    snippets: tuple[str, ...] = ("description",)  # the first that is there is taken; a list of texts is joined
    key_env: str = ""  # empty: it takes none
    key_header: str = ""
    key_form: str = "{key}"
    body: Mapping[str, Any] | None = None  # None: the path says it all (GET)
    most: int = 20  # hits that it gives at once
    longest: int = 2_000  # characters of a query
    from_where: str = ""  # where a key or a server is to be had
    refused: str = ""  # what a refusal (403) means here, if not that the key is wrong


_BEARER = ("authorization", "Bearer {key}")
SERVICES: tuple[ServiceRow, ...] = (
    ServiceRow(
        "searxng",
        "SearXNG",
        "",
        "/search?q={query}&format=json",
        ("results",),
        snippets=("content",),
        from_where="a server of your own (searxng.org)",
        refused="It does not give answers in JSON: add `json` to `search.formats` in its settings.yml.",
    ),
    ServiceRow(
        "brave",
        "Brave",
        "https://api.search.brave.com",
        "/res/v1/web/search?q={query}&count={limit}&text_decorations=false",
        ("web", "results"),
        key_env="BRAVE_API_KEY",
        key_header="x-subscription-token",
        longest=400,
        from_where="https://api-dashboard.search.brave.com",
    ),
    ServiceRow(
        "tavily",
        "Tavily",
        "https://api.tavily.com",
        "/search",
        ("results",),
        snippets=("content",),
        key_env="TAVILY_API_KEY",
        body={"query": "{query}", "max_results": "{limit}"},
        longest=400,
        from_where="https://app.tavily.com",
        key_header=_BEARER[0],
        key_form=_BEARER[1],
    ),
    ServiceRow(
        "exa",
        "Exa",
        "https://api.exa.ai",
        "/search",
        ("results",),
        snippets=("highlights", "summary", "text"),
        key_env="EXA_API_KEY",
        key_header="x-api-key",
        body={"query": "{query}", "numResults": "{limit}", "contents": {"highlights": True}},
        from_where="https://dashboard.exa.ai/api-keys",
    ),
    ServiceRow(
        "serper",
        "Serper",
        "https://google.serper.dev",
        "/search",
        ("organic",),
        url="link",
        snippets=("snippet",),
        key_env="SERPER_API_KEY",
        key_header="x-api-key",
        body={"q": "{query}", "num": "{limit}"},
        from_where="https://serper.dev/api-keys",
    ),
    ServiceRow(
        "firecrawl",
        "Firecrawl",
        "https://api.firecrawl.dev",
        "/v2/search",
        ("data", "web"),
        key_env="FIRECRAWL_API_KEY",
        body={"query": "{query}", "limit": "{limit}"},
        from_where="https://www.firecrawl.dev/app/api-keys",
        key_header=_BEARER[0],
        key_form=_BEARER[1],
    ),
)
BY_NAME: Mapping[str, ServiceRow] = {row.name: row for row in SERVICES}


@dataclass(frozen=True, slots=True)
class SearchRequest:
    url: str
    method: str
    headers: Mapping[str, str]
    body: bytes


def write_request(row: ServiceRow, address: str, key: str, query: str, limit: int) -> SearchRequest:
    limit = max(1, min(limit, row.most))
    path = row.path.replace("{query}", quote(query, safe="")).replace("{limit}", str(limit))
    headers = {"accept": "application/json"}
    if key and row.key_header:
        headers[row.key_header] = row.key_form.replace("{key}", key)
    url = f"{address.rstrip('/')}{path}"
    if row.body is None:
        return SearchRequest(url, "GET", headers, b"")
    filled = _fill(row.body, {"{query}": query, "{limit}": limit})
    return SearchRequest(url, "POST", {**headers, "content-type": "application/json"}, json.dumps(filled).encode())


def _fill(value: Any, given: Mapping[str, Any]) -> Any:
    if isinstance(value, Mapping):
        return {name: _fill(inner, given) for name, inner in value.items()}
    return given.get(value, value) if isinstance(value, str) else value


def read_hits(row: ServiceRow, body: bytes, limit: int) -> list[WebHit]:
    """The hits of an answer, in its order; ToolFailure when it is none of this service."""
    try:
        answer = found = json.loads(body)
    except (ValueError, RecursionError):
        raise ToolFailure(f"{row.label} answered with something that is no JSON.", fix="Try it again later.") from None
    for name in row.hits:
        found = found.get(name) if isinstance(found, Mapping) else None
    if found is None and _names_no_error(answer):  # a service that found nothing may leave the list out
        return []
    if not isinstance(found, list):
        raise ToolFailure(f"{row.label} answered in a form that is not known here.", fix="Try it again later.")
    hits = (_read_hit(row, one) for one in found if isinstance(one, Mapping))
    return [hit for hit in hits if hit is not None][:limit]


def _names_no_error(answer: Any) -> bool:
    return isinstance(answer, Mapping) and not answer.get("error") and answer.get("success") is not False


def _read_hit(row: ServiceRow, one: Mapping[str, Any]) -> WebHit | None:
    url = one.get(row.url)
    if not isinstance(url, str) or not is_web_address(url):
        return None
    said = next((one[name] for name in row.snippets if one.get(name)), "")
    joined = " … ".join(map(str, said)) if isinstance(said, Sequence) and not isinstance(said, str) else str(said)
    return WebHit(_clean(str(one.get(row.title) or ""), TITLE_CHARS) or url, url, _clean(joined, SNIPPET_CHARS))


def is_web_address(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return parts.scheme in ("http", "https") and bool(parts.hostname) and len(url) <= 2_000
    except ValueError:
        return False


def _clean(text: str, most: int) -> str:
    """Without marks and signs of HTML, on one line, cut."""
    flat = " ".join(_unescape(_MARKS.sub("", text[: most * 10])).split())
    return flat if len(flat) <= most else flat[: most - 1] + "…"


def _unescape(text: str) -> str:
    """Late: the table of signs is large, and only answers need it."""
    return str(importlib.import_module("html").unescape(text))
