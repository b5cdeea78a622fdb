"""A server at an address: over HTTP and SSE, killed and started again, and never where it must not go (G8)."""

import asyncio
import gzip
import io
import json
import queue
import threading
import time
import zlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any

import httpx
import pytest
from mcp_rig import McpHouse, RemoteServer, end_all

from hermes_base.errors import ToolFailure
from hermes_net.address_rules import read_rules
from hermes_net.checked_http import AddressRefused
from tools.mcp.live import call_client, remote_http

House = Callable[..., McpHouse]


def at(remote: RemoteServer, **fields: object) -> dict[str, object]:
    return {"url": remote.url, "transport": remote.way, "trust": True, **fields}


def test_tools_of_a_remote_server_are_called(house: House, remote: RemoteServer) -> None:
    """The owner wrote that very address, so it is called although it is this machine's own."""
    there = house({"t": at(remote)})
    assert there.missing == {}
    assert there.call("mcp_t_add", {"a": 2, "b": 3}) == "[MCP server t]\n5"
    there.words = ["green"]
    assert there.call("mcp_t_ask") == "[MCP server t]\naccept: green"
    assert there.call("mcp_t_work", {"steps": 3, "seconds": 0.01}).endswith("done")
    assert there.moves >= 3


def test_one_that_is_killed_in_mid_call_and_comes_back(house: House, remote: RemoteServer) -> None:
    there = house({"t": at(remote)})
    told: list[str] = []
    calling = threading.Thread(target=lambda: told.append(there.call("mcp_t_hang")))
    calling.start()
    there.call("mcp_t_add", {"a": 1, "b": 1})
    remote.kill()
    calling.join()
    assert "The call was cut" in json.loads(told[0])["error"]
    assert "is not there" in there.fails("mcp_t_add", {"a": 1, "b": 1})
    remote.start()
    pause = threading.Event()
    while "error" in (answer := there.call("mcp_t_add", {"a": 1, "b": 1})):
        assert "again in" in answer
        pause.wait(0.1)
    assert answer.endswith("2")


@pytest.mark.parametrize(
    "url",
    [
        "http://169.254.169.254/mcp",  # metadata: never, whoever wrote it
        "http://[::ffff:169.254.169.254]/mcp",
        "http://metadata.google.internal/mcp",
    ],
)
def test_metadata_is_never_called(house: House, url: str) -> None:
    """G8."""
    there = house({"t": {"url": url}})
    assert "never called" in there.missing["t"] or "cannot be reached" in there.missing["t"]


class _Recording(httpx.AsyncBaseTransport):
    def __init__(self) -> None:
        self.called: list[tuple[str, str]] = []

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        self.called.append((request.url.host, request.headers["host"]))
        return httpx.Response(200, stream=httpx.ByteStream(b""))


@pytest.mark.parametrize(
    ("url", "own", "private", "leads_to", "refused"),
    [
        ("http://mcp.example/x", "http://mcp.example/mcp", (), "10.0.0.5", True),  # a name that leads inside
        ("http://mcp.example/x", "http://mcp.example/mcp", ("mcp.example",), "10.0.0.5", False),
        ("http://mcp.example/x", "http://mcp.example/mcp", ("mcp.example",), "169.254.169.254", True),
        ("http://mcp.example/x", "http://mcp.example/mcp", (), "93.184.216.34", False),
        ("http://10.0.0.5/x", "http://10.0.0.5/mcp", (), "", False),  # that very address
        ("http://10.0.0.5:81/x", "http://10.0.0.5/mcp", (), "", True),
        ("http://10.0.0.6/x", "http://10.0.0.5/mcp", (), "", True),
        ("http://2130706433/x", "http://10.0.0.5/mcp", (), "", True),
        ("http://localhost/x", "http://localhost/mcp", (), "127.0.0.1", False),
        ("http://localhost/x", "http://mcp.example/mcp", (), "127.0.0.1", True),
    ],
)
def test_where_a_connection_may_go(
    monkeypatch: pytest.MonkeyPatch, url: str, own: str, private: tuple[str, ...], leads_to: str, refused: bool
) -> None:
    """G8: judged by where it really leads, when it is connected, to exactly the address that was judged."""

    async def look_up(host: str, port: int) -> list[Any]:
        return [ip_address(leads_to)]

    monkeypatch.setattr(remote_http, "look_up", look_up)
    plain = _Recording()
    judged = remote_http.JudgedTransport(plain, httpx.URL(own), {"X-Key": "k"}, read_rules(private))
    request = httpx.Request("GET", url)
    if refused:
        with pytest.raises(AddressRefused):
            asyncio.run(judged.handle_async_request(request))
        assert plain.called == []
    else:
        asyncio.run(judged.handle_async_request(request))
        assert plain.called == [(leads_to or request.url.host, request.headers["host"])]


