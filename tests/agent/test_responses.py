"""The Responses format on the wire: what is sent, what is read, and the same however a stream is cut (A1, D7)."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.formats import responses as wire
from agent.formats.chat_completions import encode_json
from agent.formats.repair import write_reply
from agent.formats.reply import OWN_DATA, Reply, ToolCall, make_own_data
from agent.formats.responses import ResponseReader
from agent.formats.wire import CallSettings
from agent.http.clients import iter_event_data
from agent.providers.failures import in_stream_failure
from agent.providers.table import PROVIDERS
from agent.usage_pricing import CanonicalUsage

FIXTURES = Path(__file__).parent / "wire_fixtures" / "responses"
DIALECT = "codex_responses"
MODEL = "gpt-5.2-2025-12-11"
SAID = "Guten Tag! Grüße an 世界 🌍."


def load(name: str) -> bytes:
    return (FIXTURES / f"{name}.sse").read_bytes()


def events_of(name: str) -> list[dict[str, Any]]:
    return [json.loads(data) for data in iter_event_data([load(name)])]


def read(events: list[dict[str, Any]]) -> ResponseReader:
    reader = wire.read_answer(DIALECT)
    for event in events:
        reader.feed(event)
    return reader


def sealed(reply: Reply) -> list[str]:
    """The kept items by type, with their ids."""
    items = reply.extra[OWN_DATA]["items"] if reply.extra else []
    return [item.get("id", "-") for item in items]


# --- answers

ANSWERS = {
    "text": Reply(text=SAID, model=MODEL, usage=CanonicalUsage(158, 12, 1152)),
    "reasoning_text": Reply(
        text="It is 51.",
        reasoning="**Checking the sum**\n\n17 × 3\n\n**Writing**",
        model=MODEL,
        usage=CanonicalUsage(410, 87, reasoning_tokens=64),
    ),
    "reasoning_calls": Reply(
        text="Let me look.",
        reasoning="**Looking**",
        tool_calls=(
            ToolCall("call_Xa1", "read_file", '{"path":"/tmp/ä.txt"}'),
            ToolCall("call_Xb2", "list_files", "{}"),
        ),
        finish_reason="tool_calls",
        model=MODEL,
        usage=CanonicalUsage(128, 133, 1920, reasoning_tokens=96),
    ),
    "refusal": Reply(
        text="I can't help with that.",
        finish_reason="content_filter",
        model=MODEL,
        usage=CanonicalUsage(300, 20, reasoning_tokens=8),
    ),
    "incomplete_text": Reply(
        text="The first of three",
        finish_reason="length",
        model=MODEL,
        usage=CanonicalUsage(300, 64, reasoning_tokens=32),
    ),
    "incomplete_call": Reply(
        tool_calls=(ToolCall("call_Xc3", "write_file", "{}"),),
        finish_reason="length",
        model=MODEL,
        usage=CanonicalUsage(300, 64, reasoning_tokens=32),
    ),
    "filtered": Reply(text="Here is", finish_reason="content_filter", model=MODEL, usage=CanonicalUsage(300, 4)),
    "two_messages": Reply(
        text="I will look first.\n\nThere are four.",
        reasoning="**Done**",
        model=MODEL,
        usage=CanonicalUsage(372, 40, 128, reasoning_tokens=10),
    ),
}
KEPT = {
    "text": [],
    "reasoning_text": ["rs_68f2a1", "msg_68f2a2"],
    "reasoning_calls": ["rs_68f3a1", "msg_68f3a2", "fc_68f3a3", "rs_68f3a4", "fc_68f3a5"],
    "refusal": ["rs_68f4a1", "msg_68f4a2"],
    "incomplete_text": ["rs_68f5a1", "msg_68f5a2"],
    "incomplete_call": ["rs_68f6a1", "-"],
    "filtered": [],
    "two_messages": ["msg_68faa1", "rs_68faa2", "msg_68faa3"],
}


def without_extra(reply: Reply) -> Reply:
    return Reply(*(getattr(reply, name) for name in Reply.__slots__ if name != "extra"))


@pytest.mark.parametrize("name", ANSWERS)
def test_a_recorded_stream_is_read(name: str) -> None:
    shown: list[str] = []
    thought: list[str] = []
    reader = wire.read_answer(DIALECT, shown.append, thought.append)
    for event in events_of(name):
        assert wire.find_error(event) is None
        assert not reader.whole
        reader.feed(event)
    reply = reader.reply()
    assert reader.whole
    assert without_extra(reply) == ANSWERS[name]
    assert ("".join(shown), "".join(thought)) == (reply.text, reply.reasoning)
    assert sealed(reply) == KEPT[name]


@pytest.mark.parametrize("name", ANSWERS)
def test_the_same_answer_in_one_document(name: str) -> None:
    document = events_of(name)[-1]["response"]
    assert wire.find_error(document) is None
    reader = read([document])
    assert reader.whole
    assert reader.reply() == read(events_of(name)).reply()


def test_a_document_from_a_file() -> None:
    document = json.loads((FIXTURES / "whole.json").read_text())
    assert without_extra(read([document]).reply()) == ANSWERS["two_messages"]


@pytest.mark.parametrize("name", ANSWERS)
def test_items_that_are_only_told_at_the_end_are_taken(name: str) -> None:
    only_ends = [event for event in events_of(name) if "output_item" not in event["type"]]
    full = read(events_of(name)).reply()
    found = read(only_ends).reply()
    assert (found.tool_calls, found.finish_reason, found.usage) == (full.tool_calls, full.finish_reason, full.usage)
    assert found.text.replace("\n", "") == full.text.replace("\n", "")


@pytest.mark.parametrize("name", ANSWERS)
def test_items_that_the_end_leaves_out_are_taken(name: str) -> None:
    events = events_of(name)
    events[-1]["response"]["output"] = []
    assert read(events).reply() == read(events_of(name)).reply()


def test_text_that_was_not_streamed_is_shown_with_its_item() -> None:
    shown: list[str] = []
    reader = wire.read_answer(DIALECT, shown.append)
    for event in events_of("two_messages"):
        if not event["type"].endswith(".delta"):
            reader.feed(event)
    assert "".join(shown) == ANSWERS["two_messages"].text
    assert reader.reply() == read(events_of("two_messages")).reply()


def test_the_finished_text_wins_over_what_was_streamed() -> None:
    events = events_of("text")
    next(event for event in events if event["type"].endswith(".delta"))["delta"] = "Gutem"
    assert read(events).reply().text == SAID


def test_arguments_may_be_told_apart_from_their_item() -> None:
    events = events_of("reasoning_calls")
    for event in events:
        if event["type"] == "response.output_item.done" and event["item"]["type"] == "function_call":
            event["item"]["arguments"] = ""
    assert read(events).reply().tool_calls == ANSWERS["reasoning_calls"].tool_calls


def test_items_are_kept_in_their_places() -> None:
    events = events_of("reasoning_calls")
    places = [place for place, event in enumerate(events) if event["type"] == "response.output_item.done"]
    events[places[-1]], events[places[2]] = events[places[2]], events[places[-1]]
    assert read(events).reply() == read(events_of("reasoning_calls")).reply()


def test_reasoning_that_cannot_be_read_again_is_not_kept() -> None:
    events = events_of("reasoning_text")
    for event in events:
        event.get("item", {}).pop("encrypted_content", None)
    assert sealed(read(events).reply()) == ["msg_68f2a2"]


def test_done_alone_does_not_make_an_answer_whole() -> None:
    reader = read(events_of("text")[:-1])
    reader.finish()
    assert not reader.whole


@pytest.mark.parametrize(
    ("event", "expected"),
    [
        (events_of("failed")[-1], {"code": "server_error"}),
        (events_of("error")[-1], {"code": "rate_limit_exceeded"}),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "m"}}, {"message": "m"}),
        ({"type": "error", "status": 429, "error": {"code": "slow", "message": "m"}}, {"code": 429, "message": "m"}),
        ({"error": {"code": 502, "message": "Upstream"}}, {"code": 502, "message": "Upstream"}),
        ({"error": "no model"}, {"message": "no model"}),
        ({"object": "response", "status": "cancelled", "error": None}, {}),
        ({"type": "response.failed", "response": {"status": "failed", "error": None}}, {"code": None}),
    ],
)
def test_errors_are_found(event: dict[str, Any], expected: dict[str, Any]) -> None:
    problem = wire.find_error(event)
    assert problem is not None
    assert expected.items() <= problem.items()
    in_stream_failure(problem, "OpenAI")


@pytest.mark.parametrize(("name", "status"), [("failed", 500), ("error", 429)])
def test_a_failed_stream_has_its_error_and_is_not_whole(name: str, status: int) -> None:
    problems = [wire.find_error(event) for event in events_of(name)]
    assert problems[:-1] == [None] * (len(problems) - 1)
    assert problems[-1] is not None
    assert in_stream_failure(problems[-1], "OpenAI").status == status
    assert not read(events_of(name)).whole


# --- cuts


@given(st.sampled_from([*ANSWERS, "failed", "error"]), st.data())
def test_a_stream_means_the_same_however_it_is_cut(name: str, data: st.DataObject) -> None:
    whole = load(name)
    cuts = data.draw(st.lists(st.integers(0, len(whole)), max_size=12))
    pieces = [whole[start:stop] for start, stop in pairwise(sorted({0, len(whole), *cuts}))]
    assert [json.loads(found) for found in iter_event_data(pieces)] == events_of(name)


def cut_at(name: str, size: int) -> ResponseReader:
    return read([json.loads(data) for data in iter_event_data([load(name)[:size]])])


BROKEN = {"failed": "Well", "error": ""}


@pytest.mark.parametrize("name", [*ANSWERS, *BROKEN])
def test_a_stream_that_breaks_off_at_any_byte_is_never_wrong(name: str) -> None:
    """The text is a beginning of the text, no call has half its arguments, whole only at the end."""
    raw, events = load(name), events_of(name)
    data = list(iter_event_data([raw]))
    for size in range(len(raw) + 1):
        found = list(iter_event_data([raw[:size]]))
        assert found == data[: len(found)]
    calls = {(call.name, call.arguments) for call in ANSWERS.get(name, Reply()).tool_calls}
    text = ANSWERS[name].text if name in ANSWERS else BROKEN[name]
    for count in range(len(events) + 1):
        reader = read(events[:count])
        assert text.startswith(reader.text)
        assert {(call.name, call.arguments) for call in reader.reply().tool_calls} <= calls
        assert reader.whole == (count == len(events) and name in ANSWERS)
    assert reader.text == text


@given(st.sampled_from([*ANSWERS]), st.data())
def test_a_cut_inside_an_event_takes_nothing_of_it(name: str, data: st.DataObject) -> None:
    size = data.draw(st.integers(0, len(load(name))))
    full_events = load(name)[:size].count(b"\n\n")
    assert cut_at(name, size).reply() == read(events_of(name)[:full_events]).reply()


@given(st.dictionaries(st.sampled_from(["type", "item", "response", "delta", "error"]), st.none() | st.just({})))
def test_events_with_nothing_in_them_do_no_harm(event: dict[str, Any]) -> None:
    reader = read([event | {"type": kind} for kind in ResponseReader._TAKERS if kind and "." in str(kind)])
    wire.find_error(event)
    assert (reader.text, reader.reply().tool_calls) == ("", ())


# --- messages


def items_of(message: dict[str, Any], dialect: str = DIALECT) -> list[dict[str, Any]]:
    found = json.loads(b"[" + wire.encode_message(message, dialect) + b"]")
    assert isinstance(found, list)
    return found


def call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return ToolCall(call_id, name, arguments).as_message_part()


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AA==", "detail": "low"}}
SENT_IMAGE = {"type": "input_image", "image_url": "data:image/png;base64,AA==", "detail": "low"}
LOOK = json.dumps({"_multimodal": True, "content": [{"type": "text", "text": "seen"}, IMAGE]})


@pytest.mark.parametrize(
    ("message", "items"),
    [
        (
            {"role": "user", "content": "hé"},
            [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hé"}]}],
        ),
        (
            {"role": "user", "content": [{"type": "text", "text": "what?"}, IMAGE]},
            [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "what?"}, SENT_IMAGE]}],
        ),
        (
            {"role": "user", "content": [{"type": "image_url", "image_url": "https://x/y.png"}, {"type": "odd"}]},
            [
                {
                    "type": "message",
                    "role": "user",
                    "content": [{"type": "input_image", "image_url": "https://x/y.png", "detail": "auto"}],
                }
            ],
        ),
        (
            {"role": "user", "content": ""},
            [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "(empty)"}]}],
        ),
        ({"role": "assistant", "content": "so"}, [{"type": "message", "role": "assistant", "content": "so"}]),
        ({"role": "assistant", "content": ""}, [{"type": "message", "role": "assistant", "content": "(empty)"}]),
        (
            {"role": "assistant", "content": "so", "tool_calls": [call("c1", "look", '{"a":1}')]},
            [
                {"type": "message", "role": "assistant", "content": "so"},
                {"type": "function_call", "call_id": "c1", "name": "look", "arguments": '{"a":1}'},
            ],
        ),
        (
            {"role": "assistant", "content": "", "tool_calls": [call("c1", "a", "{}"), call("c2", "b", "{}")]},
            [
                {"type": "function_call", "call_id": "c1", "name": "a", "arguments": "{}"},
                {"type": "function_call", "call_id": "c2", "name": "b", "arguments": "{}"},
            ],
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "content": '{"x": 1}'},
            [{"type": "function_call_output", "call_id": "c1", "output": '{"x": 1}'}],
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "content": LOOK},
            [
                {
                    "type": "function_call_output",
                    "call_id": "c1",
                    "output": [{"type": "input_text", "text": "seen"}, SENT_IMAGE],
                }
            ],
        ),
        (
            {"role": "tool", "tool_call_id": "c1", "content": 'half {"_multimodal": true'},
            [{"type": "function_call_output", "call_id": "c1", "output": 'half {"_multimodal": true'}],
        ),
    ],
)
def test_messages_become_items(message: dict[str, Any], items: list[dict[str, Any]]) -> None:
    assert items_of(message) == items


@pytest.mark.parametrize("name", ANSWERS)
def test_an_answer_goes_back_as_it_came(name: str) -> None:
    """Reasoning with its seal, ids, phases and order; without the fields that are for reading only."""
    events = events_of(name)
    message = write_reply(read(events).reply())
    sent = items_of(message)
    if not KEPT[name]:
        assert [item["type"] for item in sent] == ["message"]
        return
    came = events[-1]["response"]["output"]
    assert [item["type"] for item in sent] == [item["type"] for item in came]
    for before, after in zip(came, sent, strict=True):
        if before["type"] == "reasoning" or before.get("call_id", "call_Xc3") != "call_Xc3":
            assert after == {key: value for key, value in before.items() if key != "status"}
        elif before["type"] == "message":
            assert (after["id"], after.get("phase")) == (before["id"], before.get("phase"))
            part = before["content"][0]
            assert after["content"][0]["text"] == part.get("text", part.get("refusal"))


@pytest.mark.parametrize("dialect", ["codex_responses/openrouter", "chat_completions", "anthropic_messages"])
def test_foreign_reasoning_is_left_out(dialect: str) -> None:
    """D7"""
    message = write_reply(read(events_of("reasoning_calls")).reply())
    sent = items_of(message, dialect)
    assert [item["type"] for item in sent] == ["message", "function_call", "function_call"]
    assert all("id" not in item and "phase" not in item for item in sent)


def test_reasoning_that_led_to_nothing_is_not_sent() -> None:
    own = make_own_data(DIALECT, items=[{"type": "reasoning", "id": "rs", "encrypted_content": "x", "summary": []}])
    sent = items_of({"role": "assistant", "content": "", **own})
    assert sent == [{"type": "message", "role": "assistant", "content": "(empty)"}]


def test_a_text_that_was_changed_is_sent_in_one_piece() -> None:
    message = write_reply(read(events_of("two_messages")).reply()) | {"content": "[redacted]"}
    sent = items_of(message)
    assert [(item["type"], item["id"]) for item in sent] == [("message", "msg_68faa1")]
    assert sent[0]["content"][0]["text"] == "[redacted]"


def test_calls_that_were_dropped_or_added_since() -> None:
    message = write_reply(read(events_of("reasoning_calls")).reply())
    message["tool_calls"] = [message["tool_calls"][1], call("new", "look", "{}")]
    sent = items_of(message)
    assert [item.get("call_id", "") for item in sent] == ["", "", "", "call_Xb2", "new"]


def test_long_ids_of_others_are_shortened_alike_in_call_and_result() -> None:
    long = "toolu_" + "x" * 90
    made = items_of({"role": "assistant", "content": "", "tool_calls": [call(long, "look", "{}")]})
    answered = items_of({"role": "tool", "tool_call_id": long, "content": "y"})
    assert made[0]["call_id"] == answered[0]["call_id"]
    assert len(made[0]["call_id"]) <= 64


# --- requests

TOOL = {"type": "function", "function": {"name": "look", "description": "d", "parameters": {"type": "object"}}}
SENT_TOOL = {"type": "function", "name": "look", "description": "d", "parameters": {"type": "object"}, "strict": False}
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
OWN = st.sampled_from([{}, *(write_reply(read(events_of(name)).reply()) for name in ANSWERS)])
CALLS = st.lists(
    st.builds(call, st.text("abc", min_size=1, max_size=3), st.just("look"), st.just("{}")),
    max_size=3,
    unique_by=lambda made: made["id"],
)
MESSAGES = st.lists(
    st.one_of(
        st.fixed_dictionaries({"role": st.just("user"), "content": TEXT}),
        st.fixed_dictionaries({"role": st.just("assistant"), "content": TEXT, "tool_calls": CALLS}),
        OWN.filter(bool),
        st.fixed_dictionaries({"role": st.just("tool"), "tool_call_id": st.just("c"), "content": TEXT}),
    ),
    max_size=6,
)


def join(system: str, messages: list[Any], tail: dict[str, Any], tools: tuple[Any, ...] = (TOOL,)) -> bytes:
    fragments = [wire.encode_message(message, DIALECT) for message in messages]
    assert all(fragments)
    return wire.join_request("m", wire.encode_tools(tools), wire.encode_system(system), fragments, tail)


@given(TEXT, MESSAGES, st.booleans())
def test_joined_fragments_are_the_encoding_of_the_whole(system: str, messages: list[Any], with_tools: bool) -> None:
    body = join(system, messages, {"stream": True}, (TOOL,) if with_tools else ())
    whole: dict[str, Any] = {"model": "m"}
    whole |= {"tools": [SENT_TOOL]} if with_tools else {}
    whole |= {"instructions": system} if system else {}
    whole |= {"input": [item for message in messages for item in items_of(message)], "stream": True}
    assert body == encode_json(whole)
    assert json.loads(body) == whole


@given(TEXT, MESSAGES, MESSAGES)
def test_a_longer_conversation_starts_with_the_bytes_of_the_shorter(
    system: str, first: list[Any], more: list[Any]
) -> None:
    """A1"""
    short = join(system, first, {"stream": True})
    long = join(system, [*first, *more], {"stream": True, "max_output_tokens": 5})
    assert long.startswith(short[: short.rindex(b"],")])


OPENAI = PROVIDERS["openai"]
ALWAYS = {"stream": True, "store": False, "parallel_tool_calls": True}
SEALED = {**ALWAYS, "include": ["reasoning.encrypted_content"]}


def reasoning(effort: str) -> dict[str, Any]:
    return {"reasoning": {"effort": effort, "summary": "auto"}}


@pytest.mark.parametrize(
    ("settings", "tail"),
    [
        (CallSettings("gpt-5.2"), SEALED),
        (CallSettings("gpt-5.2", max_tokens=99), {**SEALED, "max_output_tokens": 99}),
        (CallSettings("gpt-5.2", with_tools=False), {**SEALED, "tool_choice": "none"}),
        (CallSettings("gpt-5.2", reasoning={"effort": "high"}), SEALED | reasoning("high")),
        (CallSettings("gpt-5.2", reasoning={"enabled": False}), SEALED | reasoning("none")),
        (CallSettings("openai/gpt-5-mini", reasoning={"enabled": False}), SEALED | reasoning("minimal")),
        (CallSettings("gpt-5", reasoning={"effort": "none"}), SEALED | reasoning("minimal")),
        (CallSettings("gpt-5.1-codex", reasoning={"effort": "none"}), SEALED | reasoning("low")),
        (CallSettings("gpt-5-pro", reasoning={"effort": "none"}), SEALED),
        (CallSettings("o3", reasoning={"effort": "none"}), SEALED | reasoning("low")),
        (CallSettings("grok-4", reasoning={"effort": "none"}), SEALED),
        (CallSettings("gpt-4.1", reasoning={"effort": "high"}), ALWAYS),
    ],
)
def test_the_tail_of_a_request(settings: CallSettings, tail: dict[str, Any]) -> None:
    assert wire.make_tail(OPENAI, settings) == tail


def test_nothing_in_nothing_out() -> None:
    assert (wire.encode_system(""), wire.encode_tools([])) == (b"", b"")
