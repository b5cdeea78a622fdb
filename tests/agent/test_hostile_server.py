"""A model server may send anything (C2, D1, H8): an answer or a ModelFailure comes of it, and little memory goes."""

import base64
import contextlib
import gzip
import json
import threading
import time
import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from raw_model_server import RawModelServer
from waiting import wait_until

from agent.formats.repair import repair_messages, write_reply
from agent.formats.reply import Reply
from agent.formats.wire import Dialect, dialect_of
from agent.http import clients, transport
from agent.http.transport import MOST_LINE_BYTES
from agent.probing import probe
from agent.providers import local_servers, wire_limits
from agent.providers.runtime import Runtime
from agent.providers.table import provider_or_custom
from agent.usage_pricing import ledger_row
from hermes_base.errors import FailureKind, ModelFailure
from hermes_base.turn.cancel import CancelToken
from hermes_lab.server import LabServer
from run_agent import AIAgent

FIXTURES = Path(__file__).parent / "wire_fixtures"
FOLDERS = {"chat_completions": "chat", "anthropic_messages": "anthropic", "codex_responses": "responses"}
#: The families whose own fields are kept and sent back.
PROVIDERS = {
    "chat_completions": ("openrouter", "deepseek", "gemini", "mistral", "custom"),
    "anthropic_messages": ("anthropic",),
    "codex_responses": ("openai",),
}
DEEP = 3_000
NESTED = json.loads("[" * 120 + "]" * 120)
JUNK: tuple[Any, ...] = (
    None, True, 5, -1, 10**400, 1.5, "", "x", "\ud83d", [], {}, [None], [[]], ["x"], {"x": None}, [{}], NESTED,
)  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[RawModelServer]:
    with RawModelServer() as running:
        yield running


@pytest.fixture
def raw_server() -> Iterator[RawModelServer]:
    with RawModelServer() as running:
        yield running


def ask(server: RawModelServer, api_mode: str = "chat_completions", provider: str = "custom") -> Reply:
    """One real call, and what a turn does with its answer before it is stored."""
    dialect = dialect_of(api_mode, provider_or_custom(provider))
    heard: list[str] = []
    answer = dialect.format.read_answer(dialect.name, heard.append, heard.append)
    client = clients.build_client(api_mode, api_key="k", base_url=server.base_url)
    call = clients.StreamCall(dialect.format, b"{}", "The server", 20.0, 20.0)
    try:
        reply = clients.stream(client, call, answer, CancelToken(), lambda: None)
    finally:
        clients.release_client(client)
        assert all(isinstance(piece, str) for piece in heard)
        assert isinstance(answer.text, str)  # what a turn keeps when it is stopped
    check_can_be_kept(reply, dialect)
    return reply


def check_can_be_kept(reply: Reply, dialect: Dialect) -> None:
    message = repair_messages([write_reply(reply)])[0]
    refuse = {"parse_constant": lambda name: pytest.fail(f"{name} is sent back")}
    json.loads(b"[" + dialect.encode(message) + b"]", **refuse)  # a fragment may be several items
    json.loads(json.dumps(message), **refuse)
    ledger_row(reply.usage, "custom", "lab")
    assert isinstance(reply.text, str)
    assert isinstance(reply.reasoning, str)


# --- all that can be said wrongly


def load_answers(api_mode: str) -> list[list[Any]]:
    """The recorded answers of a format: streams as lists of events, whole ones as one."""
    folder = FIXTURES / FOLDERS[api_mode]
    streams = [
        [json.loads(line[5:]) for line in path.read_text().splitlines() if line[5:].strip()[:1] == "{"]
        for path in sorted(folder.glob("*.sse"))
    ]
    return streams + [[json.loads(path.read_text())] for path in sorted(folder.glob("*.json"))]


ANSWERS = {api_mode: load_answers(api_mode) for api_mode in FOLDERS}


def find_places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for name, each in inner:
        yield from find_places(each, (*path, name))


