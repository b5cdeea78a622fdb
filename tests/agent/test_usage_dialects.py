"""A9: what each provider documents about its usage becomes the same disjoint buckets."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers.table import PROVIDERS
from agent.usage_pricing import (
    CanonicalUsage,
    usage_from_anthropic,
    usage_from_chat_completions,
    usage_from_responses,
)

FIXTURES = sorted((Path(__file__).parent / "usage_fixtures").glob("*.json"))
DECODERS: Mapping[str, Callable[[Mapping[str, Any], str], CanonicalUsage | None]] = {
    "chat_completions": lambda body, dialect: usage_from_chat_completions(body["usage"], dialect),
    "responses": lambda body, _: usage_from_responses(body["usage"]),
    "anthropic": lambda body, _: usage_from_anthropic(body["usage"]),
    "anthropic_stream": lambda body, _: usage_from_anthropic(body["message_start"], body["message_delta"]),
}


def read(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.read_text("utf-8"))
    return found


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_documented_usage_becomes_disjoint_buckets(path: Path) -> None:
    """A9: uncached input, cache read, cache write and output; reasoning is a part of output."""
    fixture = read(path)
    usage = DECODERS[fixture["format"]](fixture["body"], fixture["dialect"])
    assert usage == CanonicalUsage(**fixture["expected"])
    assert usage.reasoning_tokens <= usage.output_tokens
    assert usage.cache_write_long_tokens <= usage.cache_write_tokens
    total = fixture["body"].get("usage", {}).get("total_tokens")
    assert total in (None, usage.total_tokens)


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_the_buckets_do_not_hang_on_knowing_the_provider(path: Path) -> None:
    """A9: behind a gateway or an address of the owner's the dialect is not known."""
    fixture = read(path)
    assert DECODERS[fixture["format"]](fixture["body"], "") == CanonicalUsage(**fixture["expected"])


def test_every_provider_has_a_documented_answer() -> None:
    """A9: a provider in the table without a fixture would be a guess."""
    documented = {read(path)["dialect"] for path in FIXTURES}
    assert set(PROVIDERS) - documented <= {"custom", "embedded"}  # the formats of others


def test_reasoning_beside_the_completion_needs_no_total() -> None:
    """A9: xAI counts reasoning beside completion_tokens, OpenAI inside."""
    counts = {"prompt_tokens": 5, "completion_tokens": 9, "completion_tokens_details": {"reasoning_tokens": 7}}
    beside, inside = usage_from_chat_completions(counts, "xai"), usage_from_chat_completions(counts, "openai")
    assert (beside, inside) == (CanonicalUsage(5, 16, reasoning_tokens=7), CanonicalUsage(5, 9, reasoning_tokens=7))


@pytest.mark.parametrize("decode", [usage_from_chat_completions, usage_from_responses, usage_from_anthropic])
@pytest.mark.parametrize("told", [None, {}, {"queue_time": 0.1}, {"prompt_tokens": None}, [], "text", 7])
def test_an_answer_without_counts_has_no_usage(decode: Callable[[Any], CanonicalUsage | None], told: Any) -> None:
    """A11 needs it: such a call stays unsettled instead of being free."""
    assert decode(told) is None


def test_sums_keep_the_buckets_and_what_was_told_about_money() -> None:
    """A9"""
    one, two = CanonicalUsage(1, 2, 3, 4, 1, 2, cost=0.5), CanonicalUsage(10, 20, 30, 40, 10, 20)
    assert one + two == CanonicalUsage(11, 22, 33, 44, 11, 22, cost=0.5)
    assert (two + two).cost is None
    assert (one + one).cost == 1.0


NAMES = st.sampled_from(
    sorted({name for path in FIXTURES for name in read(path)["body"].get("usage", {})} | {"cache_creation"})
)
ODD = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=3), st.just(10**400), st.just(-(10**400))
)


@given(
    usage=st.dictionaries(NAMES, ODD | st.dictionaries(NAMES | st.just("cached_tokens"), ODD, max_size=3)),
    delta=st.dictionaries(NAMES, ODD),
    dialect=st.sampled_from(["", "xai", "gemini"]),
)
def test_nonsense_never_raises(usage: dict[str, Any], delta: dict[str, Any], dialect: str) -> None:
    """A9: whatever a server sends, the buckets are counts, and the parts are parts."""
    for counted in (
        usage_from_chat_completions(usage, dialect),
        usage_from_responses(usage),
        usage_from_anthropic(usage, delta),
    ):
        if counted is None:
            continue
        buckets = [counted.input_tokens, counted.output_tokens, counted.cache_read_tokens, counted.cache_write_tokens]
        assert all(isinstance(count, int) and 0 <= count < 10**13 for count in buckets)
        assert 0 <= counted.reasoning_tokens <= counted.output_tokens
        assert 0 <= counted.cache_write_long_tokens <= counted.cache_write_tokens
        assert counted.cost is None or 0 <= counted.cost < 10**13
