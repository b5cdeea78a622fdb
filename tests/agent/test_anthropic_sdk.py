"""The official SDK as the judge: it accepts our requests, reads the recorded streams as we do, and carries both."""

import json
import warnings
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from anthropic.lib.streaming._messages import accumulate_event
from anthropic.types import Message, ToolParam
from anthropic.types.message_create_params import MessageCreateParamsStreaming
from anthropic.types.message_param import MessageParam
from pydantic import TypeAdapter

from agent.formats import anthropic_messages as wire
from agent.formats.repair import repair_messages, write_reply
from agent.formats.reply import OWN_DATA, Reply, make_own_data
from agent.formats.wire import CallSettings
from agent.http.clients import StreamCall, build_anthropic_client, iter_event_data, release_client, stream
from agent.providers.table import PROVIDERS
from hermes_base.errors import ModelFailure
from hermes_base.turn.cancel import CancelToken
from hermes_lab.server import LabServer

FIXTURES = sorted((Path(__file__).parent / "wire_fixtures" / "anthropic").glob("*.sse"))
ENDED = [path for path in FIXTURES if path.stem != "error"]
#: What the SDK's accumulator knows; the reader passes over the others, and so does the SDK's stream.
KNOWN_EVENTS = {
    *("message_start", "message_delta", "message_stop"),
    *("content_block_start", "content_block_delta", "content_block_stop"),
}
BODY: TypeAdapter[Any] = TypeAdapter(MessageCreateParamsStreaming)
MESSAGE: TypeAdapter[Any] = TypeAdapter(MessageParam)
TOOL: TypeAdapter[Any] = TypeAdapter(ToolParam)
DIALECT = "anthropic_messages"
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
LINK = {"type": "image_url", "image_url": {"url": "https://a.example/b.png"}}
SCHEMA = {"type": "function", "function": {"name": "look", "description": "Looks.", "parameters": {"type": "object"}}}
THINKING = {"type": "thinking", "thinking": "hm", "signature": "c2ln"}


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


def call(call_id: str, arguments: str = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": "look", "arguments": arguments}}


# --- what we send


def conversation() -> list[dict[str, Any]]:
    uses = [{"type": "tool_use", "id": name, "name": "look", "input": {}} for name in ("a", "b")]
    sealed = {"type": "redacted_thinking", "data": "c2VhbGVk"}
    pictures = json.dumps({"_multimodal": True, "content": [{"type": "text", "text": "A map."}, IMAGE]})
    return [
        {"role": "user", "content": [{"type": "text", "text": "Compare."}, IMAGE, LINK]},
        {"role": "assistant", "content": "", "tool_calls": [call("a"), call("b")]}
        | make_own_data(DIALECT, blocks=[THINKING, uses[0], sealed, uses[1]]),
        {"role": "tool", "tool_call_id": "a", "content": pictures},
        {"role": "tool", "tool_call_id": "b", "content": ""},
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "", "tool_calls": [call("functions.look:0", "{broken")]},
        {"role": "tool", "tool_call_id": "functions.look:0", "content": "no"},
    ]


@pytest.mark.parametrize("effort", ["", "none", "minimal", "high"])
@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-8", "claude-sonnet-5-5", "claude-fable-5-1"])
@pytest.mark.parametrize("ttl", ["", "5m", "1h"])
def test_the_sdk_accepts_what_we_send(model: str, effort: str, ttl: str) -> None:
    reasoning = {"enabled": effort != "none", "effort": effort}
    tail = wire.make_tail(PROVIDERS["anthropic"], CallSettings(model, reasoning=reasoning, with_tools=False))
    fragments = [wire.encode_message(message, DIALECT) for message in conversation()]
    tools, system = wire.encode_tools([SCHEMA]), wire.encode_system("Be brief.")
    body = json.loads(wire.join_request(model, tools, system, fragments, tail | {"_cache_ttl": ttl}))
    assert_accepted(BODY, body)
    for message in body["messages"]:
        assert_accepted(MESSAGE, message)
    for tool in body["tools"]:
        assert_accepted(TOOL, tool)


# --- what we read


def events_of(path: Path) -> list[dict[str, Any]]:
    return [json.loads(data) for data in iter_event_data([path.read_bytes()])]


def read_with_the_sdk(path: Path) -> Any:
    snapshot, buffers = None, {}
    for event in events_of(path):
        if event["type"] in KNOWN_EVENTS:
            snapshot = accumulate_event(event=event, current_snapshot=snapshot, json_bufs=buffers)  # type: ignore[arg-type]
    assert snapshot is not None
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # pydantic warns of a field that is not of its type
        return snapshot.to_dict()


