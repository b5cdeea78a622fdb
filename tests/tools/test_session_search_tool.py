"""Searching earlier conversations: grouped by session, with date and speaker (G9), without secrets (G6)."""

import json
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import pytest

from hermes_base.errors import StoreFailure
from hermes_base.text.redact import Redactor
from hermes_base.turn.tool_context import ToolContext
from tools.builtin.session_search_tool import DEFAULT_HITS, EXCERPT_CHARS, MAX_HITS
from tools.registry import registry

NOON = datetime(2026, 3, 4, 12, 0).timestamp()


class Store:
    def __init__(self, *hits: Mapping[str, Any]) -> None:
        self.hits = hits
        self.limits: list[int] = []

    def __call__(self, words: str, limit: int) -> Sequence[Mapping[str, Any]]:
        self.limits.append(limit)
        return self.hits[:limit]


def hit(session: str, excerpt: str, role: str = "user", position: int = 1) -> dict[str, Any]:
    return {"session": session, "position": position, "role": role, "excerpt": excerpt, "created": NOON}


def call(args: dict[str, Any], **options: Any) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(registry.dispatch("session_search", args, context=ToolContext(**options)))
    return result


def test_hits_are_shown_by_session_with_date_and_speaker() -> None:
    store = Store(hit("new", "the «cat»"), hit("old", "a «cat»", "tool", 7), hit("new", "«cat» food", "assistant", 2))
    when = "2026-03-04 12:00"
    assert call({"words": "cat"}, search=store, session="old")["sessions"] == [
        {
            "session": "new",
            "said": [
                {"when": when, "by": "user", "position": 1, "excerpt": "the «cat»"},
                {"when": when, "by": "assistant", "position": 2, "excerpt": "«cat» food"},
            ],
        },
        {
            "session": "old",
            "current": True,
            "said": [{"when": when, "by": "tool", "position": 7, "excerpt": "a «cat»"}],
        },
    ]


@pytest.mark.parametrize(
    ("limit", "used"),
    [
        (None, DEFAULT_HITS),
        (5, 5),
        (MAX_HITS, MAX_HITS),
        (1_000, MAX_HITS),
        (0, DEFAULT_HITS),
        (-3, DEFAULT_HITS),
        ("7", DEFAULT_HITS),
        (2.5, DEFAULT_HITS),
    ],
)
def test_the_limit_is_bounded(limit: Any, used: int) -> None:
    store = Store()
    call({"words": "cat", "limit": limit}, search=store)
    assert store.limits == [used]


def test_nothing_found_is_a_sentence() -> None:
    result = call({"words": "cat"}, search=Store())
    assert result["sessions"] == []
    assert "Nothing was found" in result["note"]


@pytest.mark.parametrize("words", [None, "", "  ", 3])
def test_words_are_needed(words: Any) -> None:
    assert "no words" in call({"words": words}, search=Store())["error"]


def test_without_a_store_it_says_so() -> None:
    assert "cannot be searched here" in call({"words": "cat"})["error"]


def test_a_store_that_cannot_search_says_why() -> None:
    def fail(words: str, limit: int) -> Sequence[Mapping[str, Any]]:
        raise StoreFailure("There is no index.", fix="Rebuild it.")

    assert call({"words": "cat"}, search=fail) == {"error": "There is no index. Rebuild it."}


def test_excerpts_are_bounded_and_hold_no_secret() -> None:
    """G6."""
    secret = "sk-canary-0123456789"
    store = Store(hit("a", f"key {secret}"), hit("a", "x" * 5_000))
    said = call({"words": "key"}, search=store, redact=Redactor({"KEY": secret}))["sessions"][0]["said"]
    assert said[0]["excerpt"] == "key [redacted KEY]"
    assert len(said[1]["excerpt"]) == EXCERPT_CHARS