def put(value: Any, path: tuple[Any, ...], new: Any) -> Any:
    if not path:
        return new
    changed = value.copy()
    changed[path[0]] = put(value[path[0]], path[1:], new)
    return changed


@st.composite
def broken_answers(draw: st.DrawFn, api_mode: str) -> tuple[bytes, str]:
    """A recorded answer with some of its values replaced, events doubled, moved or cut; its bytes and their kind."""
    events = list(draw(st.sampled_from(ANSWERS[api_mode])))
    for _ in range(draw(st.integers(0, 3))):
        place = draw(st.integers(0, len(events) - 1))
        path = draw(st.sampled_from(list(find_places(events[place]))))
        events[place] = put(events[place], path, draw(st.sampled_from(JUNK)))
    if draw(st.booleans()):
        place = draw(st.integers(0, len(events) - 1))
        events[place:place] = [events[draw(st.integers(0, len(events) - 1))]]
    lines = [json.dumps(event) for event in events]
    if draw(st.integers(0, 3)) == 0:
        raw = ("[" * DEEP, '{"choices":' + "[" * DEEP, "NaN", '{"usage":{"cost":1e999}}', "nonsense", '{"a":', "\x00")
        lines.insert(draw(st.integers(0, len(lines))), draw(st.sampled_from(raw)))
    if len(lines) == 1:
        return lines[0].encode(), "application/json"
    body = "".join(f"data: {line}\n\n" for line in lines) + draw(st.sampled_from(("", "data: [DONE]\n\n")))
    return body.encode()[: draw(st.sampled_from((None, len(body) // 2)))], "text/event-stream"


@pytest.mark.parametrize("api_mode", FOLDERS)
def test_a_broken_answer_is_an_answer_or_a_failure_and_nothing_else(api_mode: str, server: RawModelServer) -> None:
    """C2, D1"""

    @settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
    @given(broken=broken_answers(api_mode), provider=st.sampled_from(PROVIDERS[api_mode]))
    def try_one(broken: tuple[bytes, str], provider: str) -> None:
        body, kind = broken
        server.set_body(body, kind=kind)
        with contextlib.suppress(ModelFailure):
            ask(server, api_mode, provider)

    try_one()


MALFORMED = [
    ("chat_completions", '{"choices":[null]}'),
    ("chat_completions", '{"choices":"x"}'),
    ("chat_completions", '{"choices":[{"delta":5}]}'),
    ("chat_completions", '{"choices":[{"delta":{"content":{"a":1}}}]}'),
    ("chat_completions", '{"choices":' + "[" * DEEP + "]" * DEEP + "}"),
    ("chat_completions", '{"choices":[{"delta":{"tool_calls":[{"index":[]}]}}]}'),
    ("anthropic_messages", '{"type":"content_block_start","index":0,"content_block":7}'),
    ("anthropic_messages", '{"type":"content_block_delta","delta":{"type":"text_delta","text":["x"]}}'),
    ("anthropic_messages", '{"type":"message_delta","usage":[1]}'),
    ("codex_responses", '{"type":"response.output_text.delta","delta":{"x":1}}'),
    ("codex_responses", '{"type":["x"]}'),
    ("codex_responses", '{"type":"response.completed","response":"x"}'),
]


@pytest.mark.parametrize(("api_mode", "piece"), MALFORMED)
def test_a_malformed_piece_is_a_named_failure_that_is_tried_again(
    api_mode: str, piece: str, server: RawModelServer
) -> None:
    """D1, H8"""
    server.set_body(f"data: {piece}\n\n".encode())
    with pytest.raises(ModelFailure, match="sent something that is not understood") as caught:
        ask(server, api_mode)
    assert caught.value.kind is FailureKind.RETRY
    assert caught.value.began  # it was paid for
    assert len(str(caught.value)) < 600


@pytest.mark.parametrize(
    "body", ["[" * DEEP, '{"error":' + "[" * DEEP + "]" * DEEP + "}", '{"error":{"message":[[5]]}}', "NaN", "", "\0"]
)
@pytest.mark.parametrize("api_mode", FOLDERS)
def test_the_status_of_an_error_counts_whatever_its_body_is(api_mode: str, body: str, server: RawModelServer) -> None:
    """D1"""
    server.set_body(body.encode(), status=429, kind="application/json", more="Retry-After: inf\r\n")
    with pytest.raises(ModelFailure) as caught:
        ask(server, api_mode)
    assert (caught.value.status, caught.value.kind) == (429, FailureKind.RETRY)
    assert caught.value.retry_after is None


@pytest.mark.parametrize("code", ["10" * 2_000, "-5", "true", "1.5", '{"a":1}'])
def test_an_error_in_the_stream_with_a_nonsensical_code_is_a_failure_of_the_server(
    code: str, server: RawModelServer
) -> None:
    """D1"""
    server.set_body(f'data: {{"error":{{"code":{code},"message":"oh"}}}}\n\n'.encode())
    with pytest.raises(ModelFailure) as caught:
        ask(server)
    assert caught.value.status == 500


# --- how it ends for a person


def test_another_provider_answers_when_the_first_is_not_understood(raw_server: RawModelServer, lab: LabServer) -> None:
    """C2, D1: no crash, no empty answer."""
    raw_server.set_body(b'data: {"choices":[null]}\n\n')
    lab.set_plan([{"text": "I am here."}])
    fallback = [{"provider": "custom", "model": "lab", "base_url": lab.base_url}]
    agent = AIAgent(base_url=raw_server.base_url, model="odd", fallback_model=fallback)
    try:
        assert agent.run_conversation("Hello?")["final_response"] == "I am here."
    finally:
        agent.close()


def test_a_probe_says_that_the_server_is_not_understood(raw_server: RawModelServer) -> None:
    """H5"""
    raw_server.set_body(b"<html>", kind="application/json")
    result = probe(Runtime("custom", "m", raw_server.base_url, "", "chat_completions", 8000))
    assert not result.probed.ok
    assert "not understood (no JSON: <html>)" in result.probed.text
    assert "model.base_url" in result.probed.text


@pytest.mark.parametrize("body", ["[" * DEEP, '{"data": 5}', '{"data": [5]}', "5", "NaN", '{"data": {"a": 1}}'])
def test_a_local_server_that_talks_nonsense_has_no_models(body: str, server: RawModelServer) -> None:
    """H5"""
    server.set_body(body.encode(), kind="application/json")
    assert local_servers.probe_model_servers([server.base_url]) == {}


class Drip:
    """Bytes without end: the head of an answer, or what comes behind it, a little at a time."""

    def __init__(self, begin: bytes, piece: bytes) -> None:
        self._begin, self._piece = begin, piece

    def __iter__(self) -> Iterator[bytes]:
        yield self._begin
        while True:
            time.sleep(0.02)
            yield self._piece


@pytest.mark.parametrize(
    "drip",
    [Drip(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"), Drip(b"HTTP/1.1 200 OK\r\n\r\n", b": beat\n\n")],
    ids=["head", "body"],
)
def test_a_server_whose_list_of_models_never_ends_keeps_nobody(drip: Drip) -> None:
    """F5, C2: it sends something every moment. The whole answer has a limit, and nothing is left of the look."""
    with RawModelServer(drip) as server:
        found: list[Any] = []
        look = lambda: found.append(local_servers.probe_model_servers([server.base_url]))  # noqa: E731
        threading.Thread(target=look, daemon=True).start()
        wait_until(lambda: found == [{}], 30)
        wait_until(lambda: not local_servers._looks, 30)


def test_one_address_is_asked_once_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """F5: whoever comes while somebody looks there waits for the same answer."""
    monkeypatch.setattr(local_servers, "WHOLE_SECONDS", 60.0)
    monkeypatch.setattr(local_servers, "SILENT_SECONDS", 60.0)
    may_answer = threading.Event()

    class Held:
        def __iter__(self) -> Iterator[bytes]:
            may_answer.wait(60)
            yield b'HTTP/1.1 200 OK\r\n\r\n{"data": [{"id": "one"}]}'

    with RawModelServer(Held()) as server:
        looks = [local_servers.look_at(server.base_url) for _ in range(5)]
        may_answer.set()
        assert [look.wait() for look in looks] == [["one"]] * 5
        assert server.requests == 1
        assert local_servers.probe_model_servers([server.base_url]) == {server.base_url: ["one"]}
        assert server.requests == 2, "the next one looks anew"


# --- how much it may send


def measure_failure(server: RawModelServer) -> tuple[ModelFailure, int]:
    """The failure, and the most memory that was taken on the way to it."""
    tracemalloc.start()
    try:
        with pytest.raises(ModelFailure) as caught:
            ask(server)
        return caught.value, tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_a_compressed_answer_is_refused_unread(kind: str, raw_server: RawModelServer) -> None:
    """D1, F5: 64 MB of spaces fit into 64 KB."""
    raw_server.set_body(gzip.compress(b" " * 64_000_000), kind=kind, more="Content-Encoding: gzip\r\n")
    failure, most = measure_failure(raw_server)
    assert "not understood (a compressed answer" in failure.what
    assert most < 8_000_000


def test_a_compressed_error_is_known_by_its_status(raw_server: RawModelServer) -> None:
    """D1"""
    raw_server.set_body(gzip.compress(b" " * 64_000_000), status=503, more="Content-Encoding: gzip\r\n")
    failure, most = measure_failure(raw_server)
    assert failure.status == 503
    assert most < 8_000_000


def test_a_long_error_is_cut_and_known_by_its_status(raw_server: RawModelServer) -> None:
    """D1"""
    raw_server.set_body(*([b"x" * 1_000_000] * 40), status=503)
    failure, most = measure_failure(raw_server)
    assert failure.status == 503
    assert len(str(failure)) < 1_000
    assert most < 8_000_000


@pytest.mark.parametrize("kind", ["application/json", "text/event-stream"])
def test_a_piece_without_an_end_is_given_up(
    kind: str, raw_server: RawModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D1"""
    monkeypatch.setattr(clients, "MOST_PIECE_BYTES", 1_000_000)
    monkeypatch.setattr("agent.http.clients.MOST_PIECE_BYTES", 1_000_000)
    raw_server.set_body(*([b"data: " + b"x" * 60_000] * 400), kind=kind)
    failure, most = measure_failure(raw_server)
    assert "not understood" in failure.what
    assert "1,000,000 bytes" in failure.what
    assert most < 8_000_000


def test_an_answer_without_an_end_is_given_up(raw_server: RawModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """D1"""
    monkeypatch.setattr("agent.http.transport.MOST_ANSWER_BYTES", 2_000_000)
    raw_server.set_body(*([b": still thinking\n\n" * 4_000] * 400))
    failure, _ = measure_failure(raw_server)
    assert "not understood (an answer of more than 2,000,000 bytes)" in failure.what


def test_an_answer_of_too_many_pieces_is_given_up(raw_server: RawModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """D1"""
    monkeypatch.setattr(clients, "MOST_PIECES", 100)
    raw_server.set_body(b'data: {"choices":[{"delta":{"content":"x"}}]}\n\n' * 101)
    failure, _ = measure_failure(raw_server)
    assert "not understood (more than 100 pieces)" in failure.what


@pytest.mark.parametrize(
    "answer",
    [
        (b"HTTP/1.1 200 OK\r\n", *([b"X-Long: " + b"x" * 1_000_000 + b"\r\n"] * 30)),
        (b"HTTP/1.1 200 OK\r\n", *([b"X-Many: 1\r\n" * 10_000] * 30)),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", *([b"1" * 1_000_000] * 30)),
        (b"HTTP/1.1 200 OK\r\nX-Odd: \xff\xfe\r\nContent-Length: 2\r\n\r\n{}",),
    ],
)
def test_headers_without_an_end_are_a_failure(answer: tuple[bytes, ...], raw_server: RawModelServer) -> None:
    """D1"""
    raw_server.answer = answer
    _, most = measure_failure(raw_server)
    assert most < 8_000_000


@pytest.mark.parametrize(
    "location", ["http://[", "file:///etc/passwd", "http://\xff/", "//", "http://:0/", "x" * 60_000, "gopher://a/"]
)
def test_a_redirect_to_nowhere_is_a_failure(location: str, raw_server: RawModelServer) -> None:
    """D1"""
    raw_server.answer = (f"HTTP/1.1 307 X\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode("latin-1"),)
    with pytest.raises(ModelFailure):
        ask(raw_server)


@pytest.mark.parametrize("api_mode", ["chat_completions", "anthropic_messages", "codex_responses"])
def test_a_redirect_takes_no_key_to_another_address(api_mode: str, raw_server: RawModelServer) -> None:
    """G6: the request goes where the server sends it, on the same address with its key."""
    with RawModelServer() as other:
        other.set_body(b"no", status=400)
        for location in ("/elsewhere", f"{other.base_url}/there"):
            raw_server.set_body(status=307, more=f"Location: {location}\r\nContent-Length: 0\r\n")
            with pytest.raises(ModelFailure):
                ask(raw_server, api_mode)
    keys = [line for head in raw_server.heads for line in head.lower().split(b"\r\n") if line.endswith((b" k", b":k"))]
    assert len(keys) == len(raw_server.heads) > 2
    (there,) = other.heads
    assert there.startswith(b"POST /v1/there HTTP/1.1\r\n")
    assert not [line for line in there.lower().split(b"\r\n") if line.endswith((b" k", b":k"))]


@pytest.mark.parametrize(
    ("before", "after", "keeps"),
    [
        ("http://api.example/v1", "https://api.example/v1/x", True),
        ("http://api.example/v1", "/x", True),
        ("http://api.example:8080/v1", "https://api.example/x", False),
        ("https://api.example/v1", "http://api.example/x", False),
        ("https://api.example/v1", "https://other.example/x", False),
    ],
)
def test_a_redirect_keeps_the_key_at_the_same_door(before: str, after: str, keeps: bool) -> None:
    """G6"""
    client = clients.build_client("chat_completions", api_key="k", base_url=before)
    head = transport.RequestHead.of_client(client, "/chat/completions").moved_to(after)
    clients.release_client(client)
    assert (b"Bearer k" in head.lines) is keeps


def test_a_login_in_the_address_is_used() -> None:
    """H8: a server of one's own stands behind one that asks for a login."""
    client = clients.build_client("chat_completions", api_key="k", base_url="http://ann:s%40fe@127.0.0.1:9/v1")
    lines = transport.RequestHead.of_client(client, "/chat/completions").lines
    clients.release_client(client)
    assert b"Basic " + base64.b64encode(b"ann:s@fe") in lines
    assert b"POST /v1/chat/completions HTTP/1.1\r\n" in lines


@pytest.mark.parametrize("status", [301, 302, 303])
def test_an_address_that_moved_is_named_and_not_tried_again(status: int, raw_server: RawModelServer) -> None:
    """D1, H8"""
    raw_server.set_body(status=status, more="Location: https://new.example/v1\r\nContent-Length: 0\r\n")
    with pytest.raises(ModelFailure, match=r"https://new.example/v1") as failed:
        ask(raw_server)
    assert failed.value.kind is FailureKind.NEXT


def test_the_limits_are_far_above_real_answers() -> None:
    """An answer of 128,000 tokens in pieces of 400 bytes, and its whole text once more in its last piece."""
    assert wire_limits.MOST_ANSWER_BYTES > 2 * 128_000 * 400
    assert wire_limits.MOST_PIECE_BYTES > 4 * 128_000 * 8
    assert wire_limits.MOST_PIECES > 4 * 128_000
    assert MOST_LINE_BYTES > 1_000
