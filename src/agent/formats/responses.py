"""The Responses format: neutral messages to input items, an answer, streamed or in one document, to a Reply and what
has to be sent back. Pure, no network.

Nothing is stored at the provider: every request carries the whole conversation, sealed reasoning included. A body is
the join of fragments that were encoded once, so that the body of the next request starts with the bytes of this one.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from agent.formats.chat_completions import encode_json
from agent.formats.multimodal import find_parts
from agent.formats.reply import Reply, Tell, ToolCall, make_own_data, own_data
from agent.providers.table import Provider
from agent.usage_pricing import usage_from_responses

if TYPE_CHECKING:
    from agent.formats.wire import CallSettings

PATH = "/responses"
#: Stands where a message has nothing to say: the format takes no message without content.
EMPTY = "(empty)"
_LONGEST_CALL_ID = 64
#: Models that do not reason refuse the fields that ask for it.
_PLAIN_MODELS = re.compile(r"gpt-3\.5|gpt-4|chatgpt-4|gpt-5-chat")
#: The least reasoning that a model can be asked for, the first that fits; empty and unlisted: it is left alone.
_LEAST_EFFORTS = (
    (re.compile(r"gpt-5[\d.]*-(pro|chat)"), ""),
    (re.compile(r"gpt-5[\d.]*-codex|o[1-4]\b"), "low"),
    (re.compile(r"gpt-5\."), "none"),
    (re.compile(r"gpt-5\b"), "minimal"),
)
_FAILED = frozenset({"failed", "cancelled"})
Item = dict[str, Any]


# --- messages to input items


def encode_message(message: Mapping[str, Any], dialect: str) -> bytes:
    """The items of one message, joined by commas: a part of the input array."""
    items = _ENCODERS[message["role"]](message, dialect)
    return b",".join(encode_json(item) for item in items)


def _make_user_items(message: Mapping[str, Any], _dialect: str) -> list[Item]:
    return [{"type": "message", "role": "user", "content": _make_parts(message.get("content"))}]


def _make_result_items(message: Mapping[str, Any], _dialect: str) -> list[Item]:
    output = message.get("content") or ""
    parts = output if isinstance(output, list) else find_parts(output)
    return [
        {
            "type": "function_call_output",
            "call_id": _fit_call_id(message["tool_call_id"]),
            "output": output if parts is None else _make_parts(parts),
        }
    ]


def _make_assistant_items(message: Mapping[str, Any], dialect: str) -> list[Item]:
    """In the order in which the model wrote them; what is new in the message stands behind that."""
    kept: Sequence[Mapping[str, Any]] = own_data(message, dialect).get("items") or ()
    texts = _split_text(_join_text(message.get("content")), kept)
    calls = {call["id"]: call["function"] for call in message.get("tool_calls") or ()}
    items: list[Item] = []
    for place in kept:
        if place["type"] == "reasoning":
            items.append(dict(place))
        elif place["type"] == "message":
            items += _make_text(texts.pop(0) if texts else "", place)
        elif place["call_id"] in calls:
            items.append(_make_call(place["call_id"], calls.pop(place["call_id"]), place))
    items += [item for text in texts for item in _make_text(text, {})]
    items += [_make_call(call_id, function, {}) for call_id, function in calls.items()]
    # Reasoning that led to nothing (an answer that was cut) is refused without an item behind it.
    while items and items[-1]["type"] == "reasoning":
        items.pop()
    return items or _make_text(EMPTY, {})


_ENCODERS: Mapping[str, Callable[[Mapping[str, Any], str], list[Item]]] = {
    "user": _make_user_items,
    "assistant": _make_assistant_items,
    "tool": _make_result_items,
}


def _make_text(text: str, place: Mapping[str, Any]) -> list[Item]:
    """A message of the model; with an id it is one that this provider wrote, and goes back in the form it came."""
    if not text:
        return []
    phase = {"phase": place["phase"]} if "phase" in place else {}
    if "id" not in place:
        return [{"type": "message", "role": "assistant", "content": text, **phase}]
    part = {"type": "output_text", "text": text, "annotations": []}
    message = {"type": "message", "id": place["id"], "role": "assistant", "status": "completed", "content": [part]}
    return [message | phase]


def _make_call(call_id: str, function: Mapping[str, Any], place: Mapping[str, Any]) -> Item:
    own = {"id": place["id"]} if "id" in place else {}
    named = {"call_id": _fit_call_id(call_id), "name": function["name"], "arguments": function["arguments"]}
    return {"type": "function_call", **own, **named}


def _split_text(text: str, kept: Sequence[Mapping[str, Any]]) -> list[str]:
    """The text of each message that the answer had; in one piece when it was changed since."""
    sizes = [int(place["chars"]) for place in kept if place["type"] == "message"]
    if len(sizes) < 2 or sum(sizes) + len(GAP) * (len(sizes) - 1) != len(text):
        return [text]
    starts = [sum(sizes[:count]) + len(GAP) * count for count in range(len(sizes))]
    return [text[start : start + size] for start, size in zip(starts, sizes, strict=True)]


def _join_text(content: object) -> str:
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else ()
    return "".join(part.get("text") or "" for part in parts if part.get("type") == "text")


def _fit_call_id(call_id: str) -> str:
    """Ids of other providers may be longer than this format takes; the same id always becomes the same one."""
    if len(call_id) <= _LONGEST_CALL_ID:
        return call_id
    return "call_" + hashlib.sha256(call_id.encode("utf-8", "replace")).hexdigest()[:40]


# --- content


def _make_parts(content: Any) -> list[Item]:
    """Parts of a kind that the format has no word for are left out."""
    parts = [{"type": "text", "text": content}] if isinstance(content, str) else content or ()
    made = (_PARTS[part["type"]](part) for part in parts if part.get("type") in _PARTS)
    return [part for part in made if part] or [{"type": "input_text", "text": EMPTY}]


def _make_text_part(part: Mapping[str, Any]) -> Item:
    return {"type": "input_text", "text": part["text"]} if part.get("text") else {}


def _make_image_part(part: Mapping[str, Any]) -> Item:
    image = part.get("image_url") or ""
    image = image if isinstance(image, Mapping) else {"url": image}
    return {"type": "input_image", "image_url": image.get("url", ""), "detail": image.get("detail") or "auto"}


_PARTS: Mapping[str, Callable[[Mapping[str, Any]], Item]] = {"text": _make_text_part, "image_url": _make_image_part}


# --- requests


def encode_system(text: str) -> bytes:
    return encode_json(text) if text else b""


def encode_tools(tools: Sequence[Mapping[str, Any]]) -> bytes:
    return encode_json([_make_tool(tool["function"]) for tool in tools]) if tools else b""


def _make_tool(function: Mapping[str, Any]) -> Item:
    """Not strict: tools of plugins have schemas of every form."""
    return {
        "type": "function",
        "name": function["name"],
        "description": function.get("description") or "",
        "parameters": function.get("parameters") or {"type": "object", "properties": {}},
        "strict": False,
    }


def join_request(model: str, tools: bytes, system: bytes, messages: Sequence[bytes], tail: Mapping[str, Any]) -> bytes:
    """A request body from frozen fragments; the work grows with the bytes joined, never with their meaning."""
    head = b'{"model":' + encode_json(model)
    if tools:
        head += b',"tools":' + tools
    if system:
        head += b',"instructions":' + system
    return b"".join((head, b',"input":[', b",".join(messages), b"],", encode_json(dict(tail))[1:]))


def make_tail(provider: Provider, settings: "CallSettings") -> dict[str, Any]:
    """What stands behind the messages."""
    tail: dict[str, Any] = {"stream": True, "store": False}
    name = settings.model.rpartition("/")[2]
    if not _PLAIN_MODELS.match(name):
        tail["include"] = ["reasoning.encrypted_content"]
        least = next((effort for names, effort in _LEAST_EFFORTS if names.match(name)), "")
        effort = least if settings.effort == "none" else settings.effort
        if effort:
            tail["reasoning"] = {"effort": effort, "summary": "auto"}
    if settings.max_tokens:
        tail["max_output_tokens"] = settings.max_tokens
    if not settings.with_tools:
        tail["tool_choice"] = "none"
    if provider.calls_tools:
        tail["parallel_tool_calls"] = True
    return tail


def find_error(chunk: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The error of a failed response, or the event itself, with a status as its code where one is told."""
    kind = chunk.get("type")
    if kind is not None and kind != "error" and kind != "response.failed":
        return None
    told = chunk.get("response") or chunk
    inner = told.get("error")
    if kind is None and not inner and told.get("status") not in _FAILED:
        return None
    problem = dict(inner) if isinstance(inner, Mapping) else {"code": told.get("code"), "message": told.get("message")}
    if isinstance(inner, str):
        problem["message"] = inner
    if isinstance(told.get("status"), int):
        problem = problem | {"code": told["status"], "type": problem.get("code") or problem.get("type")}
    problem["message"] = problem.get("message") or "The answer failed without a reason."
    return problem


