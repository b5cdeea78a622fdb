"""The Anthropic Messages format: neutral messages to bytes, events to a Reply. Pure, no network.

A fragment is one message with `content` as its last key, so that messages of one role are merged, and marks for the
cache are put in, by cutting constant bytes off its ends. Everything in front of the newest message is the same in the
next request, but for the marks, which move with the end of the conversation.

How much a model may write and how long it thinks (a budget on older models, an effort on newer ones) stands in tables
at the end. A model refuses the form that is not its own, and some cannot stop thinking at all.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from agent.formats.anthropic_answers import MessageReader
from agent.formats.anthropic_blocks import THINKING_BLOCKS, make_blocks
from agent.formats.chat_completions import encode_json
from agent.providers.table import Provider

if TYPE_CHECKING:
    from agent.formats.wire import CallSettings

PATH = "/v1/messages"
read_answer = MessageReader
#: A key of the tail that stays at home: how long the cache is asked to keep the prompt; empty: no marks.
CACHE_TTL = "_cache_ttl"
_MARKS: Mapping[str, bytes] = {
    "": b"",
    "5m": b',"cache_control":{"type":"ephemeral"}',
    "1h": b',"cache_control":{"type":"ephemeral","ttl":"1h"}',
}
_USER, _ASSISTANT = b'{"role":"user","content":[', b'{"role":"assistant","content":['
_END = b"]}"
_RESULT = _USER + b'{"type":"tool_result"'
_THOUGHT = tuple(_ASSISTANT + b'{"type":"%b"' % kind.encode() for kind in sorted(THINKING_BLOCKS))
#: A conversation has to begin with the user.
_OPENING = _USER + b'{"type":"text","text":"(start)"}' + _END + b","
#: The first letter of the role tells a fragment's role; no letter stands for none.
_ROLE_PLACE = len(b'{"role":"')
_U, _A, _NONE = b"ua\0"
_HEAD_LENGTHS: Mapping[int, int] = {_U: len(_USER), _A: len(_ASSISTANT)}
#: What stands in front of a fragment's content, by the role before it and its own.
_LINKS: Mapping[tuple[int, int], bytes] = {
    (_NONE, _U): _USER,
    (_NONE, _A): _OPENING + _ASSISTANT,
    (_U, _U): b",",
    (_A, _A): b",",
    (_U, _A): _END + b"," + _ASSISTANT,
    (_A, _U): _END + b"," + _USER,
}
#: Two for the messages: the newest one is written to the cache, the one before it is where the last request wrote.
_MARKED_MESSAGES = 2
#: Keys that a tool's schema may not have at its top.
_REFUSED_IN_SCHEMA = frozenset({"oneOf", "anyOf", "allOf"})


def encode_message(message: Mapping[str, Any], dialect: str) -> bytes:
    head = _ASSISTANT if message["role"] == "assistant" else _USER
    return head + encode_json(make_blocks(message, dialect))[1:] + b"}"


def encode_system(text: str) -> bytes:
    return encode_json({"type": "text", "text": text}) if text.strip() else b""


def encode_tools(tools: Sequence[Mapping[str, Any]]) -> bytes:
    return encode_json([_make_tool(tool["function"]) for tool in tools]) if tools else b""


def join_request(model: str, tools: bytes, system: bytes, messages: Sequence[bytes], tail: Mapping[str, Any]) -> bytes:
    """A request body from frozen fragments; the work grows with the bytes joined, never with their meaning."""
    fields = dict(tail)
    if _is_loop_without_thinking(messages) and fields.get("thinking", {}).get("type") == "enabled":
        del fields["thinking"]
    mark = _MARKS[fields.pop(CACHE_TTL, "5m")]
    parts = [b'{"model":', encode_json(model)]
    if tools:
        parts += (b',"tools":', tools[:-2], mark, b"}]")
    if system:
        parts += (b',"system":[', system[:-1], mark, b"}]")
    parts.append(b',"messages":[')
    parts += _merge(messages, mark)
    parts += (b"],", encode_json(fields)[1:]) if fields else (b"]}",)
    return b"".join(parts)


def make_tail(provider: Provider, settings: "CallSettings") -> dict[str, Any]:
    """What stands behind the messages. The format refuses a request without an output limit."""
    del provider  # what differs here differs by model
    max_tokens = settings.max_tokens or usual_output_limit(settings.model)
    tail: dict[str, Any] = {"stream": True, "max_tokens": max_tokens, CACHE_TTL: settings.cache_ttl}
    tail |= make_thinking(settings.model, settings.effort, max_tokens)
    if not settings.with_tools:
        tail["tool_choice"] = {"type": "none"}
    return tail


def find_error(chunk: Mapping[str, Any]) -> Mapping[str, Any] | None:
    if chunk.get("type") != "error" and not chunk.get("error"):
        return None
    problem = chunk.get("error") or {"message": "an error without a word on it"}
    return problem if isinstance(problem, Mapping) else {"message": str(problem)}


def _is_loop_without_thinking(messages: Sequence[bytes]) -> bool:
    """Whether tools are at work for an answer that did not begin with thinking, such as one of another provider. A
    model with a budget for thinking refuses to begin with it then, until the loop is over."""
    places = [place for place, message in enumerate(messages) if message[_ROLE_PLACE] == _A]
    if not places or not any(message.startswith(_RESULT) for message in messages[places[-1] + 1 :]):
        return False
    return not messages[places[-1]].startswith(_THOUGHT)


def _make_tool(function: Mapping[str, Any]) -> dict[str, Any]:
    schema = {key: value for key, value in (function.get("parameters") or {}).items() if key not in _REFUSED_IN_SCHEMA}
    if schema.get("type") != "object":
        schema = {"properties": {}} | schema | {"type": "object"}
    tool = {"name": function["name"], "description": function.get("description"), "input_schema": schema}
    return {key: value for key, value in tool.items() if value}


def _merge(messages: Sequence[bytes], mark: bytes) -> list[bytes]:
    """The messages as pieces to be joined: neighbours of one role become one, the newest of the user get marks."""
    pieces: list[bytes] = []
    user_ends: list[int] = []  # where runs of the user's fragments end; only there, there is no thinking to be marked
    last = _NONE
    for place, message in enumerate(messages):
        role = message[_ROLE_PLACE]
        pieces += (_LINKS[last, role], message[_HEAD_LENGTHS[role] : -2])
        if last == _U != role:
            user_ends.append(place - 1)
        last = role
    if last == _U:
        user_ends.append(len(messages) - 1)
    for place in user_ends[-_MARKED_MESSAGES:] if mark else ():
        pieces[2 * place + 1] = pieces[2 * place + 1][:-1] + mark + b"}"
    return [*pieces, _END] if pieces else pieces


# --- how much a model may write, and how long it thinks


#: Enough for any answer of an agent; a larger limit only makes a runaway answer dearer.
USUAL_LIMIT = 32_000
#: Refused by nobody who is not in the table.
UNKNOWN_LIMIT = 8_192

#: The first pattern that is found in the model's name (dots written as dashes) wins.
OUTPUT_LIMITS: tuple[tuple[str, int], ...] = (
    (r"claude-(fable|mythos)", 128_000),
    (r"claude-(opus|sonnet|haiku)-[5-9]", 128_000),
    (r"claude-opus-4-[678](?!\d)", 128_000),
    (r"claude-(opus|sonnet|haiku)-4-[56](?!\d)", 64_000),
    (r"claude-opus-4", 32_000),
    (r"claude-sonnet-4", 64_000),
    (r"claude-3-7-sonnet", 64_000),
    (r"claude-3-5-(sonnet|haiku)", 8_192),
    (r"claude-(3|2|instant)", 4_096),
    (r"claude", 64_000),
    (r"glm-4-6", 128_000),
    (r"glm-4-5", 96_000),
    (r"deepseek-reasoner", 64_000),
    (r"deepseek", 8_192),
)
_LIMITS = tuple((re.compile(pattern), limit) for pattern, limit in OUTPUT_LIMITS)


def plain_name(model: str) -> str:
    """A model's name as the tables write it: providers differ in case and in dots or dashes."""
    return model.lower().replace(".", "-")


