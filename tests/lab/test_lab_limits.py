"""The context window, the output limit, and: what is streamed is what is answered whole, in every format."""

import json
from typing import Any

import httpx2
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hermes_lab.formats import FORMATS, Format
from hermes_lab.limits import shorten_answer
from hermes_lab.prompt import count_tokens
from hermes_lab.seals import is_sealed, is_signed, seal, sign
from hermes_lab.server import LabServer
from hermes_lab.values import Answer, Call, Finish, Usage

HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
WORDS = {
    "chat_completions": (
        "This model's maximum context length is 2000 tokens. However, you requested {sum} tokens",
        "This model's maximum context length is 2000 tokens. However, your messages resulted in {prompt} tokens.",
    ),
    "messages": (
        "input length and `max_tokens` exceed context limit: {prompt} + 1500 > 2000",
        "prompt is too long: {prompt} tokens > 2000 maximum",
    ),
    "responses": ("Your input exceeds the context window of this model.",) * 2,
}


def make_body(wire: Format, text: str, limit: int | None, **options: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": text}]
    bodies: dict[str, dict[str, Any]] = {
        "chat_completions": {"messages": messages, **({"max_tokens": limit} if limit else {})},
        "messages": {"messages": messages, "max_tokens": limit or 1},
        "responses": {"input": messages, **({"max_output_tokens": limit} if limit else {})},
    }
    return {"model": "lab", **bodies[wire.name], **options}


@pytest.mark.parametrize("wire", FORMATS, ids=lambda wire: wire.name)
def test_a_request_that_does_not_fit_is_refused_in_the_formats_words(wire: Format) -> None:
    with LabServer([{"text": "kept"}], window=2000) as lab:

        def post(text: str, limit: int | None) -> Any:
            return httpx2.post(f"{lab.address}{wire.path}", json=make_body(wire, text, limit), headers=HEADERS)

        first = post("x" * 3000, 1500)
        second = post("x" * 9000, None)
        for answer, words in zip((first, second), WORDS[wire.name], strict=True):
            prompt = wire.decode(lab.requests[-1 if answer is second else 0].body).prompt.tokens
            assert answer.status_code == 400
            assert words.format(prompt=prompt, sum=prompt + 1500) in answer.json()["error"]["message"]
        assert lab.steps_left == 1
        assert lab.bill == {}
        assert post("x" * 3000, 1000).status_code == 200
        assert "kept" in post("hello [[say kept]]", 16).text


def test_the_window_ends_an_answer_without_a_limit() -> None:
    with LabServer([{"text": "x" * 4000}], window={"lab": 200}) as lab:
        body = make_body(FORMATS[0], "hi", None)
        choice = httpx2.post(f"{lab.address}{FORMATS[0].path}", json=body).json()
        assert choice["choices"][0]["finish_reason"] == "length"
        assert choice["usage"]["total_tokens"] == 200
        other = {**make_body(FORMATS[0], "x" * 9000, None), "model": "another"}
        assert httpx2.post(f"{lab.address}{FORMATS[0].path}", json=other).status_code == 200


TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=40)
OBJECTS = st.dictionaries(TEXT, TEXT | st.integers() | st.none(), max_size=3).map(
    lambda value: json.dumps(value, ensure_ascii=False)
)
ANSWERS = st.builds(
    Answer,
    text=TEXT,
    reasoning=TEXT,
    hides_reasoning=st.booleans(),
    calls=st.lists(OBJECTS, max_size=3).map(
        lambda found: tuple(Call(f"call_{n}", "read", arguments) for n, arguments in enumerate(found))
    ),
    finish=st.sampled_from(Finish),
    chunks=st.none() | st.integers(1, 50),
    chunk_size=st.integers(1, 50),
)
USAGE = Usage(100, 50, 20, 5, 30, 10)
ASKS = {
    "chat_completions": {},
    "messages": {"max_tokens": 4096, "thinking": {"type": "enabled", "budget_tokens": 1024}},
    "responses": {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}},
}


def read_events(stream: bytes) -> list[dict[str, Any]]:
    lines = [line for event in stream.decode().split("\n\n") for line in event.split("\n")]
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def join_chat(events: list[dict[str, Any]]) -> Any:
    message: dict[str, Any] = {"content": "", "reasoning_content": "", "calls": {}}
    for choice in (choice for event in events for choice in event["choices"]):
        message["content"] += choice["delta"].get("content") or ""
        message["reasoning_content"] += choice["delta"].get("reasoning_content") or ""
        for call in choice["delta"].get("tool_calls", ()):
            so_far = message["calls"].setdefault(call["index"], ["", ""])
            so_far[0] += call["function"].get("name", "")
            so_far[1] += call["function"]["arguments"]
        message["finish_reason"] = choice["finish_reason"]
    return message


