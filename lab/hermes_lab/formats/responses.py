"""OpenAI Responses: reads a request into an `Ask`, writes answers whole or as numbered server-sent events."""

import hashlib
from collections.abc import Iterable, Iterator
from typing import Any

from hermes_lab.formats.base import Format, Overflow, accept_headers
from hermes_lab.formats.chat_completions import encode_problem, find_life
from hermes_lab.formats.responses_rules import check_request, is_models_own, read_kind
from hermes_lab.formats.text import CREATED, encode_block, parse_body, write_json
from hermes_lab.prompt import Block, Prompt, sum_tokens
from hermes_lab.seals import seal
from hermes_lab.values import Answer, Ask, Call, Finish, Problem, ToolResult, Usage, Want

_INCOMPLETE = {Finish.LENGTH: "max_output_tokens", Finish.CONTENT_FILTER: "content_filter"}
_INSTRUCTING = ("system", "developer")

Event = tuple[str, str]  # its type, and its fields as JSON without the braces


def decode_request(body: bytes) -> Ask:
    """What the request asks for; raises Refused when it breaks a rule."""
    request, items = check_request(parse_body(body))
    newest_user = _find_newest_user(items)
    return Ask(
        model=request["model"],
        seed=hashlib.sha256(body).hexdigest(),
        user_text=_join_text(items[newest_user]["content"]) if newest_user >= 0 else "",
        round=_count_calls(items[newest_user + 1 :]),
        results=_collect_results(items),
        prompt=_build_prompt(request, items),
        limit=request.get("max_output_tokens"),
        has_tools=bool(request.get("tools")),
        stream=bool(request.get("stream")),
        wants=frozenset(_list_wants(request)),
    )


def _list_wants(request: dict[str, Any]) -> Iterator[Want]:
    if (request.get("reasoning") or {}).get("summary"):
        yield Want.REASONING
    if "reasoning.encrypted_content" in (request.get("include") or ()):
        yield Want.SEALED_REASONING


def _find_newest_user(items: list[dict[str, Any]]) -> int:
    return next((at for at in range(len(items) - 1, -1, -1) if items[at].get("role") == "user"), -1)


def _join_text(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if "text" in part)


def _count_calls(items: list[dict[str, Any]]) -> int:
    """Model calls: each run of items that the model wrote is one."""
    own = [is_models_own(item) for item in items]
    return sum(here and not before for here, before in zip(own, [False, *own], strict=False))


def _collect_results(items: list[dict[str, Any]]) -> tuple[ToolResult, ...]:
    """The tool results at the end of the conversation, named after the calls they answer."""
    begin = len(items)
    while begin and read_kind(items[begin - 1]) == "function_call_output":
        begin -= 1
    if begin == len(items):
        return ()
    names = {item["call_id"]: item["name"] for item in items if read_kind(item) == "function_call"}
    return tuple(ToolResult(names[item["call_id"]], _join_text(item["output"])) for item in items[begin:])


def _build_prompt(request: dict[str, Any], items: list[dict[str, Any]]) -> Prompt:
    """Tools, instructions, then items: the order in which a provider builds its prompt."""
    begin = next((at for at, item in enumerate(items) if item.get("role") not in _INSTRUCTING), len(items))
    instructions = request.get("instructions")
    named = [{"role": "developer", "content": instructions}] if instructions else []
    head = (*map(encode_block, request.get("tools") or ()), *map(_encode_item, (*named, *items[:begin])))
    body = tuple(map(_encode_item, items[begin:]))
    return Prompt(head, body, sum_tokens(head, body), life=find_life(request))


def _encode_item(item: dict[str, Any]) -> Block:
    parts = item.get("content") or item.get("output")
    if not isinstance(parts, list):
        return encode_block(item)
    return encode_block(item, images=tuple(part["image_url"] for part in parts if part["type"] == "input_image"))


# Answers


def encode_whole(ask: Ask, answer: Answer, usage: Usage) -> bytes:
    """The answer as one JSON object."""
    return write_json(_describe_response(ask, answer, usage)).encode("utf-8")