def find_output_limit(model: str) -> int:
    """The most that the model can write in one answer, thinking included."""
    name = plain_name(model)
    return next((limit for pattern, limit in _LIMITS if pattern.search(name)), UNKNOWN_LIMIT)


def usual_output_limit(model: str) -> int:
    """What is asked for when nobody set a limit."""
    return min(find_output_limit(model), USUAL_LIMIT)


#: Tokens to think with, by effort, where a budget is asked for. The format takes none below the first one.
BUDGETS: Mapping[str, int] = {"minimal": 1_024, "low": 4_096, "medium": 10_240, "high": 24_576}
#: The efforts of the models that choose themselves how long to think.
EFFORTS: Mapping[str, str] = {"minimal": "low", "low": "low", "medium": "medium", "high": "high"}
#: Left for the answer itself beside the budget.
ANSWER_ROOM = 4_096

_DISABLED: Mapping[str, Any] = {"thinking": {"type": "disabled"}}
_BETWEEN_TOOLS: Mapping[str, Any] = {"thinking": {"type": "between_tools"}}
_LOW_EFFORT: Mapping[str, Any] = {"output_config": {"effort": "low"}}


@dataclass(frozen=True, slots=True)
class ThinkingWay:
    """What a family of models takes; `least` is what makes it think as little as it can."""

    least: Mapping[str, Any]
    takes_effort: bool = False
    takes_budget: bool = False


