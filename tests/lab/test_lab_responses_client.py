"""The official `openai` client as the judge of what the lab server sends in the Responses format."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest
from openai.types.responses import Response

from hermes_lab.server import LabServer

TOOLS: Any = [
    {"type": "function", "name": name, "description": "d", "parameters": {"type": "object"}, "strict": False}
    for name in ("read_file", "list")
]
SEALED: Any = {"store": False, "include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}


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


def ask(client: openai.OpenAI, *items: Any, **options: Any) -> Response:
    made: Response = client.responses.create(model="lab", input=shape(items), **options)
    return made


def shape(items: tuple[Any, ...]) -> Any:
    return [{"role": "user", "content": item} if isinstance(item, str) else item for item in items]


def read_stream(client: openai.OpenAI, *items: Any, **options: Any) -> Response:
    with client.responses.stream(model="lab", input=shape(items), **options) as stream:
        return stream.get_final_response()


def dump(answer: Response) -> list[dict[str, Any]]:
    kept = {"id", "call_id", "parsed", "parsed_arguments"}
    return [json.loads(json.dumps(item.model_dump(exclude_none=True, exclude=kept))) for item in answer.output]


def strip_parsed(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The helper adds what it parsed from a text; the wire has no such field."""
    for item in items:
        for part in item.get("content", ()):
            part.pop("parsed", None)
    return items


def replay(answer: Response) -> list[Any]:
    items: list[Any] = [item.model_dump(exclude_none=True) for item in answer.output]
    calls = [item["call_id"] for item in items if item["type"] == "function_call"]
    return items + [
        {"type": "function_call_output", "call_id": call, "output": f"r{n}"} for n, call in enumerate(calls)
    ]


def test_plain_answer_depends_on_the_request_only(client: openai.OpenAI) -> None:
    first, second = ask(client, "hello"), ask(client, "hello")
    assert first.output_text == "You said: hello"
    assert first.status == "completed"
    assert first == second
    assert client.responses.create(model="lab", input="hello").output_text == "You said: hello"


@pytest.mark.parametrize("size", [1, 3, 16, 500])
def test_the_streaming_helper_makes_the_whole_response(lab: LabServer, client: openai.OpenAI, size: int) -> None:
    calls = [{"name": "read_file", "arguments": {"path": "ein Pfad: é"}}, {"name": "list"}]
    step = {"reasoning": "Grüße 世界 and more", "text": "Look, 世界.", "tool_calls": calls, "chunk_size": size}
    lab.set_plan([{**step, "times": 2}])
    whole = ask(client, "hi", tools=TOOLS, **SEALED)
    streamed = read_stream(client, "hi", tools=TOOLS, **SEALED)
    assert strip_parsed(dump(streamed)) == dump(whole)
    assert [item.type for item in whole.output] == ["reasoning", "message", "function_call", "function_call"]
    assert streamed.usage == whole.usage
    assert whole.usage is not None
    assert whole.usage.output_tokens_details.reasoning_tokens == 6


def test_events_come_numbered_and_in_their_order(client: openai.OpenAI) -> None:
    text = "[[reason hm]] [[say a]] [[tool list]]"
    events = list(client.responses.create(model="lab", input=text, tools=TOOLS, stream=True, **SEALED))
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type.removeprefix("response.") for event in events] == [
        *("created", "in_progress", "output_item.added", "reasoning_summary_part.added"),
        *("reasoning_summary_text.delta", "reasoning_summary_text.done", "reasoning_summary_part.done"),
        *("output_item.done", "output_item.added", "content_part.added", "output_text.delta", "output_text.done"),
        *("content_part.done", "output_item.done", "output_item.added", "function_call_arguments.delta"),
        *("function_call_arguments.done", "output_item.done", "completed"),
    ]


def test_a_tool_loop_with_sealed_reasoning_goes_on_as_it_came(client: openai.OpenAI) -> None:
    text = "[[reason one]] [[tool list]] [[tool read_file]] [[then]] [[reason two]] [[tool list]] [[then]] [[say ok]]"
    items: list[Any] = [text]
    for count in (2, 1):
        answer = ask(client, *items, tools=TOOLS, **SEALED)
        assert sum(item.type == "function_call" for item in answer.output) == count
        items += replay(answer)
    assert ask(client, *items, tools=TOOLS, **SEALED).output_text == "ok"
    echoed = ask(client, "hi", *replay(ask(client, text, tools=TOOLS, **SEALED)), tools=TOOLS)
    assert echoed.output_text == "list returned: r0\nread_file returned: r1"


