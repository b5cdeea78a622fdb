"""The rules of a Responses request; whoever breaks one is refused in the words of that interface."""

import re
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from hermes_lab.formats.rules import (
    ANY,
    FILLED_TEXT,
    FLAG,
    LIST,
    NULL_OR_TEXT,
    OBJECT,
    TEXT,
    TEXT_LIST,
    TEXT_OR_LIST,
    TEXT_OR_OBJECT,
    WHOLE,
    Rule,
    Shape,
    one_of,
    within,
)
from hermes_lab.seals import is_sealed
from hermes_lab.values import Problem, Refused

_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_LONGEST_ID = 64
_LEAST_OUTPUT = 16

_REQUEST = Shape(
    {"model": FILLED_TEXT, "input": TEXT_OR_LIST},
    {
        "instructions": TEXT,
        "tools": LIST,
        "tool_choice": TEXT_OR_OBJECT,
        "parallel_tool_calls": FLAG,
        "max_output_tokens": WHOLE,
        "max_tool_calls": WHOLE,
        "reasoning": OBJECT,
        "include": TEXT_LIST,
        "store": FLAG,
        "stream": FLAG,
        "stream_options": OBJECT,
        "background": (lambda value: value is False, "false (this server keeps no answers)"),
        "previous_response_id": TEXT,
        "conversation": TEXT_OR_OBJECT,
        "temperature": within(0, 2),
        "top_p": within(0, 1),
        "top_logprobs": WHOLE,
        "text": OBJECT,
        "truncation": one_of("auto", "disabled"),
        "metadata": OBJECT,
        "user": TEXT,
        "safety_identifier": TEXT,
        "service_tier": TEXT,
        "prompt_cache_key": TEXT,
        "prompt_cache_retention": one_of("in_memory", "in-memory", "24h"),
        "prompt_cache_options": OBJECT,
    },
)
_TYPE: Mapping[str, Rule] = {"type": TEXT}
_TOOLS: Mapping[str, Shape] = {
    "function": Shape({**_TYPE, "name": TEXT}, {"description": TEXT, "parameters": OBJECT, "strict": FLAG}),
}
_STATUS: Mapping[str, Rule] = {"id": TEXT, "status": one_of("in_progress", "completed", "incomplete")}
_ITEMS: Mapping[str, Shape] = {
    "message": Shape({"role": TEXT, "content": TEXT_OR_LIST}, {**_TYPE, **_STATUS, "phase": TEXT}),
    "function_call": Shape({**_TYPE, "call_id": TEXT, "name": TEXT, "arguments": TEXT}, _STATUS),
    "function_call_output": Shape({**_TYPE, "call_id": TEXT, "output": TEXT_OR_LIST}, _STATUS),
    "reasoning": Shape({**_TYPE, "summary": LIST}, {**_STATUS, "content": LIST, "encrypted_content": NULL_OR_TEXT}),
}
_ID_BEGINS = {"message": "msg", "function_call": "fc", "function_call_output": "fc", "reasoning": "rs"}
_PARTS: Mapping[str, Shape] = {
    "input_text": Shape({**_TYPE, "text": TEXT}),
    "input_image": Shape(
        _TYPE, {"image_url": TEXT, "file_id": TEXT, "detail": one_of("low", "high", "auto", "original")}
    ),
    "output_text": Shape({**_TYPE, "text": TEXT}, {"annotations": LIST, "logprobs": ANY}),
    "refusal": Shape({**_TYPE, "refusal": TEXT}),
    "summary_text": Shape({**_TYPE, "text": TEXT}),
    "reasoning_text": Shape({**_TYPE, "text": TEXT}),
}
_SPOKEN = ("input_text", "input_image")
_IN_ROLE: Mapping[str, tuple[str, ...]] = {
    "user": _SPOKEN,
    "system": _SPOKEN,
    "developer": _SPOKEN,
    "assistant": ("output_text", "refusal"),
}
_REASONING = Shape(
    {},
    {
        "effort": one_of("none", "minimal", "low", "medium", "high", "xhigh", "max"),
        "summary": one_of("auto", "concise", "detailed"),
        "generate_summary": one_of("auto", "concise", "detailed"),
    },
)
_INCLUDABLE = ("reasoning.encrypted_content", "message.output_text.logprobs", "message.input_image.image_url")


