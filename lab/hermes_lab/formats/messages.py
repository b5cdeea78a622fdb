"""Anthropic Messages: reads a request into an `Ask`, writes answers whole or as server-sent events."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any

from hermes_lab.formats.base import Format, Headers, Overflow, find_account
from hermes_lab.formats.messages_rules import LIVES, Turn, check_request
from hermes_lab.formats.text import encode_block, encode_text_block, parse_body, write_json
from hermes_lab.prompt import Block, Prompt, sum_tokens
from hermes_lab.seals import seal, sign
from hermes_lab.values import Answer, Ask, Call, Finish, Problem, Refused, Replay, ToolResult, Usage, Want

_STOP_REASONS = {
    Finish.STOP: "end_turn",
    Finish.TOOL_CALLS: "tool_use",
    Finish.LENGTH: "max_tokens",
    Finish.CONTENT_FILTER: "refusal",
}
_ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
_THINKING = ("thinking", "redacted_thinking")
_PING = b'event: ping\ndata: {"type":"ping"}\n\n'


def check_headers(headers: Headers) -> None:
    if not find_account(headers):
        raise Refused(Problem(401, "x-api-key header is required", "authentication_error"))
    if not headers.get("anthropic-version"):
        raise Refused(Problem(400, "anthropic-version: header is required"))


def decode_request(body: bytes) -> Ask:
    """What the request asks for; raises Refused when it breaks a rule."""
    request, turns = check_request(parse_body(body))
    newest = _find_newest_text(turns)
    thinking = request.get("thinking", {})
    return Ask(
        model=request["model"],
        seed=hashlib.sha256(body).hexdigest(),
        user_text=_join_text(turns[newest]) if newest >= 0 else "",
        round=sum(turn.role == "assistant" for turn in turns[newest + 1 :]),
        results=_collect_results(turns),
        prompt=_build_prompt(request, turns),
        limit=request["max_tokens"],
        has_tools=bool(request.get("tools")),
        stream=bool(request.get("stream")),
        thinks=thinking.get("type", "disabled") != "disabled",
        wants=frozenset() if thinking.get("display") == "omitted" else frozenset({Want.REASONING}),
        replay=_find_replay(turns, thinking.get("type", "disabled")),
    )


def _find_newest_text(turns: list[Turn]) -> int:
    """The newest user turn in which somebody said something."""
    for at in range(len(turns) - 1, -1, -1):
        if turns[at].role == "user" and any(placed.block["type"] != "tool_result" for placed in turns[at].blocks):
            return at
    return -1


def _join_text(turn: Turn) -> str:
    return "\n".join(placed.block["text"] for placed in turn.blocks if placed.block["type"] == "text")


def _collect_results(turns: list[Turn]) -> tuple[ToolResult, ...]:
    """The tool results at the end of the conversation, named after the calls they answer."""
    last = turns[-1]
    if last.role != "user" or last.blocks[-1].block["type"] != "tool_result":
        return ()
    names = {placed.block["id"]: placed.block["name"] for placed in turns[-2].blocks if "name" in placed.block}
    return tuple(ToolResult(names[block["tool_use_id"]], _read_result(block)) for block, _ in last.blocks)


def _read_result(block: dict[str, Any]) -> str:
    content = block.get("content", "")
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def _find_replay(turns: list[Turn], thinking: str) -> Replay | None:
    """The model's message of the tool loop that is under way, if thinking is on."""
    if thinking == "disabled" or turns[-1].role != "user" or turns[-1].blocks[0].block["type"] != "tool_result":
        return None
    kinds = [placed.block["type"] for placed in turns[-2].blocks]
    calls = tuple(placed.block["id"] for placed in turns[-2].blocks if placed.block["type"] == "tool_use")
    place = f"{turns[-2].blocks[0].place}.type"
    return Replay(calls, place, any(kind in _THINKING for kind in kinds), must_think=thinking == "enabled")


# The prompt


def _build_prompt(request: dict[str, Any], turns: list[Turn]) -> Prompt:
    """Tools, system, messages, as blocks without their cache marks."""
    system = request.get("system", [])
    if isinstance(system, str):
        system = [{"type": "text", "text": system}] if system else []
    head = [_encode(block, b"") for block in (*request.get("tools", ()), *system)]
    body = [_encode(placed.block, turn.role.encode()) for turn in turns for placed in turn.blocks]
    _mark_last(request.get("cache_control"), turns, body)
    settings = write_json([request.get("thinking"), request.get("tool_choice")]).encode()
    return Prompt(tuple(head), tuple(body), sum_tokens(head, body), marked=True, settings=settings)


