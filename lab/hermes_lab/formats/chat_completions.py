"""OpenAI Chat Completions: reads a request into an `Ask`, writes answers whole or as server-sent events."""

import hashlib
from collections.abc import Iterator
from typing import Any

from hermes_lab.formats.base import Format, Overflow, accept_headers
from hermes_lab.formats.chat_rules import check_request
from hermes_lab.formats.text import CREATED, encode_block, parse_body, write_json
from hermes_lab.prompt import SHORT_LIFE, Block, Prompt, sum_tokens
from hermes_lab.values import Answer, Ask, Problem, ToolResult, Usage

_INSTRUCTING = ("system", "developer")
_LIVES = {"24h": 86_400.0, "30m": 1800.0, "12h": 43_200.0}


def decode_request(body: bytes) -> Ask:
    """What the request asks for; raises Refused when it breaks a rule."""
    request = check_request(parse_body(body))
    messages = request["messages"]
    newest_user = _find_newest(messages, "user")
    return Ask(
        model=request["model"],
        seed=hashlib.sha256(body).hexdigest(),
        user_text=_join_text(messages[newest_user]["content"]) if newest_user >= 0 else "",
        round=sum(message["role"] == "assistant" for message in messages[newest_user + 1 :]),
        results=_collect_results(messages),
        prompt=_build_prompt(request),
        limit=request.get("max_completion_tokens") or request.get("max_tokens"),
        has_tools="tools" in request,
        stream=bool(request.get("stream")),
        include_usage=bool((request.get("stream_options") or {}).get("include_usage")),
    )


def _find_newest(messages: list[dict[str, Any]], role: str) -> int:
    return next((at for at in range(len(messages) - 1, -1, -1) if messages[at]["role"] == role), -1)


def _join_text(content: str | list[dict[str, Any]]) -> str:
    if isinstance(content, str):
        return content
    return "\n".join(part["text"] for part in content if part["type"] == "text")


def _collect_results(messages: list[dict[str, Any]]) -> tuple[ToolResult, ...]:
    """The tool results at the end of the conversation, named after the calls they answer."""
    if messages[-1]["role"] != "tool":
        return ()
    caller = _find_newest(messages, "assistant")
    names = {call["id"]: call["function"]["name"] for call in messages[caller]["tool_calls"]}
    return tuple(
        ToolResult(names[result["tool_call_id"]], _join_text(result["content"])) for result in messages[caller + 1 :]
    )


def _build_prompt(request: dict[str, Any]) -> Prompt:
    """Tools, then messages: the order in which a provider builds its prompt."""
    messages = request["messages"]
    begin = next((at for at, message in enumerate(messages) if message["role"] not in _INSTRUCTING), len(messages))
    tools = (encode_block(tool) for tool in request.get("tools", ()))
    head = (*tools, *map(_encode_message, messages[:begin]))
    body = tuple(map(_encode_message, messages[begin:]))
    return Prompt(head, body, sum_tokens(head, body), life=find_life(request))


def find_life(request: dict[str, Any]) -> float:
    """How long an automatic cache keeps the prompt: as asked, or the shortest time that is documented."""
    asked = (request.get("prompt_cache_options") or {}).get("ttl") or request.get("prompt_cache_retention")
    return _LIVES.get(str(asked), SHORT_LIFE)


def _encode_message(message: dict[str, Any]) -> Block:
    content = message.get("content")
    if not isinstance(content, list):
        return encode_block(message)
    images = tuple(part["image_url"]["url"] for part in content if part["type"] == "image_url")
    # Some servers of this format take cache marks; a mark that moves on leaves the text as it was.
    parts = [{name: value for name, value in part.items() if name != "cache_control"} for part in content]
    return encode_block({**message, "content": parts}, images=images)


def encode_whole(ask: Ask, answer: Answer, usage: Usage) -> bytes:
    """The answer as one JSON object."""
    message: dict[str, Any] = {"role": "assistant", "content": answer.text, "refusal": None}
    if answer.calls and not answer.text:
        message["content"] = None
    if answer.reasoning:
        message["reasoning_content"] = answer.reasoning
    if answer.calls:
        message["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in answer.calls
        ]
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": answer.finish}
    head = _describe_answer(ask, "chat.completion")
    return write_json({**head, "choices": [choice], "usage": _describe_usage(usage)}).encode("utf-8")