def check_request(body: object) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """The body as a valid request object, and its input as items."""
    if not isinstance(body, dict):
        _refuse("The body of the request must be a JSON object.")
    _check_shape(body, _REQUEST, "")
    _check_options(body)
    _check_tools(body.get("tools") or [])
    items = body["input"]
    if isinstance(items, str):
        return body, [{"role": "user", "content": items}]
    if not items:
        _refuse("Invalid 'input': empty array. Expected an array with minimum length 1.", "input", "empty_array")
    for number, item in enumerate(items):
        _check_item(item, f"input[{number}]")
    _check_calls(items)
    _check_reasoning_order(items)
    return body, items


def read_kind(item: dict[str, Any]) -> str:
    kind: str = item.get("type", "message")
    return kind


def is_models_own(item: dict[str, Any]) -> bool:
    """True for what the model wrote."""
    kind = read_kind(item)
    return kind in ("reasoning", "function_call") or (kind == "message" and item["role"] == "assistant")


def _refuse(message: str, param: str | None = None, code: str | None = None, status: int = 400) -> NoReturn:
    raise Refused(Problem(status, message, code=code, param=param))


def _refuse_value(value: object, known: Collection[str], param: str) -> NoReturn:
    listed = ", ".join(f"'{name}'" for name in known)
    _refuse(f"Invalid value: '{value}'. Supported values are: {listed}.", param, "invalid_value")


def _check_shape(value: dict[str, Any], shape: Shape, place: str) -> None:
    """Check the fields of an object; null stands for one that it may have."""
    dot = f"{place}." if place else ""
    for name in shape.required:
        if name not in value:
            _refuse(f"Missing required parameter: '{dot}{name}'.", f"{dot}{name}", "missing_required_parameter")
    for name, given in value.items():
        rule = shape.required.get(name) or shape.optional.get(name)
        if rule is None:
            _refuse(f"Unknown parameter: '{dot}{name}'.", f"{dot}{name}", "unknown_parameter")
        if not rule[0](given) and not (given is None and name in shape.optional):
            got = "null" if given is None else type(given).__name__
            message = f"Invalid type for '{dot}{name}': expected {rule[1]}, but got {got} instead."
            _refuse(message, f"{dot}{name}", "invalid_type")


def _check_kind(value: object, known: Mapping[str, Shape], allowed: Collection[str], place: str) -> str:
    if not isinstance(value, dict):
        _refuse(f"Invalid type for '{place}': expected an object.", place, "invalid_type")
    kind = value.get("type")
    if not isinstance(kind, str) or kind not in allowed:
        _refuse_value(kind, allowed, f"{place}.type")
    _check_shape(value, known[kind], place)
    return kind