def _describe_response(ask: Ask, answer: Answer, usage: Usage) -> dict[str, Any]:
    reason = _INCOMPLETE.get(answer.finish)
    return {
        **_describe_begun(ask, "incomplete" if reason else "completed"),
        "incomplete_details": {"reason": reason} if reason else None,
        "output": _list_items(ask, answer),
        "usage": _describe_usage(usage),
    }


def _describe_begun(ask: Ask, status: str) -> dict[str, Any]:
    return {
        "id": f"resp_{ask.seed[:32]}",
        "object": "response",
        "created_at": CREATED,
        "status": status,
        "error": None,
        "incomplete_details": None,
        "instructions": None,  # what the client sent is not repeated
        "max_output_tokens": ask.limit,
        "metadata": {},
        "model": ask.model,
        "output": [],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "store": False,
        "temperature": 1.0,
        "tool_choice": "auto",
        "tools": [],
        "top_p": 1.0,
        "truncation": "disabled",
        "usage": None,
    }


def _describe_usage(usage: Usage) -> dict[str, Any]:
    return {
        "input_tokens": usage.prompt_tokens,
        "input_tokens_details": {
            "cached_tokens": usage.cached_tokens,
            "cache_write_tokens": usage.cache_write_tokens,
        },
        "output_tokens": usage.completion_tokens,
        "output_tokens_details": {"reasoning_tokens": usage.reasoning_tokens},
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
    }


def _list_items(ask: Ask, answer: Answer) -> list[dict[str, Any]]:
    """Reasoning, message, calls; the last one is incomplete when the answer is."""
    items: list[dict[str, Any]] = []
    if answer.reasoning:
        items.append(_describe_reasoning(ask, answer))
    if answer.text or not answer.calls:
        items.append(_describe_message(ask, answer))
    items.extend(_describe_call(ask, call, number) for number, call in enumerate(answer.calls))
    if answer.finish == Finish.LENGTH:
        items[-1]["status"] = "incomplete"
    return items


def _describe_reasoning(ask: Ask, answer: Answer) -> dict[str, Any]:
    shown = Want.REASONING in ask.wants and not answer.hides_reasoning
    item: dict[str, Any] = {"id": f"rs_{ask.seed[:32]}", "type": "reasoning"}
    item["summary"] = [{"type": "summary_text", "text": answer.reasoning}] if shown else []
    if Want.SEALED_REASONING in ask.wants:
        item["encrypted_content"] = seal(answer.reasoning)
    return item


def _describe_message(ask: Ask, answer: Answer) -> dict[str, Any]:
    part = {"type": "output_text", "text": answer.text, "annotations": [], "logprobs": []}
    head = {"id": f"msg_{ask.seed[:32]}", "type": "message", "status": "completed", "role": "assistant"}
    return {**head, "content": [part]}


def _describe_call(ask: Ask, call: Call, number: int) -> dict[str, Any]:
    made_id = hashlib.sha256(f"{ask.seed} item {number}".encode()).hexdigest()[:32]
    head = {"id": f"fc_{made_id}", "type": "function_call", "status": "completed"}
    return {**head, "call_id": call.id, "name": call.name, "arguments": call.arguments}


def encode_stream(ask: Ask, answer: Answer, usage: Usage) -> list[bytes]:
    """The answer as events: created, in progress, each item from its beginning to its end, completed or incomplete."""
    begun = write_json(_describe_begun(ask, "in_progress"))
    response = _describe_response(ask, answer, usage)
    events: list[Event] = [("response.created", f'"response":{begun}'), ("response.in_progress", f'"response":{begun}')]
    for index, item in enumerate(response["output"]):
        events.extend(_list_item_events(answer, item, index))
    events.append((f"response.{response['status']}", f'"response":{write_json(response)}'))
    return [_encode_event(kind, rest, number) for number, (kind, rest) in enumerate(events)]


def _encode_event(kind: str, rest: str, number: int) -> bytes:
    return f'event: {kind}\ndata: {{"type":"{kind}","sequence_number":{number},{rest}}}\n\n'.encode()