def encode_stream(ask: Ask, answer: Answer, usage: Usage) -> list[bytes]:
    """The answer as events: role, reasoning, text, tool calls, finish reason, usage if asked for, `[DONE]`."""
    described = write_json(_describe_answer(ask, "chat.completion.chunk"))[:-1]  # without its closing brace
    head = f'data: {described},"choices":[{{"index":0,"delta":'
    end = (',"usage":null' if ask.include_usage else "") + "}\n\n"
    tail = f',"logprobs":null,"finish_reason":null}}]{end}'
    events = [f"{head}{delta}{tail}".encode() for delta in _write_deltas(answer)]
    events.append(f'{head}{{}},"logprobs":null,"finish_reason":"{answer.finish}"}}]{end}'.encode())
    if ask.include_usage:
        events.append(f'data: {described},"choices":[],"usage":{write_json(_describe_usage(usage))}}}\n\n'.encode())
    events.append(b"data: [DONE]\n\n")
    return events


def _write_deltas(answer: Answer) -> Iterator[str]:
    yield write_json({"role": "assistant", "content": None if answer.calls else "", "refusal": None})
    for piece in answer.split(answer.reasoning):
        yield f'{{"reasoning_content":{write_json(piece)}}}'
    for piece in answer.split(answer.text):
        yield f'{{"content":{write_json(piece)}}}'
    for index, call in enumerate(answer.calls):
        begun = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        yield f'{{"tool_calls":[{write_json(begun)}]}}'
        for piece in answer.split(call.arguments):
            yield f'{{"tool_calls":[{{"index":{index},"function":{{"arguments":{write_json(piece)}}}}}]}}'


def _describe_answer(ask: Ask, kind: str) -> dict[str, Any]:
    made_id = f"chatcmpl-{ask.seed[:24]}"
    return {"id": made_id, "object": kind, "created": CREATED, "model": ask.model, "system_fingerprint": "fp_lab"}


def _describe_usage(usage: Usage) -> dict[str, Any]:
    prompt_details = {"cached_tokens": usage.cached_tokens, "audio_tokens": 0}
    if usage.cache_write_tokens:  # only some servers of this format charge for writing
        prompt_details["cache_write_tokens"] = usage.cache_write_tokens
    return {
        "prompt_tokens": usage.prompt_tokens,
        "completion_tokens": usage.completion_tokens,
        "total_tokens": usage.prompt_tokens + usage.completion_tokens,
        "prompt_tokens_details": prompt_details,
        "completion_tokens_details": {"reasoning_tokens": usage.reasoning_tokens, "audio_tokens": 0},
    }


def encode_problem(problem: Problem) -> bytes:
    error = {"message": problem.message, "type": problem.type, "param": problem.param, "code": problem.code}
    return write_json({"error": error}).encode("utf-8", "replace")  # it may quote a name that is not valid text


def encode_error_event(problem: Problem, _place: int) -> bytes:
    return b"data: " + encode_problem(problem) + b"\n\n"


def describe_overflow(overflow: Overflow) -> Problem:
    head = f"This model's maximum context length is {overflow.window} tokens. However, "
    if overflow.limit is None:
        told = f"your messages resulted in {overflow.prompt} tokens. Please reduce the length of the messages."
    else:
        told = (
            f"you requested {overflow.prompt + overflow.limit} tokens ({overflow.prompt} in the messages, "
            f"{overflow.limit} in the completion). Please reduce the length of the messages or completion."
        )
    return Problem(400, head + told, code="context_length_exceeded", param="messages")


FORMAT = Format(
    name="chat_completions",
    path="/v1/chat/completions",
    call_prefix="call_",
    request_id_header="x-request-id",
    closing_events=1,
    check_headers=accept_headers,
    decode=decode_request,
    encode_whole=encode_whole,
    encode_stream=encode_stream,
    encode_problem=encode_problem,
    encode_error_event=encode_error_event,
    encode_failed=None,
    describe_overflow=describe_overflow,
    describe_missing_thoughts=None,
)
