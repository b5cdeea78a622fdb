"""The official `anthropic` client as the judge of what the lab server sends in the Messages format."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import pytest

from hermes_lab.prompt import IMAGE_TOKENS
from hermes_lab.server import LabServer

TOOLS: Any = [{"name": name, "description": "d", "input_schema": {"type": "object"}} for name in ("read_file", "list")]
THINKING: Any = {"type": "enabled", "budget_tokens": 1024}
PIXEL = "iVBORw0KGgoA"


@pytest.fixture(scope="module")
def lab() -> Iterator[LabServer]:
    with LabServer() as server:
        yield server


@pytest.fixture
def client(lab: LabServer) -> Iterator[anthropic.Anthropic]:
    lab.set_plan([])
    lab.clear_requests()
    with anthropic.Anthropic(base_url=lab.address, api_key="sk-ant", max_retries=0) as made:
        yield made


def shape(*messages: Any, **options: Any) -> Any:
    shaped = [{"role": "user", "content": item} if isinstance(item, str) else item for item in messages]
    return {"model": "lab", "max_tokens": 4096, "messages": shaped, **options}


def ask(client: anthropic.Anthropic, *messages: Any, **options: Any) -> anthropic.types.Message:
    made: anthropic.types.Message = client.messages.create(**shape(*messages, **options))
    return made


def read_stream(client: anthropic.Anthropic, *messages: Any, **options: Any) -> anthropic.types.Message:
    with client.messages.stream(**shape(*messages, **options)) as stream:
        return stream.get_final_message()


def dump(message: anthropic.types.Message) -> list[dict[str, Any]]:
    return [block.model_dump(exclude_none=True, exclude={"id"}) for block in message.content]


def replay(message: anthropic.types.Message) -> list[Any]:
    """The assistant's message as it came, and the user's answer to its calls."""
    blocks = [block.model_dump(exclude_none=True) for block in message.content]
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    answers = [{"type": "tool_result", "tool_use_id": call, "content": f"result {n}"} for n, call in enumerate(calls)]
    return [{"role": "assistant", "content": blocks}, {"role": "user", "content": answers}]


def test_models_are_listed(client: anthropic.Anthropic) -> None:
    assert [model.id for model in client.models.list()] == ["lab", "lab-small"]


def test_plain_answer_depends_on_the_request_only(client: anthropic.Anthropic) -> None:
    first, second = ask(client, "hello"), ask(client, "hello")
    assert dump(first) == [{"type": "text", "text": "You said: hello"}]
    assert first.stop_reason == "end_turn"
    assert first == second


def test_a_key_may_come_as_a_bearer(lab: LabServer) -> None:
    with anthropic.Anthropic(base_url=lab.address, auth_token="tok-1", api_key=None, max_retries=0) as client:
        ask(client, "hello")
    assert lab.bill["tok-1"].calls == 1


TEXT = '[[reason Grüße 世界 and more]] [[say Look, 世界.]] [[tool read_file {"path": "Pfad: é"}]] [[tool list]]'


@pytest.mark.parametrize("size", [1, 3, 16, 500])
def test_the_streaming_helper_makes_the_whole_message(lab: LabServer, client: anthropic.Anthropic, size: int) -> None:
    calls = [{"name": "read_file", "arguments": {"path": "ein Pfad: é"}}, {"name": "list"}]
    step = {"reasoning": "Grüße 世界 and more", "text": "Look, 世界.", "tool_calls": calls, "chunk_size": size}
    lab.set_plan([{**step, "times": 2}])
    whole = ask(client, "hi", tools=TOOLS, thinking=THINKING)
    streamed = read_stream(client, "hi", tools=TOOLS, thinking=THINKING)
    assert dump(streamed) == dump(whole)
    assert [block.type for block in whole.content] == ["thinking", "text", "tool_use", "tool_use"]
    assert (streamed.stop_reason, whole.stop_reason) == ("tool_use", "tool_use")
    assert streamed.usage == whole.usage
    assert len({block.id for block in streamed.content if block.type == "tool_use"}) == 2


def test_events_come_in_their_order(client: anthropic.Anthropic) -> None:
    with client.messages.with_streaming_response.create(
        **shape(TEXT, tools=TOOLS, thinking=THINKING), stream=True
    ) as raw:
        events = [json.loads(line[6:]) for line in raw.iter_lines() if line.startswith("data: ")]
    kinds = [event["type"] for event in events if event["type"] != "content_block_delta"]
    one = ["content_block_start", "content_block_stop"]
    assert kinds == ["message_start", one[0], "ping", one[1], *one * 3, "message_delta", "message_stop"]
    deltas = {event["delta"]["type"] for event in events if event["type"] == "content_block_delta"}
    assert deltas == {"thinking_delta", "signature_delta", "text_delta", "input_json_delta"}
    assert events[0]["message"]["usage"]["output_tokens"] == 1
    assert events[-2]["usage"]["output_tokens"] > 1


def test_a_tool_loop_with_thinking_is_taken_when_replayed_as_it_came(client: anthropic.Anthropic) -> None:
    text = f"{TEXT} [[then]] [[reason again]] [[tool list]] [[then]] [[say done]]"
    messages: list[Any] = [text]
    for _ in range(2):
        answer = read_stream(client, *messages, tools=TOOLS, thinking=THINKING)
        messages += replay(answer)
    last = ask(client, *messages, tools=TOOLS, thinking=THINKING)
    assert dump(last) == [{"type": "text", "text": "done"}]
    echo = ask(client, TEXT.replace("Look", "See"), *replay(answer), tools=TOOLS, thinking=THINKING)
    assert dump(echo) == [{"type": "text", "text": "list returned: result 0"}]


@pytest.mark.parametrize("mode", [THINKING, {"type": "adaptive"}])
def test_thinking_dropped_in_a_tool_loop_is_refused(client: anthropic.Anthropic, mode: Any) -> None:
    first = ask(client, TEXT, tools=TOOLS, thinking=mode)
    assistant, results = replay(first)
    assistant["content"] = [block for block in assistant["content"] if block["type"] != "thinking"]
    with pytest.raises(anthropic.BadRequestError, match="Expected `thinking` or `redacted_thinking`"):
        ask(client, TEXT, assistant, results, tools=TOOLS, thinking=mode)
    assert ask(client, TEXT, assistant, results, tools=TOOLS).stop_reason == "end_turn"
    later = [TEXT, assistant, results, {"role": "assistant", "content": "ok"}, "next"]
    assert ask(client, *later, tools=TOOLS, thinking=mode).stop_reason == "end_turn"


def test_calls_without_thinking_need_none(client: anthropic.Anthropic) -> None:
    first = ask(client, "[[tool list]]", tools=TOOLS, thinking=THINKING)
    assert [block.type for block in first.content] == ["tool_use"]
    assert ask(client, "[[tool list]]", *replay(first), tools=TOOLS, thinking=THINKING).stop_reason == "end_turn"


def test_a_changed_thinking_block_is_refused(client: anthropic.Anthropic) -> None:
    first = ask(client, TEXT, tools=TOOLS, thinking=THINKING)
    for field in ("thinking", "signature"):
        assistant, results = replay(first)
        assistant["content"][0][field] += "x"
        with pytest.raises(anthropic.BadRequestError, match="Invalid `signature` in `thinking` block"):
            ask(client, TEXT, assistant, results, tools=TOOLS, thinking=THINKING)


def test_no_thinking_without_being_asked(client: anthropic.Anthropic) -> None:
    for thinking in ({}, {"thinking": {"type": "disabled"}}):
        answer = ask(client, "[[reason hm]] [[say a]]", **thinking)
        assert dump(answer) == [{"type": "text", "text": "a"}]
        assert answer.usage.output_tokens == 1


def test_hidden_and_omitted_thinking_can_be_replayed(client: anthropic.Anthropic) -> None:
    omitted = {**THINKING, "display": "omitted"}
    for text, mode, kind in (("[[hide hm]]", THINKING, "redacted_thinking"), ("[[reason hm]]", omitted, "thinking")):
        for read in (ask, read_stream):
            answer = read(client, f"{text} [[tool list]]", tools=TOOLS, thinking=mode)
            assert "hm" not in str(dump(answer)[0].get("thinking", ""))
            assert answer.content[0].type == kind
            assert answer.usage.output_tokens_details is not None
            assert answer.usage.output_tokens_details.thinking_tokens == 1
            after = ask(client, f"{text} [[tool list]]", *replay(answer), tools=TOOLS, thinking=mode)
            assert after.stop_reason == "end_turn"


@pytest.mark.parametrize(
    ("text", "reason"),
    [("a", "end_turn"), ("[[tool list]]", "tool_use"), ("[[length]]", "max_tokens"), ("[[refuse]]", "refusal")],
)
def test_stop_reasons(client: anthropic.Anthropic, text: str, reason: str) -> None:
    assert ask(client, text, tools=TOOLS).stop_reason == reason
    assert read_stream(client, text, tools=TOOLS).stop_reason == reason


def test_an_empty_answer_has_no_block(client: anthropic.Anthropic) -> None:
    assert ask(client, "[[say ]]").content == read_stream(client, "[[say ]]").content == []


def test_an_answer_ends_at_its_limit(client: anthropic.Anthropic) -> None:
    for read in (ask, read_stream):
        answer = read(client, "[[say 123456789]]", max_tokens=2)
        assert (dump(answer)[0]["text"], answer.stop_reason, answer.usage.output_tokens) == (
            "12345678",
            "max_tokens",
            2,
        )
    cut = read_stream(client, '[[tool list {"of": "a long text"}]]', tools=TOOLS, max_tokens=3)
    assert cut.stop_reason == "max_tokens"
    assert cut.content[0].type == "tool_use"


def test_images_count_a_fixed_number(client: anthropic.Anthropic) -> None:
    def count(*images: Any) -> int:
        return ask(client, {"role": "user", "content": [*images, {"type": "text", "text": "a"}]}).usage.input_tokens

    small = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL}}
    large = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": PIXEL * 999}}
    assert count(small) == count(large)
    assert IMAGE_TOKENS < count(small) - count() < IMAGE_TOKENS + 30


@pytest.mark.parametrize(
    ("status", "error", "kind"),
    [
        (400, anthropic.BadRequestError, "invalid_request_error"),
        (401, anthropic.AuthenticationError, "authentication_error"),
        (403, anthropic.PermissionDeniedError, "permission_error"),
        (404, anthropic.NotFoundError, "not_found_error"),
        (413, anthropic.RequestTooLargeError, "request_too_large"),
        (429, anthropic.RateLimitError, "rate_limit_error"),
        (500, anthropic.InternalServerError, "api_error"),
        (529, anthropic.OverloadedError, "overloaded_error"),
    ],
)
def test_failures_are_the_clients_own_exceptions(
    client: anthropic.Anthropic, status: int, error: type[anthropic.APIStatusError], kind: str
) -> None:
    with pytest.raises(error) as raised:
        ask(client, f"[[fail {status}]]")
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["type"] == "error"
    assert raised.value.body["error"]["type"] == kind
    with pytest.raises(anthropic.APIStatusError) as in_stream:
        read_stream(client, f"[[say one two three]] [[error 4 {status}]]")
    assert isinstance(in_stream.value.body, dict)
    assert in_stream.value.body["error"]["type"] == kind


def test_an_overflow_is_told_in_the_formats_words(client: anthropic.Anthropic) -> None:
    with pytest.raises(anthropic.BadRequestError, match="prompt is too long: 8193 tokens > 8192 maximum"):
        ask(client, "[[fail 400 context_length_exceeded]]")


def test_a_cut_stream_is_an_error(lab: LabServer, client: anthropic.Anthropic) -> None:
    lab.set_plan([{"text": "one two three four five", "fault": {"cut_after_chunks": 4}}])
    with pytest.raises(Exception, match=r"incomplete|closed|Connection"):
        read_stream(client, "hello")