class _Redirecting(BaseHTTPRequestHandler):
    """Leads every call to another address, and notes what it is called with."""

    def do_POST(self) -> None:
        self.server.heard.append(dict(self.headers))  # type: ignore[attr-defined]
        self.rfile.read(int(self.headers.get("content-length", 0)))
        self.send_response(self.server.status)  # type: ignore[attr-defined]
        self.send_header("Location", self.server.target)  # type: ignore[attr-defined]
        self.send_header("Content-Length", "0")
        self.end_headers()

    do_GET = do_POST

    def log_message(self, *words: object) -> None:
        return


@pytest.fixture
def redirecting() -> Iterator[Callable[[str, int], ThreadingHTTPServer]]:
    made: list[ThreadingHTTPServer] = []

    def make(target: str, status: int) -> ThreadingHTTPServer:
        server = ThreadingHTTPServer(("127.0.0.1", 0), _Redirecting)
        server.target, server.status, server.heard = target, status, []  # type: ignore[attr-defined]
        threading.Thread(target=server.serve_forever, daemon=True).start()
        made.append(server)
        return server

    yield make
    for server in made:
        server.shutdown()
        server.server_close()


def test_a_redirect_leads_nowhere_else(house: House, redirecting: Callable[[str, int], ThreadingHTTPServer]) -> None:
    """G8, G6: neither to another service of this machine, nor with the headers that the owner wrote."""
    other = redirecting("http://127.0.0.1:1/", 307)
    first = redirecting(f"http://127.0.0.1:{other.server_address[1]}/", 307)
    url = f"http://127.0.0.1:{first.server_address[1]}/mcp"
    there = house({"t": {"url": url, "headers": {"X-Key": "canary-0123456789"}, "connect_timeout": 5}})
    assert "status 307" in there.missing["t"]
    assert first.heard[0]["X-Key"] == "canary-0123456789"  # type: ignore[attr-defined]
    assert other.heard == []  # type: ignore[attr-defined]


def test_a_refusal_says_how_to_sign_in(house: House, redirecting: Callable[[str, int], ThreadingHTTPServer]) -> None:
    closed = redirecting("/", 401)
    there = house({"t": {"url": f"http://127.0.0.1:{closed.server_address[1]}/mcp"}})
    assert "status 401; `hermes mcp login t` signs in" in there.missing["t"]


def test_an_address_where_nobody_is(house: House) -> None:
    there = house({"t": {"url": "http://127.0.0.1:1/mcp"}})
    assert "cannot be reached" in there.missing["t"]


class _Packed(httpx.AsyncBaseTransport):
    """Answers packed, whatever was asked for."""

    def __init__(self, body: bytes, packed: str = "gzip") -> None:
        self.body, self.packed, self.sent = body, packed, 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        async def send() -> AsyncIterator[bytes]:
            for start in range(0, len(self.body), 1000):
                self.sent += 1
                yield self.body[start : start + 1000]

        assert request.headers["accept-encoding"] == "identity"
        return httpx.Response(200, headers={"content-encoding": self.packed}, content=send())


def fetch(packed: _Packed) -> tuple[bytes, list[str]]:
    """What is read of it, and what whoever waits is told."""
    broken: list[str] = []

    async def ask() -> bytes:
        url = httpx.URL("http://127.0.0.1:1/mcp")
        transport = remote_http.JudgedTransport(packed, url, {}, read_rules([]), broken.append)
        async with httpx.AsyncClient(transport=transport) as client:
            return (await client.get(url)).content

    try:
        return asyncio.run(ask()), broken
    except (ToolFailure, httpx.HTTPError) as problem:
        return str(problem).encode(), broken


def test_a_packed_answer_is_read() -> None:
    text = bytes(range(256)) * 2000
    assert fetch(_Packed(gzip.compress(text))) == (text, [])
    assert fetch(_Packed(gzip.compress(text[:9]) + gzip.compress(text[9:]), "X-GZip")) == (text, [])
    assert fetch(_Packed(b"")) == (b"", [])


