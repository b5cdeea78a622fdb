"""What calls cost: the list, the owner's own prices, and what the cache saved (A10)."""

import json
import logging
from datetime import date
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent import usage_pricing
from agent.providers.table import PROVIDERS
from agent.usage_pricing import (
    PRICE_FILE,
    CanonicalUsage,
    apply_price,
    find_price,
    has_cache,
    ledger_row,
    read_prices,
    saved_by_cache,
)
from hermes_base.errors import ConfigProblem

LISTED = Path(usage_pricing.__file__).parent / "providers" / PRICE_FILE
MILLION = 1_000_000


def cost_of(usage: CanonicalUsage, provider: str, model: str) -> float | None:
    price = find_price(provider, model)
    return None if price is None else apply_price(price, usage)


def write_own(home: Path, models: dict[str, Any], provider: str = "custom") -> None:
    home.mkdir(exist_ok=True)
    (home / PRICE_FILE).write_text(json.dumps({"providers": {provider: {"models": models}}}), "utf-8")


# --- the list


def test_the_list_says_when_and_where_from() -> None:
    listed = json.loads(LISTED.read_text("utf-8"))
    assert date.fromisoformat(listed["date"])
    assert all(maker["source"] for maker in listed["providers"].values())
    assert set(listed["providers"]) <= set(PROVIDERS)


def test_every_default_model_has_a_price() -> None:
    """A10: what a new owner uses first has a cost."""
    paid = [row for row in PROVIDERS.values() if row.default_model and not row.local]
    assert [row.name for row in paid if find_price(row.name, row.default_model) is None] == []


@pytest.mark.parametrize("name", sorted(read_prices(LISTED)))
def test_the_list_is_in_order(name: str) -> None:
    """A read is never dearer than plain input, a write and an answer never cheaper; long prompts are dearer."""
    for pattern, price in read_prices(LISTED)[name].models.items():
        assert price.cache_read <= price.input <= price.output, pattern
        assert price.input <= price.cache_write <= price.cache_write_long, pattern
        assert price.long is None or (price.long.input > price.input and price.over > 0), pattern


@pytest.mark.parametrize(
    ("provider", "model", "dollars"),
    [
        ("anthropic", "claude-sonnet-4-5", 3.0),
        ("anthropic", "claude-sonnet-4-5-20250929", 3.0),
        ("claude", "Claude-Opus-4.5", 5.0),
        ("anthropic", "claude-opus-4-1", 15.0),
        ("openrouter", "anthropic/claude-sonnet-4.5", 3.0),
        ("openrouter", "google/gemini-2.5-flash", 0.3),
        ("openrouter", "qwen/some-model:free", 0.0),
        ("openai", "gpt-5", 1.25),
        ("openai", "gpt-5-mini-2025-08-07", 0.25),
        ("gemini", "gemini-3-pro-preview-11-2025", 2.0),
        ("ollama", "anything", 0.0),
        ("embedded", "SmolLM2-135M-Instruct", 0.0),
    ],
)
def test_a_model_is_found_under_its_names(provider: str, model: str, dollars: float) -> None:
    price = find_price(provider, model)
    assert price is not None
    assert price.input == dollars


@pytest.mark.parametrize(
    ("provider", "model"),
    [("openai", "gpt-5-next"), ("openai", "gpt-55"), ("custom", "gpt-5"), ("openrouter", "qwen/qwen3"), ("", "")],
)
def test_an_unlisted_model_has_no_price(provider: str, model: str) -> None:
    """A10: no price is better than a wrong one."""
    assert find_price(provider, model) is None
    assert cost_of(CanonicalUsage(1, 1), provider, model) is None
    assert ledger_row(CanonicalUsage(1, 1), provider, model).saved is None


# --- money


