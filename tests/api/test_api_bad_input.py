"""What clients send that is not right: a clear answer in one form, nothing broken, nothing kept."""

import asyncio
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from api_house import ApiHouse
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.types import Message

from gateway.http.api.door import BODY_BYTES
from gateway.http.gate import _with_headers
from hermes_lab.server import LabServer

CHAT = "/v1/chat/completions"
HI = {"role": "user", "content": "Hi"}


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One for all tests here: what is refused leaves nothing behind, so they may share a gateway."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("bad") / "home"
        patch.setenv("HERMES_HOME", str(folder))
        yield folder


@pytest.fixture(scope="module")
def api(home: Path) -> Iterator[ApiHouse]:
    with LabServer() as lab, ApiHouse(home, lab.base_url) as made:
        yield made


@pytest.fixture(autouse=True)
def _clients_leave(api: ApiHouse) -> Iterator[None]:
    yield
    api.close_clients()


@pytest.fixture
def nothing_kept(api: ApiHouse) -> Iterator[None]:
    """Whatever a test sends, no session comes of it."""
    before = api.gateway.store.sessions(limit=1000)
    yield
    assert api.gateway.store.sessions(limit=1000) == before


def head_of(api: ApiHouse, size: int) -> bytes:
    lines = (
        f"POST {CHAT} HTTP/1.1",
        "Host: localhost",
        f"Authorization: Bearer {api.token}",
        f"Content-Length: {size}",
    )
    return "\r\n".join([*lines, "", ""]).encode()


def check_error(answer: Any, *status: int) -> dict[str, Any]:
    assert answer.status_code in status, answer.text
    error = answer.json()["error"]
    assert set(error) == {"message", "type", "param", "code"}
    assert answer.headers["x-should-retry"] == "false"
    return dict(error)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"5",
        b"\xff\xfe",
        b"{" * 50_000,
        b'{"model": "hermes", "messages": [{"role": "user", "content": "\\ud800"}]}',
        b'{"model": "hermes", "messages": "Hi"}',
        b'{"model": "hermes", "messages": [5]}',
        b'{"model": "hermes", "messages": [{"role": 5}]}',
        b'{"model": "hermes", "messages": [{"role": "user"}]}',
        b'{"model": "hermes", "messages": [{"role": "user", "content": {"a": 1}}]}',
        b'{"model": "hermes", "messages": [{"role": "user", "content": [{"type": "image_url"}]}]}',
        b'{"messages": [{"role": "user", "content": "Hi"}]}',
        b'{"model": "hermes", "messages": [{"role": "user", "content": "Hi"}], "n": 1e400}',
    ],
    ids=range(15),
)
def test_bodies_that_are_wrong(api: ApiHouse, nothing_kept: None, body: bytes) -> None:
    check_error(api.http().post(CHAT, content=body), 400)


@pytest.mark.parametrize(
    "path", ["/v1/chat/completions", "/v1/responses", "/v1/runs", "/v1/sessions/x/fork", "/v1/runs/x/approve"]
)
def test_a_body_that_is_too_large(api: ApiHouse, path: str) -> None:
    """Refused by what it announces, and while it is read when it announces nothing."""
    announced = api.http().post(path, content=b" " * (BODY_BYTES + 1))
    assert announced.status_code in (413, 404)
    silent = api.http().post(path, content=(b" " * 1_000_000 for _ in range(11)))
    assert silent.status_code in (413, 404)


def test_an_announced_size_is_believed(api: ApiHouse) -> None:
    """100 MB are refused before they are sent."""
    with socket.create_connection(("127.0.0.1", api.port), 10) as line:
        line.sendall(head_of(api, 100_000_000))
        assert b" 413 " in line.recv(1000)


def test_a_client_that_leaves_while_it_speaks(api: ApiHouse, nothing_kept: None) -> None:
    with socket.create_connection(("127.0.0.1", api.port), 10) as line:
        line.sendall(head_of(api, 1000) + b'{"model":')
    assert api.http().get("/health").json() == {"status": "ok"}


@pytest.mark.parametrize(
    "path",
    [
        "/v1/sessions?limit=0",
        "/v1/sessions?limit=101",
        "/v1/sessions?limit=x",
        "/v1/sessions?limit=-1",
        "/v1/sessions?before=nan",
        "/v1/sessions?before=x",
        "/v1/sessions?words=" + "x" * 501,
    ],
)
def test_queries_that_are_wrong(api: ApiHouse, path: str) -> None:
    check_error(api.http().get(path), 400)


@pytest.mark.parametrize("words", ['"', "*", "a OR", "NEAR(", "%00", "(", "-", "«", "'; drop table x"])
def test_any_words_can_be_searched(api: ApiHouse, words: str) -> None:
    assert api.http().get("/v1/sessions", params={"words": words}).status_code == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/nothing"), ("GET", "/v1/chat/completions"), ("PUT", "/v1/models"), ("DELETE", "/v1/runs/x")],
)
def test_calls_that_are_none(api: ApiHouse, method: str, path: str) -> None:
    assert "openapi.json" in check_error(api.http().request(method, path), 404)["message"]


@pytest.mark.parametrize("place", ["..%2f..%2fetc", "%00", "x" * 5000, "\u2603"])
def test_ids_that_are_none(api: ApiHouse, place: str) -> None:
    for path in ("/v1/sessions/{}", "/v1/runs/{}", "/v1/responses/{}", "/v1/sessions/{}/messages", "/v1/models/{}"):
        check_error(api.http().get(path.format(place)), 404)


