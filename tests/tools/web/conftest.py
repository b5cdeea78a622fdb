"""A site on loopback under names of its own, and a call of the tool as the loop makes it."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from loopback_site import Extract, LoopbackSite, SiteNames, make_context, open_site

from hermes_base.turn.tool_context import ToolContext
from tools.builtin import web_extract_tool, web_search_tool  # noqa: F401 - register themselves
from tools.registry import registry
from tools.web import page_fetching
from tools.web.page_store import pages


@pytest.fixture
def names(monkeypatch: pytest.MonkeyPatch) -> SiteNames:
    """What names lead to. `site.test` stands for a site of the world: its address is allowed."""
    known = SiteNames(site_test=[["127.0.0.1"]])
    monkeypatch.setattr(page_fetching, "resolve", known)
    return known


@pytest.fixture
def site(names: SiteNames) -> Iterator[LoopbackSite]:
    with open_site() as running:
        yield running
    pages.forget("task")


@pytest.fixture
def extract() -> Extract:
    def call(url: Any, context: ToolContext | None = None, **args: Any) -> dict[str, Any]:
        said = registry.dispatch("web_extract", {"url": url, **args}, context=context or make_context())
        result: dict[str, Any] = json.loads(said)
        return result

    return call
