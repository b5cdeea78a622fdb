"""G8: calls to addresses that others chose, over real sockets, with a resolver that answers as it is told."""

import asyncio
import contextlib
import gzip
import ssl
import subprocess
import threading
from collections.abc import Iterator, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from hermes_net import checked_http
from hermes_net.address_rules import AddressRules, IpAddress, read_rules
from hermes_net.checked_http import AddressRefused, AnsweredCall, CallFailed, HttpCall, call_checked

LOOPBACK_ALLOWED = read_rules(["127.0.0.1"])


class Service(ThreadingHTTPServer):
    """Keeps what it is asked, and answers by the path."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.asked: list[tuple[str, str, dict[str, str], bytes]] = []
        self.location = ""
        self.hold = threading.Event()

    @property
    def port(self) -> int:
        return int(self.server_address[1])


class Handler(BaseHTTPRequestHandler):
    server: Service
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        self.server.asked.append((self.command, self.path, {k.lower(): v for k, v in self.headers.items()}, body))
        if self.path == "/silent":
            self.server.hold.wait(30)
            self.close_connection = True
            return
        if self.path == "/cut":
            self.close_connection = True
            return
        if self.path in ("/endless", "/broken"):
            self.send_response(200)
            self.send_header("transfer-encoding", "chunked")
            self.end_headers()
            self.wfile.write(b"5\r\nhello\r\n" if self.path == "/endless" else b"no chunk\r\n")
            self.wfile.flush()
            self.server.hold.wait(30)
            self.close_connection = True
            return
        moved = self.path == "/moved"
        text = b"x" * 100_000 if self.path == "/large" else b"hello"
        packed = self.path == "/packed"
        text = gzip.compress(text) if packed else text
        self.send_response(302 if moved else 200)
        if moved:
            self.send_header("location", self.server.location)
            self.send_header("set-cookie", "a=b")
        if packed:
            self.send_header("content-encoding", "gzip")
        self.send_header("content-length", str(len(text)))
        self.end_headers()
        with contextlib.suppress(OSError):  # who has read enough has gone
            self.wfile.write(text)

    do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        pass


@pytest.fixture
def service() -> Iterator[Service]:
    with Service() as running:
        threading.Thread(target=running.serve_forever, daemon=True).start()
        yield running
        running.hold.set()
        running.shutdown()


class Names:
    """A resolver: each name has a list of answers, one for each time it is asked; the last one stays."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self.answers = {name.replace("_", "."): list(given) for name, given in answers.items()}
        self.asked: list[str] = []

    async def __call__(self, host: str, port: int) -> Sequence[IpAddress]:
        self.asked.append(host)
        given = self.answers.get(host)
        if given is None:
            raise OSError("no such name")
        return [ip_address(text) for text in (given.pop(0) if len(given) > 1 else given[0])]


def call(url: str, rules: AddressRules = LOOPBACK_ALLOWED, names: Names | None = None, **more: Any) -> AnsweredCall:
    return asyncio.run(call_checked(HttpCall(url, **more), rules, names or Names()))


def test_a_named_service_is_called_as_it_is_named(service: Service) -> None:
    names = Names(hook_example=[["127.0.0.1"]])
    answer = call(
        f"http://hook.example:{service.port}/x?a=1", names=names, method="POST", body=b"{}", headers={"x-a": "1"}
    )
    assert (answer.status, answer.body, answer.cut) == (200, b"hello", False)
    ((method, path, headers, body),) = service.asked
    assert (method, path, body) == ("POST", "/x?a=1", b"{}")
    assert headers["host"] == f"hook.example:{service.port}"
    assert headers["x-a"] == "1"


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]", "[::1]", "localhost", "0"]
)
def test_this_machine_is_not_called_however_it_is_spelt(service: Service, host: str) -> None:
    with pytest.raises(AddressRefused, match=r"private address.*Nothing was sent.*network\.private"):
        call(f"http://{host}:{service.port}/", AddressRules(), Names(localhost=[["127.0.0.1"]]))
    assert service.asked == []


def test_a_name_with_one_private_address_is_refused_whole(service: Service) -> None:
    names = Names(two_example=[["8.8.8.8", "127.0.0.1"]])
    with pytest.raises(AddressRefused):
        call(f"http://two.example:{service.port}/", AddressRules(), names)
    assert service.asked == []


def test_a_name_that_changes_its_answer_gets_nowhere(service: Service) -> None:
    """The first answer is public and is the one that counts: the second, private one is never asked for."""
    names = Names(rebinding_example=[["192.0.2.1"], ["127.0.0.1"]])
    rules = read_rules(["192.0.2.0/24"])  # stands for a public address, at which nobody listens
    with pytest.raises(CallFailed):
        call(f"http://rebinding.example:{service.port}/", rules, names, seconds=0.5)
    assert names.asked == ["rebinding.example"]
    assert service.asked == []


def test_a_redirect_is_followed_only_if_asked_for_and_judged_again(service: Service) -> None:
    names = Names(hook_example=[["127.0.0.1"]], inside_example=[["10.0.0.1"]])
    service.location = f"http://inside.example:{service.port}/secret"
    address = f"http://hook.example:{service.port}/moved"
    assert call(address, names=names).status == 302
    assert names.asked == ["hook.example"]
    with pytest.raises(AddressRefused, match=r"inside\.example"):
        call(address, names=names, redirects=3)
    service.location = "http://169.254.169.254/latest/meta-data"
    with pytest.raises(AddressRefused, match="cloud"):
        call(address, read_rules(["0.0.0.0/0"]), names, redirects=3)


