"""Anthropic Messages on the wire, inwards: an answer means the same however its stream is cut."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.formats import anthropic_messages as wire
from agent.formats.anthropic_answers import MessageReader
from agent.formats.repair import repair_messages, write_reply
from agent.formats.reply import OWN_DATA, Reply
from agent.http.clients import iter_event_data
from agent.usage_pricing import CanonicalUsage

DIALECT = "anthropic_messages"
FIXTURES = Path(__file__).parent / "wire_fixtures" / "anthropic"
STREAMS = {path.stem: path.read_bytes() for path in sorted(FIXTURES.glob("*.sse"))}
FINISHED = sorted(set(STREAMS) - {"error"})


class Heard:
    """What the listeners of an answer were told."""

    def __init__(self) -> None:
        self.text = ""
        self.reasoning = ""

    def hear_text(self, piece: str) -> None:
        self.text += piece

    def hear_reasoning(self, piece: str) -> None:
        self.reasoning += piece


def read(chunks: list[bytes]) -> tuple[MessageReader, Heard, list[Any]]:
    heard, problems = Heard(), []
    reader = wire.read_answer(DIALECT, heard.hear_text, heard.hear_reasoning)
    for data in iter_event_data(chunks):
        event = json.loads(data)
        problems.append(wire.find_error(event))
        reader.feed(event)
    return reader, heard, [problem for problem in problems if problem]


def reply_of(name: str) -> Reply:
    reader, heard, problems = read([STREAMS[name]])
    reply = reader.reply()
    assert reader.whole
    assert not problems
    assert (heard.text, heard.reasoning) == (reply.text, reply.reasoning)
    return reply


def kept_of(reply: Reply) -> list[str]:
    return [block["type"] for block in reply.extra[OWN_DATA]["blocks"]]


def test_a_text_is_read() -> None:
    reply = reply_of("text")
    assert (reply.text, reply.finish_reason) == ("Grüße aus 東京 🗼!", "stop")
    assert reply.model == "claude-sonnet-4-5-20250929"
    assert reply.usage == CanonicalUsage(25, 15, 1800, 248)
    assert not reply.extra


def test_thinking_is_shown_and_kept_with_its_signature() -> None:
    reply = reply_of("thinking_text")
    assert reply.reasoning == "27 * 453: 27 * 400 = 10,800; 27 * 53 = 1,431."
    assert reply.text == "27 × 453 = 12,231."
    assert kept_of(reply) == ["thinking", "redacted_thinking", "text"]
    assert reply.usage is not None
    assert reply.usage.reasoning_tokens == 60


def test_parallel_calls_between_thoughts_keep_their_order() -> None:
    reply = reply_of("thinking_tools")
    assert [json.loads(call.arguments) for call in reply.tool_calls] == [
        {"city": "Zürich", "unit": "c"},
        {"city": "京都", "days": [1, 2], "note": 'a "quote"'},
        {},
    ]
    assert reply.finish_reason == "tool_calls"
    assert kept_of(reply) == ["thinking", "text", "tool_use", "thinking", "tool_use", "tool_use"]
    assert reply.usage == CanonicalUsage(4, 163, 5120, 331, cache_write_long_tokens=331)


@pytest.mark.parametrize("name", ["thinking_text", "thinking_tools", "cut_tool"])
def test_an_answer_is_sent_back_as_it_came(name: str) -> None:
    reply = reply_of(name)
    message = repair_messages([json.loads(json.dumps(write_reply(reply)))])[0]
    assert json.loads(wire.encode_message(message, DIALECT))["content"] == reply.extra[OWN_DATA]["blocks"]


def test_a_refusal_is_told() -> None:
    assert (reply_of("refusal").text, reply_of("refusal").finish_reason) == ("I can't help", "content_filter")


def test_a_call_that_was_cut_is_never_taken_for_a_whole_one() -> None:
    reply = reply_of("cut_tool")
    assert reply.finish_reason == "length"
    (call,) = reply.tool_calls
    with pytest.raises(ValueError):
        json.loads(call.arguments)


def test_a_call_that_was_cut_before_its_arguments_has_none() -> None:
    for stop_reason, arguments in (("max_tokens", ""), ("tool_use", "{}")):
        reader = wire.read_answer(DIALECT)
        start = {"type": "tool_use", "id": "toolu_1", "name": "look", "input": {}}
        reader.feed({"type": "content_block_start", "index": 0, "content_block": start})
        reader.feed({"type": "message_delta", "delta": {"stop_reason": stop_reason}})
        reader.feed({"type": "message_stop"})
        assert [call.arguments for call in reader.reply().tool_calls] == [arguments]


def test_an_error_in_mid_stream_is_told_and_the_answer_is_not_whole() -> None:
    reader, heard, problems = read([STREAMS["error"]])
    assert problems == [{"type": "overloaded_error", "message": "Overloaded"}]
    assert (heard.text, reader.whole) == ("Once upon", False)


def test_a_message_in_one_piece_is_an_answer() -> None:
    heard = Heard()
    reader = wire.read_answer(DIALECT, heard.hear_text, heard.hear_reasoning)
    message = json.loads((FIXTURES / "message.json").read_bytes())
    reader.feed(message)
    reply = reader.reply()
    assert reader.whole
    assert (reply.text, heard.text, heard.reasoning) == ("Looking.", "Looking.", "One call.")
    assert reply.extra[OWN_DATA]["blocks"] == message["content"]
    assert reply.usage == CanonicalUsage(2095, 503, 2051, 2051)


@pytest.mark.parametrize(
    ("stop_reason", "finish_reason"),
    [
        ("end_turn", "stop"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
        ("tool_use", "tool_calls"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("refusal", "content_filter"),
        ("something_new", "stop"),
    ],
)
def test_the_reason_to_stop_is_told_in_neutral_words(stop_reason: str, finish_reason: str) -> None:
    reader = wire.read_answer(DIALECT)
    reader.feed({"type": "message", "content": [], "stop_reason": stop_reason})
    assert reader.reply().finish_reason == finish_reason


def test_an_answer_that_gave_its_reason_is_over_and_done_ends_no_other() -> None:
    """D1: some servers never send message_stop."""
    reader = wire.read_answer(DIALECT)
    reader.finish()
    assert not reader.whole
    reader.feed({"type": "message_delta", "delta": {}, "usage": {"output_tokens": 3}})
    assert not reader.whole
    reader.feed({"type": "message_delta", "delta": {"stop_reason": "end_turn"}})
    assert reader.whole


def test_thinking_without_a_signature_cannot_be_sent_back() -> None:
    reader = wire.read_answer(DIALECT)
    reader.feed({"type": "message", "content": [{"type": "thinking", "thinking": "hm"}, {"type": "text", "text": "x"}]})
    assert reader.reply() == Reply(text="x", reasoning="hm")


# --- cut anywhere


@given(st.sampled_from(FINISHED), st.lists(st.integers(0), max_size=20))
def test_an_answer_is_the_same_under_any_chunking(name: str, cuts: list[int]) -> None:
    stream = STREAMS[name]
    edges = sorted({0, len(stream), *(cut % len(stream) for cut in cuts)})
    reader, heard, _ = read([stream[start:stop] for start, stop in pairwise(edges)])
    assert reader.reply() == reply_of(name)
    assert heard.text == reader.text


@pytest.mark.parametrize("name", FINISHED)
def test_a_stream_cut_at_any_byte_is_never_a_wrong_answer(name: str) -> None:
    """Never a wrong text, never a call with half its arguments, whole from the reason to stop on."""
    stream, whole = STREAMS[name], reply_of(name)
    end = stream.index(b"\n\n", stream.rindex(b'"stop_reason"')) + 2
    heard = Heard()
    reader = wire.read_answer(DIALECT, heard.hear_text)
    fed = 0
    for cut in range(len(stream) + 1):
        events = list(iter_event_data([stream[:cut]]))
        for data in events[fed:]:
            reader.feed(json.loads(data))
        fed = len(events)
        partial = reader.reply()
        assert whole.text.startswith(partial.text)
        assert heard.text == partial.text
        assert reader.whole == (cut >= end)
        assert partial.tool_calls == (whole.tool_calls if reader.whole else ())


@given(st.sampled_from(FINISHED), st.integers(0))
def test_half_an_event_changes_nothing(name: str, cut: int) -> None:
    stream = STREAMS[name]
    head = stream[: cut % len(stream)]
    whole_events = head[: head.rfind(b"\n\n") + 2] if b"\n\n" in head else b""
    half, before = read([head])[0], read([whole_events])[0]
    assert (half.reply(), half.whole) == (before.reply(), before.whole)


JUNK = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5),
    lambda inner: st.dictionaries(st.sampled_from(["type", "text", "thinking", "usage", "id", "name"]), inner),
    max_leaves=5,
)


@given(st.lists(st.dictionaries(st.text(max_size=4), JUNK).map(lambda fields: fields | {"type": "unheard_of"})))
def test_unknown_events_are_passed_over(events: list[dict[str, Any]]) -> None:
    reader = wire.read_answer(DIALECT)
    for event in events:
        reader.feed(event)
    assert reader.reply() == Reply()
    assert not reader.whole
