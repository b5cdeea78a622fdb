"""Raw cases: exact bytes, cut and stalled streams, the rules of a request, plans over HTTP."""

import json
import threading
import time
from collections.abc import Iterator
from typing import Any

import httpx2
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from hermes_lab.formats.chat_completions import FORMAT
from hermes_lab.server import LabServer
from hermes_lab.values import Answer, Usage

USER = {"role": "user", "content": "hi"}
PATH = "/v1/chat/completions"


@pytest.fixture(scope="module")
def lab() -> Iterator[LabServer]:
    with LabServer() as server:
        yield server


@pytest.fixture
def http(lab: LabServer) -> Iterator[httpx2.Client]:
    lab.set_plan([])
    lab.clear_requests()
    with httpx2.Client(base_url=lab.address) as client:
        yield client


def make_body(*messages: Any, **options: Any) -> dict[str, Any]:
    return {"model": "lab", "messages": list(messages) or [USER], **options}


def join_stream(text: str) -> str:
    """What a reader of the format makes of an event stream."""
    events = [line.removeprefix("data: ") for line in text.split("\n\n") if line]
    assert events.pop() == "[DONE]"
    choices = [choice for event in events for choice in json.loads(event)["choices"]]
    return "".join(choice["delta"].get("content") or "" for choice in choices)


def read_until_cut(http: httpx2.Client) -> bytes:
    """What arrives of a stream before its connection ends too early."""
    received: list[bytes] = []
    with (
        http.stream("POST", PATH, json=make_body(stream=True)) as answer,
        pytest.raises(httpx2.RemoteProtocolError, match="incomplete"),
    ):
        received.extend(answer.iter_raw())
    return b"".join(received)


def wait_until_idle(lab: LabServer) -> None:
    while lab.in_flight:
        time.sleep(0.001)


# What is recorded


def test_requests_are_recorded_byte_for_byte(lab: LabServer, http: httpx2.Client) -> None:
    odd = b'{ "messages" :[{"role":"user","content":"gr\\u00fc\xc3\x9fe"}],\n"model":"lab" }'
    http.post(PATH, content=odd, headers={"Authorization": "Bearer secret"})
    http.post(PATH, content=b"\xff\x00 not json")
    http.get("/v1/models")
    http.get("/health")
    assert [(item.method, item.path, item.body) for item in lab.requests] == [
        ("POST", PATH, odd),
        ("POST", PATH, b"\xff\x00 not json"),
        ("GET", "/v1/models", b""),
    ]
    assert lab.requests[0].header("authorization") == "Bearer secret"
    assert lab.requests[0].json()["messages"][0]["content"] == "grüße"
    listed = http.get("/lab/requests").json()
    assert listed[0]["body"].encode() == odd
    assert listed[1]["body_base64"] == "/wAgbm90IGpzb24="
    assert ["authorization", "Bearer secret"] in listed[0]["headers"]
    http.delete("/lab/requests")
    assert lab.requests == ()


def test_a_large_body_is_recorded_whole(lab: LabServer, http: httpx2.Client) -> None:
    body = json.dumps(make_body({"role": "user", "content": "x" * 3_000_000})).encode()
    assert http.post(PATH, content=body).status_code == 200
    assert lab.requests[-1].body == body


# What is refused