def _encode(block: dict[str, Any], role: bytes) -> Block:
    kind = block.get("type")
    mark = block.get("cache_control")
    if kind == "text":
        return encode_text_block(block["text"], _read_life(mark), role)
    if kind == "tool_result" and isinstance(block.get("content"), list):
        return _encode_result(block, role)
    if "cache_control" in block:
        block = _drop_mark(block)
    images = (_find_picture(block),) if kind == "image" else ()
    return encode_block(block, _read_life(mark), images, role)


def _encode_result(block: dict[str, Any], role: bytes) -> Block:
    """A tool result of several parts; a mark inside it counts for the whole."""
    parts = block["content"]
    images = tuple(_find_picture(part) for part in parts if part["type"] == "image")
    life = max(_read_life(marked.get("cache_control")) for marked in (block, *parts))
    return encode_block({**_drop_mark(block), "content": [_drop_mark(part) for part in parts]}, life, images, role)


def _drop_mark(block: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in block.items() if name != "cache_control"}


def _read_life(mark: dict[str, str] | None) -> float:
    return LIVES[mark.get("ttl", "5m")] if mark else 0.0


def _find_picture(block: dict[str, Any]) -> str:
    source: dict[str, str] = block["source"]
    return source["data"] if source["type"] == "base64" else source["url"]


def _mark_last(mark: dict[str, str] | None, turns: list[Turn], body: list[Block]) -> None:
    """A mark on the whole request stands on the last block that can carry one."""
    kinds = [placed.block["type"] for turn in turns for placed in turn.blocks]
    place = next((at for at in range(len(kinds) - 1, -1, -1) if kinds[at] not in _THINKING), None)
    if mark and place is not None and not body[place].life:
        body[place] = body[place]._replace(life=_read_life(mark))


# Answers


def encode_whole(ask: Ask, answer: Answer, usage: Usage) -> bytes:
    """The answer as one JSON object."""
    message = _describe_message(ask, list(_list_blocks(ask, answer)), _describe_usage(usage))
    return write_json({**message, **_describe_stop(answer)}).encode("utf-8")


def _describe_message(ask: Ask, content: list[dict[str, Any]], usage: dict[str, Any]) -> dict[str, Any]:
    head = {"id": f"msg_{ask.seed[:24]}", "type": "message", "role": "assistant", "model": ask.model}
    return {**head, "content": content, "stop_reason": None, "stop_sequence": None, "usage": usage}


def _describe_stop(answer: Answer) -> dict[str, Any]:
    stop: dict[str, Any] = {"stop_reason": _STOP_REASONS[answer.finish], "stop_sequence": None}
    if answer.finish == Finish.CONTENT_FILTER:
        stop["stop_details"] = {"type": "refusal", "category": None, "explanation": None}
    return stop


def _describe_usage(usage: Usage) -> dict[str, Any]:
    created = {
        "ephemeral_5m_input_tokens": usage.cache_write_5m_tokens,
        "ephemeral_1h_input_tokens": usage.cache_write_1h_tokens,
    }
    return {**_describe_totals(usage), "cache_creation": created, "service_tier": "standard"}


def _describe_totals(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.uncached_tokens,
        "cache_creation_input_tokens": usage.cache_write_tokens,
        "cache_read_input_tokens": usage.cached_tokens,
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"thinking_tokens": usage.reasoning_tokens},
    }


def _list_blocks(ask: Ask, answer: Answer) -> Iterator[dict[str, Any]]:
    if answer.reasoning:
        yield _describe_thinking(ask, answer)
    if answer.text:
        yield {"type": "text", "text": answer.text}
    for call in answer.calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": _parse_arguments(call)}


def _describe_thinking(ask: Ask, answer: Answer) -> dict[str, Any]:
    if answer.hides_reasoning:
        return {"type": "redacted_thinking", "data": seal(answer.reasoning)}
    if Want.REASONING not in ask.wants:
        return {"type": "thinking", "thinking": "", "signature": seal(answer.reasoning)}
    return {"type": "thinking", "thinking": answer.reasoning, "signature": sign(answer.reasoning)}


