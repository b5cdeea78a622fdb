"""The Chat Completions format: neutral messages to bytes, stream chunks to a Reply. Pure, no network.

A request body is the join of fragments that were encoded once: model, tools, system and messages stand first and in
this order, so that the body of the next request starts with the bytes of this one; what may change from call to call
stands behind the messages.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.providers import Provider
from agent.reply import Reply, ToolCall, make_own_data, own_data
from agent.usage_pricing import CanonicalUsage, usage_from_chat_completions

if TYPE_CHECKING:
    from agent.wire import CallSettings

PATH = "/chat/completions"
#: Fields of a neutral message that this format knows; everything else stays at home.
_WIRE_FIELDS = ("role", "content", "tool_calls", "tool_call_id", "name")
#: Fields of an answer that some providers want back exactly as they sent them, by the family of the provider.
_ECHOED_FIELDS: Mapping[str, tuple[str, ...]] = {"openrouter": ("reasoning_details",)}


def encode_json(value: Any) -> bytes:
    """The one way JSON is written to the wire: no spaces, UTF-8, keys in the order they were given."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "replace")


def encode_message(message: Mapping[str, Any], dialect: str) -> bytes:
    fields = {name: message[name] for name in _WIRE_FIELDS if name in message}
    return encode_json(fields | dict(own_data(message, dialect).get("fields", {})))


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
    return tail


def find_error(chunk: Mapping[str, Any]) -> Mapping[str, Any] | None:
    problem = chunk.get("error")
    if not problem:
        return None
    return problem if isinstance(problem, Mapping) else {"message": str(problem)}


def read_answer(
    dialect: str,
    on_text: Callable[[str], None] | None = None,
    on_reasoning: Callable[[str], None] | None = None,
) -> "StreamDecoder":
    return StreamDecoder(dialect, on_text, on_reasoning)


class StreamDecoder:
    """Collects the chunks of one streamed answer; `reply()` is only right when `whole` is True."""

    def __init__(
        self,
        dialect: str = "",
        on_text: Callable[[str], None] | None = None,
        on_reasoning: Callable[[str], None] | None = None,
    ) -> None:
        self._dialect = dialect
        self._echoed = _ECHOED_FIELDS.get(dialect.partition("/")[2], ())
        self._echo: dict[str, list[Any]] = {}
        self._on_text = on_text
        self._on_reasoning = on_reasoning
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._calls: dict[int, dict[str, str]] = {}
        self._finish_reason = ""
        self._usage: CanonicalUsage | None = None
        self._model = ""
        self.whole = False  # the end was seen: a finish reason or [DONE]

    @property
    def text(self) -> str:
        return "".join(self._text)

    def feed(self, chunk: Mapping[str, Any]) -> None:
        if chunk.get("usage"):
            self._usage = usage_from_chat_completions(chunk["usage"])
        self._model = self._model or str(chunk.get("model") or "")
        for choice in chunk.get("choices") or ():
            self._take_delta(choice.get("delta") or choice.get("message") or {})
            if choice.get("finish_reason"):
                self._finish_reason = str(choice["finish_reason"])
                self.whole = True

    def finish(self) -> None:
        """[DONE] was read."""
        self.whole = True

    def reply(self) -> Reply:
        calls = tuple(
            ToolCall(call["id"] or f"call_{place}", call["name"], call["arguments"] or "{}")
            for place, call in sorted(self._calls.items())
            if call["name"]
        )
        return Reply(
            text=self.text,
            reasoning="".join(self._reasoning),
            tool_calls=calls,
            finish_reason=self._finish_reason or ("tool_calls" if calls else "stop"),
            usage=self._usage,
            model=self._model,
            extra=make_own_data(self._dialect, fields=self._echo) if self._echo else {},
        )

    def _take_delta(self, delta: Mapping[str, Any]) -> None:
        text = delta.get("content")
        if text:
            self._text.append(text)
            if self._on_text:
                self._on_text(text)
        reasoning = delta.get("reasoning_content") or delta.get("reasoning")
        if isinstance(reasoning, str) and reasoning:
            self._reasoning.append(reasoning)
            if self._on_reasoning:
                self._on_reasoning(reasoning)
        for name in self._echoed:
            if delta.get(name):
                self._echo.setdefault(name, []).extend(delta[name])
        for position, part in enumerate(delta.get("tool_calls") or ()):
            self._take_call_part(int(part.get("index", position)), part)

    def _take_call_part(self, place: int, part: Mapping[str, Any]) -> None:
        call = self._calls.setdefault(place, {"id": "", "name": "", "arguments": ""})
        function = part.get("function") or {}
        call["id"] = call["id"] or str(part.get("id") or "")
        call["name"] = call["name"] or str(function.get("name") or "")
        call["arguments"] += str(function.get("arguments") or "")
