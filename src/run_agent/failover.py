"""What changes when another provider takes over for a turn, as values: the snapshot of the first choice, the chain."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from agent.http.clients import is_oauth_token
from agent.providers.runtime import Runtime
from agent.providers.table import ANTHROPIC_MESSAGES, provider_or_custom
from hermes_base.text.addresses import describe_address


def fallback_chain(option: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None) -> tuple[Mapping[str, Any], ...]:
    """One entry or several, in their order; an entry without a provider and an address is none."""
    entries = [option] if isinstance(option, Mapping) else list(option or ())
    return tuple(entry for entry in entries if entry.get("provider") or entry.get("base_url"))


def describe(runtime: Runtime) -> str:
    """How people know it: the model and who serves it."""
    facts = provider_or_custom(runtime.provider)
    who = f"({facts.label})" if facts.name != "custom" else f"at {describe_address(runtime.base_url)}"
    return f"{runtime.model} {who}"


def snapshot(runtime: Runtime, engine: Any, *, caching: bool) -> dict[str, Any]:
    """The first choice as it was, so that the next turn can have it back."""
    taken = {
        **asdict(runtime),
        "client_kwargs": {"api_key": runtime.api_key, "base_url": runtime.base_url},
        "use_prompt_caching": caching,
        "compressor_model": getattr(engine, "model", runtime.model),
        "compressor_provider": getattr(engine, "provider", runtime.provider),
        "compressor_context_length": getattr(engine, "context_length", runtime.context_length),
        "compressor_threshold_tokens": getattr(engine, "threshold_tokens", 0),
    }
    if runtime.api_mode == ANTHROPIC_MESSAGES:
        taken["anthropic_api_key"] = runtime.api_key
        taken["anthropic_base_url"] = runtime.base_url
        taken["is_anthropic_oauth"] = is_oauth_token(runtime.api_key)
    return taken