@pytest.mark.parametrize(
    ("packed", "words"),
    [
        (_Packed(gzip.compress(bytes(1 << 20)) * 256), "an answer of more than 32 MB"),
        (_Packed(b"no gzip"), "cannot be unpacked"),
        (_Packed(zlib.compress(b"{}"), "deflate"), "it packs its answers as deflate"),
        (_Packed(b"{}", "gzip, br"), "plain or with gzip"),
    ],
)
def test_an_answer_that_cannot_be_taken_is_a_sentence(packed: _Packed, words: str) -> None:
    """G8: the limit counts what is unpacked, and holds before more than that is unpacked. Whoever waits is told."""
    read, broken = fetch(packed)
    assert words in read.decode()
    assert broken == [read.decode()]
    assert packed.sent < len(packed.body) // 1000 or len(packed.body) < 1000


def test_a_packed_answer_that_breaks_off_is_one() -> None:
    assert fetch(_Packed(gzip.compress(bytes(9000))[:-9])) == (b"the answer broke off", [""])


class _PackingServer(BaseHTTPRequestHandler):
    """A server whose answers are packed."""

    way, size = "gzip", 4

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
        welcome = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}}
        results: dict[str, Any] = {
            "initialize": {**welcome, "serverInfo": {"name": "x", "version": "1"}},
            "tools/list": {"tools": [{"name": "one", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "fine" * (self.size // 4)}]},
            "ping": {},
        }
        if "id" not in asked:
            self.send_response(202)
            self.send_header("content-length", "0")
            self.end_headers()
            return
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": results[asked["method"]]}
        body = gzip.compress(json.dumps(answer).encode())
        self.send_response(200)
        packed = {"content-encoding": self.way, "content-type": "application/json", "content-length": str(len(body))}
        for name, value in packed.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_error(405)

    do_DELETE = do_GET

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.mark.parametrize(
    ("way", "size", "missing", "answer"),
    [
        ("gzip", 4, "", "[MCP server t]\nfine"),
        ("br", 4, "is not there: it packs its answers as br, though plain ones", ""),
        ("gzip", 1 << 26, "", "an answer of more than 32 MB"),
    ],
)
def test_a_server_that_packs_its_answers(house: House, way: str, size: int, missing: str, answer: str) -> None:
    kind = type("Packing", (_PackingServer,), {"way": way, "size": size})
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}).start()
        there = house({"t": {"url": f"http://127.0.0.1:{server.server_address[1]}/mcp", "trust": True}})
        assert missing in there.missing.get("t", "")
        if answer:
            assert answer in there.call("mcp_t_one")
        end_all()
        server.shutdown()


class _OddServer(_PackingServer):
    """Answers calls of a tool as it is told to: with a page, with JSON of any kind, or as one who knows no session."""

    status, kind, body = 200, "text/html; charset=utf-8", b"<p>x"

    def do_POST(self) -> None:
        asked = self.rfile.read(int(self.headers["content-length"]))
        if b"tools/call" not in asked:
            self.rfile = io.BufferedReader(io.BytesIO(asked))  # type: ignore[arg-type]
            super().do_POST()
            return
        self.send_response(self.status)
        self.send_header("content-type", self.kind)
        self.send_header("retry-after", "3")
        self.send_header("content-length", str(len(self.body)))
        self.end_headers()
        self.wfile.write(self.body)


@pytest.mark.parametrize(
    ("status", "kind", "body", "words"),
    [
        (200, "text/html; charset=utf-8", b"<p>x", "it answered with text/html, which is no message of MCP"),
        (200, "", b"<p>x", "it answered with something without a kind"),
        (200, "application/json", b'{"jsonrpc": "2.0", "id"', "it answered with JSON that is broken"),
        (200, "application/json", b"[" * 100_000, "it answered with JSON that is broken"),
        (200, "application/json", b'{"jsonrpc": "2.0", "id": 4711, "result": {}}', "is not to the call"),
        (200, "application/json", b'{"jsonrpc": "2.0", "id": null, "error": {"code": 1}}', "is not to the call"),
        (200, "application/json", b"[3]", "is not to the call"),
        (200, "text/event-stream", b'event: message\ndata: {"jsonrpc"\n\n', "it sent what is no message of MCP"),
        (404, "application/json", b"<p>x", "refuses it: it answered with status 404"),
        (400, "application/json", b'{"id": null, "error": {"message": "no such city"}}', "refuses it: no such city"),
        (401, "text/plain", b"", "status 401; `hermes mcp login t` signs in"),
        (429, "text/plain", b"slow", "too many calls. It can be tried again in 3 seconds"),
        (500, "text/html", b"<p>x", "status 500. Whether something was done is not known"),
        (200, "text/event-stream", b": nothing comes\n\n", "The call was cut: the connection broke off"),
        (200, "text/event-stream", b"id: e1\nretry: 10\ndata: \n\n", "and it does not go on with it"),
    ],
)
def test_what_is_no_answer_is_told_at_once(house: House, status: int, kind: str, body: bytes, words: str) -> None:
    """A page of a proxy in the place of an answer, and a session that is gone again and again: a sentence, and nobody
    waits until the time of the call is over."""
    odd = type("Odd", (_OddServer,), {"status": status, "kind": kind, "body": body})
    with serving(odd) as url:
        there = house({"t": {"url": url, "trust": True, "timeout": 3600}})
        assert words in there.fails("mcp_t_one")
        end_all()


@contextmanager
def serving(kind: type[BaseHTTPRequestHandler]) -> Iterator[str]:
    with ThreadingHTTPServer(("127.0.0.1", 0), kind) as server:
        server.daemon_threads = True
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}).start()
        try:
            yield f"http://127.0.0.1:{server.server_address[1]}/mcp"
        finally:
            server.shutdown()


