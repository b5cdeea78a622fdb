"""The official `openai` client as the judge of what the lab server sends."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from hermes_lab.server import LabServer

TOOLS: Any = [
    {"type": "function", "function": {"name": name, "description": "d", "parameters": {"type": "object"}}}
    for name in ("read_file", "list_files")
]


@pytest.fixture(scope="module")
def lab() -> Iterator[LabServer]:
    with LabServer() as server:
        yield server


@pytest.fixture
def client(lab: LabServer) -> Iterator[openai.OpenAI]:
    lab.set_plan([])
    lab.clear_requests()
    with openai.OpenAI(base_url=lab.base_url, api_key="sk-lab", max_retries=0) as made:
        yield made


def ask(client: openai.OpenAI, *messages: Any, **options: Any) -> Any:
    shaped = [{"role": "user", "content": item} if isinstance(item, str) else item for item in messages]
    return client.chat.completions.create(model="lab", messages=shaped, **options)


def test_models_are_listed(client: openai.OpenAI) -> None:
    assert [model.id for model in client.models.list()] == ["lab", "lab-small"]


def test_plain_answer_depends_on_the_request_only(client: openai.OpenAI) -> None:
    first, second = ask(client, "hello"), ask(client, "hello")
    assert first.choices[0].message.content == "You said: hello"
    assert first.choices[0].finish_reason == "stop"
    assert first == second


def test_usage_counts_four_bytes_a_token(client: openai.OpenAI) -> None:
    usage = ask(client, "[[say 12345678]] [[reason 12345]]").usage
    message = '{"role":"user","content":"[[say 12345678]] [[reason 12345]]"}'
    assert usage.prompt_tokens == -(-len(message) // 4)
    assert usage.completion_tokens == 2 + 2
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.completion_tokens_details.reasoning_tokens == 2
    assert usage.prompt_tokens_details.cached_tokens == 0


def test_stream_carries_text_reasoning_and_usage_last(client: openai.OpenAI) -> None:
    chunks = list(ask(client, "[[say Grüße, 世界]] [[reason hm]]", stream=True, stream_options={"include_usage": True}))
    whole = ask(client, "[[say Grüße, 世界]] [[reason hm]]")
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    assert "".join(delta.content or "" for delta in deltas) == "Grüße, 世界" == whole.choices[0].message.content
    assert "".join(getattr(delta, "reasoning_content", "") for delta in deltas) == "hm"
    assert whole.choices[0].message.reasoning_content == "hm"
    assert [bool(chunk.usage) for chunk in chunks] == [False] * (len(chunks) - 1) + [True]
    assert chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    assert chunks[-2].choices[0].finish_reason == "stop"


def test_stream_has_no_usage_unless_asked(client: openai.OpenAI) -> None:
    assert all(chunk.usage is None and chunk.choices for chunk in ask(client, "hello", stream=True))


def test_stream_has_the_number_of_chunks_asked_for(client: openai.OpenAI) -> None:
    chunks = list(ask(client, "[[chunks 40]]", stream=True))
    pieces = [chunk.choices[0].delta.content for chunk in chunks if chunk.choices[0].delta.content]
    assert len(pieces) == 40
    assert "".join(pieces).split() == [str(number) for number in range(1, 41)]


def test_parallel_tool_calls_then_a_report(client: openai.OpenAI) -> None:
    text = 'Look: [[tool read_file {"path": "a]]b", "rows": [[1]]}]] and [[tool list_files]]'
    choice = ask(client, text, tools=TOOLS).choices[0]
    calls = choice.message.tool_calls
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert [(call.function.name, json.loads(call.function.arguments)) for call in calls] == [
        ("read_file", {"path": "a]]b", "rows": [[1]]}),
        ("list_files", {}),
    ]
    assert len({call.id for call in calls}) == 2
    results = [{"role": "tool", "tool_call_id": call.id, "content": f"r{n}"} for n, call in enumerate(calls)]
    after = ask(client, text, choice.message.model_dump(exclude_none=True), *results, tools=TOOLS)
    assert after.choices[0].message.content == "read_file returned: r0\nlist_files returned: r1"


def test_streamed_tool_calls_equal_whole_ones(client: openai.OpenAI) -> None:
    text = '[[tool read_file {"path": "a long path that needs pieces"}]] [[tool list_files {"of": "é"}]]'
    whole = ask(client, text, tools=TOOLS).choices[0].message.tool_calls
    with client.chat.completions.stream(
        model="lab", messages=[{"role": "user", "content": text}], tools=TOOLS
    ) as stream:
        streamed = stream.get_final_completion().choices[0].message.tool_calls
    assert streamed is not None
    assert [(call.function.name, call.function.arguments) for call in streamed] == [
        (call.function.name, call.function.arguments) for call in whole
    ]
    assert len({call.id for call in streamed}) == 2


def test_tools_are_not_called_when_none_were_offered(client: openai.OpenAI) -> None:
    message = ask(client, "Summarise: [[tool read_file {}]]").choices[0].message
    assert message.tool_calls is None
    assert message.content is not None


def test_rounds_follow_the_assistant_messages(client: openai.OpenAI) -> None:
    text = "[[tool read_file {}]] [[then]] [[tool list_files {}]] [[then]] [[say all done]]"
    messages: list[Any] = [{"role": "user", "content": text}]
    names = []
    for _ in range(2):
        message = ask(client, *messages, tools=TOOLS).choices[0].message
        names.append(message.tool_calls[0].function.name)
        messages += [
            message.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "ok"},
        ]
    assert names == ["read_file", "list_files"]
    assert ask(client, *messages, tools=TOOLS).choices[0].message.content == "all done"
    again = ask(client, *messages, {"role": "assistant", "content": "all done"}, "next", tools=TOOLS)
    assert again.choices[0].message.content == "You said: next"


def test_length_and_broken_arguments_come_as_told(client: openai.OpenAI) -> None:
    choice = ask(client, '[[length]] [[tool read_file {"path": "a]]', tools=TOOLS).choices[0]
    assert choice.finish_reason == "length"
    assert choice.message.tool_calls[0].function.arguments == '{"path": "a'


@pytest.mark.parametrize(
    ("status", "error"),
    [
        (400, openai.BadRequestError),
        (401, openai.AuthenticationError),
        (403, openai.PermissionDeniedError),
        (404, openai.NotFoundError),
        (429, openai.RateLimitError),
        (500, openai.InternalServerError),
        (503, openai.InternalServerError),
        (529, openai.InternalServerError),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
def test_failures_are_the_clients_own_exceptions(
    client: openai.OpenAI, status: int, error: type[openai.APIStatusError], stream: bool
) -> None:
    with pytest.raises(error) as raised:
        ask(client, f"[[fail {status}]]", stream=stream)
    assert raised.value.status_code == status
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["message"]


def test_failure_details_reach_the_client(client: openai.OpenAI) -> None:
    with pytest.raises(openai.RateLimitError) as limited:
        ask(client, "[[fail 429 7]]")
    assert limited.value.response.headers["retry-after"] == "7"
    with pytest.raises(openai.BadRequestError) as overflow:
        ask(client, "[[fail 400 context_length_exceeded]]")
    assert overflow.value.code == "context_length_exceeded"


def test_the_client_retries_as_the_plan_tells(lab: LabServer, client: openai.OpenAI) -> None:
    lab.set_plan([{"fault": {"status": 429, "retry_after": 0.01}}, {"text": "at last"}])
    answer = ask(client.with_options(max_retries=1), "hello")
    assert answer.choices[0].message.content == "at last"
    assert len(lab.requests) == 2
    assert lab.requests[0].body == lab.requests[1].body


def test_a_cut_stream_is_a_connection_error(lab: LabServer, client: openai.OpenAI) -> None:
    lab.set_plan([{"text": "one two three four five", "fault": {"cut_after_chunks": 2}}, {"fault": {"hang_up": True}}])
    with pytest.raises(openai.APIConnectionError):
        list(ask(client, "hello", stream=True))
    with pytest.raises(openai.APIConnectionError):
        ask(client, "hello")


def test_a_plan_comes_before_the_script_and_ends(lab: LabServer, client: openai.OpenAI) -> None:
    lab.set_plan(
        [
            {
                "text": "planned",
                "tool_calls": [{"name": "read_file", "arguments": {"path": "x"}, "id": "call_1"}],
                "usage": {"prompt_tokens": 1000, "cached_tokens": 900},
            }
        ]
    )
    first = ask(client, "[[say scripted]]")
    assert first.choices[0].message.content == "planned"
    assert first.choices[0].message.tool_calls[0].id == "call_1"
    assert (first.usage.prompt_tokens, first.usage.prompt_tokens_details.cached_tokens) == (1000, 900)
    assert lab.steps_left == 0
    assert ask(client, "[[say scripted]]").choices[0].message.content == "scripted"


def test_steps_wait_for_the_request_they_are_for(lab: LabServer, client: openai.OpenAI) -> None:
    lab.set_plan([{"text": "T", "contains": "title"}, {"model": "other", "text": "O"}, {"text": "any", "times": 2}])
    said = [ask(client, text).choices[0].message.content for text in ("x", "a title", "y", "z")]
    assert said == ["any", "T", "any", "You said: z"]
    assert lab.steps_left == 1


def test_the_bill_is_the_sum_of_the_usage(client: openai.OpenAI) -> None:
    with LabServer() as own, client.with_options(base_url=own.base_url) as buyer:
        usages = [ask(buyer, text).usage for text in ("a", "bb", "[[reason ccc]]")]
        assert own.bill["sk-lab"].prompt_tokens == sum(usage.prompt_tokens for usage in usages)
        assert own.bill["sk-lab"].output_tokens == sum(usage.completion_tokens for usage in usages)
        assert own.bill["sk-lab"].calls == 3


def test_an_error_in_the_stream_is_the_clients_own_exception(client: openai.OpenAI) -> None:
    with pytest.raises(openai.APIError, match="overloaded") as raised:
        list(ask(client, "[[say one two three]] [[error 2 503]]", stream=True))
    assert isinstance(raised.value.body, dict)
    assert raised.value.body["type"] == "server_error"
    with pytest.raises(openai.InternalServerError):
        ask(client, "[[error 2 503]]")


def test_an_answer_ends_at_its_limit(client: openai.OpenAI) -> None:
    choice = ask(client, "[[reason 12345678]] [[say 12345678]]", max_completion_tokens=3).choices[0]
    assert (choice.message.reasoning_content, choice.message.content) == ("12345678", "1234")
    assert choice.finish_reason == "length"
