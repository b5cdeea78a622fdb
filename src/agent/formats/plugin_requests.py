"""What the plugin of a provider has a say in, put into a request: fields behind the messages, and the messages as sent.

What stands behind the messages moves no prefix. `prepare_messages` changes the bytes in front of it: it is called only
where a plugin has its own, and a plugin that writes the same messages differently from call to call pays full price.
"""

import copy
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from agent.formats.chat_completions import encode_json
from agent.formats.wire import CallSettings, Dialect
from agent.providers.profile_calls import ask_profile, overrides
from agent.providers.table import CHAT_COMPLETIONS, Provider
from providers.base import OMIT_TEMPERATURE, ProviderProfile

#: What is ours to say; the last four are arguments of an SDK's call and no part of a body.
_NOT_THEIRS = frozenset(
    {"model", "messages", "tools", "stream", "input", "system", "extra_body", "extra_headers", "extra_query", "timeout"}
)


@dataclass(frozen=True, slots=True)
class RequestFacts:
    """What a profile is told of a request, beside its settings."""

    base_url: str = ""
    session_id: str = ""
    temperature: float | None = None


def make_tail(dialect: Dialect, facts: Provider, settings: CallSettings, request: RequestFacts) -> dict[str, Any]:
    """What stands behind the messages: the format's own, and what the provider's plugin adds."""
    profile = facts.profile
    tail = dialect.format.make_tail(facts, settings if profile is None else _fit_settings(profile, facts, settings))
    if request.temperature is not None:
        tail["temperature"] = request.temperature
    if profile is None:
        return tail
    tail |= _find_fields(profile, facts, settings, request)
    if profile.fixed_temperature is OMIT_TEMPERATURE:
        tail.pop("temperature", None)
    elif profile.fixed_temperature is not None:
        tail["temperature"] = profile.fixed_temperature
    return tail


def _fit_settings(profile: ProviderProfile, facts: Provider, settings: CallSettings) -> CallSettings:
    """The owner's output limit, else the plugin's. A plugin that says how reasoning is asked for is the one to ask."""
    limit = settings.max_tokens
    if not limit:
        told = ask_profile(facts, "get_max_tokens", lambda: profile.get_max_tokens(settings.model), None)
        limit = told if isinstance(told, int) and told > 0 else None
    reasoning = None if overrides(facts, "build_api_kwargs_extras") else settings.reasoning
    return replace(settings, max_tokens=limit, reasoning=reasoning)


def _find_fields(
    profile: ProviderProfile, facts: Provider, settings: CallSettings, request: RequestFacts
) -> dict[str, Any]:
    told: dict[str, Any] = {
        "model": settings.model,
        "base_url": request.base_url,
        "reasoning_config": copy.deepcopy(dict(settings.reasoning)) if settings.reasoning else None,
        "session_id": request.session_id or None,
        "supports_reasoning": True,
        "provider_preferences": None,
    }
    nothing: dict[str, Any] = {}
    fields = ask_profile(facts, "build_extra_body", lambda: dict(profile.build_extra_body(**told) or {}), nothing)

    def build_extras() -> dict[str, Any]:
        body, arguments = profile.build_api_kwargs_extras(**told)
        inner = arguments.get("extra_body") if arguments else None
        return {**(body or {}), **(arguments or {}), **(inner if isinstance(inner, Mapping) else {})}

    fields = fields | ask_profile(facts, "build_api_kwargs_extras", build_extras, nothing)
    return {name: value for name, value in fields.items() if name not in _NOT_THEIRS}


def prepare_body(dialect: Dialect, facts: Provider, body: bytes) -> bytes:
    """The body with its messages as the provider's plugin wants them; the same bytes where it has no wish."""
    profile = facts.profile
    if profile is None or dialect.api_mode != CHAT_COMPLETIONS or not overrides(facts, "prepare_messages"):
        return body
    request = json.loads(body)
    messages = request["messages"]
    prepared = ask_profile(facts, "prepare_messages", lambda: profile.prepare_messages(copy.deepcopy(messages)), None)
    if not isinstance(prepared, list) or prepared == messages:
        return body
    return encode_json(request | {"messages": prepared})