@pytest.mark.parametrize(
    "headers",
    [
        {"Idempotency-Key": "x" * 256},
        {"X-Hermes-Conversation": "x" * 501},
        {"X-Hermes-Conversation": "../x"},
        {"X-Hermes-Conversation": "a b"},
    ],
)
def test_headers_that_are_wrong(api: ApiHouse, headers: dict[str, str]) -> None:
    check_error(api.http(**headers).post(CHAT, json={"model": "hermes", "messages": [HI]}), 400)


@pytest.mark.parametrize(
    "url",
    [
        "data:image/svg+xml;base64,AAAA",
        "data:image/png;base64,!!!!",
        "data:image/png;base64,",
        "data:text/html,x",
        "file:///etc/passwd",
        "http://127.0.0.1/x.png",
        "data:image/png;base64," + "A" * 7_000_000,
    ],
    ids=range(7),
)
def test_images_that_are_none(api: ApiHouse, url: str) -> None:
    """The house reads no file and fetches no address because a client names it."""
    part = {"type": "image_url", "image_url": {"url": url}}
    check_error(api.http().post(CHAT, json={"model": "hermes", "messages": [{"role": "user", "content": [part]}]}), 400)
    assert not (api.home / "uploads").exists()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("n", 2),
        ("tools", [{"type": "function", "function": {"name": "f"}}]),
        ("functions", [{"name": "f"}]),
        ("response_format", {"type": "json_object"}),
        ("audio", {"voice": "alloy", "format": "wav"}),
        ("messages", []),
        ("messages", [{"role": "assistant", "content": "Hello"}]),
        ("messages", [{"role": "user", "content": ""}]),
        ("messages", [HI, {"role": "tool", "content": "x", "tool_call_id": "1"}]),
        ("messages", [{"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://x/y.png"}}]}]),
        ("messages", [{"role": "user", "content": [{"type": "input_audio", "input_audio": {}}]}]),
        ("model", 7),
        ("stream", "yes"),
    ],
)
def test_what_chat_cannot_honour_is_refused(api: ApiHouse, field: str, value: Any) -> None:
    body = {"model": "hermes", "messages": [HI], field: value}
    answer = api.http().post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    error = answer.json()["error"]
    assert error["param"].startswith(field)
    assert error["message"]
    assert error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("tools", [{"type": "web_search"}]),
        ("text", {"format": {"type": "json_object"}}),
        ("input", []),
        ("input", [{"type": "function_call_output", "call_id": "1", "output": "x"}]),
        ("input", 5),
        ("input", [{"role": "assistant", "content": "x"}]),
    ],
)
def test_what_responses_cannot_honour_is_refused(api: ApiHouse, field: str, value: Any) -> None:
    answer = api.http().post("/v1/responses", json={"model": "hermes", "input": "Hi", field: value})
    assert answer.status_code == 400
    assert answer.json()["error"]["param"].startswith(field)


@pytest.mark.parametrize(
    ("place", "status"),
    [("20200101_000000_abcdef", 404), ("agent:main:local:dm:x", 404), ("agent:x", 404), ("a b", 400), ("x" * 65, 400)],
)
def test_a_place_that_is_none_is_refused(api: ApiHouse, place: str, status: int) -> None:
    answer = api.http().post("/v1/chat/completions", json={"model": "hermes", "messages": [HI], "conversation": place})
    assert answer.status_code == status, answer.text


@pytest.mark.parametrize("chat", ["x\0", "日本", "a\r\nSet-Cookie: x=y", "\x1b[31m", "a%0a", "%41"])
@pytest.mark.parametrize("call", ["/v1/chat/completions", "/v1/runs"])
def test_a_key_has_one_spelling(api: ApiHouse, nothing_kept: None, chat: str, call: str) -> None:
    """C2: refused before anything is stored or paid; its answer could not be told where it is found again."""
    place = f"agent:main:api:dm:{chat}"
    said = {"messages": [HI]} if call == CHAT else {"input": "Hi"}
    answer = api.http().post(call, json={"model": "hermes", "conversation": place, **said})
    assert answer.status_code == 400, answer.text
    assert answer.json()["error"]["param"] == "conversation"


def test_an_answer_is_not_lost_over_its_headers() -> None:
    """C2: what a header cannot hold is left out of it."""
    sent: list[Message] = []

    async def keep(message: Message) -> None:
        sent.append(message)

    start = {"type": "http.response.start", "status": 200, "headers": [(b"x-a", b"a\r\nb\0c\x1b")]}
    asyncio.run(_with_headers(keep)(start))
    assert dict(sent[0]["headers"])[b"x-a"] == b"abc"


@pytest.mark.parametrize("follows", ["resp_x", "resp_", "nothing", "resp_YWdlbnQ6bWFpbjphcGk6ZG06eApt"])
def test_a_chain_from_nowhere(api: ApiHouse, follows: str) -> None:
    answer = api.http().post("/v1/responses", json={"input": "Hi", "previous_response_id": follows})
    assert answer.status_code == 404
    assert api.http().get(f"/v1/responses/{follows}").status_code == 404


@pytest.mark.parametrize("run", ["run_x", "x", "run_YWdlbnQ6bWFpbjphcGk6ZG06eApt"])
@pytest.mark.parametrize("call", ["", "/events"])
def test_a_run_that_is_none(api: ApiHouse, run: str, call: str) -> None:
    assert api.http().get(f"/v1/runs/{run}{call}").status_code == 404


texts = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=30)


@settings(max_examples=60)
@given(texts)
def test_any_text_is_answered_or_refused(api: ApiHouse, text: str) -> None:
    """Whatever a user says, the answer is an answer or a sentence, never a failure of ours."""
    body = json.dumps({"model": "hermes", "messages": [{"role": "user", "content": text}]})
    answer = api.http().post(CHAT, content=body)
    assert answer.status_code == (200 if text.strip() else 400), answer.text
