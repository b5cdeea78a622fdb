"""Many, slow and broken clients: everybody else is served, memory is bounded, the event loop is never held."""

import contextlib
import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from urllib.parse import quote

import pytest
from gateway_process import GatewayProcess
from loop_watch import watch_loop
from waiting import wait_until
from web_house import PageState, Visitor, WebHouse, find_free_port

from gateway.http import access, connections, server
from gateway.http.page import live
from gateway.platforms import hub
from hermes_base.query_values import Caller, PastExchange
from hermes_lab.server import LabServer

MB = 1024 * 1024


@pytest.fixture
def slow(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    return watch_loop(monkeypatch)


class RawStream:
    """A live view on a bare socket, read only when the test wants to."""

    def __init__(self, house: WebHouse, visitor: Visitor, conversation: str, buffer: int = 0) -> None:
        self.sock = socket.socket()
        if buffer:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        self.sock.connect(("127.0.0.1", house.port))
        self.sock.settimeout(30)
        self.sock.sendall(ask(f"/web/live?conversation={quote(conversation)}", visitor))
        self._rest = b""

    def read(self) -> bytes:
        return self.sock.recv(65536)

    def events(self) -> Iterator[dict[str, object]]:
        """Without an end: each event as it comes; the chunks of HTTP are taken apart."""
        lines = self.sock.makefile("rb")
        for line in lines:
            if line.startswith(b"data: "):
                yield json.loads(line[6:])

    def close(self) -> None:
        self.sock.close()


def ask(path: str, visitor: Visitor, method: str = "GET", more: str = "") -> bytes:
    cookie = "; ".join(f"{name}={value}" for name, value in visitor.http.cookies.items())
    return f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {cookie}\r\n{more}\r\n".encode()


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.slow
def test_a_thousand_open_pages(web: WebHouse) -> None:
    """1,000 live views cost little, see what happens in their conversation, and nobody else waits for them."""
    visitor = web.visit()
    conversations = [visitor.open() for _ in range(20)]
    before = resident()
    streams = [RawStream(web, visitor, conversations[number % 20]) for number in range(1_000)]
    wait_until(lambda: web.watchers() == 1_000, 60)
    assert resident() - before < 100 * MB
    assert visitor.get("/web/me")["version"]
    visitor.say(conversations[7], "[[say all of you]]")
    for stream in streams[7::20]:
        wait_shown(stream, "all of you")
    for stream in streams:
        stream.close()
    wait_until(lambda: web.watchers() == 0, 60)


def wait_shown(stream: RawStream, answer: str) -> None:
    """Until the page shows it: as an event, or in a snapshot that was read only when all was over."""
    state = PageState()
    for event in stream.events():
        state.take(event)
        if state.texts("assistant")[-1:] == [answer]:
            return
    raise AssertionError("the stream ended")


def test_too_many_connections_get_a_clear_answer(home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the bound: 503 with a sentence; when others leave, there is room again."""
    monkeypatch.setattr(server, "MOST_OPEN", 30)
    monkeypatch.setattr(connections, "MOST_OPEN", 30)
    monkeypatch.setattr(connections, "MOST_REFUSED", 10)
    with WebHouse(home, lab.base_url) as web:
        visitor = web.visit()
        conversation = visitor.open()
        streams = [RawStream(web, visitor, conversation) for _ in range(29)]
        wait_until(lambda: web.watchers() == 29)
        late = [socket.create_connection(("127.0.0.1", web.port)) for _ in range(5)]
        late[-1].sendall(ask("/web/me", visitor))
        answer = late[-1].makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 503")
        assert b'"crowded"' in answer
        assert b"retry-after" in answer.lower()
        too_late = [socket.create_connection(("127.0.0.1", web.port)) for _ in range(40)]
        wait_until(lambda: len(web.server._server.server_state.connections) <= 41)  # type: ignore[union-attr]
        for sock in [*late, *too_late, *(stream.sock for stream in streams[:5])]:
            sock.close()
        wait_until(lambda: visitor.http.get("/web/me").status_code == 200)
        for stream in streams:
            stream.close()


def test_idle_connections_keep_nobody_out(home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strangers who ask once and stay make room for whoever asks: the one that has been idle for longest goes."""
    monkeypatch.setattr(server, "MOST_OPEN", 30)
    monkeypatch.setattr(connections, "MOST_IDLE", 10, raising=False)
    question = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
    strangers: list[socket.socket] = []
    with WebHouse(home, lab.base_url) as web, ExitStack() as closing:
        visitor = web.visit()
        for _ in range(60):
            strangers.append(closing.enter_context(socket.create_connection(("127.0.0.1", web.port))))
            strangers[-1].sendall(question)
            assert read_health(strangers[-1]).startswith(b"HTTP/1.1 200")
        assert visitor.http.get("/web/me").status_code == 200
        assert strangers[0].recv(65536) == b""
        strangers[-1].sendall(question)
        assert read_health(strangers[-1]).startswith(b"HTTP/1.1 200")


def read_health(sock: socket.socket) -> bytes:
    got = b""
    while not got.endswith(b"}"):
        piece = sock.recv(65536)
        assert piece
        got += piece
    return got


def test_a_reader_that_stops_reading_holds_nobody_up(web: WebHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its events are given up; when it reads again it comes to the same state as everybody else."""
    monkeypatch.setattr(hub, "MOST_WAITING", 20)
    visitor = web.visit()
    conversation = visitor.open()
    sleeper = RawStream(web, visitor, conversation, buffer=4096)
    wait_until(lambda: web.watchers() == 1)
    other = visitor.watch(conversation)
    before = resident()
    for number in range(8):
        visitor.say(conversation, f"[[chunks 700]] answer {number} " + "long words " * 80_000)  # more than a line holds
        web.wait_quiet()
    assert resident() - before < 150 * MB
    wanted = [entry["id"] for entry in visitor.watch(conversation).state.entries]
    other.wait_until(lambda state: [entry["id"] for entry in state.entries] == wanted)
    state, snapshots = PageState(), 0
    for event in sleeper.events():
        state.take(event)
        snapshots += event["type"] == "snapshot"
        if state.live is None and [entry["id"] for entry in state.entries] == wanted:
            break
    assert snapshots > 1
    sleeper.close()


def test_a_reader_that_never_reads_is_let_go(web: WebHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that takes nothing for long is closed; the turn ends as always."""
    monkeypatch.setattr(connections, "READ_SECONDS", 0.5)
    visitor = web.visit()
    conversation = visitor.open()
    sleeper = RawStream(web, visitor, conversation, buffer=4096)
    wait_until(lambda: web.watchers() == 1)
    for number in range(30):
        visitor.say(conversation, f"{number} " + "long words " * 20_000, mode="queue")
    wait_until(lambda: web.watchers() == 0)
    web.wait_quiet()
    sleeper.close()


def test_a_page_that_has_gone_without_a_word_is_noticed(web: WebHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """A comment now and then: a page that is there sees it, one that is not costs nothing soon after."""
    monkeypatch.setattr(live, "PULSE_SECONDS", 0.1)
    visitor = web.visit()
    stream = visitor.watch(visitor.open())
    wait_until(lambda: stream.comments >= 3)
    stream.close()
    wait_until(lambda: web.watchers() == 0)


def test_a_head_that_does_not_come_is_not_waited_for(web: WebHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """Dripping bytes buys no time; a connection that is served is not touched."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    visitor = web.visit()
    stream = visitor.watch(visitor.open())
    silent = socket.create_connection(("127.0.0.1", web.port))
    dripping = socket.create_connection(("127.0.0.1", web.port))
    with silent, dripping:
        gone = False
        for byte in b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: " + b"x" * 500:
            try:
                dripping.sendall(bytes([byte]))
            except OSError:
                gone = True
                break
            time.sleep(0.02)
        assert gone
        silent.settimeout(10)
        assert silent.recv(1) == b""
        assert not stream.ended.is_set()
        assert visitor.http.get("/web/me").status_code == 200


def test_a_body_that_stops_is_not_waited_for(web: WebHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.5)
    visitor = web.visit()
    with socket.create_connection(("127.0.0.1", web.port)) as sock:
        more = "Origin: http://127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n"
        sock.sendall(ask("/web/say", visitor, "POST", more) + b'{"conv')
        sock.settimeout(10)
        assert sock.recv(1) == b""


def drip(sock: socket.socket, seconds: float = 20.0) -> bool:
    """Send a byte now and then, as long as somebody takes it; whether the other side ended it."""
    end = time.monotonic() + seconds
    sock.settimeout(0.02)
    while time.monotonic() < end:
        try:
            sock.sendall(b"x")
            if sock.recv(65536) == b"":
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


@pytest.mark.parametrize("part", ["head", "body"])
def test_drops_keep_no_connection_open(web: WebHouse, monkeypatch: pytest.MonkeyPatch, part: str) -> None:
    """F1, G11: a client that always has one more byte to send is let go all the same."""
    monkeypatch.setattr(connections, "HEAD_SECONDS", 0.5)
    monkeypatch.setattr(connections, "BODY_SECONDS", 0.5)
    begun = ask("/web/upload?name=a", web.visit(), "POST", "Origin: http://127.0.0.1\r\nContent-Length: 100000\r\n")
    with socket.create_connection(("127.0.0.1", web.port)) as sock:
        sock.sendall(begun if part == "body" else begun[:-4] + b"\r\nX-Slow: ")
        assert drip(sock)


def test_a_body_that_keeps_its_pace_takes_its_time() -> None:
    """A large upload over a slow line is no drip: an hour of it may pass, but never half a minute without a byte."""
    hour = 3_600.0
    assert (
        connections.seconds_left(connections.BODY, hour, int(hour * connections.BODY_PACE)) == connections.BODY_SECONDS
    )
    assert connections.seconds_left(connections.BODY, hour, int(hour * connections.BODY_PACE * 0.9)) == 0.0
    assert connections.seconds_left(connections.BODY, 1.0, 10**9) == connections.BODY_SECONDS
    assert connections.seconds_left(connections.HEAD, 1.0, 10**9) == connections.HEAD_SECONDS - 1.0


def test_hundreds_of_dripping_clients_keep_nobody_out(
    home: Path, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1, G11: only so many requests may be on their way; the one that is furthest behind makes room for a new one."""
    monkeypatch.setattr(connections, "MOST_READING", 20)
    monkeypatch.setattr(server, "MOST_OPEN", 100)
    with WebHouse(home, lab.base_url) as web:
        visitor = web.visit()
        begun = ask("/web/upload?name=a", visitor, "POST", "Origin: http://127.0.0.1\r\nContent-Length: 100000\r\n")
        open_ones = web.server._server.server_state.connections  # type: ignore[union-attr]
        dripping = []
        try:
            for number in range(300):
                dripping.append(socket.create_connection(("127.0.0.1", web.port)))
                dripping[-1].sendall(begun + b"x" if number % 2 else begun[:40])
            wait_until(lambda: visitor.http.get("/web/me").status_code == 200)  # once the rush was looked at
            wait_until(lambda: len(open_ones) <= 40)
            assert visitor.get("/web/me")
        finally:
            for sock in dripping:
                sock.close()


@pytest.mark.parametrize(
    "sent",
    [
        b"\x00\x01\x02\x03\r\n\r\n",
        b"GET / HTTP/9.9\r\n\r\n",
        b"GET /\r\n\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nHost: evil.net\r\n\r\n",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"x" * 200_000 + b"\r\n\r\n",
        b"POST /web/say HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: -5\r\n\r\n",
        b"POST /web/say HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET /web/live HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
    ],
)
def test_what_is_no_request_gets_an_error(web: WebHouse, sent: bytes) -> None:
    """4xx or a closed connection; the next one is served."""
    with socket.create_connection(("127.0.0.1", web.port)) as sock:
        sock.settimeout(20)
        try:
            sock.sendall(sent)
            answer = sock.recv(4096)
        except ConnectionError:
            answer = b""
    assert answer == b"" or answer.startswith(b"HTTP/1.1 4"), answer[:100]
    assert web.stranger().get("/health").status_code == 200


def test_a_client_that_offers_another_protocol_is_answered_in_this_one(web: WebHouse) -> None:
    """With its body, on a connection that goes on: clients of Java offer HTTP/2 this way."""
    offer = "Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nOrigin: http://127.0.0.1\r\n"
    body = b'{"days": 1}'
    sent = ask("/web/threads", web.visit(), "POST", f"{offer}Content-Type: application/json\r\nContent-Length: 11\r\n")
    with socket.create_connection(("127.0.0.1", web.port)) as sock, sock.makefile("rb") as lines:
        sock.settimeout(20)
        for _ in range(2):
            sock.sendall(sent + body)
            head = list(iter(lines.readline, b"\r\n"))
            assert head[0].startswith(b"HTTP/1.1 200")
            length = next(int(line.split(b":")[1]) for line in head if line.lower().startswith(b"content-length"))
            assert b"conversation" in lines.read(length)


def test_requests_that_come_at_once_are_answered_in_order(web: WebHouse) -> None:
    with socket.create_connection(("127.0.0.1", web.port)) as sock, sock.makefile("rb") as lines:
        sock.settimeout(20)
        paths = ["/health", "/v1/models", "/openapi.json", "/health"] * 3
        sock.sendall(b"".join(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode() for path in paths))
        found = []
        while len(found) < len(paths):
            head = list(iter(lines.readline, b"\r\n"))
            lines.read(next(int(line.split(b":")[1]) for line in head if line.lower().startswith(b"content-length")))
            found.append(head[0].split()[1])
    assert found == [b"200", b"401", b"200", b"200"] * 3


@pytest.mark.parametrize("begun", [b"1;", b"0\r\nX-Trailer: "], ids=["extension", "trailer"])
def test_what_is_neither_head_nor_body_has_an_end(web: WebHouse, begun: bytes) -> None:
    """F1, G11: what stands between the pieces of a body, and behind it, is refused when it goes on."""
    more = "Origin: http://127.0.0.1\r\nTransfer-Encoding: chunked\r\n"
    with socket.create_connection(("127.0.0.1", web.port)) as sock:
        sock.settimeout(20)
        with contextlib.suppress(ConnectionError):
            sock.sendall(ask("/web/upload?name=a", web.visit(), "POST", more) + begun)
            while True:
                sock.sendall(b"x" * 10_000)
    assert web.stranger().get("/health").status_code == 200


def test_what_comes_behind_a_body_is_no_head(web: WebHouse) -> None:
    """G11: who is asked for, and by whom, is said in the head."""
    sent = ask("/web/threads", web.visit(), "POST", "Origin: http://127.0.0.1\r\nTransfer-Encoding: chunked\r\n")
    with socket.create_connection(("127.0.0.1", web.port)) as sock:
        sock.settimeout(20)
        sock.sendall(sent + b"2\r\n{}\r\n0\r\nContent-Type: application/json\r\n\r\n")
        assert sock.recv(4096).startswith(b"HTTP/1.1 415")


def test_a_connection_whose_body_nobody_wanted_is_idle_behind_it(
    web: WebHouse, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1: it is let go as every other that asks nothing more."""
    monkeypatch.setattr(connections, "IDLE_SECONDS", 0.5)
    with socket.create_connection(("127.0.0.1", web.port)) as sock:
        sock.settimeout(20)
        sock.sendall(b"POST /web/say HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 5\r\n\r\n")
        assert sock.recv(4096).startswith(b"HTTP/1.1 4")
        sock.sendall(b"hello")
        while sock.recv(4096):
            pass


def test_the_page_never_holds_the_event_loop(web: WebHouse, slow: list[str]) -> None:
    """F5: many pages, long answers, uploads, lists and searches at once."""
    visitors = [web.visit() for _ in range(6)]
    talks = [visitor.open() for visitor in visitors]
    streams = [visitor.watch(talk) for visitor, talk in zip(visitors, talks, strict=True)]
    streams += [visitors[0].watch(talk) for talk in talks]
    for visitor, talk in zip(visitors, talks, strict=True):
        visitor.say(talk, "x" * 300_000 + " [[chunks 300]]")
        visitor.http.post("/web/upload?name=a.bin", content=b"x" * 5 * MB)
        visitor.say(talk, "[[say done]] " + "long words " * 5_000, mode="queue")
    for visitor in visitors:
        for path in ("/", "/web/me", "/web/threads", "/web/search?words=words", "/web/status", "/web/usage"):
            assert visitor.http.get(path).status_code == 200
        for path in ("/static/main.js", "/static/vendor/katex/katex.min.js", "/openapi.json"):
            assert visitor.http.get(path).status_code == 200
    for stream in streams:
        stream.wait_until(lambda state: state.texts("assistant")[-1:] == ["done"])
    late = [visitor.watch(talk) for visitor, talk in zip(visitors, talks, strict=True)]
    assert all(len(stream.state.entries) >= 4 for stream in late)
    assert not slow


def test_a_very_long_conversation_is_shown_without_holding_the_loop(web: WebHouse, slow: list[str]) -> None:
    """F5: a hundred messages of 200 KB each, which no model has to read."""
    visitor = web.visit()
    conversation = visitor.open()
    rows = [PastExchange(f"{number} " + 'ä"x' * 70_000, "yes") for number in range(50)]
    queries = web.gateway.queries
    web.run(queries.threads.begin_with(Caller(), conversation, rows))
    slow.clear()
    stream = visitor.watch(conversation)
    assert len(stream.state.entries) == 100
    session = stream.events[0]["thread"]["session"]
    assert len(visitor.get(f"/web/threads/{session}/entries")["entries"]) == 100
    assert not slow


def test_a_killed_gateway_is_found_again_by_its_page(home: Path, lab: LabServer) -> None:
    """SIGKILL in mid-answer: the same cookie, the same address, the message once, the answer in the end."""
    port = find_free_port()
    with GatewayProcess(home, lab.base_url, web={"port": port}) as gateway:
        gateway.start()
        visitor = Visitor(f"http://127.0.0.1:{port}", {})
        wait_until(lambda: is_open(port))
        assert visitor.http.get(f"/?token={access.read_token(home)}").status_code == 303
        conversation = visitor.open()
        stream = visitor.watch(conversation)
        lab.set_plan(
            [
                {"text": "cut " * 50, "chunks": 50, "stall_between": 0.2, "contains": "story"},
                {"text": "whole", "contains": "story", "times": 0},
            ]
        )
        said = {"conversation": conversation, "id": "kept", "text": "a story"}
        visitor.post("/web/say", **said)
        stream.wait_until(lambda state: "cut" in state.live_text)
        gateway.kill()
        assert stream.ended.wait(20)
        gateway.start()
        wait_until(lambda: is_open(port))
        assert visitor.post("/web/say", **said)["again"]
        back = visitor.watch(conversation)
        back.wait_until(lambda state: "whole" in "".join(state.texts("assistant")))
        assert back.state.texts("user") == ["a story"]
        visitor.close()


def is_open(port: int) -> bool:
    with socket.socket() as sock:
        return sock.connect_ex(("127.0.0.1", port)) == 0
