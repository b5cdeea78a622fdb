"""The rules of a Chat Completions request; whoever breaks one is refused as a strict provider would refuse it."""

import re
from collections.abc import Collection, Mapping
from typing import Any, NoReturn

from hermes_lab.formats.rules import (
    ANY,
    COUNT,
    FILLED_LIST,
    FILLED_TEXT,
    FLAG,
    LIST,
    OBJECT,
    TEXT,
    TEXT_OR_LIST,
    TEXT_OR_OBJECT,
    WHOLE,
    Rule,
    is_whole,
    within,
)
from hermes_lab.values import Problem, Refused

_TOOL_NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_MOST_TOOLS = 128
_LONGEST_CALL_ID = 40


def check_request(body: object) -> dict[str, Any]:
    """The body as a valid request object."""
    if not isinstance(body, dict):
        _refuse("The body of the request must be a JSON object.")
    _check_parameters(body)
    _check_tools(body)
    messages = body["messages"]
    for place, message in enumerate(messages):
        _check_message(message, f"messages[{place}]")
    _check_order(messages)
    return body


def _refuse(message: str, param: str | None = None, code: str | None = None) -> NoReturn:
    raise Refused(Problem(400, message, code=code, param=param))


def _refuse_type(param: str, wanted: str, value: object) -> NoReturn:
    got = "null" if value is None else type(value).__name__
    _refuse(f"Invalid type for '{param}': expected {wanted}, but got {got}.", param, "invalid_type")


# Parameters: a name and what its value must be.


_PARAMETERS: Mapping[str, Rule] = {
    "model": FILLED_TEXT,
    "messages": FILLED_LIST,
    "tools": (lambda value: isinstance(value, list) and 0 < len(value) <= _MOST_TOOLS, "an array of 1 to 128 tools"),
    "tool_choice": TEXT_OR_OBJECT,
    "parallel_tool_calls": FLAG,
    "stream": FLAG,
    "stream_options": OBJECT,
    "max_tokens": COUNT,
    "max_completion_tokens": COUNT,
    "temperature": within(0, 2),
    "top_p": within(0, 1),
    "frequency_penalty": within(-2, 2),
    "presence_penalty": within(-2, 2),
    "n": (lambda value: value == 1 and is_whole(value), "1 (this server gives one choice)"),
    "stop": TEXT_OR_LIST,
    "seed": WHOLE,
    "user": TEXT,
    "metadata": OBJECT,
    "store": FLAG,
    "logprobs": FLAG,
    "top_logprobs": WHOLE,
    "logit_bias": OBJECT,
    "response_format": OBJECT,
    "reasoning_effort": TEXT,
    "verbosity": TEXT,
    "service_tier": TEXT,
    "prediction": OBJECT,
    "prompt_cache_key": TEXT,
    "prompt_cache_retention": TEXT,
    "prompt_cache_options": OBJECT,
    "safety_identifier": TEXT,
    "modalities": LIST,
    "audio": OBJECT,
    "web_search_options": OBJECT,
    # What other servers of this format add.
    **dict.fromkeys(
        (
            *("reasoning", "include_reasoning", "provider", "models", "transforms", "plugins", "usage", "route"),
            *("thinking", "enable_thinking", "thinking_budget", "chat_template_kwargs", "think", "reasoning_format"),
            *("top_k", "min_p", "top_a", "repetition_penalty", "safe_prompt", "prompt_mode", "random_seed"),
            *("keep_alive", "options", "extra_body", "search_parameters", "deferred", "cache_prompt", "n_predict"),
        ),
        ANY,
    ),
}
#: Parameters whose null means "not given".
_NULLABLE = frozenset(_PARAMETERS) - {"model", "messages", "tools"}


