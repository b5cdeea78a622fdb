"""The rules of a Messages request; whoever breaks one is refused in the words of that interface."""

import base64
import binascii
import re
from collections.abc import Collection, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn

from hermes_lab.formats.rules import (
    ANY,
    COUNT,
    FILLED_TEXT,
    FLAG,
    LIST,
    OBJECT,
    TEXT,
    TEXT_LIST,
    TEXT_OR_LIST,
    Rule,
    Shape,
    at_least,
    one_of,
    within,
)
from hermes_lab.prompt import LONG_LIFE, SHORT_LIFE
from hermes_lab.seals import is_sealed, is_signed
from hermes_lab.values import Problem, Refused

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
_CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
_MOST_MARKS = 4
_IMAGE_TYPES = ("image/jpeg", "image/png", "image/gif", "image/webp")
LIVES = {"5m": SHORT_LIFE, "1h": LONG_LIFE}

_MARK: Mapping[str, Rule] = {"cache_control": ANY}  # checked apart: where marks stand matters too
_REQUEST = Shape(
    {"model": FILLED_TEXT, "max_tokens": COUNT, "messages": LIST},
    {
        **_MARK,
        "system": TEXT_OR_LIST,
        "tools": LIST,
        "tool_choice": OBJECT,
        "thinking": OBJECT,
        "output_config": OBJECT,
        "stream": FLAG,
        "temperature": within(0, 1),
        "top_p": within(0, 1),
        "top_k": at_least(0),
        "stop_sequences": TEXT_LIST,
        "metadata": OBJECT,
        "service_tier": one_of("auto", "standard_only"),
        "container": ANY,
        "diagnostics": ANY,
        "inference_geo": ANY,
        "speed": ANY,
    },
)
_TOOL = Shape(
    {"name": TEXT, "input_schema": OBJECT},
    {
        **_MARK,
        "type": one_of("custom"),
        "description": TEXT,
        "strict": FLAG,
        "defer_loading": FLAG,
        "eager_input_streaming": FLAG,
        "input_examples": LIST,
        "allowed_callers": LIST,
    },
)
_TYPE: Mapping[str, Rule] = {"type": TEXT}
_BLOCKS: Mapping[str, Shape] = {
    "text": Shape({**_TYPE, "text": TEXT}, {**_MARK, "citations": ANY}),
    "image": Shape({**_TYPE, "source": OBJECT}, _MARK),
    "tool_use": Shape({**_TYPE, "id": TEXT, "name": TEXT, "input": OBJECT}, {**_MARK, "caller": ANY}),
    "tool_result": Shape({**_TYPE, "tool_use_id": TEXT}, {**_MARK, "content": TEXT_OR_LIST, "is_error": FLAG}),
    "thinking": Shape({**_TYPE, "thinking": TEXT, "signature": TEXT}),
    "redacted_thinking": Shape({**_TYPE, "data": TEXT}),
}
_MESSAGE = Shape({"role": TEXT, "content": TEXT_OR_LIST})
_IN_ROLE: Mapping[str, tuple[str, ...]] = {
    "user": ("text", "image", "tool_result"),
    "assistant": ("text", "tool_use", "thinking", "redacted_thinking"),
}
_SOURCES: Mapping[str, Shape] = {
    "base64": Shape({**_TYPE, "media_type": one_of(*_IMAGE_TYPES), "data": TEXT}),
    "url": Shape({**_TYPE, "url": FILLED_TEXT}),
}
_THINKING: Mapping[str, Shape] = {
    "enabled": Shape({**_TYPE, "budget_tokens": at_least(1024)}, {"display": one_of("summarized", "omitted")}),
    "adaptive": Shape(_TYPE, {"display": one_of("summarized", "omitted")}),
    "disabled": Shape(_TYPE),
}
_CHOICES: Mapping[str, Shape] = {
    "auto": Shape(_TYPE, {"disable_parallel_tool_use": FLAG}),
    "any": Shape(_TYPE, {"disable_parallel_tool_use": FLAG}),
    "tool": Shape({**_TYPE, "name": TEXT}, {"disable_parallel_tool_use": FLAG}),
    "none": Shape(_TYPE),
}


