"""The Chat Completions format: neutral messages to bytes, an answer to a Reply, in whichever way a provider streams it.
Pure, no network.

A request body is the join of fragments that were encoded once: model, tools, system and messages stand first and in
this order, so that the body of the next request starts with the bytes of this one; what may change from call to call
stands behind the messages. What providers do in their own way is told by tables: names of fields, reasons to stop.
"""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import msgspec

from agent.formats.multimodal import as_words, find_parts
from agent.formats.reply import OWN_DATA, Reply, Tell, ToolCall, make_own_data, own_data
from agent.providers.table import Provider
from agent.usage_pricing import usage_from_chat_completions
from hermes_base.text.whole_text import encode_text

if TYPE_CHECKING:
    from agent.formats.wire import CallSettings

PATH = "/chat/completions"
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
    own, family = own_data(message, dialect) if OWN_DATA in message else {}, find_family(dialect)
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
    effort = settings.effort if settings.reasoning else ""
    if effort and effort != "none":
        as_object = provider.reasoning_field == "reasoning"
        tail[provider.reasoning_field] = {"effort": effort} if as_object else effort
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


# --- answers


#: Fields of an answer that some providers want back exactly as they sent them, by the family of the provider.
_ECHOED_FIELDS: Mapping[str, tuple[str, ...]] = {
    "openrouter": ("reasoning_details",),
    "deepseek": ("reasoning_content",),
}
#: The same for fields of a tool call (Gemini signs its calls).
_ECHOED_CALL_FIELDS: Mapping[str, tuple[str, ...]] = {"gemini": ("extra_content",)}
#: Reasons to stop, in small letters; all others mean that the model was done, or calls tools.
_FINISH_REASONS: Mapping[str, str] = {
    "length": "length",
    "max_tokens": "length",
    "max_output_tokens": "length",
    "model_length": "length",  # Mistral: the window is full
    "model_context_window_exceeded": "length",
    "content_filter": "content_filter",
    "content-filter": "content_filter",
    "refusal": "content_filter",
    "safety": "content_filter",  # Gemini, and the next four
    "recitation": "content_filter",
    "blocklist": "content_filter",
    "prohibited_content": "content_filter",
    "spii": "content_filter",
    "sensitive": "content_filter",  # Z.ai
}
#: The provider gave up in the middle: what came is not the answer.
_BROKEN_REASONS = frozenset(
    {"error", "abort", "network_error", "insufficient_system_resource", "malformed_function_call"}
)
#: The parts of a piece of sealed reasoning that arrive in pieces.
_GROWING = ("text", "summary", "data")
#: The marks of local models, and of Gemini when it is asked for its thoughts.
_THOUGHT_MARKS = (
    ("<think>", "</think>"),
    ("<thinking>", "</thinking>"),
    ("<thought>", "</thought>"),
    ("[THINK]", "[/THINK]"),
)
#: How a text begins that begins with no such mark.
_PLAIN_START = re.compile(r"\s*[^\s<\[]")


@lru_cache
def find_family(dialect: str) -> str:
    """The kind of provider in the name of a dialect: `chat_completions/openrouter/plain` is OpenRouter's."""
    return "".join(dialect.split("/")[1:2])


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    arguments: list[str] = field(default_factory=list)
    own: dict[str, Any] = field(default_factory=dict)

    @property
    def finished(self) -> bool:
        """The arguments are a whole JSON object."""
        try:
            return isinstance(json.loads("".join(self.arguments)), dict)
        except (ValueError, RecursionError):
            return False


