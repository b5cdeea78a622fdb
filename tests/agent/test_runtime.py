"""Which model answers: a table of what is set and what is chosen; the providers' data is whole."""

from collections.abc import Mapping, Sequence
from typing import Any

import pytest

from agent.model_metadata import DEFAULT_FALLBACK_CONTEXT, get_model_context_length
from agent.providers.runtime import needs_key, resolve_runtime, runtime_of_entry
from agent.providers.table import PROVIDERS, find_provider
from hermes_base.errors import ConfigProblem
from hermes_base.setting_table import make_settings

OLLAMA = PROVIDERS["ollama"].base_url


def nobody(addresses: Sequence[str]) -> Mapping[str, Sequence[str]]:
    return {}


def only_ollama(addresses: Sequence[str]) -> Mapping[str, Sequence[str]]:
    return {OLLAMA: ["qwen3:8b", "other"]} if OLLAMA in addresses else {}


CASES = [
    # settings of `model`, environment, who answers here -> provider, model
    ({}, {}, nobody, ("embedded", "SmolLM2-135M-Instruct")),
    ({}, {}, only_ollama, ("ollama", "qwen3:8b")),
    ({"default": "mine"}, {}, only_ollama, ("ollama", "mine")),
    ({}, {"OPENAI_API_KEY": "k"}, only_ollama, ("openai", PROVIDERS["openai"].default_model)),
    ({}, {"OPENAI_API_KEY": " "}, nobody, ("embedded", "SmolLM2-135M-Instruct")),
    (
        {},
        {"OPENAI_API_KEY": "k", "OPENROUTER_API_KEY": "k"},
        nobody,
        ("openrouter", PROVIDERS["openrouter"].default_model),
    ),
    ({"provider": "anthropic"}, {"OPENAI_API_KEY": "k"}, nobody, ("anthropic", PROVIDERS["anthropic"].default_model)),
    ({"provider": "Claude", "default": "opus"}, {}, nobody, ("anthropic", "opus")),
    ({"base_url": "http://h/v1", "default": "m"}, {"OPENAI_API_KEY": "k"}, nobody, ("custom", "m")),
    ({"provider": "ollama"}, {}, only_ollama, ("ollama", "qwen3:8b")),
    ({"provider": "embedded"}, {"OPENAI_API_KEY": "k"}, nobody, ("embedded", "SmolLM2-135M-Instruct")),
]


@pytest.mark.parametrize(("section", "env", "probe", "expected"), CASES)
def test_what_is_set_decides(section: Any, env: Any, probe: Any, expected: tuple[str, str]) -> None:
    """H1: with nothing set at all, something answers."""
    found = resolve_runtime(make_settings({"model": section}), env, probe)
    assert (found.provider, found.model) == expected


@pytest.mark.parametrize(
    ("section", "said"),
    [
        ({"provider": "opnai"}, "no provider called 'opnai'"),
        ({"provider": "custom"}, "hermes config set model.base_url"),
        ({"provider": "ollama"}, "no model server answers"),
        ({"default": "gpt-5"}, "Nobody here serves 'gpt-5'"),
    ],
)
def test_what_cannot_be_decided_gets_a_sentence(section: Any, said: str) -> None:
    with pytest.raises(ConfigProblem) as problem:
        resolve_runtime(make_settings({"model": section}), {}, nobody)
    assert said in str(problem.value)


def test_without_the_built_in_model_the_sentence_says_what_to_set() -> None:
    with pytest.raises(ConfigProblem, match="OPENROUTER_API_KEY"):
        resolve_runtime(make_settings({}), {}, nobody, embedded_found=False)


def test_the_callers_choice_wins_over_the_settings() -> None:
    env = {"GROQ_API_KEY": "k"}
    found = resolve_runtime(make_settings({"model": {"provider": "openai"}}), env, nobody, model="m", provider="groq")
    assert (found.provider, found.model, found.api_key) == ("groq", "m", "k")


def test_a_declared_window_wins_over_the_catalogue() -> None:
    """E11"""
    settings = make_settings({"model": {"provider": "openai", "context_length": 9000}})
    assert resolve_runtime(settings, {}, nobody).context_length == 9000
    assert get_model_context_length("anthropic/claude-sonnet-4.5") == 200_000
    assert get_model_context_length("never-heard-of") == DEFAULT_FALLBACK_CONTEXT
    assert get_model_context_length(None) == DEFAULT_FALLBACK_CONTEXT  # type: ignore[arg-type]


def test_a_fallback_entry_is_made_complete() -> None:
    """D6"""
    found = runtime_of_entry({"provider": "deepseek"}, {"DEEPSEEK_API_KEY": "k"})
    assert (found.base_url, found.api_key, found.api_mode) == (PROVIDERS["deepseek"].base_url, "k", "chat_completions")
    assert found.model
    assert found.context_length == 128_000


@pytest.mark.parametrize("name", PROVIDERS)
def test_every_provider_is_whole(name: str) -> None:
    facts = find_provider(name)
    assert facts.name == name
    assert facts.label
    assert facts.base_url.startswith(("https://", "http://127.0.0.1:")) or name in ("custom", "embedded")
    assert bool(facts.key_env) != (facts.local or name == "embedded")
    assert needs_key(facts, facts.base_url) == (bool(facts.key_env) and name != "custom")
