"""web_search: each service over a real socket in its documented form, which one is asked, and failures as sentences."""

import json
import logging
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest
from loopback_site import LoopbackSite, SiteRequest, hold, open_site

from hermes_base.errors import ConfigProblem
from hermes_base.setting_table import find, make_settings
from hermes_base.settings import Settings
from hermes_base.text.redact import Redactor
from hermes_base.turn.tool_context import ToolContext
from hermes_cli import config
from tools.builtin.web_search_tool import is_offered
from tools.registry import registry
from tools.toolsets import PLATFORM_TOOLSETS, tool_names
from tools.web import search_services as services
from tools.web.search_services import SearchServices, TableService, search_services
from tools.web.search_table import BY_NAME, SERVICES, WebHit

KEY = "canary-key-0123456789"


@dataclass(frozen=True)
class Documented:
    """A service as its documentation has it: a request for three hits, and an answer."""

    path: str
    method: str
    query: Mapping[str, str] = field(default_factory=dict)
    body: Mapping[str, Any] | None = None
    header: tuple[str, str] | None = None
    answer: Mapping[str, Any] = field(default_factory=dict)


HITS = [
    WebHit("Frobs & more", "https://a.test/1", "What a frob is"),
    WebHit("Frob", "https://b.test/2", "A frob"),
]
DOCUMENTED = {
    "searxng": Documented(
        "/search",
        "GET",
        {"q": "what is a frob?", "format": "json"},
        answer={
            "query": "what is a frob?",
            "number_of_results": 0,
            "results": [
                {"url": "https://a.test/1", "title": "Frobs &amp; more", "content": "What a frob is", "engine": "x"},
                {"url": "https://b.test/2", "title": "Frob", "content": "A frob", "engines": ["x", "y"], "score": 1.0},
            ],
            "answers": [],
            "infoboxes": [],
            "unresponsive_engines": [["z", "timeout"]],
        },
    ),
    "brave": Documented(
        "/res/v1/web/search",
        "GET",
        {"q": "what is a frob?", "count": "3", "text_decorations": "false"},
        header=("x-subscription-token", KEY),
        answer={
            "type": "search",
            "query": {"original": "what is a frob?"},
            "web": {
                "type": "search",
                "results": [
                    {
                        "title": "Frobs &amp; more",
                        "url": "https://a.test/1",
                        "description": "What a <strong>frob</strong> is",
                    },
                    {"title": "Frob", "url": "https://b.test/2", "description": "A frob", "page_age": "2026-01-01"},
                ],
            },
        },
    ),
    "tavily": Documented(
        "/search",
        "POST",
        body={"query": "what is a frob?", "max_results": 3},
        header=("authorization", f"Bearer {KEY}"),
        answer={
            "query": "what is a frob?",
            "answer": None,
            "images": [],
            "results": [
                {"title": "Frobs & more", "url": "https://a.test/1", "content": "What a frob is", "score": 0.9},
                {"title": "Frob", "url": "https://b.test/2", "content": "A frob", "score": 0.8, "raw_content": None},
            ],
            "response_time": 1.2,
        },
    ),
    "exa": Documented(
        "/search",
        "POST",
        body={"query": "what is a frob?", "numResults": 3, "contents": {"highlights": True}},
        header=("x-api-key", KEY),
        answer={
            "requestId": "b5947044c4b78efa9552a7c89b306d95",
            "resolvedSearchType": "neural",
            "results": [
                {"title": "Frobs & more", "url": "https://a.test/1", "id": "1", "highlights": ["What a frob is"]},
                {"title": "Frob", "url": "https://b.test/2", "id": "2", "highlights": [], "text": "A frob"},
            ],
        },
    ),
    "serper": Documented(
        "/search",
        "POST",
        body={"q": "what is a frob?", "num": 3},
        header=("x-api-key", KEY),
        answer={
            "searchParameters": {"q": "what is a frob?", "type": "search", "engine": "google"},
            "organic": [
                {"title": "Frobs & more", "link": "https://a.test/1", "snippet": "What a frob is", "position": 1},
                {"title": "Frob", "link": "https://b.test/2", "snippet": "A frob", "position": 2},
            ],
            "credits": 1,
        },
    ),
    "firecrawl": Documented(
        "/v2/search",
        "POST",
        body={"query": "what is a frob?", "limit": 3},
        header=("authorization", f"Bearer {KEY}"),
        answer={
            "success": True,
            "data": {
                "web": [
                    {
                        "url": "https://a.test/1",
                        "title": "Frobs & more",
                        "description": "What a frob is",
                        "position": 1,
                    },
                    {"url": "https://b.test/2", "title": "Frob", "description": "A frob", "position": 2},
                ]
            },
        },
    ),
}