def _check_parameters(body: dict[str, Any]) -> None:
    for name in ("model", "messages"):
        if name not in body:
            _refuse(f"Missing required parameter: '{name}'.", name, "missing_required_parameter")
    for name, value in body.items():
        if name not in _PARAMETERS:
            _refuse(f"Unrecognized request argument supplied: {name}", name, "unknown_parameter")
        fits, wanted = _PARAMETERS[name]
        if not (fits(value) or (value is None and name in _NULLABLE)):
            _refuse_type(name, wanted, value)
    if body.get("stream_options") is not None and not body.get("stream"):
        _refuse("The 'stream_options' parameter is only allowed when 'stream' is enabled.", "stream_options")
    if body.get("max_tokens") is not None and body.get("max_completion_tokens") is not None:
        _refuse("Set 'max_tokens' or 'max_completion_tokens', not both.", "max_tokens")
    for name in ("tool_choice", "parallel_tool_calls"):
        if body.get(name) is not None and "tools" not in body:
            _refuse(f"'{name}' is only allowed when 'tools' are specified.", name)


def _check_tools(body: dict[str, Any]) -> None:
    names: set[str] = set()
    for place, tool in enumerate(body.get("tools", ())):
        param = f"tools[{place}]"
        if not isinstance(tool, dict) or tool.get("type") != "function" or not isinstance(tool.get("function"), dict):
            _refuse(f"Invalid '{param}': expected an object of type 'function'.", param, "invalid_type")
        function = tool["function"]
        name = _check_name(function.get("name"), f"{param}.function.name")
        if name in names:
            _refuse(f"Invalid '{param}.function.name': the tool '{name}' is there twice.", param, "invalid_value")
        names.add(name)
        for field, kind, wanted in (("description", str, "a string"), ("parameters", dict, "an object")):
            if field in function and not isinstance(function[field], kind):
                _refuse_type(f"{param}.function.{field}", wanted, function[field])


def _check_name(name: object, param: str) -> str:
    if not isinstance(name, str):
        _refuse_type(param, "a string", name)
    if not _TOOL_NAME.fullmatch(name):
        message = f"Invalid '{param}': string does not match pattern. Expected '^[a-zA-Z0-9_-]+$', 1 to 64 characters."
        _refuse(message, param, "invalid_value")
    return name


# Messages: a role and the fields and content parts it may have.

_REASONING_FIELDS = frozenset({"reasoning", "reasoning_content", "reasoning_details"})  # of other servers
_SPOKEN = frozenset({"role", "content", "name"})
_FIELDS: Mapping[str, frozenset[str]] = {
    "system": _SPOKEN,
    "developer": _SPOKEN,
    "user": _SPOKEN,
    "assistant": _SPOKEN | {"tool_calls", "refusal", "audio", "annotations", "function_call"} | _REASONING_FIELDS,
    "tool": _SPOKEN | {"tool_call_id"},
}
_TEXT_ONLY = frozenset({"text"})
_PARTS: Mapping[str, frozenset[str]] = {
    "system": _TEXT_ONLY,
    "developer": _TEXT_ONLY,
    "user": frozenset({"text", "image_url", "input_audio", "file"}),
    "assistant": frozenset({"text", "refusal"}),
    "tool": _TEXT_ONLY,
}


def _check_message(message: object, param: str) -> None:
    if not isinstance(message, dict):
        _refuse_type(param, "an object", message)
    role = message.get("role")
    if not isinstance(role, str) or role not in _FIELDS:
        known = ", ".join(f"'{name}'" for name in _FIELDS)
        _refuse(f"Invalid value: '{role}'. Supported values are: {known}.", f"{param}.role", "invalid_value")
    if not message.keys() <= _FIELDS[role]:
        extra = min(message.keys() - _FIELDS[role])
        _refuse(f"Additional properties are not allowed ('{extra}' was unexpected) - '{param}'", param)
    _check_content(message, param, _PARTS[role])
    if role == "assistant" and "tool_calls" in message:
        _check_calls(message["tool_calls"], f"{param}.tool_calls")
    if role == "tool" and not isinstance(message.get("tool_call_id"), str):
        _refuse(f"Missing parameter '{param}.tool_call_id'.", f"{param}.tool_call_id", "missing_required_parameter")


