"""Makes neutral messages fit for a transcript: such that every provider takes them, and without configured secrets,
since what is sent is what is stored (G6). Repairing twice is repairing once.

Done when messages are appended or taken from a caller, never on what was already sent.
"""

import json
import logging
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import count
from typing import Any

from agent.formats.reply import OWN_DATA, Reply
from agent.providers.wire_limits import is_shallow
from hermes_base.text.whole_text import clean_text

ROLES = frozenset({"user", "assistant", "tool"})
UNKNOWN_OUTCOME = '{"error": "interrupted, outcome unknown"}'
INVALID_ARGUMENTS = "_invalid_arguments"
LONGEST_NAME = 64
_NO_NAME = re.compile(r"[^a-zA-Z0-9_-]")


def write_reply(reply: Reply) -> dict[str, Any]:
    """The answer of a model as a message in neutral form, as it was given."""
    message: dict[str, Any] = {"role": "assistant", "content": reply.text}
    if reply.tool_calls:
        message["tool_calls"] = [call.as_message_part() for call in reply.tool_calls]
    if reply.reasoning:
        message["reasoning"] = reply.reasoning
    return message | dict(reply.extra)


def repair_messages(messages: Iterable[Mapping[str, Any]], known: Iterable[str] = ()) -> list[dict[str, Any]]:
    """Each tool call has an id that no other has, and is followed by its one result; each result follows its call; all
    text is valid Unicode. `known`: ids of calls in the conversation that the messages come to."""
    whole: list[dict[str, Any]] = []
    taken = set(known)
    waiting: dict[str, str] = {}  # calls whose result has not come yet: the id they came with, and the one they have
    for message in messages:
        clean = _clean(message)
        if clean is None:
            continue
        if clean["role"] == "tool":
            if clean["tool_call_id"] in waiting:
                clean["tool_call_id"] = waiting.pop(clean["tool_call_id"])
                whole.append(clean)
            continue
        if waiting:
            whole += map(unknown_result, waiting.values())
            waiting = {}
        if "tool_calls" in clean:
            waiting = {call["id"]: _find_free(call["id"], taken) for call in clean["tool_calls"]}
            taken.update(waiting.values())
            if any(old != new for old, new in waiting.items()):
                clean = _rename_calls(clean, waiting)
        whole.append(clean)
    return whole + list(map(unknown_result, waiting.values()))


def repair_after(messages: Sequence[Mapping[str, Any]], whole: int) -> tuple[int, list[dict[str, Any]]]:
    """The messages when it is known that the first ones are whole: how many of those stay as they are, and what the
    others become. A round of calls and their results is repaired together."""
    is_result = [message.get("role") == "tool" for message in messages[whole : whole + 1]] == [True]
    while whole and (is_result or messages[whole - 1].get("tool_calls")):
        whole -= 1
        is_result = messages[whole].get("role") == "tool"
    before = messages[:whole]
    taken = {call["id"] for message in before if "tool_calls" in message for call in message["tool_calls"] or ()}
    return whole, repair_messages(messages[whole:], taken)


def unknown_result(call_id: str) -> dict[str, Any]:
    """The result of a call whose end nobody saw."""
    return {"role": "tool", "tool_call_id": call_id, "content": UNKNOWN_OUTCOME}


def repair_arguments(arguments: object) -> str:
    """Tool arguments as a JSON object in text; what is none is kept as a string inside one."""
    if isinstance(arguments, Mapping):
        return clean_text(json.dumps(dict(arguments), ensure_ascii=False, default=str))
    text = clean_text(str(arguments or "")).strip() or "{}"
    try:
        value = json.loads(text)
        is_object = isinstance(value, dict) and is_shallow(value)
    except (ValueError, RecursionError):
        is_object = False
    return text if is_object else json.dumps({INVALID_ARGUMENTS: text}, ensure_ascii=False)


def fit_name(name: str) -> str:
    """The name of a tool in the form that every provider takes back; a name of another form is that of no tool."""
    return _NO_NAME.sub("_", name)[:LONGEST_NAME]


def _clean(message: Mapping[str, Any]) -> dict[str, Any] | None:
    """One message with every field in its right form; None when it cannot be one."""
    role = message.get("role")
    if role not in ROLES:
        return None
    content = message.get("content")
    given = {name: value for name, value in message.items() if value is not None and name not in _FORMED}
    clean: dict[str, Any] = {"role": role, "content": content}
    if isinstance(content, list):
        parts = [{"type": "text", "text": part} if isinstance(part, str) else part for part in content]
        clean["content"] = [_clean_texts(part) for part in parts if isinstance(part, Mapping)]
    elif not isinstance(content, str) or not content.isascii():
        clean["content"] = "" if content is None else clean_text(str(content))
    if given:
        clean |= _clean_texts(given)
    if role == "tool":
        clean["tool_call_id"] = clean_text(str(message.get("tool_call_id") or ""))
    if role == "assistant" and message.get("tool_calls"):
        calls = _clean_calls(message["tool_calls"])
        if calls:
            clean["tool_calls"] = calls
    return clean