def test_each_bucket_has_its_price() -> None:
    """A10: Claude Sonnet 4.5 at 3, 0.30, 3.75, 6 and 15 dollars a million."""
    price = lambda **buckets: cost_of(CanonicalUsage(**buckets), "anthropic", "claude-sonnet-4-5")  # noqa: E731
    assert price(input_tokens=MILLION) == pytest.approx(3.0)
    assert price(cache_read_tokens=MILLION) == pytest.approx(0.3)
    assert price(cache_write_tokens=MILLION) == pytest.approx(3.75)
    assert price(cache_write_tokens=MILLION, cache_write_long_tokens=MILLION) == pytest.approx(6.0)
    assert price(output_tokens=MILLION, reasoning_tokens=MILLION // 2) == pytest.approx(15.0)


def test_what_the_cache_saved() -> None:
    """A10: reads at a tenth of the price save nine tenths; the surcharge of writes is taken off."""
    price = find_price("anthropic", "claude-sonnet-4-5")
    assert price is not None
    saved = lambda **buckets: saved_by_cache(price, CanonicalUsage(**buckets))  # noqa: E731
    assert saved(cache_read_tokens=MILLION) == pytest.approx(2.7)
    assert saved(cache_write_tokens=MILLION) == pytest.approx(-0.75)
    assert saved(cache_write_tokens=MILLION, cache_write_long_tokens=MILLION) == pytest.approx(-3.0)
    assert saved(input_tokens=MILLION, output_tokens=MILLION) == 0


BUCKETS = st.integers(0, 150_000)


@given(BUCKETS, BUCKETS, BUCKETS, BUCKETS, st.sampled_from(["claude-sonnet-4-5", "claude-haiku-5-5"]))
def test_saving_is_the_difference_to_a_call_without_cache(
    new: int, read: int, wrote: int, out: int, model: str
) -> None:
    """A10: with the same tokens as plain input the call would have cost exactly that much more."""
    cached = CanonicalUsage(new, out, read, wrote)
    plain = CanonicalUsage(new + read + wrote, out)
    price = find_price("anthropic", model)
    assert price is not None
    assert saved_by_cache(price, cached) == pytest.approx(apply_price(price, plain) - apply_price(price, cached))


def test_long_prompts_have_their_own_price() -> None:
    """A10: Gemini 2.5 Pro above 200 k tokens, cached ones counted."""
    short, long = CanonicalUsage(input_tokens=200_000), CanonicalUsage(input_tokens=100_000, cache_read_tokens=100_001)
    assert cost_of(short, "gemini", "gemini-2.5-pro") == pytest.approx(0.25)
    assert cost_of(long, "gemini", "gemini-2.5-pro") == pytest.approx(0.25 + 0.025, rel=1e-4)


def test_where_a_cache_is_sold() -> None:
    assert has_cache("anthropic", "claude-sonnet-4-5")
    assert not has_cache("groq", "llama-3.3-70b-versatile")
    assert not has_cache("ollama", "llama3.2")
    assert has_cache("custom", "unknown")


# --- the owner's prices


def test_the_owners_prices_win(home: Path) -> None:
    write_own(home, {"my-*": {"input": 7, "output": 9}, "my-model": {"input": 8, "output": 9, "cache_read": 1}})
    assert cost_of(CanonicalUsage(input_tokens=MILLION), "custom", "my-model") == 8.0
    assert cost_of(CanonicalUsage(input_tokens=MILLION), "custom", "my-other") == 7.0
    assert cost_of(CanonicalUsage(cache_read_tokens=MILLION), "custom", "my-other") == 7.0
    assert cost_of(CanonicalUsage(input_tokens=MILLION), "openai", "gpt-5") == 1.25


def test_the_owner_can_price_a_listed_and_a_local_model(home: Path) -> None:
    own = {
        "openai": {"models": {"gpt-5": {"input": 1, "output": 2}}},
        "ollama": {"models": {"*": {"input": 3, "output": 4}}},
    }
    home.mkdir()
    (home / PRICE_FILE).write_text(json.dumps({"providers": own}), "utf-8")
    assert cost_of(CanonicalUsage(input_tokens=MILLION), "openai", "gpt-5") == 1.0
    assert cost_of(CanonicalUsage(input_tokens=MILLION), "ollama", "llama3.2") == 3.0


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"providers": 3}', '{"providers": {"custom": {"models": {"m": {"input": -1, "output": 1}}}}}',
     '{"providers": {"custom": {"models": {"m": {"input": "1", "output": 1}}}}}',
     '{"providers": {"custom": {"models": {"m": {"input": 1}}}}}', '{"providers": {"custom": []}}'],
)  # fmt: skip
def test_wrong_prices_are_said_and_stop_nothing(home: Path, text: str, caplog: pytest.LogCaptureFixture) -> None:
    """H8"""
    home.mkdir()
    (home / PRICE_FILE).write_text(text, "utf-8")
    with pytest.raises(ConfigProblem, match="cannot be used"):
        read_prices(home / PRICE_FILE)
    with caplog.at_level(logging.WARNING):
        assert cost_of(CanonicalUsage(input_tokens=MILLION), "openai", "gpt-5") == 1.25
    assert "not used" in caplog.text


# --- the ledger


def test_a_ledger_row_has_cost_and_saving() -> None:
    """A8, A10"""
    usage = CanonicalUsage(MILLION, 0, MILLION, 0)
    row = ledger_row(usage, "anthropic", "claude-sonnet-4-5", "title", turn="t1")
    assert (row.kind, row.turn, row.settled) == ("title", "t1", True)
    assert (row.cost, row.saved) == (pytest.approx(3.3), pytest.approx(2.7))


def test_what_the_answer_tells_about_its_cost_wins() -> None:
    """A10: OpenRouter knows what it charged."""
    told = CanonicalUsage(MILLION, cost=0.125)
    assert ledger_row(told, "openrouter", "anthropic/claude-sonnet-4.5").cost == 0.125
    assert ledger_row(told, "openrouter", "unheard/of").cost == 0.125
    assert ledger_row(told, "openrouter", "unheard/of").saved is None


def test_a_call_without_a_count_has_no_price() -> None:
    """A10, A11: it is unsettled, not free."""
    row = ledger_row(None, "anthropic", "claude-sonnet-4-5")
    assert (row.settled, row.cost, row.saved) == (False, None, None)
    assert ledger_row(CanonicalUsage(5), "custom", "unheard-of").cost is None
