"""Tables of requests that the Messages and the Responses format take or refuse."""

import json
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest

from hermes_lab.seals import seal, sign
from hermes_lab.server import LabServer

HEADERS = {"x-api-key": "k", "anthropic-version": "2023-06-01"}


@pytest.fixture(scope="module")
def lab() -> Iterator[LabServer]:
    with LabServer() as server:
        yield server


@pytest.fixture(scope="module")
def http(lab: LabServer) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=lab.address, headers=HEADERS) as client:
        yield client


# Messages

TOOL = {"name": "read", "description": "d", "input_schema": {"type": "object"}}
USE = {"type": "tool_use", "id": "toolu_1", "name": "read", "input": {}}
RESULT = {"type": "tool_result", "tool_use_id": "toolu_1", "content": "ok"}
IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
MARK = {"type": "ephemeral"}
THOUGHT = {"type": "thinking", "thinking": "hm", "signature": sign("hm")}
REDACTED = {"type": "redacted_thinking", "data": seal("hm")}
THINKING = {"type": "enabled", "budget_tokens": 1024}


def user(*blocks: Any) -> dict[str, Any]:
    return {"role": "user", "content": list(blocks) or "hi"}


def model(*blocks: Any) -> dict[str, Any]:
    return {"role": "assistant", "content": list(blocks) or "yes"}


def text(said: str = "a", **fields: Any) -> dict[str, Any]:
    return {"type": "text", "text": said, **fields}


def make(*messages: Any, **options: Any) -> dict[str, Any]:
    return {"model": "lab", "max_tokens": 2000, "messages": list(messages) or [user()], **options}


def drop(name: str) -> dict[str, Any]:
    return {key: value for key, value in make().items() if key != name}


