"""OpenAI Chat Completions: reads a request into an `Ask`, writes answers whole or as server-sent events."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NoReturn

from hermes_lab.formats.base import Format
from hermes_lab.formats.chat_rules import check_request
from hermes_lab.values import Answer, Ask, Problem, Refused, ToolResult, Usage

_CREATED = 1_700_000_000  # a fixed time: the same request gets the same bytes
# One encoder for all: `json.dumps` with options would build one for each chunk.
_write = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def decode_request(body: bytes) -> Ask:
    """What the request asks for; raises Refused when it breaks a rule."""
    request = check_request(_parse(body))
    messages = request["messages"]
    newest_user = _find_newest(messages, "user")
    return Ask(
        model=request["model"],
        seed=hashlib.sha256(body).hexdigest(),
        user_text=_join_text(messages[newest_user]["content"]) if newest_user >= 0 else "",
        round=sum(message["role"] == "assistant" for message in messages[newest_user + 1 :]),
        results=_collect_results(messages),
        prompt=tuple(_encode_parts(request)),
        has_tools="tools" in request,
        stream=bool(request.get("stream")),
        include_usage=bool((request.get("stream_options") or {}).get("include_usage")),
    )


def _parse(body: bytes) -> object:
    try:
        return json.loads(body.decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        message = f"We could not parse the JSON body of your request: {error}."
        raise Refused(Problem(400, message)) from error


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


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


def _encode_parts(request: dict[str, Any]) -> Iterator[bytes]:
    """Tools, then messages, each as compact JSON: the order in which a provider builds its prompt."""
    try:
        for part in (*request.get("tools", ()), *request["messages"]):
            yield _write(part).encode("utf-8")
    except UnicodeEncodeError as error:
        message = "We could not parse the JSON body of your request: it holds half of a surrogate pair."
        raise Refused(Problem(400, message)) from error


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
    return _write({**head, "choices": [choice], "usage": _describe_usage(usage)}).encode("utf-8")


def encode_stream(ask: Ask, answer: Answer, usage: Usage) -> list[bytes]:
    """The answer as events: role, reasoning, text, tool calls, finish reason, usage if asked for, `[DONE]`."""
    described = _write(_describe_answer(ask, "chat.completion.chunk"))[:-1]  # without its closing brace
    head = f'data: {described},"choices":[{{"index":0,"delta":'
    end = (',"usage":null' if ask.include_usage else "") + "}\n\n"
    tail = f',"logprobs":null,"finish_reason":null}}]{end}'
    events = [f"{head}{delta}{tail}".encode() for delta in _write_deltas(answer)]
    events.append(f'{head}{{}},"logprobs":null,"finish_reason":"{answer.finish}"}}]{end}'.encode())
    if ask.include_usage:
        events.append(f'data: {described},"choices":[],"usage":{_write(_describe_usage(usage))}}}\n\n'.encode())
    events.append(b"data: [DONE]\n\n")
    return events


def _write_deltas(answer: Answer) -> Iterator[str]:
    yield _write({"role": "assistant", "content": None if answer.calls else "", "refusal": None})
    for piece in answer.split(answer.reasoning):
        yield f'{{"reasoning_content":{_write(piece)}}}'
    for piece in answer.split(answer.text):
        yield f'{{"content":{_write(piece)}}}'
    for index, call in enumerate(answer.calls):
        begun = {"index": index, "id": call.id, "type": "function", "function": {"name": call.name, "arguments": ""}}
        yield f'{{"tool_calls":[{_write(begun)}]}}'
        for piece in answer.split(call.arguments):
            yield f'{{"tool_calls":[{{"index":{index},"function":{{"arguments":{_write(piece)}}}}}]}}'


def _describe_answer(ask: Ask, kind: str) -> dict[str, Any]:
    made_id = f"chatcmpl-{ask.seed[:24]}"
    return {"id": made_id, "object": kind, "created": _CREATED, "model": ask.model, "system_fingerprint": "fp_lab"}


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
    return _write({"error": error}).encode("utf-8", "replace")  # it may quote a name that is not valid text


FORMAT = Format(
    name="chat_completions",
    path="/v1/chat/completions",
    key_header="authorization",
    decode=decode_request,
    encode_whole=encode_whole,
    encode_stream=encode_stream,
    encode_problem=encode_problem,
)
