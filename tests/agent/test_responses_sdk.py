"""The official SDK as the judge: it accepts the requests we make and reads the recorded streams as we do."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseInputItemParam, ResponseStreamEvent, ToolParam
from openai.types.responses.response_create_params import ResponseCreateParamsStreaming
from pydantic import TypeAdapter

from agent.formats import responses as wire
from agent.formats.repair import write_reply
from agent.formats.reply import Reply
from agent.formats.wire import CallSettings
from agent.http.clients import iter_event_data
from agent.providers.table import PROVIDERS

FIXTURES = sorted((Path(__file__).parent / "wire_fixtures" / "responses").glob("*.sse"))
ENDED = [path for path in FIXTURES if path.stem not in ("failed", "error")]
EVENT: TypeAdapter[Any] = TypeAdapter(ResponseStreamEvent)
ITEM: TypeAdapter[Any] = TypeAdapter(ResponseInputItemParam)
TOOL: TypeAdapter[Any] = TypeAdapter(ToolParam)
BODY: TypeAdapter[Any] = TypeAdapter(ResponseCreateParamsStreaming)
DIALECT = "codex_responses"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA=="}}
SCHEMA = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(data) for data in iter_event_data([path.read_bytes()])]


def reply_of(path: Path) -> Reply:
    reader = wire.read_answer(DIALECT)
    for event in events_of(path):
        reader.feed(event)
    return reader.reply()


def plain(value: Any) -> Any:
    """A validated value as plain data: pydantic checks an Iterable only when it is walked through."""
    if isinstance(value, Mapping):
        return {key: plain(inner) for key, inner in value.items()}
    if isinstance(value, Iterable) and not isinstance(value, str):
        return [plain(inner) for inner in value]
    return value


def assert_accepted(adapter: TypeAdapter[Any], value: Any) -> None:
    """Valid, and with no field that the SDK does not know (pydantic would have left it out)."""
    assert plain(adapter.validate_python(value)) == value


# --- what we send


def conversation() -> list[dict[str, Any]]:
    result = {"_multimodal": True, "content": [{"type": "text", "text": "seen"}, IMAGE]}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": [{"type": "text", "text": "what is it?"}, IMAGE]},
        {"role": "assistant", "content": ""},
        {"role": "assistant", "content": "From another provider.", "reasoning": "hidden"},
    ]
    for path in ENDED:
        message = write_reply(reply_of(path))
        messages.append(message)
        messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": text}
            for call, text in zip(message.get("tool_calls", ()), ("plain", json.dumps(result)), strict=False)
        ]
    return messages


@pytest.mark.parametrize("message", conversation(), ids=lambda message: message["role"])
def test_the_sdk_accepts_every_item(message: dict[str, Any]) -> None:
    for item in json.loads(b"[" + wire.encode_message(message, DIALECT) + b"]"):
        assert_accepted(ITEM, item)


@pytest.mark.parametrize("effort", ["", "none", "minimal", "low", "medium", "high", "xhigh"])
def test_the_sdk_accepts_the_whole_request(effort: str) -> None:
    settings = CallSettings("gpt-5.2", max_tokens=500, reasoning={"effort": effort}, with_tools=bool(effort))
    body = wire.join_request(
        settings.model,
        wire.encode_tools([SCHEMA]),
        wire.encode_system("You are Hermes."),
        [wire.encode_message(message, DIALECT) for message in conversation()],
        wire.make_tail(PROVIDERS["openai"], settings),
    )
    request = json.loads(body)
    assert_accepted(TOOL, request["tools"][0])
    assert_accepted(BODY, request)


# --- what we read


@pytest.mark.parametrize("path", FIXTURES, ids=lambda path: path.stem)
def test_the_recorded_events_are_those_of_the_sdk(path: Path) -> None:
    for event in events_of(path):
        assert EVENT.validate_python(event).type == event["type"]


@pytest.mark.parametrize("path", ENDED, ids=lambda path: path.stem)
def test_the_sdk_reads_the_same_answer(path: Path) -> None:
    state: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    streamed = ""
    for event in events_of(path):
        for told in state.handle_event(EVENT.validate_python(event)):
            streamed += told.delta if told.type in ("response.output_text.delta", "response.refusal.delta") else ""
    final = Response.model_validate(events_of(path)[-1]["response"])
    reply = reply_of(path)
    assert reply.text.replace("\n\n", "") == streamed
    assert final.usage is not None
    assert reply.usage is not None
    assert (reply.model, reply.usage.total_tokens) == (final.model, final.usage.total_tokens)
    calls = [item for item in final.output if item.type == "function_call" and item.status == "completed"]
    if final.status == "completed":
        expected = [(item.call_id, item.name, item.arguments) for item in calls]
        assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == expected