class _SteppedServer(_PackingServer):
    """Answers calls of a tool as a test says; plain, and with a session that has a number."""

    way, begun = "", 0

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        asked = json.loads(body)
        method = asked.get("method", "")
        if (own := getattr(self, f"do_{method.rpartition('/')[2]}", None)) is not None and own(asked):
            return
        results: dict[str, Any] = {
            "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": SELF},
            "tools/list": {"tools": [{"name": "one", "inputSchema": {"type": "object"}}]},
            "tools/call": {"content": [{"type": "text", "text": "fine"}]},
            "ping": {},
        }
        if method == "initialize":
            type(self).begun += 1
        self.say(
            {"jsonrpc": "2.0", "id": asked.get("id"), "result": results.get(method)}, 200 if "id" in asked else 202
        )

    def say(self, value: object, status: int = 200) -> bool:
        body = value if isinstance(value, bytes) else json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("mcp-session-id", str(self.begun))
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
        return True


SELF = {"name": "x", "version": "1"}


@pytest.mark.parametrize("status", [400, 404])
def test_a_session_that_is_forgotten_is_begun_anew(house: House, status: int) -> None:
    """A server that was started again knows no session of before; some say so with 400. A new one takes the call."""

    class Forgetting(_SteppedServer):
        def do_call(self, asked: Any) -> bool:
            known = self.headers["mcp-session-id"] != "1"
            return not known and self.say({"id": None, "error": {"message": "No valid session ID provided"}}, status)

    with serving(Forgetting) as url:
        assert house({"t": {"url": url, "trust": True}}).call("mcp_t_one") == "[MCP server t]\nfine"
        end_all()
    assert Forgetting.begun == 2


def test_a_call_that_is_refused_cuts_no_other(house: House) -> None:
    waits, go_on = threading.Event(), threading.Event()

    class Refusing(_SteppedServer):
        def do_call(self, asked: Any) -> bool:
            if asked["params"]["arguments"]:
                waits.set()
                return not go_on.wait(60)
            if asked["id"] % 2:
                return self.say(b"oops", 500)
            self.close_connection = True  # without a word
            return True

    with serving(Refusing) as url:
        there = house({"t": {"url": url, "trust": True}})
        told: list[str] = []
        calling = threading.Thread(target=lambda: told.append(there.call("mcp_t_one", {"slow": True})))
        calling.start()
        assert waits.wait(60)
        said = {there.fails("mcp_t_one") for _ in range(4)}
        go_on.set()
        calling.join()
        end_all()
    assert told == ["[MCP server t]\nfine"]
    assert any("status 500" in one for one in said)
    assert any("The call was cut: the connection broke off" in one for one in said)
    assert Refusing.begun == 1


def test_an_answer_that_breaks_off_is_gone_on_with(house: House) -> None:
    """The server closes the stream, and sends the answer when it is asked for what came after that event."""

    class Resuming(_SteppedServer):
        call = 0

        def do_call(self, asked: Any) -> bool:
            type(self).call = asked["id"]
            return self.stream(b"id: e1\nretry: 10\ndata: \n\n")

        def do_GET(self) -> None:
            if self.headers["last-event-id"] != "e1":
                self.send_error(405)
                return
            answer = {"jsonrpc": "2.0", "id": self.call, "result": {"content": [{"type": "text", "text": "late"}]}}
            self.stream(f"id: e2\ndata: {json.dumps(answer)}\n\n".encode())

        def stream(self, events: bytes) -> bool:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(events)
            return True

    with serving(Resuming) as url:
        assert house({"t": {"url": url, "trust": True}}).call("mcp_t_one") == "[MCP server t]\nlate"
        end_all()