@pytest.fixture
def site() -> Iterator[LoopbackSite]:
    with open_site() as running:
        yield running


Search = Callable[..., dict[str, Any]]


@pytest.fixture
def search(site: LoopbackSite, monkeypatch: pytest.MonkeyPatch) -> Search:
    """Searches with a service that stands on loopback, which its owner wrote into the settings."""

    def call(name: str, query: Any = "what  is a\nfrob?", key: str = KEY, **args: Any) -> dict[str, Any]:
        if BY_NAME[name].key_env:
            monkeypatch.setenv(BY_NAME[name].key_env, key)
        web = {"search_backend": name, f"{name}_url": site.url("", "127.0.0.1")}
        context = ToolContext(settings=make_settings({"web": web}), redact=config.redactor())
        result: dict[str, Any] = json.loads(registry.dispatch("web_search", {"query": query, **args}, context=context))
        return {**result, "origins": context.foreign.origins}

    return call


def put_answer(site: LoopbackSite, name: str, answer: Any = None, **more: Any) -> None:
    body = json.dumps(DOCUMENTED[name].answer) if answer is None else answer
    site.put(DOCUMENTED[name].path, body, "application/json", **more)


def check_request(asked: SiteRequest, documented: Documented) -> None:
    parts = urlsplit(asked.path)
    assert (parts.path, asked.method, dict(parse_qsl(parts.query))) == (
        documented.path,
        documented.method,
        documented.query,
    )
    assert (json.loads(asked.body) if asked.body else None) == documented.body
    assert asked.headers["accept"] == "application/json"
    if documented.header is not None:
        assert asked.headers[documented.header[0]] == documented.header[1]
    if documented.body is not None:
        assert asked.headers["content-type"] == "application/json"


def test_every_service_is_documented_here() -> None:
    assert list(DOCUMENTED) == [row.name for row in SERVICES] == search_services.names()


@pytest.mark.parametrize("name", DOCUMENTED)
def test_a_service_is_asked_and_read_as_it_documents(site: LoopbackSite, search: Search, name: str) -> None:
    """G9: what it found is foreign text."""
    put_answer(site, name)
    result = search(name, limit=3)
    assert result["results"] == [{"title": hit.title, "url": hit.url, "snippet": hit.snippet} for hit in HITS]
    assert result["origins"] == (f"search results of {BY_NAME[name].label}",)
    (asked,) = site.asked
    check_request(asked, DOCUMENTED[name])


@pytest.mark.parametrize("name", DOCUMENTED)
@pytest.mark.parametrize(
    ("status", "words"),
    [
        (400, "did not understand"),
        (401, "refuses the key"),
        (402, "plan is used up"),
        (403, "refuse"),
        (422, "did not understand"),
        (429, "asks for patience"),
        (432, "plan is used up"),
        (500, "status 500"),
        (302, "status 302"),
    ],
)
def test_a_refusal_is_a_sentence_without_the_key(
    site: LoopbackSite, search: Search, caplog: pytest.LogCaptureFixture, name: str, status: int, words: str
) -> None:
    """G6: the service may say the key back; nobody here does, and no redirect takes it elsewhere."""
    caplog.set_level(logging.DEBUG)
    put_answer(site, name, json.dumps({"error": f"bad key {KEY}"}), status=status, headers={"location": "/elsewhere"})
    said = search(name)
    assert words in said["error"]
    assert BY_NAME[name].label in said["error"]
    assert KEY not in json.dumps(said) + caplog.text
    assert len(site.asked) == 1


