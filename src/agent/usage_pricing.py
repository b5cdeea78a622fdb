"""Token counts of a model call in disjoint buckets, whatever names a provider gives them."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from hermes_base.journal import UsageRow


@dataclass(frozen=True, slots=True)
class CanonicalUsage:
    """Uncached input, cache read, cache write and output add up to the total; reasoning is a part of output."""

    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0

    @property
    def prompt_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def total_tokens(self) -> int:
        return self.prompt_tokens + self.output_tokens

    def __add__(self, other: "CanonicalUsage") -> "CanonicalUsage":
        return CanonicalUsage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cache_read_tokens + other.cache_read_tokens,
            self.cache_write_tokens + other.cache_write_tokens,
            self.reasoning_tokens + other.reasoning_tokens,
        )

    def as_engine_usage(self) -> dict[str, int]:
        """The buckets under the names that context engines read."""
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.output_tokens,
            "total_tokens": self.total_tokens,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cache_read_tokens": self.cache_read_tokens,
            "cache_write_tokens": self.cache_write_tokens,
            "reasoning_tokens": self.reasoning_tokens,
        }


def ledger_row(usage: CanonicalUsage | None, provider: str, model: str, kind: str = "turn") -> UsageRow:
    """A call as the ledger keeps it; without a count it stays unsettled."""
    counted = usage or CanonicalUsage()
    return UsageRow(
        provider=provider,
        model=model,
        kind=kind,
        input_tokens=counted.input_tokens,
        cache_read_tokens=counted.cache_read_tokens,
        cache_write_tokens=counted.cache_write_tokens,
        output_tokens=counted.output_tokens,
        reasoning_tokens=counted.reasoning_tokens,
        settled=usage is not None,
    )


def usage_from_chat_completions(usage: Mapping[str, Any] | None) -> CanonicalUsage | None:
    """Chat Completions counts cached tokens inside prompt_tokens; here they are taken apart."""
    if not usage:
        return None
    prompt_details = _mapping(usage.get("prompt_tokens_details"))
    output_details = _mapping(usage.get("completion_tokens_details"))
    prompt = _count(usage.get("prompt_tokens"))
    read = _count(prompt_details.get("cached_tokens"))
    written = _count(prompt_details.get("cache_write_tokens"))
    read = min(read, prompt)
    written = min(written, prompt - read)
    return CanonicalUsage(
        input_tokens=prompt - read - written,
        output_tokens=_count(usage.get("completion_tokens")),
        cache_read_tokens=read,
        cache_write_tokens=written,
        reasoning_tokens=_count(output_details.get("reasoning_tokens")),
    )


def _mapping(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _count(value: object) -> int:
    return max(0, int(value)) if isinstance(value, int | float) else 0
