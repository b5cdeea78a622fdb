"""The Anthropic Messages format: neutral messages to bytes, events to a Reply. Pure, no network.

A fragment is one message with `content` as its last key, so that messages of one role are merged, and marks for the
cache are put in, by cutting constant bytes off its ends. Everything in front of the newest message is the same in the
next request, but for the marks, which move with the end of the conversation.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agent.formats.anthropic_answers import MessageReader
from agent.formats.anthropic_blocks import THINKING_BLOCKS, make_blocks
from agent.formats.anthropic_thinking import make_thinking, usual_output_limit
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