def test_a_searxng_without_json_is_told_how_to_allow_it(site: LoopbackSite, search: Search) -> None:
    put_answer(site, "searxng", "Forbidden", status=403)
    assert "search.formats" in search("searxng")["error"]


@pytest.mark.parametrize("name", DOCUMENTED)
@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("<html>no json</html>", "no JSON"),
        ("", "no JSON"),
        ("[1, 2]", "form that is not known"),
        ('"text"', "form that is not known"),
        ('{"error": "wrong"}', "form that is not known"),
        ('{"success": false}', "form that is not known"),
        ("[" * 100_000, "no JSON"),
    ],
)
def test_a_nonsense_answer_is_a_sentence(
    site: LoopbackSite, search: Search, name: str, answer: str, words: str
) -> None:
    put_answer(site, name, answer)
    assert words in search(name)["error"]


@pytest.mark.parametrize("name", DOCUMENTED)
def test_nothing_found_is_told_and_foreign_to_nobody(site: LoopbackSite, search: Search, name: str) -> None:
    empty: Any = []
    for step in reversed(BY_NAME[name].hits):
        empty = {step: empty}
    for answer in (empty, {}):
        put_answer(site, name, json.dumps(answer))
        result = search(name)
        assert result["results"] == []
        assert "found nothing" in result["note"]
        assert result["origins"] == ()


def test_hits_that_are_none_are_left_out(site: LoopbackSite, search: Search) -> None:
    odd = [
        *(
            None,
            7,
            "x",
            [],
            {},
            {"title": "no address"},
            {"url": 7},
            {"url": "javascript:alert(1)"},
            {"url": "http://[x"},
        ),
        {"url": "https://a.test/" + "x" * 3_000},
        {"url": "https://a.test/", "title": None, "content": {"a": 1}},
        {"url": "https://b.test/", "title": "t" * 1_000, "content": "<b>c</b> " * 1_000},
    ]
    put_answer(site, "searxng", json.dumps({"results": odd}))
    results = search("searxng")["results"]
    assert [one["url"] for one in results] == ["https://a.test/", "https://b.test/"]
    assert results[0]["title"] == "https://a.test/"
    assert (len(results[1]["title"]), len(results[1]["snippet"])) == (200, 500)


@pytest.mark.parametrize(("limit", "count"), [(None, 8), (3, 3), (1_000, 20), (-1, 8), ("x", 8)])
def test_the_number_of_hits_has_a_limit(site: LoopbackSite, search: Search, limit: Any, count: int) -> None:
    many = {"results": [{"url": f"https://a.test/{number}", "title": "x"} for number in range(50)]}
    put_answer(site, "tavily", json.dumps(many))
    assert len(search("tavily", limit=limit)["results"]) == count
    assert json.loads(site.asked[0].body)["max_results"] == count


@pytest.mark.parametrize("query", ["", "  ", None, 7])
def test_a_query_is_needed(site: LoopbackSite, search: Search, query: Any) -> None:
    assert "nothing to search for" in search("brave", query)["error"]


def test_what_is_too_long_or_secret_is_not_sent(site: LoopbackSite, search: Search) -> None:
    """G6"""
    assert "at most 400 characters" in search("brave", "x" * 401)["error"]
    context = ToolContext(redact=Redactor({"KEY": "sk-canary-0123456789"}))
    said = registry.dispatch("web_search", {"query": "find sk-canary-0123456789"}, context=context)
    assert "holds a secret" in said
    assert site.asked == []