def _list_item_events(answer: Answer, item: dict[str, Any], index: int) -> Iterable[Event]:
    at = f'"item_id":{write_json(item["id"])},"output_index":{index}'
    emptied, inner = _EMPTIERS[item["type"]](item), _FILLERS[item["type"]](answer, item, at)
    yield "response.output_item.added", f'"output_index":{index},"item":{write_json(emptied)}'
    yield from inner
    yield "response.output_item.done", f'"output_index":{index},"item":{write_json(item)}'


def _empty_reasoning(item: dict[str, Any]) -> dict[str, Any]:
    """Before the item is done, its sealed text is not whole: who replays it from here is refused."""
    early = {"encrypted_content": item["encrypted_content"][:16]} if "encrypted_content" in item else {}
    return {**item, "summary": [], **early}


def _empty_message(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "status": "in_progress", "content": []}


def _empty_call(item: dict[str, Any]) -> dict[str, Any]:
    return {**item, "status": "in_progress", "arguments": ""}


def _fill_reasoning(answer: Answer, item: dict[str, Any], at: str) -> Iterator[Event]:
    for number, part in enumerate(item["summary"]):
        where = f'{at},"summary_index":{number}'
        empty = write_json({**part, "text": ""})
        yield "response.reasoning_summary_part.added", f'{where},"part":{empty}'
        for piece in answer.split(part["text"]):
            yield "response.reasoning_summary_text.delta", f'{where},"delta":{write_json(piece)}'
        yield "response.reasoning_summary_text.done", f'{where},"text":{write_json(part["text"])}'
        yield "response.reasoning_summary_part.done", f'{where},"part":{write_json(part)}'


def _fill_message(answer: Answer, item: dict[str, Any], at: str) -> Iterator[Event]:
    where = f'{at},"content_index":0'
    part = item["content"][0]
    empty = write_json({**part, "text": ""})
    yield "response.content_part.added", f'{where},"part":{empty}'
    for piece in answer.split(part["text"]):
        yield "response.output_text.delta", f'{where},"delta":{write_json(piece)},"logprobs":[]'
    yield "response.output_text.done", f'{where},"text":{write_json(part["text"])},"logprobs":[]'
    yield "response.content_part.done", f'{where},"part":{write_json(part)}'


def _fill_call(answer: Answer, item: dict[str, Any], at: str) -> Iterator[Event]:
    for piece in answer.split(item["arguments"]):
        yield "response.function_call_arguments.delta", f'{at},"delta":{write_json(piece)}'
    name, arguments = write_json(item["name"]), write_json(item["arguments"])
    yield "response.function_call_arguments.done", f'{at},"name":{name},"arguments":{arguments}'


_EMPTIERS = {"reasoning": _empty_reasoning, "message": _empty_message, "function_call": _empty_call}
_FILLERS = {"reasoning": _fill_reasoning, "message": _fill_message, "function_call": _fill_call}


# Problems


def encode_error_event(problem: Problem, place: int) -> bytes:
    body = {"code": problem.code or problem.type, "message": problem.message, "param": problem.param}
    return _encode_event("error", write_json(body)[1:-1], place)


def encode_failed(ask: Ask, problem: Problem, place: int | None) -> bytes:
    """An answer of status failed, whole or as the event at a place of the stream."""
    error = {"code": problem.code or "server_error", "message": problem.message}
    response = write_json({**_describe_begun(ask, "failed"), "error": error})
    if place is None:
        return response.encode()
    return _encode_event("response.failed", f'"response":{response}', place)


def describe_overflow(_overflow: Overflow) -> Problem:
    told = "Your input exceeds the context window of this model. Please adjust your input and try again."
    return Problem(400, told, code="context_length_exceeded", param="input")


FORMAT = Format(
    name="responses",
    path="/v1/responses",
    call_prefix="call_",
    request_id_header="x-request-id",
    closing_events=0,
    check_headers=accept_headers,
    decode=decode_request,
    encode_whole=encode_whole,
    encode_stream=encode_stream,
    encode_problem=encode_problem,
    encode_error_event=encode_error_event,
    encode_failed=encode_failed,
    describe_overflow=describe_overflow,
    describe_missing_thoughts=None,
)
