"""A site on loopback, and the tool `browser` in front of it, with a real Chromium: one for the tests of a file."""

import base64
import json
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from hermes_base.chat import Answer, Question
from hermes_base.setting_table import read_settings
from hermes_base.text.foreign import ForeignText
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.tool_context import ToolContext
from tools.browser.client import browser_client
from tools.browser.launching import AS_ROOT
from tools.browser_tool import cleanup_browser
from tools.registry import registry

CHROMIUM = Path("/usr/bin/chromium")
CONFIG: Mapping[str, Any] = {"network": {"private": ["127.0.0.1", "localhost"]}, "browser": {"timeout": 20}}


class AskedRequest:
    def __init__(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> None:
        self.method, self.path, self.headers, self.body = method, path, headers, body


class Site(ThreadingHTTPServer):
    """Pages by path, and what was asked for them. A page is HTML, or a function that answers a request itself."""

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str = "127.0.0.1") -> None:
        super().__init__((host, 0), SiteHandler)
        self.host = host
        self.pages: dict[str, str | Callable[[Any], None]] = {}
        self.asked: list[AskedRequest] = []
        self.hold = threading.Event()  # what a page that hangs waits for

    @property
    def url(self) -> str:
        return f"http://{self.host}:{self.server_address[1]}"

    def paths(self) -> list[str]:
        return [one.path for one in self.asked if one.path != "/favicon.ico"]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A browser may go away at any time."""


class SiteHandler(BaseHTTPRequestHandler):
    server: Site
    protocol_version = "HTTP/1.1"

    def handle_any(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.server.asked.append(AskedRequest(self.command, self.path, headers, body))
        page = self.server.pages.get(self.path.partition("?")[0])
        if callable(page):
            page(self)
        elif page is None:
            self.answer("<title>Missing</title><p>There is no such page.</p>", 404)
        else:
            self.answer(page)

    do_GET = do_POST = do_HEAD = do_PUT = do_PATCH = do_DELETE = handle_any

    def answer(self, body: str | bytes, status: int = 200, kind: str = "text/html; charset=utf-8", **more: str) -> None:
        data = body.encode() if isinstance(body, str) else body
        self.send_response(status)
        for name, value in {"content-type": kind, "content-length": str(len(data)), **more}.items():
            self.send_header(name.replace("_", "-"), value)
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Tests look at what was asked."""


@contextmanager
def open_site(host: str = "127.0.0.1") -> Iterator[Site]:
    site = Site(host)
    thread = threading.Thread(target=site.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    try:
        yield site
    finally:
        site.hold.set()
        site.shutdown()
        thread.join()
        site.server_close()


class Surfer:
    """One task with its browser."""

    def __init__(self, folder: Path, config: Mapping[str, Any] | None = None, **context: Any) -> None:
        self.task = f"surf-{uuid.uuid4().hex[:8]}"
        self.folder = folder
        self.config = {**CONFIG, **(config or {})}
        self.asked: list[Question] = []
        self.answer = "deny"
        self.ask: Callable[[Question], str] = lambda _: self.answer
        self.cancel = CancelToken()
        self.foreign = ForeignText()
        self.shown = ""
        self.more = context

    def context(self) -> ToolContext:
        def ask(question: Question) -> Answer:
            self.asked.append(question)
            return Answer(self.ask(question))

        return ToolContext(
            task=self.task,
            folder=str(self.folder),
            settings=read_settings(self.config),
            cancel=self.cancel,
            foreign=self.foreign,
            asker=ask,
            **self.more,
        )

    def do(self, action: str, **args: Any) -> str:
        """What the model is given back; a failure begins with `failed: `."""
        result = registry.dispatch("browser", {"action": action, **args}, context=self.context())
        if result.startswith('{"error"'):
            return f"failed: {json.loads(result)['error']}"
        self.shown = result if "[" in result.partition("\n")[2] else self.shown
        return result

    def picture(self) -> bytes:
        parts = json.loads(self.do("screenshot"))["content"]
        return base64.b64decode(parts[1]["image_url"]["url"].partition(",")[2])

    def open(self, url: str) -> str:
        return self.do("open", url=url)

    def find(self, label: str, shown: str | None = None) -> int:
        """The number of the element with this label, as the page was shown last."""
        text = shown or self.shown
        for part in text.split("[")[1:]:
            number, _, rest = part.partition(" ")
            if number.isdigit() and label in rest.partition("]")[0]:
                return int(number)
        raise AssertionError(f"{label!r} is not in {text}")

    def click(self, label: str) -> str:
        return self.do("click", element=self.find(label))

    def close(self) -> None:
        cleanup_browser(self.task)


def need_browser() -> None:
    """Skips where there is no Chromium."""
    if not CHROMIUM.exists():
        assert "HERMES_TESTS_NEED_BROWSER" not in os.environ, f"there has to be a Chromium at {CHROMIUM}"
        pytest.skip(f"there is no Chromium at {CHROMIUM}")


@contextmanager
def browser_of_file() -> Iterator[None]:
    need_browser()
    before = os.environ.get(AS_ROOT)
    if os.geteuid() == 0:
        os.environ[AS_ROOT] = "1"
    try:
        yield
    finally:
        browser_client.close()
        if before is None:
            os.environ.pop(AS_ROOT, None)


def list_below(root: int) -> list[int]:
    """Processes below this one, which may be dead or not."""
    parents = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            try:
                tail = Path(f"/proc/{entry}/stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            if tail[0] != "Z":
                parents[int(entry)] = int(tail[1])
    found, waiting = [], [root]
    while waiting:
        parent = waiting.pop()
        below = [pid for pid, above in parents.items() if above == parent]
        found += below
        waiting += below
    return found


def wait_for(check: Callable[[], Any], seconds: float = 30.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := check()):
        assert time.monotonic() < deadline, "it did not come about"
        time.sleep(0.02)
    return found
