"""C7: a character whose halves come in two pieces arrives whole, wherever text comes in pieces."""

import itertools
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from raw_model_server import RawModelServer

from hermes_base.text.whole_text import PieceCleaner, clean_text, decode_whole
from run_agent import AIAgent

#: Halves of characters beside whole ones; neighbours may make a pair.
HALVES = st.text(st.sampled_from("a\n\ud83d\ude00\ud800\udfffé😀\u0301\u200d"), max_size=20)
HIGH, LOW = "\ud83d", "\ude00"
SMILE = "😀"


def write_events(*events: Any, named: bool = False) -> bytes:
    lines = [(f"event: {event['type']}\n" if named else "") + f"data: {json.dumps(event)}\n\n" for event in events]
    return "".join(lines).encode()


def chat_body() -> bytes:
    deltas = [
        {"reasoning_content": f"Hm {HIGH}"},
        {"reasoning_content": f"{LOW}."},
        {"content": f"Hello {HIGH}"},
        {"content": f"{LOW} there"},
    ]
    chunks = [{"choices": [{"index": 0, "delta": delta}]} for delta in deltas]
    return write_events(*chunks, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})


def messages_body() -> bytes:
    def block(place: int, kind: str, name: str, *pieces: str) -> list[Any]:
        deltas = [{"type": f"{kind}_delta", name: piece} for piece in pieces]
        return [
            {"type": "content_block_start", "index": place, "content_block": {"type": kind, name: ""}},
            *({"type": "content_block_delta", "index": place, "delta": delta} for delta in deltas),
            {"type": "content_block_stop", "index": place},
        ]

    return write_events(
        {"type": "message_start", "message": {"id": "m", "type": "message", "role": "assistant", "model": "claude"}},
        *block(0, "thinking", "thinking", f"Hm {HIGH}", f"{LOW}."),
        *block(1, "text", "text", f"Hello {HIGH}", f"{LOW} there"),
        {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 1}},
        {"type": "message_stop"},
        named=True,
    )


def responses_body() -> bytes:
    said = {"type": "output_text", "text": f"Hello {SMILE} there", "annotations": []}
    item = {"id": "i", "type": "message", "role": "assistant", "status": "completed", "content": [said]}
    done = {"id": "r", "object": "response", "status": "completed", "model": "lab", "output": [item]}
    return write_events(
        {"type": "response.created", "response": {"id": "r", "status": "in_progress"}},
        {"type": "response.reasoning_summary_text.delta", "delta": f"Hm {HIGH}"},
        {"type": "response.reasoning_summary_text.delta", "delta": f"{LOW}."},
        {"type": "response.output_text.delta", "delta": f"Hello {HIGH}"},
        {"type": "response.output_text.delta", "delta": f"{LOW} there"},
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": done},
        named=True,
    )


BODIES = {"chat_completions": chat_body, "anthropic_messages": messages_body, "codex_responses": responses_body}


@pytest.fixture
def server() -> Iterator[RawModelServer]:
    with RawModelServer() as running:
        yield running


@pytest.mark.parametrize("api_mode", BODIES)
def test_c7_a_split_character_is_shown_and_kept_whole(server: RawModelServer, api_mode: str) -> None:
    """C7: the text and the thoughts of each wire format, live and in the transcript."""
    server.set_body(BODIES[api_mode]())
    texts: list[str] = []
    thoughts: list[str] = []
    agent = AIAgent(
        base_url=server.base_url,
        model="lab",
        api_mode=api_mode,
        api_key="k",
        stream_delta_callback=texts.append,
        reasoning_callback=thoughts.append,
    )
    try:
        assert agent.run_conversation("Well?")["final_response"] == f"Hello {SMILE} there"
        kept = agent.messages[-1]
    finally:
        agent.close()
    assert ("".join(texts), "".join(thoughts)) == (f"Hello {SMILE} there", f"Hm {SMILE}.")
    assert (kept["content"], kept["reasoning"]) == (f"Hello {SMILE} there", f"Hm {SMILE}.")


def test_c7_the_arguments_of_a_call_are_put_together(server: RawModelServer) -> None:
    """C7: a character that is cut within the arguments of a tool call."""
    cut = [f'{{"action": "add", "text": "buy {HIGH}', f'{LOW} cake"}}']
    first = {"index": 0, "id": "c1", "type": "function", "function": {"name": "no_such_tool", "arguments": cut[0]}}
    parts = [first, {"index": 0, "function": {"arguments": cut[1]}}]
    chunks = [{"choices": [{"index": 0, "delta": {"tool_calls": [part]}}]} for part in parts]
    end = {"choices": [{"index": 0, "delta": {}, "finish_reason": "tool_calls"}]}
    server.set_body(write_events(*chunks, end))
    agent = AIAgent(base_url=server.base_url, model="lab", api_key="k", max_iterations=1)
    try:
        agent.run_conversation("Well?")
        (call,) = next(message["tool_calls"] for message in agent.messages if message.get("tool_calls"))
    finally:
        agent.close()
    assert json.loads(call["function"]["arguments"])["text"] == f"buy {SMILE} cake"


@given(HALVES, st.lists(st.integers(0, 20), max_size=6))
def test_c7_pieces_make_what_the_whole_makes(text: str, cuts: list[int]) -> None:
    cleaner, edges = PieceCleaner(), [0, *sorted(cuts), len(text)]
    pieces = [cleaner.feed(text[start:end]) for start, end in itertools.pairwise(edges)]
    pieces.append(cleaner.finish())
    assert "".join(pieces) == clean_text(text)
    for piece in pieces:
        piece.encode()  # each is valid by itself


@given(HALVES.map(clean_text), st.integers(0, 60))
def test_c7_bytes_that_are_cut_anywhere_lose_nothing(text: str, cut: int) -> None:
    data = text.encode()
    first, length = decode_whole(data[:cut], more=True)
    assert first + decode_whole(data[length:], more=False)[0] == text