def test_a_service_that_does_not_answer_is_told(
    site: LoopbackSite, search: Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "SEARCH_SECONDS", 0.3)
    site.put("/search", stream=hold)
    assert "SearXNG does not answer" in search("searxng")["error"]
    monkeypatch.setattr(site, "url", lambda *_: "http://127.0.0.1:1")
    assert "Serper does not answer" in search("serper")["error"]


def make(**web: str) -> Settings:
    return make_settings({"web": web})


def test_the_owners_address_may_be_private_and_metadata_never() -> None:
    """G8: an address in the settings is the owner's word, and there is one thing that it cannot say."""
    for address, words in (
        ("http://169.254.169.254", "never called"),
        ("http://[::ffff:169.254.169.254]", "never called"),
        ("searx.lan", "no address"),
        ("ftp://searx.lan", "no address"),
    ):
        context = ToolContext(settings=make(search_backend="searxng", searxng_url=address))
        said = registry.dispatch("web_search", {"query": "x"}, context=context)
        assert words in json.loads(said)["error"]


# --- which one is asked


def with_keys(*names: str) -> SearchServices:
    return SearchServices([TableService(row, lambda env: KEY if env in names else "") for row in SERVICES])


def test_the_first_that_is_ready_is_asked_or_the_one_that_is_named() -> None:
    none, two = with_keys(), with_keys("EXA_API_KEY", "SERPER_API_KEY")
    assert two.choose(make()).name == "exa"
    assert two.choose(make(search_backend="Serper ")).name == "serper"
    assert two.choose(make(searxng_url="http://searx.lan")).name == "searxng"
    assert two.choose(make(search_backend="brave")).find_missing(make()) == "Brave needs a key (BRAVE_API_KEY)"
    with pytest.raises(ConfigProblem, match="hermes setup web"):
        none.choose(make())
    with pytest.raises(ConfigProblem, match=r"'bing'.*searxng, brave"):
        two.choose(make(search_backend="bing"))


def test_a_service_without_its_key_says_so_when_it_is_called() -> None:
    """A5: a key that is gone takes no tool away; the call tells."""
    context = ToolContext(settings=make(search_backend="brave"))
    assert "BRAVE_API_KEY" in registry.dispatch("web_search", {"query": "x"}, context=context)
    assert "hermes setup web" in registry.dispatch("web_search", {"query": "x"}, context=ToolContext())


def test_another_service_can_be_registered_and_takes_no_name_away() -> None:
    """The seam for plugins."""

    class Own:
        name, label = "own", "Own"

        def find_missing(self, settings: Settings) -> str:
            return ""

        def search(self, query: str, limit: int, *_: Any) -> list[WebHit]:
            return [WebHit(query, "https://a.test", str(limit))]

    class Thief(Own):
        name = "brave"

    known = with_keys()
    assert known.register(Own())
    assert not known.register(Thief())
    assert known.choose(make()).name == "own"
    assert isinstance(known.find("brave"), TableService)
    known.deregister("brave")
    known.deregister("own")
    assert known.names() == [row.name for row in SERVICES]


def test_it_is_offered_once_a_service_is_set_up(home: Any) -> None:
    """Without any the model does not hear of it; a key in `.env`, or an address, is enough."""
    assert not is_offered()
    config.set_value("BRAVE_API_KEY", KEY)
    assert is_offered()
    config.set_value("web.search_backend", "exa")
    assert not is_offered()
    config.set_value("web.search_backend", "searxng")
    config.set_value("web.searxng_url", "http://127.0.0.1:8888")
    assert is_offered()
    (home / "config.yaml").write_text("web: [")  # broken for a moment: as it was
    assert is_offered()


def test_the_web_is_offered_everywhere() -> None:
    for name in PLATFORM_TOOLSETS:
        assert {"web_extract", "web_search"} <= tool_names(registry, [name])


def test_each_service_has_its_settings() -> None:
    for row in SERVICES:
        assert find(f"web.{row.name}_url") is not None
        assert row.from_where
        assert row.key_env == "" or row.key_env.endswith("_API_KEY")