class Placed(NamedTuple):
    """A content block and where it stands in the request."""

    block: dict[str, Any]
    place: str


class Turn(NamedTuple):
    """Messages of one role that follow each other."""

    role: str
    place: str
    blocks: list[Placed]


def check_request(body: object) -> tuple[dict[str, Any], list[Turn]]:
    """The body as a valid request object, and its messages as turns."""
    if not isinstance(body, dict):
        refuse("The body of the request must be a JSON object.")
    _check_shape(body, _REQUEST, "")
    _check_options(body)
    _check_tools(body.get("tools", []))
    for number, block in enumerate(_list_system(body)):
        _check_block(block, f"system.{number}", ("text",))
    turns = _check_messages(body["messages"])
    _check_calls(turns)
    _check_marks(body, turns)
    return body, turns


def refuse(message: str) -> NoReturn:
    raise Refused(Problem(400, message))


def _check_shape(value: dict[str, Any], shape: Shape, place: str) -> None:
    dot = f"{place}." if place else ""
    for name, (fits, wanted) in shape.required.items():
        if name not in value:
            refuse(f"{dot}{name}: Field required")
        if not fits(value[name]):
            refuse(f"{dot}{name}: Input should be {wanted}")
    if len(value) == len(shape.required):
        return
    for name in value.keys() - shape.required.keys():
        if name not in shape.optional:
            refuse(f"{dot}{name}: Extra inputs are not permitted")
        fits, wanted = shape.optional[name]
        if not fits(value[name]):
            refuse(f"{dot}{name}: Input should be {wanted}")


def _check_kind(value: Any, known: Mapping[str, Shape], place: str) -> str:
    """Check an object whose `type` says which fields it has."""
    if not isinstance(value, dict):
        refuse(f"{place}: Input should be an object")
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in known:
        tags = ", ".join(f"'{name}'" for name in known)
        refuse(f"{place}: Input tag '{kind}' found using 'type' does not match any of the expected tags: {tags}")
    _check_shape(value, known[kind], place)
    return kind


def _check_options(body: dict[str, Any]) -> None:
    if "tool_choice" in body:
        kind = _check_kind(body["tool_choice"], _CHOICES, "tool_choice")
        if not body.get("tools") and kind != "none":
            refuse("tool_choice may only be specified while providing tools.")
    if "thinking" not in body:
        return
    kind = _check_kind(body["thinking"], _THINKING, "thinking")
    if kind == "disabled":
        return
    if body.get("temperature", 1) != 1:
        refuse("`temperature` may only be set to 1 when thinking is enabled.")
    if "top_k" in body:
        refuse("`top_k` must be unset when thinking is enabled.")
    if kind == "enabled":
        _check_manual_thinking(body)


def _check_manual_thinking(body: dict[str, Any]) -> None:
    if body["thinking"]["budget_tokens"] >= body["max_tokens"]:
        refuse("`max_tokens` must be greater than `thinking.budget_tokens`.")
    if body.get("tool_choice", {}).get("type") in ("any", "tool"):
        refuse("Thinking may not be enabled when tool_choice forces tool use.")


def _check_tools(tools: list[Any]) -> None:
    names: set[str] = set()
    for number, tool in enumerate(tools):
        place = f"tools.{number}.custom"
        if not isinstance(tool, dict):
            refuse(f"tools.{number}: Input should be an object")
        _check_shape(tool, _TOOL, place)
        name = tool["name"]
        if not _TOOL_NAME.fullmatch(name):
            refuse(f"{place}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")
        if tool["input_schema"].get("type") != "object":
            refuse(f"{place}.input_schema.type: Input should be 'object'")
        if name in names:
            refuse("tools: Tool names must be unique.")
        names.add(name)


def _list_system(body: dict[str, Any]) -> list[Any]:
    system = body.get("system", "")
    return system if isinstance(system, list) else []


