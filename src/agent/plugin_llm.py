"""`ctx.llm`: the owner's model for plugins, as one call for a text and one for data. What differs from the owner's
choice of provider, model, agent or profile needs the owner's consent in the settings.

Each call is charged to the conversation that the plugin works for, if it works for one (A8).
"""

import base64
import json
import logging
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import anyio.to_thread

from agent.auxiliary_client import DEFAULT_TIMEOUT, AuxiliaryCall, complete_once, connect_runtime, find_runtime
from agent.providers.runtime import Runtime
from agent.usage_pricing import ledger_row
from hermes_base.errors import HermesError
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.turn_context import TurnContext, current_turn
from hermes_cli import config as cli_config

log = logging.getLogger(__name__)

_FENCE = re.compile(r"\A\s*```(?:json)?\s*\n(.*?)\n\s*```\s*\Z", re.DOTALL)
_AS_JSON = "Answer with one JSON value and nothing else."


class PluginLlmTrustError(PermissionError):
    """A plugin asks for something that the owner did not allow it."""


@dataclass(frozen=True, slots=True)
class PluginLlmTextInput:
    text: str


@dataclass(frozen=True, slots=True)
class PluginLlmImageInput:
    data: bytes | str = b""
    url: str = ""
    mime_type: str = "image/png"
    file_name: str = ""


@dataclass(frozen=True, slots=True)
class PluginLlmUsage:
    input_tokens: int = 0
    output_tokens: int = 0
    total_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost_usd: float | None = None


@dataclass(frozen=True, slots=True)
class PluginLlmCompleteResult:
    text: str
    provider: str
    model: str
    agent_id: str = ""
    usage: PluginLlmUsage = PluginLlmUsage()
    audit: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class PluginLlmStructuredResult(PluginLlmCompleteResult):
    parsed: Any = None
    content_type: str = "text"