def _parse_arguments(call: Call) -> Any:
    """The input as an object; broken JSON, which only a stream can carry, becomes an empty one."""
    try:
        return json.loads(call.arguments)
    except ValueError:
        return {}


def encode_stream(ask: Ask, answer: Answer, usage: Usage) -> list[bytes]:
    """The answer as events: start, blocks, a ping after the first block has begun, stop reason with usage, stop."""
    begun = _describe_message(ask, [], {**_describe_usage(usage), "output_tokens": min(1, usage.completion_tokens)})
    events = [_encode_event("message_start", f'"message":{write_json(begun)}')]
    for index, (block, deltas) in enumerate(_list_deltas(ask, answer)):
        events.append(_encode_event("content_block_start", f'"index":{index},"content_block":{write_json(block)}'))
        if index == 0:
            events.append(_PING)
        head = f'event: content_block_delta\ndata: {{"type":"content_block_delta","index":{index},"delta":'
        events.extend(f"{head}{delta}}}\n\n".encode() for delta in deltas)
        events.append(_encode_event("content_block_stop", f'"index":{index}'))
    totals = write_json(_describe_totals(usage))
    events.append(_encode_event("message_delta", f'"delta":{write_json(_describe_stop(answer))},"usage":{totals}'))
    events.append(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    return events


def _encode_event(kind: str, rest: str) -> bytes:
    return f'event: {kind}\ndata: {{"type":"{kind}",{rest}}}\n\n'.encode()


def _list_deltas(ask: Ask, answer: Answer) -> Iterator[tuple[dict[str, Any], list[str]]]:
    """Each block as it begins, and the deltas that fill it."""
    if answer.reasoning:
        yield _begin_thinking(answer, _describe_thinking(ask, answer))
    if answer.text:
        deltas = [f'{{"type":"text_delta","text":{write_json(piece)}}}' for piece in answer.split(answer.text)]
        yield {"type": "text", "text": ""}, deltas
    for call in answer.calls:
        pieces = ["", *answer.split(call.arguments)]
        deltas = [f'{{"type":"input_json_delta","partial_json":{write_json(piece)}}}' for piece in pieces]
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": {}}, deltas


def _begin_thinking(answer: Answer, block: dict[str, Any]) -> tuple[dict[str, Any], list[str]]:
    if block["type"] == "redacted_thinking":
        return block, []
    pieces = answer.split(block["thinking"])
    deltas = [f'{{"type":"thinking_delta","thinking":{write_json(piece)}}}' for piece in pieces]
    deltas.append(f'{{"type":"signature_delta","signature":{write_json(block["signature"])}}}')
    return {"type": "thinking", "thinking": "", "signature": ""}, deltas


# Problems


def encode_problem(problem: Problem) -> bytes:
    kind = _ERROR_TYPES.get(problem.status, "api_error")
    body = {"type": "error", "error": {"type": kind, "message": problem.message}, "request_id": None}
    return write_json(body).encode("utf-8", "replace")  # it may quote a name that is not valid text


def encode_error_event(problem: Problem, _place: int) -> bytes:
    return b"event: error\ndata: " + encode_problem(problem) + b"\n\n"


def describe_overflow(overflow: Overflow) -> Problem:
    if overflow.limit is None or overflow.prompt > overflow.window:
        return Problem(400, f"prompt is too long: {overflow.prompt} tokens > {overflow.window} maximum")
    asked = f"{overflow.prompt} + {overflow.limit} > {overflow.window}"
    told = f"input length and `max_tokens` exceed context limit: {asked}, decrease input length or `max_tokens`"
    return Problem(400, f"{told} and try again")


def describe_missing_thoughts(place: str) -> Problem:
    told = f"{place}: Expected `thinking` or `redacted_thinking`, but found another block. When `thinking` is enabled, "
    rule = "a final `assistant` message must start with a thinking block (preceding the lastmost set of `tool_use` and "
    return Problem(400, f"{told}{rule}`tool_result` blocks).")


FORMAT = Format(
    name="messages",
    path="/v1/messages",
    call_prefix="toolu_",
    request_id_header="request-id",
    closing_events=1,
    check_headers=check_headers,
    decode=decode_request,
    encode_whole=encode_whole,
    encode_stream=encode_stream,
    encode_problem=encode_problem,
    encode_error_event=encode_error_event,
    encode_failed=None,
    describe_overflow=describe_overflow,
    describe_missing_thoughts=describe_missing_thoughts,
)