def _check_messages(messages: list[Any]) -> list[Turn]:
    if not messages:
        refuse("messages: at least one message is required")
    turns: list[Turn] = []
    for number, message in enumerate(messages):
        turn = _check_message(message, number, last=number == len(messages) - 1)
        if turns and turns[-1].role == turn.role:
            turns[-1].blocks.extend(turn.blocks)
        else:
            turns.append(turn)
    if turns[0].role != "user":
        refuse('messages: first message must use the "user" role')
    return turns


def _check_message(message: object, number: int, last: bool) -> Turn:
    place = f"messages.{number}"
    if not isinstance(message, dict):
        refuse(f"{place}: Input should be an object")
    role = message.get("role")
    if role not in ("user", "assistant"):
        refuse(f"{place}.role: Input should be 'user' or 'assistant'")
    _check_shape(message, _MESSAGE, place)
    content = message["content"]
    if not content and not (last and role == "assistant"):
        refuse(f"{place}: all messages must have non-empty content except for the optional final assistant message")
    turn = Turn(role, place, _check_content(content, place, _IN_ROLE[role]))
    if last and role == "assistant" and turn.blocks and turn.blocks[-1].block.get("text", "").endswith((" ", "\n")):
        refuse("messages: final assistant content cannot end with trailing whitespace")
    return turn


def _check_content(content: str | list[Any], place: str, allowed: Collection[str]) -> list[Placed]:
    if isinstance(content, str):
        spoken = [Placed({"type": "text", "text": content}, f"{place}.content.0")] if content else []
        for block, where in spoken:
            _check_text(block, where)
        return spoken
    blocks = [Placed(block, f"{place}.content.{at}") for at, block in enumerate(content)]
    for block, where in blocks:
        _check_block(block, where, allowed)
    return blocks


def _check_block(block: Any, place: str, allowed: Collection[str]) -> None:
    kind = _check_kind(block, _BLOCKS, place)
    if kind not in allowed:
        refuse(f"{place}: `{kind}` blocks are not allowed here")
    check = _CHECKS.get(kind)
    if check is not None:
        check(block, place)


def _check_text(block: dict[str, Any], place: str) -> None:
    if not block["text"].strip():
        told = "contain non-whitespace text" if block["text"] else "be non-empty"
        refuse(f"messages: text content blocks must {told} ({place})")


def _check_image(block: dict[str, Any], place: str) -> None:
    source = block["source"]
    if _check_kind(source, _SOURCES, f"{place}.image.source") == "url":
        return
    try:
        base64.b64decode(source["data"], validate=True)
    except (binascii.Error, ValueError) as error:
        raise Refused(Problem(400, f"{place}.image.source.base64.data: invalid base64 data")) from error