class PluginLlm:
    """The model for one plugin. `read_policy` gives what the owner allows it: `plugins.entries.<plugin>.llm`."""

    def __init__(self, plugin_id: str, read_policy: Callable[[], Mapping[str, Any]]) -> None:
        self._plugin = plugin_id
        self._read_policy = read_policy

    def complete(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> PluginLlmCompleteResult:
        """A text. Options: provider, model, temperature, max_tokens, timeout, agent_id, profile, purpose."""
        return PluginLlmCompleteResult(**self._ask(messages, options))

    def complete_structured(
        self,
        *,
        instructions: str,
        input: Sequence[Any] | str,
        json_schema: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> PluginLlmStructuredResult:
        """Data: the answer read as JSON, or None where it is none. Further options: json_mode, schema_name,
        system_prompt, and those of `complete`."""
        wants_json = bool(json_schema or options.pop("json_mode", False))
        named = options.pop("schema_name", None) or "answer"
        told = [str(options.pop("system_prompt", None) or ""), instructions]
        if wants_json:
            told.append(_AS_JSON)
        if json_schema:
            told.append(f"JSON Schema of {named}: {json.dumps(json_schema, ensure_ascii=False)}")
        parts = [_write_part(item) for item in ([input] if isinstance(input, str) else input)]
        content: Any = parts if any(part["type"] != "text" for part in parts) else _join(parts)
        messages = [
            {"role": "system", "content": "\n\n".join(filter(None, told))},
            {"role": "user", "content": content},
        ]
        found = self._ask(messages, options)
        parsed = _read_json(found["text"]) if wants_json else None
        return PluginLlmStructuredResult(**found, parsed=parsed, content_type="json" if parsed is not None else "text")

    async def acomplete(self, messages: Sequence[Mapping[str, Any]], **options: Any) -> PluginLlmCompleteResult:
        return await anyio.to_thread.run_sync(lambda: self.complete(messages, **options))

    async def acomplete_structured(self, **options: Any) -> PluginLlmStructuredResult:
        return await anyio.to_thread.run_sync(lambda: self.complete_structured(**options))

    def _ask(self, messages: Sequence[Mapping[str, Any]], options: Mapping[str, Any]) -> dict[str, Any]:
        unknown = options.keys() - _OPTIONS
        if unknown:
            raise TypeError(f"ctx.llm does not know {', '.join(sorted(unknown))}")
        runtime = self._find_runtime(options)
        call = AuxiliaryCall(
            messages,
            kind=f"plugin:{self._plugin}",
            max_tokens=options.get("max_tokens"),
            temperature=options.get("temperature"),
            timeout=float(options.get("timeout") or DEFAULT_TIMEOUT),
        )
        turn = current_turn.get() or TurnContext(CancelToken())
        try:
            reply = complete_once(connect_runtime(runtime), call, turn.charge, turn.cancel)
        except HermesError as problem:
            raise RuntimeError(str(problem)) from problem
        audit = {"plugin_id": self._plugin, "purpose": options.get("purpose") or "", "session_id": turn.session}
        log.info("plugin %s asked %s (%s)", self._plugin, runtime.model, audit["purpose"] or "no purpose given")
        used = reply.usage
        counted = PluginLlmUsage()
        if used is not None:
            cost = ledger_row(used, runtime.provider, runtime.model).cost
            buckets = used.as_engine_usage()
            counted = PluginLlmUsage(
                **{name: buckets[name] for name in PluginLlmUsage.__dataclass_fields__ if name in buckets},
                cost_usd=cost,
            )
        return {
            "text": reply.text,
            "provider": runtime.provider,
            "model": reply.model or runtime.model,
            "agent_id": options.get("agent_id") or "",
            "usage": counted,
            "audit": audit,
        }

    def _find_runtime(self, options: Mapping[str, Any]) -> Runtime:
        policy = self._read_policy()
        for name, gate, listed in _GATES:
            value = options.get(name)
            if not value:
                continue
            allowed = policy.get(listed) if listed else None
            if policy.get(gate) is not True or (allowed and value not in allowed and "*" not in allowed):
                setting = f"plugins.entries.{self._plugin}.llm.{gate}"
                raise PluginLlmTrustError(
                    f"The plugin {self._plugin} may not choose the {name} ({value}). To allow it: hermes config set "
                    f"{setting} true"
                )
        settings = cli_config.load_settings()
        return find_runtime(settings, model=options.get("model") or "", provider=options.get("provider") or "")


_OPTIONS = frozenset({"provider", "model", "temperature", "max_tokens", "timeout", "agent_id", "profile", "purpose"})
#: Options that need consent: the setting that gives it, and the one that lists which values are meant.
_GATES = (
    ("provider", "allow_provider_override", "allowed_providers"),
    ("model", "allow_model_override", "allowed_models"),
    ("agent_id", "allow_agent_id_override", ""),
    ("profile", "allow_profile_override", ""),
)


def _write_part(item: Any) -> dict[str, Any]:
    """An item of a structured input, in the form of OpenAI's messages."""
    if isinstance(item, str):
        return {"type": "text", "text": item}
    get = item.get if isinstance(item, Mapping) else lambda name, default=None: getattr(item, name, default)
    text = get("text")
    if isinstance(text, str):
        return {"type": "text", "text": text}
    url, data = get("url"), get("data")
    if not url:
        encoded = base64.b64encode(data).decode() if isinstance(data, bytes) else str(data or "")
        url = f"data:{get('mime_type', 'image/png')};base64,{encoded}"
    return {"type": "image_url", "image_url": {"url": url}}


def _join(parts: Sequence[Mapping[str, Any]]) -> str:
    return "\n\n".join(str(part["text"]) for part in parts)


def _read_json(text: str) -> Any:
    fenced = _FENCE.match(text)
    try:
        return json.loads(fenced[1] if fenced else text)
    except ValueError:
        return None