# --- answers


Event = Mapping[str, Any]
#: Stands between two messages of one answer, and between two parts of its reasoning.
GAP = "\n\n"
_ENDS = frozenset({"completed", "incomplete"})
#: Why an answer is incomplete, in neutral words; an unknown reason is a cut.
_CUT_REASONS: Mapping[str, str] = {"max_output_tokens": "length", "content_filter": "content_filter"}
#: What the server adds to a reasoning item and refuses to read again.
_OUTPUT_ONLY = frozenset({"status"})


class ResponseReader:
    """Collects the events of one answer. Only finished items count, so half a call is never one.

    `reply()` is only right when `whole` is True.
    """

    def __init__(self, dialect: str = "", on_text: Tell | None = None, on_reasoning: Tell | None = None) -> None:
        self._dialect = dialect
        self._on_text = on_text
        self._on_reasoning = on_reasoning
        self._text: list[str] = []
        self._begun = 0  # where in _text the open message begins
        self._gap = False  # a message was finished: the next one stands apart from it
        self._reasoning: list[str] = []
        self._thought = 0  # how much of _reasoning belongs to finished items
        self._items: list[tuple[int, Event, str]] = []  # place, item, the text that was shown for it
        self._arguments: dict[object, str] = {}
        self._refused = False
        self._response: Event = {}
        self.whole = False

    @property
    def text(self) -> str:
        return "".join(self._text)

    def feed(self, chunk: Event) -> None:
        take = self._TAKERS.get(chunk.get("type"))
        if take is not None:
            take(self, chunk)

    def finish(self) -> None:
        """[DONE] is no word of this format: only the response's own end makes an answer whole."""

    def reply(self) -> Reply:
        items = sorted(self._items, key=lambda entry: entry[0])
        calls = tuple(_read_call(item) for _, item, _ in items if _is_call(item))
        places = [place for _, item, text in items if (place := _keep(item, text)) is not None]
        worth_keeping = any(place["type"] == "reasoning" or "phase" in place for place in places)
        return Reply(
            text=self.text,
            reasoning="".join(self._reasoning),
            tool_calls=calls,
            finish_reason=self._find_reason(calls),
            usage=usage_from_responses(self._response.get("usage")),
            model=str(self._response.get("model") or ""),
            extra=make_own_data(self._dialect, items=places) if worth_keeping else {},
        )

    def _find_reason(self, calls: tuple[ToolCall, ...]) -> str:
        if self._response.get("status") == "incomplete":
            details = self._response.get("incomplete_details") or {}
            return _CUT_REASONS.get(str(details.get("reason")), "length")
        if any(_is_cut(item) for _, item, _ in self._items):
            return "length"
        if self._refused:
            return "content_filter"
        return "tool_calls" if calls else "stop"

    # --- one function for each kind of event

    def _take_text(self, event: Event) -> None:
        delta = event.get("delta")
        if not delta:
            return
        if not isinstance(delta, str):
            raise TypeError("a piece of text is no text")
        if self._gap:  # another message begins
            self._gap = False
            self._text.append(GAP)
            self._begun = len(self._text)
            if self._on_text:
                self._on_text(GAP)
        self._text.append(delta)
        if self._on_text:
            self._on_text(delta)

    def _take_refusal(self, event: Event) -> None:
        self._refused = True
        self._take_text(event)

    def _take_reasoning(self, event: Event) -> None:
        delta = event.get("delta")
        if delta:
            if not isinstance(delta, str):
                raise TypeError("a piece of reasoning is no text")
            self._reasoning.append(delta)
            if self._on_reasoning:
                self._on_reasoning(delta)

    def _take_new_thought(self, event: Event) -> None:
        if self._reasoning:
            self._take_reasoning({"delta": GAP})

    def _take_arguments(self, event: Event) -> None:
        self._arguments[event.get("item_id")] = str(event.get("arguments") or "")

    def _take_item(self, event: Event) -> None:
        item = event.get("item") or {}
        place = event.get("output_index", len(self._items))
        text = ""
        if item.get("type") == "message":
            text = self._close_message(item)
        elif item.get("type") == "reasoning":
            if len(self._reasoning) == self._thought:  # nothing of it was streamed
                parts = item.get("summary") or item.get("content") or ()
                told = GAP.join(str(part.get("text") or "") for part in parts)
                self._take_reasoning({"delta": GAP + told if told and self._reasoning else told})
            self._thought = len(self._reasoning)
        elif _is_call(item) and not item.get("arguments"):
            item = {**item, "arguments": self._arguments.get(item.get("id"), "")}
        self._items.append((place, item, text))

    def _take_start(self, event: Event) -> None:
        self._response = event.get("response") or {}

    def _take_end(self, event: Event) -> None:
        self._response = response = event.get("response") or {}
        # Some servers tell the items only here; a call that was cut off may stand only here, too.
        for item in (response.get("output") or ())[len(self._items) :]:
            self._take_item({"item": item})
        self.whole = True

    def _take_document(self, document: Event) -> None:
        """An answer that was not streamed is the response itself."""
        if document.get("status") in _ENDS:
            self._take_end({"response": document})

    _TAKERS: ClassVar[Mapping[object, Callable[["ResponseReader", Event], None]]] = {
        "response.output_text.delta": _take_text,
        "response.refusal.delta": _take_refusal,
        "response.reasoning_summary_text.delta": _take_reasoning,
        "response.reasoning_text.delta": _take_reasoning,
        "response.reasoning_summary_part.added": _take_new_thought,
        "response.function_call_arguments.done": _take_arguments,
        "response.output_item.done": _take_item,
        "response.created": _take_start,
        "response.completed": _take_end,
        "response.incomplete": _take_end,
        None: _take_document,
    }

    def _close_message(self, item: Event) -> str:
        """The text of a finished message; what was not streamed of it is shown now."""
        parts = [part for part in item.get("content") or () if isinstance(part, Mapping)]
        self._refused = self._refused or any(part.get("type") == "refusal" for part in parts)
        whole = "".join(str(part.get("text") or part.get("refusal") or "") for part in parts)
        shown = "" if self._gap else "".join(self._text[self._begun :])
        if whole.startswith(shown):
            self._take_text({"delta": whole[len(shown) :]})
        elif whole:
            self._text[self._begun :] = [whole]
        self._gap = bool(self._text)
        return whole or shown