def read_with_ours(path: Path) -> Reply:
    reader = wire.read_answer(DIALECT)
    for event in events_of(path):
        reader.feed(event)
    return reader.reply()


@pytest.mark.parametrize("path", ENDED, ids=lambda path: path.stem)
def test_the_sdk_reads_the_recorded_streams_as_we_do(path: Path) -> None:
    theirs, ours = read_with_the_sdk(path), read_with_ours(path)
    blocks = theirs["content"]
    assert ours.text == "".join(block["text"] for block in blocks if block["type"] == "text")
    assert ours.reasoning == "".join(block["thinking"] for block in blocks if block["type"] == "thinking")
    assert [(made.id, made.name) for made in ours.tool_calls] == [
        (block["id"], block["name"]) for block in blocks if block["type"] == "tool_use"
    ]
    assert ours.usage is not None
    assert ours.usage.output_tokens == theirs["usage"]["output_tokens"]
    assert ours.usage.input_tokens == theirs["usage"]["input_tokens"]
    assert ours.model == theirs["model"]
    if ours.extra and ours.finish_reason != "length":  # the SDK guesses at the rest of a call that was cut; we do not
        assert [plain(block) for block in blocks] == ours.extra[OWN_DATA]["blocks"]


def test_the_recorded_message_is_one_for_the_sdk() -> None:
    recorded = json.loads((FIXTURES[0].parent / "message.json").read_bytes())
    assert Message.model_validate(recorded, strict=True).to_dict(exclude_unset=True) == recorded


# --- through the client, against the lab server


@pytest.fixture
def lab() -> Iterator[LabServer]:
    with LabServer() as server:
        yield server


@pytest.fixture
def client(lab: LabServer) -> Iterator[Any]:
    made = build_anthropic_client(api_key="sk-lab", base_url=lab.base_url)
    yield made
    release_client(made)


def ask(client: Any, messages: list[dict[str, Any]], effort: str = "low") -> Reply:
    """One call as a turn makes it; the answer, repaired, stands in the messages afterwards."""
    settings = CallSettings("claude-sonnet-4-5", reasoning={"effort": effort} if effort else None, cache_ttl="5m")
    tail = wire.make_tail(PROVIDERS["anthropic"], settings)
    fragments = [wire.encode_message(message, DIALECT) for message in messages]
    tools, system = wire.encode_tools([SCHEMA]), wire.encode_system("Be brief. " * 500)
    body = wire.join_request(settings.model, tools, system, fragments, tail)
    call = StreamCall(wire, body, "the lab")
    reply = stream(client, call, wire.read_answer(DIALECT), CancelToken(), lambda: None)
    messages += repair_messages([write_reply(reply)])[:1]
    return reply


def test_a_tool_loop_with_thinking_runs_through_the_client(lab: LabServer, client: Any) -> None:
    lab.set_plan(
        [
            {"text": "I look.", "reasoning": "Two.", "tool_calls": [{"name": "look"}, {"name": "look"}]},
            {"text": "Found.", "reasoning": "Good."},
            {"text": "Bye."},
        ]
    )
    messages: list[dict[str, Any]] = [{"role": "user", "content": [{"type": "text", "text": "Look."}, IMAGE]}]
    reply = ask(client, messages)
    assert (reply.text, reply.reasoning, reply.finish_reason) == ("I look.", "Two.", "tool_calls")
    messages += [{"role": "tool", "tool_call_id": made.id, "content": "x"} for made in reply.tool_calls]
    second = ask(client, messages)
    assert (second.text, second.reasoning, second.finish_reason) == ("Found.", "Good.", "stop")
    assert second.usage is not None
    assert second.usage.cache_read_tokens > 0
    messages.append({"role": "user", "content": "Thanks."})
    assert ask(client, messages).text == "Bye."


def test_a_changed_call_does_not_stop_a_tool_loop_with_thinking(lab: LabServer, client: Any) -> None:
    lab.set_plan(
        [{"reasoning": "A key.", "tool_calls": [{"name": "look", "arguments": {"at": "key"}}]}, {"text": "Ok."}]
    )
    messages: list[dict[str, Any]] = [{"role": "user", "content": "Look."}]
    reply = ask(client, messages)
    messages[-1]["tool_calls"][0]["function"]["arguments"] = '{"at": "[secret]"}'
    messages.append({"role": "tool", "tool_call_id": reply.tool_calls[0].id, "content": "x"})
    assert ask(client, messages).text == "Ok."


def test_a_stream_that_is_cut_is_a_failure(lab: LabServer, client: Any) -> None:
    lab.set_plan([{"text": "Once upon a time", "chunk_size": 1, "fault": {"cut_after_chunks": 6}}])
    with pytest.raises(ModelFailure):
        ask(client, [{"role": "user", "content": "Tell."}], effort="")
