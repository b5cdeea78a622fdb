"""The Chat Completions format: neutral messages to bytes, stream chunks to a Reply. Pure, no network.

A request body is the join of fragments that were encoded once: model, tools, system and messages stand first and in
this order, so that the body of the next request starts with the bytes of this one; what may change from call to call
stands behind the messages.
"""

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from agent.formats.chat_answers import StreamDecoder, find_family
from agent.formats.multimodal import as_words, find_parts
from agent.formats.reply import own_data
from agent.providers.table import Provider
from hermes_base.text.whole_text import encode_text

if TYPE_CHECKING:
    from agent.formats.wire import CallSettings

PATH = "/chat/completions"
read_answer = StreamDecoder
#: Fields of a neutral message that this format knows; everything else stays at home.
_WIRE_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name")
#: Fields without which a message that calls tools is refused, by the family of the provider.
_WANTED_WITH_CALLS: Mapping[str, Mapping[str, str]] = {"deepseek": {"reasoning_content": ""}}
#: The only form that a provider takes for the id of a call.
_CALL_ID_FORMS: Mapping[str, re.Pattern[str]] = {"mistral": re.compile("[a-zA-Z0-9]{9}")}


def encode_json(value: Any) -> bytes:
    """The one way JSON is written to the wire: no spaces, UTF-8, keys in the order they were given."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # half a character
        return encode_text(json.dumps(value, ensure_ascii=False, separators=(",", ":")))


def encode_message(message: Mapping[str, Any], dialect: str) -> bytes:
    fields = {name: message[name] for name in _WIRE_FIELDS if name in message}
    own, family = own_data(message, dialect), find_family(dialect)
    parts = find_parts(fields.get("content")) if fields.get("role") == "tool" else None
    if parts is not None:
        fields["content"] = as_words(parts)
    if fields.get("tool_calls"):
        echoed: Mapping[str, Any] = own.get("calls") or {}
        fields["tool_calls"] = [
            {**call, **echoed.get(call["id"], {}), "id": _fit_call_id(call["id"], family)}
            for call in fields["tool_calls"]
        ]
        fields |= _WANTED_WITH_CALLS.get(family, {})
    if "tool_call_id" in fields:
        fields["tool_call_id"] = _fit_call_id(fields["tool_call_id"], family)
    return encode_json(fields | dict(own.get("fields", {})) if own else fields)


def _fit_call_id(call_id: str, family: str) -> str:
    """The id of a call in the form that this provider takes; the same id always becomes the same one."""
    form = _CALL_ID_FORMS.get(family)
    if form is None or form.fullmatch(call_id):
        return call_id
    return hashlib.sha256(call_id.encode()).hexdigest()[:9]


def encode_system(text: str) -> bytes:
    return encode_json({"role": "system", "content": text}) if text else b""


def encode_tools(tools: Sequence[Mapping[str, Any]]) -> bytes:
    return encode_json(list(tools)) if tools else b""


def join_request(model: str, tools: bytes, system: bytes, messages: Sequence[bytes], tail: Mapping[str, Any]) -> bytes:
    """A request body from frozen fragments; the work grows with the bytes joined, never with their meaning."""
    head = b'{"model":' + encode_json(model)
    if tools:
        head += b',"tools":' + tools
    parts = [system, *messages] if system else list(messages)
    return b"".join((head, b',"messages":[', b",".join(parts), b"],", encode_json(dict(tail))[1:]))


def make_tail(provider: Provider, settings: "CallSettings") -> dict[str, Any]:
    """What stands behind the messages."""
    tail: dict[str, Any] = {"stream": True}
    if provider.asks_for_usage:
        tail["stream_options"] = {"include_usage": True}
    if settings.max_tokens:
        tail[provider.output_limit_field] = settings.max_tokens
    if settings.effort and settings.effort != "none":
        as_object = provider.reasoning_field == "reasoning"
        tail[provider.reasoning_field] = {"effort": settings.effort} if as_object else settings.effort
    if not settings.with_tools:
        tail["tool_choice"] = "none"
    if settings.cache_ttl:  # OpenRouter puts the marks of Claude models where they belong
        tail["cache_control"] = {"type": "ephemeral", "ttl": settings.cache_ttl}
    return tail


def find_error(chunk: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if "error" in chunk:
        problem = chunk["error"]
    elif "choices" in chunk:
        return None
    else:
        problem = chunk if chunk.get("object") == "error" else None  # vLLM
    if not problem:
        return None
    return problem if isinstance(problem, Mapping) else {"message": str(problem)}
