"""HTTP under the SDKs: pools that are shared and end with their last user, sockets that are reused, cut and timed."""

import gc
import os
import resource
import socket
import threading
import weakref
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import httpx2
import pytest
from hypothesis import given
from hypothesis import strategies as st
from waiting import wait_until

from agent.http import clients, transport
from agent.http.transport import BrokenFraming, ChunkDecoder, PooledTransport, _has_hung_up
from hermes_lab.server import LabServer


def test_clients_of_one_address_and_key_share_a_pool_that_ends_with_the_last() -> None:
    """F1"""
    before = transport.count_pools()
    one = clients.build_openai_client(api_key="a", base_url="http://127.0.0.1:1/v1")
    two = clients.build_openai_client(api_key="a", base_url="http://127.0.0.1:1/v1")
    other = clients.build_openai_client(api_key="b", base_url="http://127.0.0.1:1/v1")
    assert one._client is two._client
    assert other._client is not one._client
    assert transport.count_pools() == before + 2
    clients.release_client(one)
    assert not two._client.is_closed
    clients.release_client(one)  # a second release is none
    shared = two._client
    clients.release_client(two)
    assert shared.is_closed
    clients.release_client(other)
    assert transport.count_pools() == before


def test_a_client_that_is_forgotten_gives_its_pool_back() -> None:
    before = transport.count_pools()
    client = clients.build_openai_client(api_key="c", base_url="http://127.0.0.1:1/v1")
    assert transport.count_pools() == before + 1
    del client
    gc.collect()
    assert transport.count_pools() == before


def test_releasing_a_foreign_object_is_harmless() -> None:
    clients.release_client(object())
    clients.release_client(None)
    clients.release_client([])


# --- chunks


def encode_chunks(payloads: list[bytes]) -> bytes:
    return b"".join(b"%x;ext=1\r\n%b\r\n" % (len(p), p) for p in payloads if p) + b"0\r\nTrailer: x\r\n\r\n"


@given(st.lists(st.binary(max_size=40), max_size=6), st.lists(st.integers(0, 300), max_size=10))
def test_chunks_are_the_same_however_they_are_cut(payloads: list[bytes], cuts: list[int]) -> None:
    whole = encode_chunks(payloads)
    edges = sorted({0, len(whole), *(cut % len(whole) for cut in cuts)})
    decoder = ChunkDecoder()
    read = b""
    for start, stop in pairwise(edges):
        assert not decoder.done
        read += decoder.feed(whole[start:stop])
    assert decoder.done
    assert read == b"".join(payloads)


@pytest.mark.parametrize("line", [b"xyz\r\n", b"-5\r\n", b"\r\n"])
def test_broken_chunks_are_refused(line: bytes) -> None:
    with pytest.raises(BrokenFraming):
        ChunkDecoder().feed(line)


# --- a server of a few lines, so that every byte is known

Script = Callable[[socket.socket], None]


class Server:
    """Answers each connection's requests with the given bytes, one after the other; the last one when it may."""

    def __init__(self, *answers: bytes, hang: bool = False) -> None:
        self._answers = answers
        self._hang = hang
        self.may_end = threading.Event()
        self.may_end.set()
        self.connections = 0
        self.heads: list[bytes] = []
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}/v1/x?y=1"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                wire, _ = self._listener.accept()
            except OSError:
                return
            self.connections += 1
            threading.Thread(target=self._answer, args=(wire,), daemon=True).start()

    def _answer(self, wire: socket.socket) -> None:
        for place, answer in enumerate(self._answers, 1):
            head = wire.recv(65536)
            if not head:
                return
            self.heads.append(head)
            if place == len(self._answers):
                self.may_end.wait(20)
            wire.sendall(answer)
        if self._hang:
            wire.recv(1)
        wire.close()

    def close(self) -> None:
        self._listener.close()


CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n" + encode_chunks([b"hello ", b"there"])
SIZED = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello"


@pytest.fixture
def http() -> Iterator[httpx2.Client]:
    with httpx2.Client(transport=PooledTransport(), timeout=5) as client:
        yield client


@pytest.mark.parametrize(("answer", "text"), [(CHUNKED, "hello there"), (SIZED, "hello")])
def test_a_connection_carries_one_answer_after_the_other(http: httpx2.Client, answer: bytes, text: str) -> None:
    server = Server(answer, answer, answer, hang=True)
    assert [http.post(server.url, content=b"{}").text for _ in range(3)] == [text] * 3
    assert server.connections == 1
    assert server.heads[0].startswith(b"POST /v1/x?y=1 HTTP/1.1\r\n")
    server.close()