REFUSED: dict[str, tuple[Any, str]] = {
    "no object": ([], "JSON object"),
    "no model": (drop("model"), "model: Field required"),
    "no limit": (drop("max_tokens"), "max_tokens: Field required"),
    "no messages": (drop("messages"), "messages: Field required"),
    "limit of zero": (make(max_tokens=0), "max_tokens: Input should be"),
    "limit as text": (make(max_tokens="10"), "max_tokens: Input should be"),
    "messages empty": ({**make(), "messages": []}, "at least one message"),
    "unknown parameter": (make(store=True), "store: Extra inputs are not permitted"),
    "openai parameter": (make(max_completion_tokens=1), "max_completion_tokens: Extra inputs"),
    "message no object": (make("hi"), "messages.0"),
    "system role": (make({"role": "system", "content": "s"}, user()), "messages.0.role"),
    "tool role": (make(user(), {"role": "tool", "content": "s"}), "messages.1.role"),
    "unknown field": (make({**user(), "name": "n"}), "messages.0.name: Extra inputs"),
    "no content": (make({"role": "user"}), "messages.0.content: Field required"),
    "content null": (make({"role": "user", "content": None}), "messages.0.content"),
    "assistant first": (make(model()), "first message must use"),
    "empty text": (make(user(text(""))), "must be non-empty"),
    "only blanks": (make({"role": "user", "content": " \n"}), "non-whitespace"),
    "empty user message": (make({"role": "user", "content": []}), "non-empty content"),
    "empty assistant in the middle": (make(user(), {"role": "assistant", "content": ""}, user()), "non-empty content"),
    "prefill with a blank": (make(user(), model(text("so "))), "trailing whitespace"),
    "unknown block": (make(user({"type": "image_url", "image_url": {}})), "image_url"),
    "unknown block field": (make(user(text(_id=1))), "messages.0.content.0._id: Extra inputs"),
    "call by a user": (make(user(USE)), "not allowed"),
    "result by the model": (make(user(), model(RESULT)), "not allowed"),
    "image by the model": (make(user(), model(IMAGE)), "not allowed"),
    "image of another type": (
        make(user({**IMAGE, "source": {**IMAGE["source"], "media_type": "image/bmp"}})),  # type: ignore[dict-item]
        "media_type",
    ),
    "image with broken data": (
        make(user({**IMAGE, "source": {**IMAGE["source"], "data": "a b"}})),  # type: ignore[dict-item]
        "base64",
    ),
    "image without an address": (make(user({"type": "image", "source": {"type": "url"}})), "url: Field required"),
    "call without a result at the end": (make(user(), model(USE)), "without `tool_result` blocks immediately after"),
    "call without a result": (make(user(), model(USE), user()), "toolu_1"),
    "call answered too late": (make(user(), model(USE), user(), model(), user(RESULT)), "toolu_1"),
    "one result of two": (make(user(), model(USE, {**USE, "id": "toolu_2"}), user(RESULT)), "toolu_2"),
    "result after a text": (make(user(), model(USE), user(text(), RESULT)), "immediately after"),
    "result twice": (make(user(), model(USE), user(RESULT, RESULT)), "single result"),
    "result without a call": (make(user(RESULT)), "unexpected `tool_use_id`"),
    "result of another call": (make(user(), model(USE), user(RESULT, {**RESULT, "tool_use_id": "x"})), "unexpected"),
    "call id twice": (make(user(), model(USE), user(RESULT), model(USE), user(RESULT)), "must be unique"),
    "call id with a dot": (make(user(), model({**USE, "id": "a.b"}), user()), "pattern"),
    "input as text": (make(user(), model({**USE, "input": "{}"}), user(RESULT)), "input: Input should be"),
    "result with a call inside": (make(user(), model(USE), user({**RESULT, "content": [USE]})), "not allowed"),
    "tool without a schema": (make(tools=[{"name": "read"}]), "input_schema: Field required"),
    "tool in the chat form": (make(tools=[{"type": "function", "function": TOOL}]), "Field required"),
    "schema without a type": (make(tools=[{**TOOL, "input_schema": {}}]), "input_schema.type"),
    "tool with a bad name": (make(tools=[{**TOOL, "name": "a b"}]), "pattern"),
    "tool twice": (make(tools=[TOOL, TOOL]), "unique"),
    "choice without tools": (make(tool_choice={"type": "any"}), "providing tools"),
    "choice as text": (make(tools=[TOOL], tool_choice="auto"), "tool_choice"),
    "temperature of two": (make(temperature=2), "temperature"),
    "thinking too small": (make(thinking={"type": "enabled", "budget_tokens": 1023}), "budget_tokens"),
    "thinking without a budget": (make(thinking={"type": "enabled"}), "budget_tokens: Field required"),
    "thinking over the limit": (make(thinking=THINKING, max_tokens=1024), "must be greater"),
    "unknown thinking": (make(thinking={"type": "on"}), "thinking"),
    "thinking while cold": (make(thinking=THINKING, temperature=0), "temperature"),
    "thinking and a forced tool": (make(thinking=THINKING, tools=[TOOL], tool_choice={"type": "any"}), "forces"),
    "thinking dropped": (make(user(), model(USE), user(RESULT), thinking=THINKING), "Expected `thinking`"),
    "wrong signature": (make(user(), model({**THOUGHT, "thinking": "other"}, text()), user()), "Invalid `signature`"),
    "no signature": (make(user(), model({"type": "thinking", "thinking": "hm"}), user()), "signature: Field required"),
    "wrong redacted data": (make(user(), model({**REDACTED, "data": "AAAA"}, text()), user()), "redacted_thinking"),
    "mark of another type": (make(user(text(cache_control={"type": "forever"}))), "ephemeral"),
    "mark with another life": (make(user(text(cache_control={**MARK, "ttl": "2h"}))), "'5m' or '1h'"),
    "mark with more": (make(user(text(cache_control={**MARK, "scope": "x"}))), "scope: Extra inputs"),
    "mark on thinking": (make(user(), model({**THOUGHT, "cache_control": MARK}, text()), user()), "cache_control"),
    "five marks": (make(user(*[text(cache_control=MARK)] * 5)), "maximum of 4 blocks with cache_control"),
    "four marks and one for all": (make(user(*[text(cache_control=MARK)] * 4), cache_control=MARK), "maximum of 4"),
    "a long mark after a short one": (
        make(user(text(cache_control=MARK), text(cache_control={**MARK, "ttl": "1h"}))),
        "must not come after",
    ),
    "system with an image": (make(system=[IMAGE]), "not allowed"),
    "system as an object": (make(system={}), "system"),
    "half a character": (make({"role": "user", "content": "\ud800"}), "surrogate"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_messages_request_that_breaks_a_rule_is_refused(http: httpx2.Client, case: str) -> None:
    body, named = REFUSED[case]
    answer = http.post("/v1/messages", content=json.dumps(body))
    assert answer.status_code == 400
    assert answer.json()["type"] == "error"
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert named in answer.json()["error"]["message"]


def test_a_messages_request_needs_its_headers(lab: LabServer) -> None:
    def post(**headers: str) -> Any:
        shaped = {name.replace("_", "-"): value for name, value in headers.items()}
        return httpx2.post(f"{lab.base_url}/messages", json=make(), headers=shaped)

    assert post(x_api_key="k", anthropic_version="2023-06-01").status_code == 200
    assert post(authorization="Bearer k", anthropic_version="2023-06-01").status_code == 200
    assert post(anthropic_version="2023-06-01").json()["error"]["type"] == "authentication_error"
    assert "anthropic-version" in post(x_api_key="k").json()["error"]["message"]


TAKEN: dict[str, dict[str, Any]] = {
    "one text": make(),
    "one role after itself": make(user(), user(text()), model(), model(text())),
    "calls and results": make(user(), model(text(), USE), user(RESULT, text("and")), tools=[TOOL]),
    "results in two messages": make(
        user(), model(USE, {**USE, "id": "toolu_2"}), user(RESULT), user({**RESULT, "tool_use_id": "toolu_2"})
    ),
    "a result of parts": make(user(), model(USE), user({**RESULT, "content": [text(), IMAGE], "is_error": True})),
    "an empty result": make(user(), model(USE), user({"type": "tool_result", "tool_use_id": "toolu_1"})),
    "images": make(user(IMAGE, {"type": "image", "source": {"type": "url", "url": "https://x/y.png"}})),
    "thinking replayed": make(user(), model(THOUGHT, REDACTED, USE), user(RESULT), thinking=THINKING, tools=[TOOL]),
    "thinking of an old turn dropped": make(
        user(), model(USE), user(RESULT), model(), user(), thinking=THINKING, tools=[TOOL]
    ),
    "adaptive": make(thinking={"type": "adaptive", "display": "summarized"}, output_config={"effort": "high"}),
    "forced while adaptive": make(thinking={"type": "adaptive"}, tools=[TOOL], tool_choice={"type": "any"}),
    "thinking off": make(user(), model(THOUGHT, text()), user(), thinking={"type": "disabled"}),
    "four marks": make(
        user(text(cache_control=MARK)),
        tools=[{**TOOL, "cache_control": {**MARK, "ttl": "1h"}}],
        system=[text(cache_control={**MARK, "ttl": "1h"}), text("s", cache_control={**MARK, "ttl": "5m"})],
    ),
    "a mark for all": make(cache_control=MARK),
    "an empty end": make(user(), {"role": "assistant", "content": []}),
}


@pytest.mark.parametrize("case", TAKEN)
def test_a_valid_messages_request_is_taken(http: httpx2.Client, case: str) -> None:
    answer = http.post("/v1/messages", json=TAKEN[case])
    assert answer.status_code == 200, answer.text


# Responses

SEAL = seal("hm")
SAID = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "hi"}]}
OWN = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a", "annotations": []}]}
CALL = {"type": "function_call", "call_id": "call_1", "name": "read", "arguments": "{}"}
OUTPUT = {"type": "function_call_output", "call_id": "call_1", "output": "ok"}
REASONING = {"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": SEAL}
FUNCTION = {"type": "function", "name": "read", "parameters": {"type": "object"}, "strict": False}