#: What of a message has a form of its own.
_FORMED = ("role", "content", "tool_calls")


def _find_free(call_id: str, taken: set[str]) -> str:
    """Some servers give no ids, or the same ones in every answer."""
    if call_id not in taken:
        return call_id
    return next(free for free in (f"{call_id}_{number}" for number in count(2)) if free not in taken)


def _rename_calls(message: Mapping[str, Any], names: Mapping[str, str]) -> dict[str, Any]:
    """The message with new ids of its calls, also in what its provider wants to see again."""
    renamed = {**message, "tool_calls": [{**call, "id": names[call["id"]]} for call in message["tool_calls"]]}
    own = message.get(OWN_DATA)
    if isinstance(own, Mapping):
        renamed[OWN_DATA] = {name: _rename_own(value, names) for name, value in own.items()}
    return renamed


def _rename_own(value: Any, names: Mapping[str, str]) -> Any:
    """Providers keep something for each call by its id, or in parts that have it as a field."""
    if isinstance(value, list):
        return [_rename_part(part, names) for part in value]
    return {names.get(name, name): inner for name, inner in value.items()} if isinstance(value, Mapping) else value


def _rename_part(part: Any, names: Mapping[str, str]) -> Any:
    if not isinstance(part, Mapping):
        return part
    field = "call_id" if "call_id" in part else "id"
    return {**part, field: names[part[field]]} if str(part.get(field)) in names else part


def _clean_texts(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: clean_text(value) if isinstance(value, str) else value for name, value in fields.items()}


def _clean_calls(calls: object) -> list[dict[str, Any]]:
    """Calls with an id of their own each, a name and arguments that are a JSON object."""
    if not isinstance(calls, Sequence) or isinstance(calls, str):
        return []
    clean: list[dict[str, Any]] = []
    taken: set[str] = set()
    for place, call in enumerate(calls):
        function = call.get("function") if isinstance(call, Mapping) else None
        if not isinstance(function, Mapping) or not function.get("name"):
            continue
        call_id = clean_text(str(call.get("id") or "")) or f"call_{place}"
        while call_id in taken:
            call_id += "_"
        taken.add(call_id)
        named = {
            "name": fit_name(str(function["name"])),
            "arguments": repair_arguments(function.get("arguments")),
        }
        clean.append({"id": call_id, "type": "function", "function": named})
    return clean


# --- without secrets


log = logging.getLogger(__name__)

Redact = Callable[[str], str]
#: Kinds of blocks that their provider signed or sealed: it takes them back to the letter, or not at all.
_SEALED_KINDS = ("thinking", "redacted_thinking", "reasoning")


def clean_message(message: Mapping[str, Any], redact: Redact) -> dict[str, Any]:
    """The message without secrets, whichever field they stand in: text, reasoning, names and arguments of calls."""
    clean = {name: _clean_value(value, redact) for name, value in message.items() if name not in ("content", OWN_DATA)}
    content = message.get("content")
    if isinstance(content, list):  # images are megabytes without a word
        clean["content"] = [part if _kind_of(part) == "image_url" else _clean_value(part, redact) for part in content]
    else:
        clean["content"] = _clean_value(content, redact)
    for call in clean.get("tool_calls", ()):
        call["function"]["name"] = fit_name(call["function"]["name"])  # the mark of a secret is no name
    if OWN_DATA in message:
        clean[OWN_DATA] = _clean_own(message[OWN_DATA], redact)
    return clean


def _clean_value(value: Any, redact: Redact) -> Any:
    if isinstance(value, str):
        return redact(value)
    if isinstance(value, list):
        return [_clean_value(part, redact) for part in value]
    if isinstance(value, Mapping):
        return {redact(name): _clean_value(inner, redact) for name, inner in value.items()}
    return value


def _clean_own(own: Mapping[str, Any], redact: Redact) -> dict[str, Any]:
    """What a provider wants to see again. A signed block that holds a secret is left out: changed it would be refused
    for ever, and kept it would be stored."""
    text = json.dumps(own, ensure_ascii=False)
    if redact(text) is text:  # nearly always
        return dict(own)
    log.warning("what the provider wants to see again held a secret; signed blocks with it are not kept and not sent")
    signatures = own.get("calls", {})
    clean = {name: _clean_blocks(value, redact) for name, value in own.items() if name != "calls"}
    kept = {call: signed for call, signed in signatures.items() if _clean_value(signed, redact) == signed}
    return clean | ({"calls": kept} if kept else {})


def _clean_blocks(value: Any, redact: Redact) -> Any:
    if isinstance(value, Mapping):  # fields by name
        return {redact(name): _clean_blocks(inner, redact) for name, inner in value.items()}
    if not isinstance(value, list):
        return _clean_value(value, redact)
    clean = [(block, _clean_value(block, redact)) for block in value]
    return [new for block, new in clean if new == block or _kind_of(block).partition(".")[0] not in _SEALED_KINDS]


def _kind_of(block: Any) -> str:
    return str(block.get("type")) if isinstance(block, Mapping) else ""