def _check_options(body: dict[str, Any]) -> None:
    limit = body.get("max_output_tokens")
    if limit is not None and limit < _LEAST_OUTPUT:
        message = f"Invalid 'max_output_tokens': integer below minimum value. Expected a value >= {_LEAST_OUTPUT}."
        _refuse(message, "max_output_tokens", "integer_below_min_value")
    if (known := body.get("previous_response_id") or body.get("conversation")) is not None:
        message = f"Previous response with id '{known}' not found."  # nothing is ever stored
        _refuse(message, "previous_response_id", "previous_response_not_found")
    _check_shape(body.get("reasoning") or {}, _REASONING, "reasoning")
    for number, name in enumerate(body.get("include") or ()):
        if name not in _INCLUDABLE:
            _refuse_value(name, _INCLUDABLE, f"include[{number}]")
    if body.get("stream_options") is not None and not body.get("stream"):
        _refuse("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    if body.get("tool_choice") not in (None, "none", "auto") and not body.get("tools"):
        _refuse("Tool choices other than 'none' and 'auto' need 'tools'.", "tool_choice", "invalid_value")


def _check_tools(tools: list[Any]) -> None:
    names: set[str] = set()
    for number, tool in enumerate(tools):
        place = f"tools[{number}]"
        _check_kind(tool, _TOOLS, _TOOLS, place)
        _check_name(tool["name"], f"{place}.name")
        if tool["name"] in names:
            _refuse(f"Invalid '{place}.name': the tool '{tool['name']}' is there twice.", place, "invalid_value")
        names.add(tool["name"])


def _check_name(name: str, param: str) -> None:
    if not _NAME.fullmatch(name):
        message = f"Invalid '{param}': string does not match pattern. Expected '^[a-zA-Z0-9_-]+$', 1 to 64 characters."
        _refuse(message, param, "invalid_value")


# Items


def _check_item(item: object, place: str) -> None:
    if not isinstance(item, dict):
        _refuse(f"Invalid type for '{place}': expected an object.", place, "invalid_type")
    kind = item.get("type", "message")
    if not isinstance(kind, str) or kind not in _ITEMS:
        _refuse_value(kind, _ITEMS, f"{place}.type")
    _check_shape(item, _ITEMS[kind], place)
    if item.get("id") is not None:
        _check_id(item["id"], _ID_BEGINS[kind], f"{place}.id")
    _CHECKS[kind](item, place)


def _check_id(given: str, begins: str, param: str) -> None:
    if not given.startswith(begins):
        message = f"Invalid '{param}': '{given}'. Expected an ID that begins with '{begins}'."
        _refuse(message, param, "invalid_value")
    _check_length(given, param)


def _check_length(given: str, param: str) -> None:
    if not 0 < len(given) <= _LONGEST_ID:
        message = f"Invalid '{param}': string too short or too long. Expected a length of 1 to {_LONGEST_ID}."
        _refuse(message, param, "string_above_max_length")


def _check_message(item: dict[str, Any], place: str) -> None:
    if item["role"] not in _IN_ROLE:
        _refuse_value(item["role"], _IN_ROLE, f"{place}.role")
    _check_parts(item["content"], _IN_ROLE[item["role"]], f"{place}.content")


def _check_parts(content: str | list[Any], allowed: Collection[str], place: str) -> None:
    if isinstance(content, str):
        return
    for number, part in enumerate(content):
        kind = _check_kind(part, _PARTS, allowed, f"{place}[{number}]")
        if kind == "input_image" and not part.get("image_url"):
            param = f"{place}[{number}].image_url"
            _refuse(f"Missing required parameter: '{param}'.", param, "missing_required_parameter")


def _check_call(item: dict[str, Any], place: str) -> None:
    _check_length(item["call_id"], f"{place}.call_id")
    _check_name(item["name"], f"{place}.name")


def _check_output(item: dict[str, Any], place: str) -> None:
    _check_length(item["call_id"], f"{place}.call_id")
    _check_parts(item["output"], _SPOKEN, f"{place}.output")


def _check_reasoning(item: dict[str, Any], place: str) -> None:
    _check_parts(item["summary"], ("summary_text",), f"{place}.summary")
    _check_parts(item.get("content") or [], ("reasoning_text",), f"{place}.content")
    sealed = item.get("encrypted_content")
    if sealed is None:
        message = (
            f"Item with id '{item.get('id')}' not found. Items are not persisted when `store` is set to false. Try "
            "again with `store` set to true, or remove this item from your input."
        )
        _refuse(message, "input", status=404)
    if not is_sealed(sealed):
        message = f"The encrypted content {sealed[:4]}...{sealed[-4:]} could not be verified."
        _refuse(message, f"{place}.encrypted_content", "invalid_encrypted_content")


_CHECKS = {
    "message": _check_message,
    "function_call": _check_call,
    "function_call_output": _check_output,
    "reasoning": _check_reasoning,
}


def _check_calls(items: list[dict[str, Any]]) -> None:
    """Each call has one output after it, and each output a call before it."""
    calls: set[str] = set()
    answered: set[str] = set()
    for number, item in enumerate(items):
        kind = read_kind(item)
        if kind not in ("function_call", "function_call_output"):
            continue
        call_id = item["call_id"]
        group = calls if kind == "function_call" else answered
        if call_id in group:
            _refuse(f"Duplicate item of type '{kind}' with call_id {call_id}.", f"input[{number}]", "invalid_value")
        if group is answered and call_id not in calls:
            _refuse(f"No tool call found for function call output with call_id {call_id}.", "input")
        group.add(call_id)
    for item in items:
        if read_kind(item) == "function_call" and item["call_id"] not in answered:
            _refuse(f"No tool output found for function call {item['call_id']}.", "input")


def _check_reasoning_order(items: list[dict[str, Any]]) -> None:
    """What the model thought stands before what it did next."""
    for number, item in enumerate(items):
        if read_kind(item) != "reasoning":
            continue
        if number + 1 == len(items) or not is_models_own(items[number + 1]):
            named = item.get("id") or f"input[{number}]"
            _refuse(f"Item '{named}' of type 'reasoning' was provided without its required following item.", "input")