def _check_tool_use(block: dict[str, Any], place: str) -> None:
    if not _CALL_ID.fullmatch(block["id"]):
        refuse(f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
    if not _TOOL_NAME.fullmatch(block["name"]):
        refuse(f"{place}.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{{1,128}}$'")


def _check_tool_result(block: dict[str, Any], place: str) -> None:
    content = block.get("content", "")
    for number, part in enumerate(content if isinstance(content, list) else ()):
        _check_block(part, f"{place}.tool_result.content.{number}", ("text", "image"))


def _check_thinking(block: dict[str, Any], place: str) -> None:
    if not is_signed(block["thinking"], block["signature"]):
        refuse(f"{place}: Invalid `signature` in `thinking` block")


def _check_redacted(block: dict[str, Any], place: str) -> None:
    if not is_sealed(block["data"]):
        refuse(f"{place}: Invalid `data` in `redacted_thinking` block")


_CHECKS = {
    "text": _check_text,
    "image": _check_image,
    "tool_use": _check_tool_use,
    "tool_result": _check_tool_result,
    "thinking": _check_thinking,
    "redacted_thinking": _check_redacted,
}


# Calls and results


def _check_calls(turns: list[Turn]) -> None:
    """Each tool use is answered once, first thing in the very next user turn, and nothing else is answered."""
    seen: set[str] = set()
    caller = Turn("assistant", "", [])
    waiting: dict[str, str] = {}
    for turn in turns:
        if turn.role == "user":
            _check_results(turn, caller.place, waiting)
            waiting = {}
            continue
        caller = turn
        waiting = _list_calls(turn, seen)
    if waiting:
        _refuse_unanswered(caller.place, waiting)


def _list_calls(turn: Turn, seen: set[str]) -> dict[str, str]:
    """The turn's tool uses, by id, each with its place."""
    waiting: dict[str, str] = {}
    for block, place in turn.blocks:
        if block["type"] != "tool_use":
            continue
        if block["id"] in seen:
            refuse(f"{place}: `tool_use` ids must be unique")
        seen.add(block["id"])
        waiting[block["id"]] = place
    return waiting


def _check_results(turn: Turn, caller: str, waiting: Mapping[str, str]) -> None:
    answered: set[str] = set()
    spoken = False
    for block, place in turn.blocks:
        if block["type"] != "tool_result":
            spoken = True
            continue
        call_id = block["tool_use_id"]
        if call_id in answered:
            refuse(f"{place}: each tool_use must have a single result. Found multiple `tool_result` blocks: {call_id}")
        if call_id not in waiting:
            refuse(
                f"{place}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id}. Each `tool_result` block "
                "must have a corresponding `tool_use` block in the previous message."
            )
        if spoken:
            _refuse_unanswered(caller, [call_id])
        answered.add(call_id)
    if len(answered) < len(waiting):
        _refuse_unanswered(caller, [call_id for call_id in waiting if call_id not in answered])


def _refuse_unanswered(place: str, call_ids: Collection[str]) -> NoReturn:
    refuse(
        f"{place}: `tool_use` ids were found without `tool_result` blocks immediately after: {', '.join(call_ids)}. "
        "Each `tool_use` block must have a corresponding `tool_result` block in the next message."
    )


# Cache marks


def _check_marks(body: dict[str, Any], turns: list[Turn]) -> None:
    """At most four, in the order of the prompt, those for an hour first."""
    lives = [_read_life(mark, place) for mark, place in _list_marks(body, turns)]
    if len(lives) + (body.get("cache_control") is not None) > _MOST_MARKS:
        refuse(f"A maximum of 4 blocks with cache_control may be provided. Found {len(lives)}.")
    if body.get("cache_control") is not None:
        lives.append(_read_life(body["cache_control"], "cache_control"))
    if lives != sorted(lives, reverse=True):
        refuse("cache_control: a ttl='1h' block must not come after a ttl='5m' block")


def _list_marks(body: dict[str, Any], turns: list[Turn]) -> Iterator[tuple[Any, str]]:
    named = [Placed(tool, f"tools.{number}") for number, tool in enumerate(body.get("tools", ()))]
    named += [Placed(block, f"system.{number}") for number, block in enumerate(_list_system(body))]
    for placed in (*named, *(placed for turn in turns for placed in turn.blocks)):
        if placed.block.get("cache_control") is not None:
            yield placed.block["cache_control"], f"{placed.place}.cache_control"
        if placed.block.get("type") == "tool_result" and isinstance(placed.block.get("content"), list):
            for part in placed.block["content"]:
                if part.get("cache_control") is not None:
                    yield part["cache_control"], f"{placed.place}.content.cache_control"


def _read_life(mark: object, place: str) -> float:
    if not isinstance(mark, dict) or mark.get("type") != "ephemeral":
        refuse(f"{place}: Input should be {{'type': 'ephemeral'}}")
    for name in mark.keys() - {"type", "ttl"}:
        refuse(f"{place}.ephemeral.{name}: Extra inputs are not permitted")
    ttl = mark.get("ttl", "5m")
    if not isinstance(ttl, str) or ttl not in LIVES:
        refuse(f"{place}.ephemeral.ttl: Input should be '5m' or '1h'")
    return LIVES[ttl]
