"""The Responses format: neutral messages to input items, events to a Reply. Pure, no network.

Nothing is stored at the provider: every request carries the whole conversation, sealed reasoning included. A body is
the join of fragments that were encoded once, so that the body of the next request starts with the bytes of this one.
"""

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.formats.chat_completions import encode_json
from agent.formats.multimodal import find_parts
from agent.formats.reply import own_data
from agent.formats.responses_answers import GAP, ResponseReader
from agent.providers.table import Provider

if TYPE_CHECKING:
    from agent.formats.wire import CallSettings

PATH = "/responses"
read_answer = ResponseReader
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