def read_chat(whole: dict[str, Any]) -> Any:
    choice = whole["choices"][0]
    calls = [call["function"] for call in choice["message"].get("tool_calls", ())]
    return {
        "content": choice["message"]["content"] or "",
        "reasoning_content": choice["message"].get("reasoning_content", ""),
        "calls": {n: [call["name"], call["arguments"]] for n, call in enumerate(calls)},
        "finish_reason": choice["finish_reason"],
    }


FIELDS = {"thinking_delta": "thinking", "signature_delta": "signature", "text_delta": "text"}


def join_messages(events: list[dict[str, Any]]) -> Any:
    blocks: list[dict[str, Any]] = []
    inputs: dict[int, str] = {}
    for event in events:
        if event["type"] == "content_block_start":
            blocks.append(event["content_block"])
        elif event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            inputs[event["index"]] = inputs.get(event["index"], "") + event["delta"]["partial_json"]
        elif event["type"] == "content_block_delta":
            field = FIELDS[event["delta"]["type"]]
            blocks[event["index"]][field] += event["delta"][field]
    for index, text in inputs.items():
        blocks[index]["input"] = json.loads(text)
    stop = next(event["delta"]["stop_reason"] for event in events if event["type"] == "message_delta")
    return blocks, stop


def join_responses(events: list[dict[str, Any]]) -> Any:
    """The items, once from the finished items and once from the deltas: both must say the same."""
    deltas: dict[tuple[str, str], str] = {}
    items = []
    for event in events:
        if event["type"].endswith(".delta"):
            key = (event["item_id"], event["type"].split(".")[1])
            deltas[key] = deltas.get(key, "") + event["delta"]
        if event["type"] == "response.output_item.done":
            items.append(event["item"])
    for (item_id, kind), text in deltas.items():
        item = next(item for item in items if item["id"] == item_id)
        found = {
            "output_text": lambda item=item: item["content"][0]["text"],
            "function_call_arguments": lambda item=item: item["arguments"],
            "reasoning_summary_text": lambda item=item: item["summary"][0]["text"],
        }[kind]
        assert found() == text
    return items, events[-1]["response"]["status"]


READERS: dict[str, tuple[Any, Any]] = {
    "chat_completions": (join_chat, read_chat),
    "messages": (join_messages, lambda whole: (whole["content"], whole["stop_reason"])),
    "responses": (join_responses, lambda whole: (whole["output"], whole["status"])),
}


@pytest.mark.parametrize("wire", FORMATS, ids=lambda wire: wire.name)
@settings(max_examples=120)
@given(answer=ANSWERS)
def test_streamed_equals_whole_in_every_format(wire: Format, answer: Answer) -> None:
    body = {**make_body(wire, "hi", None, stream=True), **ASKS[wire.name]}
    ask = wire.decode(json.dumps(body).encode())
    join, read = READERS[wire.name]
    events = read_events(b"".join(wire.encode_stream(ask, answer, USAGE)))
    assert join(events) == read(json.loads(wire.encode_whole(ask, answer, USAGE)))


@settings(max_examples=150)
@given(answer=ANSWERS, room=st.none() | st.integers(1, 30))
def test_a_shortened_answer_fits_and_is_a_beginning(answer: Answer, room: int | None) -> None:
    short = shorten_answer(answer, room)
    parts = [short.reasoning, short.text, *(f"{call.name}{call.arguments}" for call in short.calls)]
    assert room is None or sum(count_tokens(part.encode()) for part in parts) <= room
    assert answer.reasoning.startswith(short.reasoning)
    assert answer.text.startswith(short.text)
    assert short == answer or short.finish == Finish.LENGTH


@given(text=TEXT, other=TEXT)
def test_seals_hold(text: str, other: str) -> None:
    assert is_signed(text, sign(text))
    assert is_sealed(seal(text))
    assert seal(text) == seal(text)
    assert (sign(text) == sign(other)) == (text == other)
    assert not is_sealed(seal(text)[:16])
    assert not is_sealed(other)