def send(*items: Any, **options: Any) -> dict[str, Any]:
    return {"model": "lab", "input": list(items) or "hi", "store": False, **options}


WRONG: dict[str, tuple[Any, str]] = {
    "no object": ([], "JSON object"),
    "no model": ({"input": "hi"}, "'model'"),
    "no input": ({"model": "lab"}, "'input'"),
    "empty input": ({"model": "lab", "input": []}, "empty array"),
    "chat messages": ({"model": "lab", "messages": []}, "'input'"),
    "unknown parameter": (send(max_tokens=100), "'max_tokens'"),
    "limit too small": (send(max_output_tokens=15), ">= 16"),
    "item no object": (send("hi"), "input[0]"),
    "unknown item": (send(SAID, {"type": "tool_use"}), "'tool_use'"),
    "unknown role": (send({"role": "tool", "content": "x"}), "'tool'"),
    "unknown item field": (send({**SAID, "name": "n"}), "'input[0].name'"),
    "chat text part": (send({"role": "user", "content": [{"type": "text", "text": "a"}]}), "'input_text'"),
    "output text by a user": (send({**OWN, "role": "user"}), "'output_text'"),
    "input text by the model": (send(SAID, {**SAID, "role": "assistant"}), "'input_text'"),
    "image without an address": (send({"role": "user", "content": [{"type": "input_image"}]}), "image_url"),
    "image as an object": (
        send({"role": "user", "content": [{"type": "input_image", "image_url": {"url": "x"}}]}),
        "image_url",
    ),
    "call without an output": (send(SAID, CALL), "No tool output found for function call call_1"),
    "output without a call": (send(SAID, OUTPUT), "No tool call found for function call output with call_id call_1"),
    "output before its call": (send(SAID, OUTPUT, CALL), "No tool call found"),
    "output twice": (send(SAID, CALL, OUTPUT, OUTPUT), "Duplicate"),
    "call twice": (send(SAID, CALL, CALL, OUTPUT), "Duplicate"),
    "arguments as an object": (send(SAID, {**CALL, "arguments": {}}, OUTPUT), "input[1].arguments"),
    "call with a bad name": (send(SAID, {**CALL, "name": "a b"}, OUTPUT), "pattern"),
    "call with a foreign id": (send(SAID, {**CALL, "id": "call_1"}, OUTPUT), "begins with 'fc'"),
    "message with a foreign id": (send(SAID, {**OWN, "id": "rs_1"}), "begins with 'msg'"),
    "call id too long": (send(SAID, {**CALL, "call_id": "x" * 65}, OUTPUT), "length"),
    "reasoning at the end": (send(SAID, REASONING), "without its required following item"),
    "reasoning before a user": (send(SAID, REASONING, SAID), "without its required following item"),
    "reasoning before an output": (send(SAID, CALL, REASONING, OUTPUT), "required following item"),
    "reasoning changed": (send(SAID, {**REASONING, "encrypted_content": SEAL[:-4] + "AAA="}, OWN), "not be verified"),
    "reasoning without a summary": (send(SAID, {"type": "reasoning", "encrypted_content": SEAL}, OWN), "summary"),
    "unknown reasoning option": (send(reasoning={"budget": 1}), "'reasoning.budget'"),
    "unknown effort": (send(reasoning={"effort": "huge"}), "reasoning.effort"),
    "unknown include": (send(include=["everything"]), "'everything'"),
    "tool in the chat form": (send(tools=[{"type": "function", "function": FUNCTION}]), "'tools[0].name'"),
    "tool in the messages form": (send(tools=[TOOL]), "tools[0].type"),
    "tool twice": (send(tools=[FUNCTION, FUNCTION]), "twice"),
    "choice without tools": (send(tool_choice="required"), "tools"),
    "stored answer": (send(previous_response_id="resp_1"), "not found"),
    "stream options without stream": (send(stream_options={}), "stream_options"),
    "half a character": (send({"role": "user", "content": "\ud800"}), "surrogate"),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_responses_request_that_breaks_a_rule_is_refused(http: httpx2.Client, case: str) -> None:
    body, named = WRONG[case]
    answer = http.post("/v1/responses", content=json.dumps(body))
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert named in error["message"] or named in (error["param"] or "")


RIGHT: dict[str, dict[str, Any]] = {
    "a text": send(),
    "messages": send({"role": "developer", "content": "be short"}, SAID, OWN, SAID),
    "an image": send({"role": "user", "content": [{"type": "input_image", "image_url": "data:,", "detail": "low"}]}),
    "calls": send(SAID, CALL, {**CALL, "call_id": "call_2"}, OUTPUT, {**OUTPUT, "call_id": "call_2"}),
    "an output of parts": send(SAID, CALL, {**OUTPUT, "output": [{"type": "input_text", "text": "a"}]}),
    "reasoning": send(SAID, REASONING, CALL, OUTPUT, {**REASONING, "id": "rs_2"}, OWN, SAID),
    "reasoning without an id": send(SAID, {key: REASONING[key] for key in REASONING if key != "id"}, OWN, SAID),
    "nulls": send(instructions=None, tools=None, reasoning=None, max_output_tokens=None, include=None),
    "options": send(tools=[FUNCTION], tool_choice="required", reasoning={"effort": "high", "summary": "auto"}),
}


@pytest.mark.parametrize("case", RIGHT)
def test_a_valid_responses_request_is_taken(http: httpx2.Client, case: str) -> None:
    answer = http.post("/v1/responses", json=RIGHT[case])
    assert answer.status_code == 200, answer.text