class StreamDecoder:
    """Collects the chunks of one streamed answer; `reply()` is only right when `whole` is True."""

    def __init__(self, dialect: str = "", on_text: Tell | None = None, on_reasoning: Tell | None = None) -> None:
        self._dialect = dialect
        self._family = find_family(dialect)
        self._echoed = _ECHOED_FIELDS.get(self._family, ())
        self._echo: dict[str, list[Any]] = {}
        self._on_text = on_text
        self._on_reasoning = on_reasoning
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._thoughts: ThoughtSplitter | None = None  # while the text begins like a mark of thoughts
        self._begun = False  # the answer itself has begun, and everything after it is text
        self._calls: _CallCollector | None = None
        self._finish_reason = ""
        self._refused = False
        self._broken = False
        self._usage: Mapping[str, Any] | None = None
        self._model = ""
        self.whole = False  # the end was seen: a finish reason or [DONE]

    @property
    def text(self) -> str:
        return "".join(self._text)

    def feed(self, chunk: Mapping[str, Any]) -> None:
        if chunk.get("usage"):
            self._usage = chunk["usage"]
        if not self._model:
            self._model = str(chunk.get("model") or "")
        for choice in chunk.get("choices") or ():
            if choice.get("index"):  # a second answer beside the first, which nobody asked for
                continue
            delta = choice.get("delta")
            message = None if delta else choice.get("message")  # the whole answer in one document
            delta = delta or message or {}
            for name, value in delta.items():
                if value and name in _TAKERS:
                    _TAKERS[name](self, value, delta)
            for name in self._echoed:
                if delta.get(name):
                    self._echo.setdefault(name, []).append(delta[name])
            reason = choice.get("finish_reason")
            if reason or message:
                self._settle()
                self._finish_reason = str(reason or "").lower()
                self._broken = self._finish_reason in _BROKEN_REASONS
                self.whole = not self._broken
                if self._usage is None:
                    self._usage = (chunk.get("x_groq") or {}).get("usage")

    def finish(self) -> None:
        """[DONE] was read."""
        self._settle()
        self.whole = not self._broken

    def reply(self) -> Reply:
        calls = self._calls.read() if self._calls is not None else ()
        # Some say "stop" although they call tools, so the calls themselves decide.
        reason = _FINISH_REASONS.get(self._finish_reason) or ("tool_calls" if calls else "stop")
        own: dict[str, Any] = {}
        if self._echo:
            own["fields"] = {name: _merge_echo(values) for name, values in self._echo.items()}
        if self._calls is not None and self._calls.own:
            own["calls"] = self._calls.own
        return Reply(
            text="".join(self._text),
            reasoning="".join(self._reasoning),
            tool_calls=calls,
            finish_reason="content_filter" if self._refused else reason,
            usage=usage_from_chat_completions(self._usage, self._family),
            model=self._model,
            extra=make_own_data(self._dialect, **own) if own else {},
        )

    # --- one function for each field of a delta

    def _take_content(self, content: Any, _delta: Mapping[str, Any]) -> None:
        if not isinstance(content, str):
            self._take_parts(content)
        elif self._begun or (self._thoughts is None and _PLAIN_START.match(content)):
            self._begun = True
            self._text.append(content)
            if self._on_text:
                self._on_text(content)
        else:
            self._thoughts = self._thoughts or ThoughtSplitter(self._tell_text, self._tell_reasoning)
            self._begun = self._thoughts.feed(content)

    def _take_parts(self, parts: Sequence[Any]) -> None:
        """Mistral's reasoning models send parts: text, and thoughts that consist of parts themselves."""
        if not isinstance(parts, list):
            raise TypeError("a piece of text is no text")
        for part in parts:
            if isinstance(part, str):
                self._take_content(part, {})
            elif part.get("type") == "thinking":
                thought = part.get("thinking") or ()
                texts = (str(each.get("text") or "") for each in thought if isinstance(each, Mapping))
                self._tell_reasoning(thought if isinstance(thought, str) else "".join(texts))
            elif part.get("text"):
                self._take_content(part["text"], {})

    def _take_refusal(self, text: Any, _delta: Mapping[str, Any]) -> None:
        self._refused = True
        self._settle()
        self._tell_text(str(text))

    def _take_reasoning(self, text: Any, _delta: Mapping[str, Any]) -> None:
        if isinstance(text, str):
            self._reasoning.append(text)
            if self._on_reasoning:
                self._on_reasoning(text)

    def _take_second_name(self, text: Any, delta: Mapping[str, Any]) -> None:
        """Some send their reasoning under both names at once."""
        if not delta.get("reasoning_content"):
            self._take_reasoning(text, delta)

    def _take_calls(self, parts: Any, _delta: Mapping[str, Any]) -> None:
        self._calls = self._calls or _CallCollector(_ECHOED_CALL_FIELDS.get(self._family, ()))
        for part in parts:
            self._calls.take(part)

    def _take_old_call(self, function: Any, delta: Mapping[str, Any]) -> None:
        self._take_calls([{"function": function}], delta)

    # --- what was read

    def _settle(self) -> None:
        """Nothing more comes that could make a mark of what was held back."""
        if self._thoughts is not None and not self._begun:
            self._thoughts.finish()
        self._begun = True

    def _tell_text(self, text: str) -> None:
        self._text.append(text)
        if self._on_text:
            self._on_text(text)

    def _tell_reasoning(self, text: str) -> None:
        if text:
            self._take_reasoning(text, {})


_TAKERS: Mapping[str, Callable[[StreamDecoder, Any, Mapping[str, Any]], None]] = {
    "content": StreamDecoder._take_content,
    "refusal": StreamDecoder._take_refusal,
    "reasoning_content": StreamDecoder._take_reasoning,
    "reasoning": StreamDecoder._take_second_name,
    "tool_calls": StreamDecoder._take_calls,
    "function_call": StreamDecoder._take_old_call,
}


