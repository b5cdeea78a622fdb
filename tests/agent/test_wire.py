"""Chat Completions on the wire: fragments joined are the whole, and a stream means the same however it is cut."""

import json
from itertools import pairwise
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from agent.formats.chat_completions import (
    StreamDecoder,
    encode_json,
    encode_message,
    encode_system,
    encode_tools,
    join_request,
)
from agent.http.clients import DONE, iter_event_data
from agent.usage_pricing import CanonicalUsage, usage_from_chat_completions

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": TEXT}), max_size=6
)
TOOL = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}


@given(TEXT, MESSAGES, st.booleans())
def test_joined_fragments_are_the_encoding_of_the_whole(system: str, messages: list[Any], with_tools: bool) -> None:
    tools = [TOOL] if with_tools else []
    body = join_request(
        "a-model",
        encode_tools(tools),
        encode_system(system),
        [encode_message(m, "chat_completions") for m in messages],
        {"stream": True},
    )
    ordered = [{"role": message["role"], "content": message["content"]} for message in messages]
    start = [{"role": "system", "content": system}] if system else []
    whole = {"model": "a-model"} | ({"tools": tools} if tools else {}) | {"messages": [*start, *ordered]}
    assert body == encode_json({**whole, "stream": True})


@given(MESSAGES, MESSAGES)
def test_a_longer_conversation_starts_with_the_bytes_of_the_shorter(first: list[Any], more: list[Any]) -> None:
    """A1"""
    encode = lambda messages, tail: join_request(  # noqa: E731
        "m", encode_tools([TOOL]), encode_system("s"), [encode_message(m, "chat_completions") for m in messages], tail
    )
    short, long = encode(first, {"stream": True}), encode([*first, *more], {"stream": True, "max_tokens": 5})
    assert long.startswith(short[: short.rindex(b"]")])


def test_fields_of_our_own_stay_at_home() -> None:
    message = {"role": "assistant", "content": "x", "reasoning": "secret thoughts", "finish_reason": "stop"}
    assert json.loads(encode_message(message, "chat_completions")) == {"role": "assistant", "content": "x"}


def events(payloads: list[bytes], end: bytes) -> bytes:
    return b"".join(b": comment" + end + b"data: " + payload + end + end for payload in payloads)


@given(
    st.lists(TEXT.map(lambda text: json.dumps(text, ensure_ascii=False).encode()), max_size=5),
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.lists(st.integers(0, 400), max_size=12),
)
def test_events_are_the_same_under_any_chunking(payloads: list[bytes], end: bytes, cuts: list[int]) -> None:
    whole = events(payloads, end)
    edges = sorted({0, len(whole), *(cut % (len(whole) + 1) for cut in cuts)})
    chunks = [whole[start:stop] for start, stop in pairwise(edges)]
    assert list(iter_event_data(chunks)) == payloads


@given(st.integers(0, 200))
def test_half_an_event_is_never_yielded(cut: int) -> None:
    whole = events([b'{"a": 1}', b'{"b": 2}'], b"\n")
    assert list(iter_event_data([whole[:cut]])) in ([], [b'{"a": 1}'], [b'{"a": 1}', b'{"b": 2}'])


CHUNKS = [
    {"model": "m", "choices": [{"delta": {"role": "assistant", "content": ""}}]},
    {"choices": [{"delta": {"reasoning_content": "hm "}}]},
    {"choices": [{"delta": {"content": "Let me "}}]},
    {"choices": [{"delta": {"content": "look."}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "id": "a", "function": {"name": "look", "arguments": ""}}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 1, "id": "b", "function": {"name": "hear", "arguments": "{"}}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": '{"at":'}}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 1, "function": {"arguments": "}"}}]}}]},
    {"choices": [{"delta": {"tool_calls": [{"index": 0, "function": {"arguments": '"x"}'}}]}}]},
    {"choices": [{"delta": {}, "finish_reason": "tool_calls"}]},
    {"choices": [], "usage": {"prompt_tokens": 10, "completion_tokens": 4}},
]


def test_interleaved_tool_calls_are_put_together() -> None:
    shown: list[str] = []
    decoder = StreamDecoder("chat_completions", shown.append)
    for chunk in CHUNKS:
        decoder.feed(chunk)
    reply = decoder.reply()
    assert [(call.id, call.name, call.arguments) for call in reply.tool_calls] == [
        ("a", "look", '{"at":"x"}'),
        ("b", "hear", "{}"),
    ]
    assert (reply.text, "".join(shown), reply.reasoning) == ("Let me look.", "Let me look.", "hm ")
    assert reply.usage == CanonicalUsage(input_tokens=10, output_tokens=4)


def test_an_answer_is_whole_only_with_its_end() -> None:
    for count in range(len(CHUNKS)):
        decoder = StreamDecoder()
        for chunk in CHUNKS[:count]:
            decoder.feed(chunk)
        assert decoder.whole == (count > 9)


def test_only_the_first_of_several_choices_is_the_answer() -> None:
    """C7: who sends more than was asked for does not put two answers into one."""
    decoder = StreamDecoder()
    for choice in (0, 1), (1, 0):
        decoder.feed({"choices": [{"index": index, "delta": {"content": "AB"[index]}} for index in choice]})
    decoder.feed({"choices": [{"index": 1, "delta": {}, "finish_reason": "stop"}]})
    assert (decoder.text, decoder.whole) == ("AA", False)
    decoder.feed({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    assert decoder.whole


def test_done_is_an_end_too() -> None:
    assert list(iter_event_data([b"data: [DONE]\n\n"])) == [DONE]


def test_cached_tokens_are_taken_out_of_the_prompt() -> None:
    usage = usage_from_chat_completions(
        {
            "prompt_tokens": 1000,
            "completion_tokens": 50,
            "prompt_tokens_details": {"cached_tokens": 800, "cache_write_tokens": 100},
            "completion_tokens_details": {"reasoning_tokens": 30},
        }
    )
    assert usage == CanonicalUsage(100, 50, 800, 100, 30)
    assert (usage.prompt_tokens, usage.total_tokens) == (1000, 1050)


@given(st.dictionaries(st.text(max_size=5), st.one_of(st.none(), st.integers(), st.text(), st.lists(st.integers()))))
def test_nonsense_usage_never_raises(usage: dict[str, Any]) -> None:
    counted = usage_from_chat_completions({**usage, "prompt_tokens": 5, "prompt_tokens_details": usage})
    assert counted is not None
    assert counted.prompt_tokens == 5
