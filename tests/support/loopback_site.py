"""A web site on loopback for tests of the web tools: what it answers is set by path, what it was asked is kept."""

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from ipaddress import ip_address
from typing import Any

from hermes_base.setting_table import make_settings
from hermes_base.turn.tool_context import ToolContext
from hermes_net.address_rules import IpAddress

ARTICLE = """<html><head><title>On frobs</title><style>p {color: red}</style></head><body>
<nav><a href="/">Home</a> <a href="/shop">Shop</a></nav>
<main><h1>On frobs</h1><p>A frob is a <b>thing</b>, see <a href="/more?x=1">more</a>.</p>
<pre><code class="language-sh">frob --init
  go</code></pre>
<table><tr><th>Name</th><th>Price</th></tr><tr><td>frob</td><td>7</td></tr></table></main>
<footer>Imprint</footer><script>steal()</script></body></html>"""
Extract = Callable[..., dict[str, Any]]

#: Writes an answer piece by piece until it is stopped.
Stream = Callable[["SiteHandler"], None]


@dataclass(frozen=True)
class SitePage:
    body: bytes = b""
    type: str | None = "text/html"
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    stream: Stream | None = None  # instead of the body


@dataclass(frozen=True)
class SiteRequest:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes


class LoopbackSite(ThreadingHTTPServer):
    daemon_threads = True

    def __init__(self, address: str = "127.0.0.1", port: int = 0) -> None:
        super().__init__((address, port), SiteHandler)
        self.pages: dict[str, SitePage] = {}
        self.asked: list[SiteRequest] = []
        self.closing = threading.Event()  # who holds an answer back lets go
        self.reached = threading.Event()  # somebody waits for an answer that is held back

    @property
    def port(self) -> int:
        return int(self.server_address[1])

    def url(self, path: str = "/", host: str = "site.test") -> str:
        return f"http://{host}:{self.port}{path}"

    def put(self, path: str, body: bytes | str = b"", type: str | None = "text/html", **more: Any) -> str:
        """Set a page; its address comes back."""
        raw = body.encode() if isinstance(body, str) else body
        self.pages[path] = SitePage(raw, type, **more)
        return self.url(path)


class SiteHandler(BaseHTTPRequestHandler):
    server: LoopbackSite
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append(SiteRequest(self.command, self.path, headers, body))
        page = self.server.pages.get(self.path.partition("?")[0]) or SitePage(b"no such page", status=404)
        self.close_connection = True
        with contextlib.suppress(OSError):  # who has read enough has gone
            self.send_response(page.status)
            for name, value in page.headers.items():
                self.send_header(name, value)
            if page.type is not None:
                self.send_header("content-type", page.type)
            if page.stream is None:
                self.send_header("content-length", str(len(page.body)))
            self.end_headers()
            if page.stream is not None:
                page.stream(self)
            else:
                self.wfile.write(page.body)

    do_POST = do_GET

    def log_message(self, *_: Any) -> None:
        pass


def hold(handler: SiteHandler) -> None:
    """Says the beginning and nothing more."""
    handler.wfile.write(b"<p>It begins")
    handler.wfile.flush()
    handler.server.reached.set()
    handler.server.closing.wait(60)


def drip(handler: SiteHandler) -> None:
    """A letter every now and then, for ever."""
    while not handler.server.closing.wait(0.02):
        handler.wfile.write(b"x")
        handler.wfile.flush()


def pour(handler: SiteHandler) -> None:
    """As much as it is let, for ever."""
    while not handler.server.closing.is_set():
        handler.wfile.write(b"<p>word word word</p>" * 5_000)


@contextlib.contextmanager
def open_site(address: str = "127.0.0.1", port: int = 0) -> Iterator[LoopbackSite]:
    with LoopbackSite(address, port) as site:
        running = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True)
        running.start()
        try:
            yield site
        finally:
            site.closing.set()
            site.shutdown()
            running.join()


class SiteNames:
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


def make_context(**more: Any) -> ToolContext:
    """The context of a turn that may call `site.test`, and no other private address."""
    settings = more.pop("settings", {})
    merged = {"network": {"private": ["site.test"]}, **settings}
    return ToolContext(**{"task": "task", "settings": make_settings(merged), **more})