class ThoughtSplitter:
    """Takes thoughts out of a text: models without a field for them write them before the answer, between marks. They
    are sent to reasoning, wherever a stream cuts the marks."""

    def __init__(self, tell_text: Tell, tell_reasoning: Tell) -> None:
        self._tell_text = tell_text
        self._tell_reasoning = tell_reasoning
        self._held = ""  # not yet known to be text or a thought
        self._close = ""  # the mark that ends the open thought
        self._found = self._told = False

    def feed(self, piece: str) -> bool:
        """True: the answer itself has begun, and everything after it is text."""
        self._held += piece
        while self._close or self._open():
            if not self._reach_close():
                return False
        start = self._held.lstrip()
        if any(mark.startswith(start) for mark, _ in _THOUGHT_MARKS):
            return False
        self._release()
        return True

    def finish(self) -> None:
        if self._close:
            self._tell(self._held)
        else:
            self._release()

    def _open(self) -> bool:
        start = self._held.lstrip()
        for mark, close in _THOUGHT_MARKS:
            if start.startswith(mark):
                self._held, self._close, self._found = start[len(mark) :], close, True
                return True
        return False

    def _reach_close(self) -> bool:
        thought, closed, rest = self._held.partition(self._close)
        if closed:
            self._tell(thought)
            self._held, self._close = rest, ""
            return True
        # What could be the beginning of the mark is held back.
        sizes = range(min(len(thought), len(self._close) - 1), 0, -1)
        sure = len(thought) - next((size for size in sizes if thought.endswith(self._close[:size])), 0)
        self._tell(thought[:sure])
        self._held = thought[sure:]
        return False

    def _release(self) -> None:
        """The white space between a thought and the text belongs to neither."""
        text = self._held.lstrip() if self._found else self._held
        self._held = ""
        if text:
            self._tell_text(text)

    def _tell(self, thought: str) -> None:
        thought = thought if self._told else thought.lstrip()
        if thought:
            self._told = True
            self._tell_reasoning(thought)


class _CallCollector:
    """Puts the pieces of tool calls together. Servers number calls by index, by id, or only begin a new one."""

    def __init__(self, echoed: tuple[str, ...]) -> None:
        self._echoed = echoed
        self._calls: list[_Call] = []
        self._by_index: dict[object, _Call] = {}
        self._by_id: dict[str, _Call] = {}
        self.own: dict[str, Any] = {}

    def take(self, part: Mapping[str, Any]) -> None:
        function = part.get("function") or {}
        call = self._find(part, str(function.get("name") or ""))
        call.id = call.id or str(part.get("id") or "")
        call.name = call.name or str(function.get("name") or "")
        arguments = function.get("arguments")
        if arguments:
            told = arguments if isinstance(arguments, str) else json.dumps(arguments, ensure_ascii=False)
            call.arguments.append(told)
        for name in self._echoed:
            if part.get(name):
                call.own[name] = part[name]

    def read(self) -> tuple[ToolCall, ...]:
        """The calls in the order they came, each with an id of its own."""
        found: dict[str, ToolCall] = {}
        self.own = {}
        for place, call in enumerate(call for call in self._calls if call.name):
            call_id = call.id or f"call_{place}"
            while call_id in found:
                call_id += "_"
            found[call_id] = ToolCall(call_id, call.name, "".join(call.arguments) or "{}")
            if call.own:
                self.own[call_id] = call.own
        return tuple(found.values())

    def _find(self, part: Mapping[str, Any], name: str) -> _Call:
        """The call that a piece belongs to."""
        index, call_id = part.get("index"), str(part.get("id") or "")
        last = self._calls[-1] if self._calls else None
        call = self._by_id.get(call_id) or (last if index is None else self._by_index.get(index))
        # Another id or name is another call; the same name again is one only when the call before it is finished.
        if (
            call is None
            or (call_id and call.id and call_id != call.id)
            or (name and call.name and (name != call.name or call.finished))
        ):
            call = _Call()
            self._calls.append(call)
        self._by_index[index] = call
        if call_id:
            self._by_id[call_id] = call
        return call


def _merge_echo(values: Sequence[Any]) -> Any:
    """A field that came in pieces, as one: texts are joined, and so are the pieces of one block of reasoning."""
    if all(isinstance(value, str) for value in values):
        return "".join(values)
    blocks: list[dict[str, Any]] = []
    for block in (block for value in values for block in value):
        last = blocks[-1] if blocks else {}
        # Blocks are numbered; one without a number stands for itself.
        same = last.get("index") is not None and all(last.get(name) == block.get(name) for name in ("type", "index"))
        if same and not (last.get("id") and block.get("id") and last["id"] != block["id"]):
            told = {name: value for name, value in block.items() if value is not None}
            grown = {name: str(last.get(name) or "") + str(told[name]) for name in _GROWING if name in told}
            last |= told | grown
        else:
            blocks.append(dict(block))
    return blocks


read_answer = StreamDecoder