def test_redirects_come_to_an_end_and_keep_no_cookie_and_no_login(service: Service) -> None:
    names = Names(hook_example=[["127.0.0.1"]], other_example=[["127.0.0.1"]])
    service.location = f"http://other.example:{service.port}/there"
    login = {"authorization": "Bearer secret"}
    answer = call(f"http://hook.example:{service.port}/moved", names=names, redirects=1, headers=login)
    assert (answer.status, answer.url) == (200, f"http://other.example:{service.port}/there")
    first, second = (headers for _, _, headers, _ in service.asked)
    assert first["authorization"] == "Bearer secret"
    assert "authorization" not in second
    assert "cookie" not in second
    service.location = "/moved"
    service.asked.clear()
    assert call(f"http://hook.example:{service.port}/moved", names=names, redirects=2).status == 302
    assert len(service.asked) == 3


def test_a_long_answer_is_cut_and_a_packed_one_refused(service: Service) -> None:
    answer = call(f"http://127.0.0.1:{service.port}/large", most_bytes=1000)
    assert (len(answer.body), answer.cut) == (1000, True)
    with pytest.raises(CallFailed, match="compressed"):
        call(f"http://127.0.0.1:{service.port}/packed")


@pytest.mark.parametrize("path", ["packed", "large", "endless", "broken"])
def test_whoever_wants_the_status_alone_has_it_whatever_the_body_is(
    service: Service, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    """C9: what was answered has arrived; a failure would send it again."""
    monkeypatch.setattr(checked_http, "UNWANTED_SECONDS", 0.2)
    url = f"http://127.0.0.1:{service.port}/{path}"
    answer = call(url, method="POST", body=b"{}", most_bytes=1000, wants_body=False)
    assert answer.status == 200
    assert len(answer.body) <= 1000
    assert len(service.asked) == 1


@pytest.mark.parametrize("path", ["packed", "endless", "broken"])
def test_whoever_wants_the_body_is_told_that_there_is_none(service: Service, path: str) -> None:
    with pytest.raises(CallFailed) as failure:
        call(f"http://127.0.0.1:{service.port}/{path}", seconds=0.5)
    assert failure.value.sent


def test_whether_it_may_have_arrived_is_told(service: Service) -> None:
    with pytest.raises(CallFailed) as silent:
        call(f"http://127.0.0.1:{service.port}/silent", seconds=0.3)
    assert silent.value.sent
    with pytest.raises(CallFailed) as cut:
        call(f"http://127.0.0.1:{service.port}/cut")
    assert cut.value.sent
    service.shutdown()
    service.server_close()
    with pytest.raises(CallFailed) as closed:
        call(f"http://127.0.0.1:{service.port}/")
    assert not closed.value.sent
    with pytest.raises(CallFailed) as unknown:
        call("http://nowhere.example/")
    assert not unknown.value.sent


def test_a_login_in_the_address_is_in_no_failure(service: Service) -> None:
    """G6"""
    service.shutdown()
    service.server_close()
    for address in (f"http://ann:hunter22@127.0.0.1:{service.port}/?token=hunter22", "http://ann:hunter22@[broken/"):
        with pytest.raises(CallFailed) as failure:
            call(address)
        assert "hunter22" not in str(failure.value)
        assert failure.value.__cause__ is None


@pytest.mark.parametrize(
    "address", ["http://0177.0.0.1/", "file:///etc/passwd", "ftp://8.8.8.8/", "gopher://8.8.8.8:70/", "hello", ""]
)
def test_what_is_no_address_of_http_is_not_called(address: str) -> None:
    with pytest.raises((CallFailed, AddressRefused)):
        call(address)


def test_proxies_of_the_environment_are_not_used(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, f"http://127.0.0.1:{service.port}")
    with pytest.raises(AddressRefused):
        call("http://10.0.0.1/")
    assert service.asked == []


def test_the_certificate_is_that_of_the_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The connection goes to the judged address, and still proves to be the host that was asked for."""
    key, certificate = tmp_path / "key.pem", tmp_path / "cert.pem"
    subprocess.run(
        [
            *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=hook.example"),
            *("-addext", "subjectAltName=DNS:hook.example", "-keyout", str(key), "-out", str(certificate)),
        ],
        check=True,
        capture_output=True,
    )
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    checked_http._make_ssl_context.cache_clear()
    names = Names(hook_example=[["127.0.0.1"]], other_example=[["127.0.0.1"]])
    try:
        with Service() as service:
            service.socket = context.wrap_socket(service.socket, server_side=True)
            threading.Thread(target=service.serve_forever, daemon=True).start()
            assert call(f"https://hook.example:{service.port}/", names=names).body == b"hello"
            with pytest.raises(CallFailed, match="its certificate is not valid"):
                call(f"https://other.example:{service.port}/", names=names)
            service.shutdown()
    finally:
        checked_http._make_ssl_context.cache_clear()