def _check_content(message: dict[str, Any], param: str, kinds: Collection[str]) -> None:
    content = message.get("content")
    if isinstance(content, str):
        return
    if content is None and message["role"] == "assistant" and (message.get("tool_calls") or message.get("refusal")):
        return
    if not isinstance(content, list) or not content:
        wanted = "a string or an array with at least one part"
        _refuse_type(f"{param}.content", wanted, content)
    for place, part in enumerate(content):
        _check_part(part, f"{param}.content[{place}]", kinds)


def _check_part(part: object, param: str, kinds: Collection[str]) -> None:
    kind = part.get("type") if isinstance(part, dict) else None
    if not isinstance(part, dict) or not isinstance(kind, str) or kind not in kinds:
        known = ", ".join(f"'{name}'" for name in sorted(kinds))
        _refuse(f"Invalid value: '{kind}'. Supported values are: {known}.", f"{param}.type", "invalid_value")
    wanted = str if kind in ("text", "refusal") else dict
    if not isinstance(part.get(kind), wanted):
        _refuse_type(f"{param}.{kind}", "a string" if wanted is str else "an object", part.get(kind))
    if kind == "image_url" and not isinstance(part["image_url"].get("url"), str):
        _refuse_type(f"{param}.image_url.url", "a string", part["image_url"].get("url"))


def _check_calls(calls: object, param: str) -> None:
    if not isinstance(calls, list) or not calls:
        _refuse_type(param, "an array with at least one tool call", calls)
    seen: set[str] = set()
    for place, call in enumerate(calls):
        call_id = _check_call(call, f"{param}[{place}]")
        if call_id in seen:
            _refuse(f"Duplicate tool call id '{call_id}' in '{param}'.", param, "invalid_value")
        seen.add(call_id)


def _check_call(call: object, param: str) -> str:
    if not isinstance(call, dict) or call.get("type") != "function" or not isinstance(call.get("function"), dict):
        _refuse(f"Invalid '{param}': expected an object of type 'function'.", param, "invalid_type")
    call_id = call.get("id")
    if not isinstance(call_id, str) or not call_id:
        _refuse_type(f"{param}.id", "a string that is not empty", call_id)
    if len(call_id) > _LONGEST_CALL_ID:
        message = f"Invalid '{param}.id': string too long. Expected a string with maximum length {_LONGEST_CALL_ID}."
        _refuse(message, f"{param}.id", "string_above_max_length")
    _check_name(call["function"].get("name"), f"{param}.function.name")
    if not isinstance(call["function"].get("arguments"), str):
        _refuse_type(f"{param}.function.arguments", "a string", call["function"].get("arguments"))
    return call_id


def _check_order(messages: list[dict[str, Any]]) -> None:
    """Each tool call is answered once, directly after its message, and nothing else is answered."""
    called: set[str] = set()
    waiting: list[str] = []
    for place, message in enumerate(messages):
        if message["role"] == "tool":
            _check_result(message["tool_call_id"], called, waiting, f"messages[{place}]")
            waiting.remove(message["tool_call_id"])
            continue
        _check_nothing_waits(waiting, f"messages[{place}].role")
        waiting = [call["id"] for call in message.get("tool_calls", ())]
        called = set(waiting)
    _check_nothing_waits(waiting, f"messages[{len(messages) - 1}]")


def _check_result(call_id: str, called: Collection[str], waiting: Collection[str], param: str) -> None:
    if call_id in waiting:
        return
    if call_id in called:
        _refuse(f"Invalid parameter: the tool call '{call_id}' has more than one result.", param)
    if called:
        _refuse(f"Invalid parameter: 'tool_call_id' '{call_id}' not found in 'tool_calls' of previous message.", param)
    _refuse(
        "Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls'.",
        param,
    )


def _check_nothing_waits(waiting: Collection[str], param: str) -> None:
    if waiting:
        _refuse(
            "An assistant message with 'tool_calls' must be followed by tool messages responding to each "
            f"'tool_call_id'. The following tool_call_ids did not have response messages: {', '.join(waiting)}",
            param,
        )