def test_an_answer_that_breaks_off_again_and_again_keeps_nobody_busy(house: House) -> None:
    """F4: a server names the pause between two tries, and what it breaks off for ever is asked for long after the call
    is over. Once that was as fast as it answered, 170 times a second."""

    class Breaking(_SteppedServer):
        asked = 0

        def do_call(self, asked: Any) -> bool:
            return bool(asked["params"]["arguments"]) and self.stream()

        def do_GET(self) -> None:
            if self.headers["last-event-id"] != "e1":
                self.send_error(405)
                return
            type(self).asked += 1
            self.stream()

        def stream(self) -> bool:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"id: e1\nretry: 0\ndata: \n\n")
            return True

    with serving(Breaking) as url:
        there = house({"t": {"url": url, "trust": True, "timeout": 2}})
        assert "did not answer within 2 seconds" in there.fails("mcp_t_one", {"slow": True})
        assert 1 <= Breaking.asked <= 2 / call_client.RESUME_SECONDS + 1
        before = Breaking.asked
        time.sleep(2)
        assert Breaking.asked <= before + 1
        assert there.call("mcp_t_one") == "[MCP server t]\nfine"
        end_all()


def test_a_notice_that_is_refused_ends_nothing(house: House) -> None:
    class Deaf(_SteppedServer):
        def do_initialized(self, asked: Any) -> bool:
            return self.say(b"", 403)

    with serving(Deaf) as url:
        assert house({"t": {"url": url, "trust": True}}).call("mcp_t_one") == "[MCP server t]\nfine"
        end_all()


def test_a_notice_that_is_never_answered_holds_up_no_call(house: House, monkeypatch: pytest.MonkeyPatch) -> None:
    """The SDK sends one notice after the other, and calls behind them."""
    monkeypatch.setattr("tools.mcp.live.call_client.UNANSWERED_SECONDS", 0.1)
    over = threading.Event()

    class Mute(_SteppedServer):
        def do_initialized(self, asked: Any) -> bool:
            return over.wait(60)

        def do_DELETE(self) -> None:
            over.wait(60)

    with serving(Mute) as url:
        assert house({"t": {"url": url, "trust": True}}).call("mcp_t_one") == "[MCP server t]\nfine"
        end_all()
        over.set()


@pytest.mark.parametrize("named", [False, True])
def test_an_address_of_the_older_kind_is_found_out(house: House, named: bool) -> None:
    server = RemoteServer("sse")
    try:
        there = house({"t": {"url": server.url, "trust": True, **({"transport": "http"} if named else {})}})
        if named:
            assert "answered with status 40" in there.missing["t"]
        else:
            assert there.call("mcp_t_add", {"a": 2, "b": 3}) == "[MCP server t]\n5"
    finally:
        server.kill()


@pytest.mark.parametrize("size", range(1, 13))
def test_half_a_sign_is_mended_wherever_a_piece_ends(size: int) -> None:
    text = rb'{"a": "\ud83d\ude00 \\ud83d \\\ud83d \ude00 \u00e9"}'

    async def send() -> AsyncIterator[bytes]:
        for start in range(0, len(text), size):
            yield text[start : start + size]

    async def read() -> bytes:
        return b"".join([piece async for piece in remote_http.MendedStream(httpx.Response(200, content=send()).stream)])  # type: ignore[arg-type]

    assert json.loads(asyncio.run(read())) == {"a": "\U0001f600 \\ud83d \\\ufffd \ufffd \u00e9"}


@pytest.mark.parametrize(("status", "words"), [(500, "it answered with status 500"), (0, "it cannot be reached")])
def test_a_call_that_is_refused_where_answers_come_on_another_stream(house: House, status: int, words: str) -> None:
    """Over SSE nothing can be said in the place of an answer, so the session ends with the reason, at once."""
    sent: queue.Queue[bytes] = queue.Queue()

    class Aside(_SteppedServer):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("content-type", "text/event-stream")
            self.end_headers()
            self.wfile.write(b"event: endpoint\ndata: /post\n\n")
            while piece := sent.get():
                self.wfile.write(piece)

        def do_call(self, asked: Any) -> bool:
            if status:
                return super().say(b"", status)
            self.close_connection = True
            return True

        def say(self, value: Any, status: int = 200) -> bool:
            if value["id"] is not None:
                sent.put(f"event: message\ndata: {json.dumps(value)}\n\n".encode())
            return super().say(b"", 202)

    with serving(Aside) as url:
        there = house({"t": {"url": url, "transport": "sse", "trust": True, "timeout": 3600}})
        assert words in there.fails("mcp_t_one")
        sent.put(b"")
        end_all()