def test_changed_reasoning_is_refused(client: openai.OpenAI) -> None:
    items = replay(ask(client, "[[reason one]] [[tool list]]", tools=TOOLS, **SEALED))
    changed = {**items[0], "encrypted_content": "AAAA" + items[0]["encrypted_content"][4:]}
    with pytest.raises(openai.BadRequestError) as raised:
        ask(client, "hi", changed, *items[1:], tools=TOOLS, **SEALED)
    assert raised.value.code == "invalid_encrypted_content"
    with pytest.raises(openai.NotFoundError, match="Items are not persisted"):
        ask(client, "hi", {**items[0], "encrypted_content": None}, *items[1:], tools=TOOLS, **SEALED)


def test_the_sealed_text_counts_from_the_finished_item(client: openai.OpenAI) -> None:
    """Before, it is not whole: who keeps that one is refused later."""
    events = client.responses.create(model="lab", input="[[reason one]]", stream=True, **SEALED)
    early, done = (
        event.item.encrypted_content
        for event in events
        if event.type in ("response.output_item.added", "response.output_item.done") and event.item.type == "reasoning"
    )
    assert early is not None
    assert done is not None
    assert early != done


def test_reasoning_is_shown_as_asked(client: openai.OpenAI) -> None:
    def show(text: str, **options: Any) -> tuple[bool, bool]:
        item = ask(client, text, **options).output[0]
        assert item.type == "reasoning"
        return bool(item.summary), bool(item.encrypted_content)

    assert show("[[reason hm]]") == (False, False)
    assert show("[[reason hm]]", **SEALED) == (True, True)
    assert show("[[hide hm]]", **SEALED) == (False, True)


def test_length_and_refusal_are_incomplete(client: openai.OpenAI) -> None:
    for text, reason in (("[[length]] [[say a]]", "max_output_tokens"), ("[[refuse]] [[say a]]", "content_filter")):
        answer = ask(client, text)
        assert answer.incomplete_details is not None
        assert (answer.status, answer.incomplete_details.reason) == ("incomplete", reason)
        last = list(client.responses.create(model="lab", input=text, stream=True))[-1]
        assert last.type == "response.incomplete"
        assert last.response.incomplete_details == answer.incomplete_details


def test_an_answer_ends_at_its_limit(client: openai.OpenAI) -> None:
    answer = ask(client, f"[[say {'x' * 100}]]", max_output_tokens=16)
    assert answer.output_text == "x" * 64
    assert answer.output[0].type == "message"
    assert (answer.status, answer.output[0].status) == ("incomplete", "incomplete")
    assert answer.usage is not None
    assert answer.usage.output_tokens == 16


@pytest.mark.parametrize("status", [400, 401, 404, 429, 500, 503])
def test_failures_are_the_clients_own_exceptions(client: openai.OpenAI, status: int) -> None:
    with pytest.raises(openai.APIStatusError) as raised:
        ask(client, f"[[fail {status}]]")
    assert raised.value.status_code == status


def test_an_error_event_ends_the_stream(client: openai.OpenAI) -> None:
    *before, last = client.responses.create(model="lab", input="[[say a]] [[error 3 429]]", stream=True)
    assert [event.sequence_number for event in before] == [0, 1, 2]
    assert last.type == "error"
    assert (last.code, last.sequence_number) == ("rate_limit_exceeded", 3)
    with pytest.raises(openai.RateLimitError):
        ask(client, "[[error 3 429]]")


def test_a_response_can_fail(lab: LabServer, client: openai.OpenAI) -> None:
    fault = {"error_after_chunks": 4, "failed_answer": True, "status": 500, "message": "It broke."}
    lab.set_plan([{"text": "one two", "fault": fault, "times": 2}])
    last = list(client.responses.create(model="lab", input="hi", stream=True))[-1]
    assert last.type == "response.failed"
    whole = ask(client, "hi")
    for response in (last.response, whole):
        assert response.status == "failed"
        assert response.error is not None
        assert (response.error.code, response.error.message) == ("server_error", "It broke.")


def test_instructions_are_a_part_of_the_prompt(client: openai.OpenAI) -> None:
    bare, told = ask(client, "hi"), ask(client, "hi", instructions="Be short. " * 40)
    assert bare.usage is not None
    assert told.usage is not None
    assert told.usage.input_tokens > bare.usage.input_tokens + 100