CALL = {"id": "call_1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
CALLS = {"role": "assistant", "content": None, "tool_calls": [CALL]}
RESULT = {"role": "tool", "tool_call_id": "call_1", "content": "ok"}
TOOL = {"type": "function", "function": {"name": "read"}}

REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "no model": ({"messages": [USER]}, "'model'"),
    "no messages": ({"model": "lab"}, "'messages'"),
    "messages empty": ({"model": "lab", "messages": []}, "'messages'"),
    "messages no array": ({"model": "lab", "messages": "hi"}, "'messages'"),
    "message no object": (make_body("hi"), "messages[0]"),
    "unknown role": (make_body({"role": "robot", "content": "hi"}), "'robot'"),
    "no role": (make_body({"content": "hi"}), "Supported values"),
    "unknown field": (make_body({**USER, "_stored_at": 1}), "_stored_at"),
    "user without content": (make_body({"role": "user"}), "messages[0].content"),
    "user content null": (make_body({"role": "user", "content": None}), "messages[0].content"),
    "user content empty array": (make_body({"role": "user", "content": []}), "messages[0].content"),
    "unknown part": (make_body({"role": "user", "content": [{"type": "tool_use"}]}), "'tool_use'"),
    "image without url": (make_body({"role": "user", "content": [{"type": "image_url", "image_url": {}}]}), "url"),
    "image in a result": (
        make_body(USER, CALLS, {**RESULT, "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}),
        "'image_url'",
    ),
    "assistant without anything": (make_body(USER, {"role": "assistant", "content": None}), "messages[1].content"),
    "tool_calls empty": (make_body(USER, {**CALLS, "content": "a", "tool_calls": []}), "messages[1].tool_calls"),
    "arguments no string": (
        make_body(USER, {**CALLS, "tool_calls": [{**CALL, "function": {"name": "read", "arguments": {}}}]}, RESULT),
        "function.arguments",
    ),
    "call with a bad name": (
        make_body(USER, {**CALLS, "tool_calls": [{**CALL, "function": {"name": "a b", "arguments": ""}}]}, RESULT),
        "function.name",
    ),
    "call id too long": (make_body(USER, {**CALLS, "tool_calls": [{**CALL, "id": "x" * 41}]}), "maximum length 40"),
    "call id twice": (make_body(USER, {**CALLS, "tool_calls": [CALL, CALL]}, RESULT), "Duplicate"),
    "result without a call": (make_body(USER, RESULT), "preceding message"),
    "result of another call": (make_body(USER, CALLS, {**RESULT, "tool_call_id": "call_2"}), "call_2"),
    "result twice": (make_body(USER, CALLS, RESULT, RESULT), "more than one result"),
    "result too late": (make_body(USER, CALLS, RESULT, {"role": "assistant", "content": "a"}, RESULT), "preceding"),
    "result without an id": (make_body(USER, CALLS, {"role": "tool", "content": "ok"}), "tool_call_id"),
    "call without a result at the end": (make_body(USER, CALLS), "call_1"),
    "call without a result before a user": (make_body(USER, CALLS, USER), "call_1"),
    "one result of two": (make_body(USER, {**CALLS, "tool_calls": [CALL, {**CALL, "id": "call_2"}]}, RESULT), "call_2"),
    "tools empty": (make_body(tools=[]), "'tools'"),
    "tool no function": (make_body(tools=[{"name": "read"}]), "tools[0]"),
    "tool twice": (make_body(tools=[TOOL, TOOL]), "twice"),
    "tool with a bad name": (make_body(tools=[{"type": "function", "function": {"name": "a.b"}}]), "pattern"),
    "tool_choice without tools": (make_body(tool_choice="auto"), "tool_choice"),
    "stream no boolean": (make_body(stream="yes"), "'stream'"),
    "stream_options without stream": (make_body(stream_options={"include_usage": True}), "stream_options"),
    "both limits": (make_body(max_tokens=1, max_completion_tokens=1), "max_tokens"),
    "limit of zero": (make_body(max_tokens=0), "max_tokens"),
    "temperature too high": (make_body(temperature=3), "temperature"),
    "unknown parameter": (make_body(session_id="s"), "session_id"),
    "half a character": (make_body({"role": "user", "content": "\ud800"}), "surrogate"),
    "half a character in a name": ({**make_body(), "\ud800": 1}, "surrogate"),
    "script with a mistake": (make_body({"role": "user", "content": "[[chunks many]]"}), "[[chunks many]]"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_request_that_breaks_a_rule_is_refused(http: httpx2.Client, case: str) -> None:
    body, named = REFUSED[case]
    answer = http.post(PATH, content=json.dumps(body))
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert named in error["message"] or named in (error["param"] or "")


@pytest.mark.parametrize("body", [b"", b"{", b"[]", b"null", b'{"a": NaN}', b'{"m": "\xff"}', b"[" * 100_000])
def test_what_is_not_a_json_object_is_refused(http: httpx2.Client, body: bytes) -> None:
    answer = http.post(PATH, content=body)
    assert answer.status_code == 400
    assert "JSON" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    "messages",
    [
        [USER],
        [{"role": "system", "content": "s"}, {"role": "developer", "content": [{"type": "text", "text": "d"}]}, USER],
        [{"role": "user", "content": [{"type": "text", "text": "t", "cache_control": {"type": "ephemeral"}}]}],
        [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:,"}}]}],
        [USER, CALLS, RESULT],
        [USER, {**CALLS, "reasoning_content": "r"}, RESULT, {"role": "assistant", "content": "a"}, USER, CALLS, RESULT],
        [USER, {"role": "assistant", "content": "", "refusal": None}],
        [{"role": "system", "content": "only"}],
    ],
)
def test_a_valid_conversation_is_taken(http: httpx2.Client, messages: list[Any]) -> None:
    assert http.post(PATH, json=make_body(*messages)).status_code == 200


def test_unknown_paths_get_a_404(http: httpx2.Client) -> None:
    assert http.post("/v1/nothing").json()["error"]["code"] == "unknown_url"
    assert http.get("/health").json() == {"status": "ok"}


def test_a_refused_request_uses_up_no_step(lab: LabServer, http: httpx2.Client) -> None:
    lab.set_plan([{"text": "kept"}])
    assert http.post(PATH, json={}).status_code == 400
    assert http.post(PATH, json=make_body()).json()["choices"][0]["message"]["content"] == "kept"


# What goes wrong on purpose


def test_a_stream_can_be_cut_after_any_number_of_chunks(lab: LabServer, http: httpx2.Client) -> None:
    whole = http.post(PATH, json=make_body(stream=True)).text.split("\n\n")
    for count in range(len(whole)):
        lab.set_plan([{"fault": {"cut_after_chunks": count}}])
        assert read_until_cut(http).decode().split("\n\n")[:-1] == whole[:count]


def test_a_stream_can_be_cut_inside_a_character(lab: LabServer, http: httpx2.Client) -> None:
    lab.set_plan([{"text": "ü"}])
    body = http.post(PATH, json=make_body(stream=True)).content
    middle = body.index("ü".encode()) + 1
    lab.set_plan([{"text": "ü", "fault": {"cut_after_bytes": middle}}])
    assert read_until_cut(http) == body[:middle]


def test_a_whole_answer_can_be_cut_in_the_middle(lab: LabServer, http: httpx2.Client) -> None:
    lab.set_plan([{"fault": {"cut_after_chunks": 1}}])
    with pytest.raises(httpx2.RemoteProtocolError):
        http.post(PATH, json=make_body())


def test_hanging_up_sends_nothing(lab: LabServer, http: httpx2.Client, caplog: pytest.LogCaptureFixture) -> None:
    lab.set_plan([{"fault": {"hang_up": True}}])
    with pytest.raises(httpx2.RemoteProtocolError, match="without sending a response"):
        http.post(PATH, json=make_body())
    wait_until_idle(lab)
    assert caplog.records == []


def test_a_stall_ends_with_the_clients_patience(lab: LabServer, http: httpx2.Client) -> None:
    lab.set_plan([{"stall_first": 600}, {"stall_between": 600}])
    with pytest.raises(httpx2.ReadTimeout):
        http.post(PATH, json=make_body(), timeout=httpx2.Timeout(30, read=0.05))
    with http.stream("POST", PATH, json=make_body(stream=True), timeout=30) as answer:
        assert b'"role":"assistant"' in next(answer.iter_raw())
    wait_until_idle(lab)  # it notices that the clients left: no answer stays behind


def test_short_stalls_change_no_byte(lab: LabServer, http: httpx2.Client) -> None:
    plain = http.post(PATH, json=make_body(stream=True)).content
    lab.set_plan([{"stall_first": 0.01, "stall_between": 0.001}])
    assert http.post(PATH, json=make_body(stream=True)).content == plain


def test_a_fault_may_have_a_body_and_headers_of_its_own(lab: LabServer, http: httpx2.Client) -> None:
    html = {"status": 502, "body": "<html>bad gateway</html>", "headers": {"Content-Type": "text/html", "X-A": "b"}}
    lab.set_plan([{"fault": html}, {"fault": {"status": 400, "body": {"error": "odd"}}}])
    first, second = http.post(PATH, json=make_body()), http.post(PATH, json=make_body())
    assert (first.status_code, first.text, first.headers["x-a"]) == (502, "<html>bad gateway</html>", "b")
    assert first.headers.get_list("content-type") == ["text/html"]
    assert (second.status_code, second.json()) == (400, {"error": "odd"})


# Plans over HTTP


def test_a_plan_can_be_posted(lab: LabServer, http: httpx2.Client) -> None:
    assert http.post("/lab/plan", json=[{"text": "one"}, {"text": "two", "times": 0}]).json() == {"steps": 2}
    said = [http.post(PATH, json=make_body()).json()["choices"][0]["message"]["content"] for _ in range(4)]
    assert said == ["one", "two", "two", "two"]
    assert http.get("/lab/plan").json() == {"steps": 1}
    refused = http.post("/lab/plan", json=[{"txet": "one"}])
    assert refused.status_code == 400
    assert "step 1: 'txet' is not known" in refused.json()["error"]["message"]
    assert http.get("/lab/bill").status_code == 200


# Properties

TEXT = st.text(st.characters(exclude_categories=("Cs",)), max_size=60)


@settings(max_examples=200, deadline=None)
@given(text=TEXT, chunks=st.none() | st.integers(1, 80), size=st.integers(1, 80))
def test_streamed_text_equals_whole_text(text: str, chunks: int | None, size: int) -> None:
    ask = FORMAT.decode(json.dumps(make_body(stream=True)).encode())
    answer = Answer(text=text, chunks=chunks, chunk_size=size)
    whole = json.loads(FORMAT.encode_whole(ask, answer, Usage()))["choices"][0]["message"]["content"]
    streamed = join_stream(b"".join(FORMAT.encode_stream(ask, answer, Usage())).decode())
    assert streamed == whole == text


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=TEXT, chunks=st.integers(1, 80))
def test_streamed_text_equals_whole_text_over_the_wire(
    lab: LabServer, http: httpx2.Client, text: str, chunks: int
) -> None:
    lab.set_plan([{"text": text, "chunks": chunks, "times": 2}])
    streamed = http.post(PATH, json=make_body(stream=True)).content.decode()
    assert join_stream(streamed) == http.post(PATH, json=make_body()).json()["choices"][0]["message"]["content"] == text


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(text=st.text(st.sampled_from('[]{}":, \nabc1tolfesayhn'), max_size=80) | TEXT.map("[[fail 429 {}]]".format))
def test_no_user_text_breaks_the_server(http: httpx2.Client, text: str) -> None:
    answer = http.post(PATH, json=make_body({"role": "user", "content": text}, tools=[TOOL]))
    assert answer.status_code in (200, 400, 429)


def test_many_requests_at_once_get_their_own_answers(lab: LabServer, http: httpx2.Client) -> None:
    said: dict[int, str] = {}

    def ask(number: int) -> None:
        message = {"role": "user", "content": f"[[say {number} {'x' * 100}]] [[chunks 40]] [[pause 0.0001]]"}
        said[number] = join_stream(http.post(PATH, json=make_body(message, stream=True), timeout=30).text)

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert said == {number: f"{number} {'x' * 100}" for number in range(30)}