def _is_call(item: Event) -> bool:
    return item.get("type") == "function_call" and bool(item.get("name"))


def _is_cut(item: Event) -> bool:
    return _is_call(item) and item.get("status", "completed") != "completed"


def _read_call(item: Event) -> ToolCall:
    """A call that was cut off keeps its name, so that the model can be told, and none of its half arguments."""
    arguments = "" if _is_cut(item) else str(item.get("arguments") or "")
    return ToolCall(_call_id(item), str(item["name"]), arguments or "{}")


def _call_id(item: Event) -> str:
    return str(item.get("call_id") or item.get("id") or "call")


def _keep(item: Event, text: str) -> dict[str, Any] | None:
    """What later requests need of an item: sealed reasoning as it came; of the rest its place, id and phase."""
    if item.get("type") == "reasoning":
        # A bare id points to nothing, since answers are not stored at the provider: such an item would be refused.
        if not (item.get("encrypted_content") or item.get("content")):
            return None
        kept = {name: value for name, value in item.items() if value is not None and name not in _OUTPUT_ONLY}
        return {**kept, "summary": item.get("summary") or []}
    if _is_call(item):
        return {"type": "function_call", "call_id": _call_id(item)} | _pick(item, () if _is_cut(item) else ("id",))
    return {"type": "message", "chars": len(text)} | _pick(item, ("id", "phase")) if text else None


def _pick(item: Event, names: tuple[str, ...]) -> dict[str, Any]:
    return {name: item[name] for name in names if item.get(name)}


read_answer = ResponseReader