def test_an_answer_that_ends_with_its_connection(http: httpx2.Client) -> None:
    server = Server(b"HTTP/1.1 200 OK\r\n\r\nall of it")
    assert http.get(server.url).text == "all of it"
    assert http.get(server.url).text == "all of it"
    assert server.connections == 2
    server.close()


def test_a_connection_that_the_server_closed_meanwhile_is_not_used_again(http: httpx2.Client) -> None:
    server = Server(SIZED)
    for _ in range(3):
        assert http.get(server.url).text == "hello"
        threading.Event().wait(0.05)  # the server hangs up after each answer
    assert server.connections == 3
    server.close()


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhel", httpx2.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\nhello", httpx2.RemoteProtocolError),
        (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nnonsense\r\n", httpx2.RemoteProtocolError),
        (b"this is not HTTP\r\n\r\n", httpx2.RemoteProtocolError),
        (b"", httpx2.RemoteProtocolError),
    ],
)
def test_what_is_no_whole_answer_is_an_error(http: httpx2.Client, answer: bytes, error: Any) -> None:
    server = Server(answer)
    with pytest.raises(error):
        http.get(server.url)
    server.close()


def test_silence_and_refusal_are_told_apart(http: httpx2.Client) -> None:
    server = Server(b"", hang=True)
    with pytest.raises(httpx2.ReadTimeout):
        http.get(server.url, timeout=0.2)
    server.close()
    with pytest.raises(httpx2.ConnectError):
        http.get("http://127.0.0.1:9/")
    with pytest.raises(httpx2.ConnectError):
        http.get("http://no-such-host.invalid/")


def test_a_server_without_tls_is_a_clear_error(http: httpx2.Client) -> None:
    server = Server(SIZED)
    with pytest.raises(httpx2.ConnectError):
        http.get(server.url.replace("http:", "https:"))
    server.close()


def test_a_proxy_of_the_environment_is_used(http: httpx2.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = Server(SIZED)
    monkeypatch.setenv("http_proxy", proxy.url.partition("/v1")[0])
    monkeypatch.setenv("no_proxy", "")
    assert http.get("http://model.example/v1/models").text == "hello"
    assert proxy.heads[0].startswith(b"GET http://model.example/v1/models HTTP/1.1\r\n")
    proxy.close()


def fetch(http: httpx2.Client, url: str, line: transport.Line) -> bytes:
    """A request that can be cut."""
    request = http.build_request("GET", url)
    head = transport.RequestHead.of(request.method, request.url, request.headers)
    pool: Any = http._transport
    return b"".join(pool.send(head, b"", 5, 60, line))


def test_a_blocked_reader_is_freed_from_outside(http: httpx2.Client) -> None:
    server = Server(b"", hang=True)
    box: list[BaseException] = []
    line = transport.Line()

    def read() -> None:
        try:
            fetch(http, server.url, line)
        except httpx2.HTTPError as error:
            box.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    while not server.heads:
        threading.Event().wait(0.01)
    line.cut()
    reader.join(10)
    assert not reader.is_alive()
    assert box
    server.close()


def test_a_call_that_is_over_cuts_nobody_elses(http: httpx2.Client) -> None:
    """D13: who read an answer to its end has given its connection back, and a stop that comes then leaves it alone."""
    server = Server(SIZED, SIZED, hang=True)
    server.may_end.clear()
    got: list[str] = []
    other = threading.Thread(target=lambda: got.append(http.get(server.url).text))
    line = transport.Line()
    fetch(http, server.url, line)
    other.start()
    wait_until(lambda: len(server.heads) == 2)
    line.cut()
    server.may_end.set()
    other.join(20)
    assert got == ["hello"]
    assert server.connections == 1
    server.close()


def test_a_process_with_many_open_files_reuses_connections(lab: LabServer) -> None:
    """A descriptor above a thousand is as good as any: the gateway has that many connections."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(4096, hard)), hard))
    held = [os.dup(0) for _ in range(1100)]
    try:
        wire = socket.create_connection(("127.0.0.1", lab.port))
        with wire:
            assert wire.fileno() > 1024
            assert not _has_hung_up(wire)
            wire.shutdown(socket.SHUT_RDWR)
            assert _has_hung_up(wire)
    finally:
        for number in held:
            os.close(number)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_a_client_that_is_forgotten_while_another_is_made_holds_nobody() -> None:
    """F1: garbage may be collected at any allocation, also while the pools are locked by the same thread."""

    class Forgotten:
        pass

    name, _ = transport.acquire_pool("http://127.0.0.1:9/forgotten", "k")
    before = transport.count_pools()
    one = Forgotten()
    weakref.finalize(one, transport.release_pool, name)
    with transport._lock:
        del one  # in the middle of another call
    assert transport.count_pools() == before - 1