#: The first pattern that is found in the model's name wins. Source: the documentation of thinking and of each model,
#: platform.claude.com.
WAYS: tuple[tuple[str, ThinkingWay], ...] = (
    (r"claude-(fable|mythos|opus-5-5)", ThinkingWay(_LOW_EFFORT, takes_effort=True)),
    (r"claude-sonnet-5-5", ThinkingWay(_BETWEEN_TOOLS, takes_effort=True)),
    (r"claude-(opus|sonnet|haiku)-5", ThinkingWay(_DISABLED, takes_effort=True)),
    (r"claude-(opus|sonnet)-4-[678](?!\d)", ThinkingWay({}, takes_effort=True)),  # do not think unless told to
    (r"claude-(3-7|(opus|sonnet|haiku)-4)", ThinkingWay(_DISABLED, takes_budget=True)),
    (r"claude-(3|2|instant)", ThinkingWay({})),
    (r"claude", ThinkingWay(_LOW_EFFORT, takes_effort=True)),
)
_WAYS = tuple((re.compile(pattern), way) for pattern, way in WAYS)
#: Others who speak this format copied it when it had budgets only.
_OTHERS = ThinkingWay(_DISABLED, takes_budget=True)


def make_thinking(model: str, effort: str, max_tokens: int) -> dict[str, Any]:
    """The fields of a request that ask for this effort, `max_tokens` among them where it has to be raised."""
    name = plain_name(model)
    way = next((way for pattern, way in _WAYS if pattern.search(name)), _OTHERS)
    if effort == "none":
        return dict(way.least)
    if way.takes_effort and effort in EFFORTS:
        # Without a word on it, the newer models keep their thoughts to themselves.
        shown = {"type": "adaptive", "display": "summarized"}
        return {"thinking": shown, "output_config": {"effort": EFFORTS[effort]}}
    if way.takes_budget and effort in BUDGETS:
        # Thinking counts as output, so the limit grows with it as far as the model goes; then the budget gives way.
        budget = BUDGETS[effort]
        limit = max(max_tokens, min(find_output_limit(model), budget + ANSWER_ROOM))
        fitting = min(budget, max(BUDGETS["minimal"], limit - ANSWER_ROOM))
        return {"max_tokens": limit, "thinking": {"type": "enabled", "budget_tokens": fitting}}
    return {}
