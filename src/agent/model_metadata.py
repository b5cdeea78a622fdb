"""How much a model takes in: windows as data, and rough token counts where no real one is known yet."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hermes_base.turn.journal import rough_bytes

MINIMUM_CONTEXT_LENGTH = 64_000
DEFAULT_FALLBACK_CONTEXT = 256_000

#: The first entry whose text occurs in the model's name wins, so longer names stand before their families.
WINDOWS: tuple[tuple[str, int], ...] = (
    ("smollm2", 8_192),
    ("claude", 200_000),
    ("gpt-5", 400_000),
    ("gpt-4.1", 1_047_576),
    ("gpt-4o", 128_000),
    ("gpt-4-turbo", 128_000),
    ("gpt-oss", 131_072),
    ("o3", 200_000),
    ("o4-mini", 200_000),
    ("gemini", 1_048_576),
    ("gemma-3", 131_072),
    ("deepseek", 128_000),
    ("grok-4-fast", 2_000_000),
    ("grok-4", 256_000),
    ("grok", 131_072),
    ("glm-4.6", 200_000),
    ("glm", 128_000),
    ("kimi-k2", 262_144),
    ("minimax", 204_800),
    ("mistral", 131_072),
    ("codestral", 262_144),
    ("qwen3-coder", 262_144),
    ("qwen3-max", 262_144),
    ("qwen", 131_072),
    ("llama-4", 1_048_576),
    ("llama-3", 131_072),
    ("llama3", 131_072),
    ("hermes-4", 131_072),
    ("hermes-3", 131_072),
)


def get_model_context_length(
    model: str,
    base_url: str = "",
    api_key: str = "",
    config_context_length: int | None = None,
    provider: str = "",
    custom_providers: Sequence[Mapping[str, Any]] | None = None,
) -> int:
    """The window in tokens: what the owner declared, else the catalogue, else a default. Never raises."""
    del api_key, provider  # part of the interface that plugins call; the catalogue needs neither
    address = base_url.rstrip("/")
    same = (each for each in custom_providers or () if address and str(each.get("base_url", "")).rstrip("/") == address)
    declared = config_context_length or next(same, {}).get("context_length")
    if isinstance(declared, int) and declared > 0:
        return declared
    name = str(model or "").lower()
    return next((window for part, window in WINDOWS if part in name), DEFAULT_FALLBACK_CONTEXT)


def estimate_tokens_rough(text: str | None) -> int:
    """About four characters a token."""
    return (len(text) + 3) // 4 if text else 0


def estimate_messages_tokens_rough(messages: Sequence[Mapping[str, Any]]) -> int:
    return sum((rough_bytes(message) + 3) // 4 for message in messages)


def estimate_request_tokens_rough(
    messages: Sequence[Mapping[str, Any]],
    *,
    system_prompt: str = "",
    tools: Sequence[Mapping[str, Any]] | None = None,
) -> int:
    """Messages, system prompt and tool schemas together."""
    schemas = json.dumps(list(tools), ensure_ascii=False, default=str) if tools else ""
    return (
        estimate_messages_tokens_rough(messages) + estimate_tokens_rough(system_prompt) + estimate_tokens_rough(schemas)
    )
