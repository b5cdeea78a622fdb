"""The page and the API: how soon they are there, what they weigh, and how late an answer's first piece arrives.

The model's part is played by a server in this process, so that both ends of an answer are read off one clock.
"""

import asyncio
import contextlib
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from benches.measure import Figure
from hermes_constants import WEB_TOKEN_FILE

HERMES = str(Path(sys.executable).with_name("hermes"))
CHROMIUM = Path("/usr/bin/chromium")
CHROMIUM_FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
CLIENTS, SPREAD_SECONDS, THINKING_SECONDS = 50, 5.0, 0.3
STARTS = 5
NOBODY = "http://127.0.0.1:9/v1"  # a remote provider that is configured and not asked
_ADDRESS = re.compile(r"The page: (http://[^/]+)/")


def measure_web() -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        starts = [measure_start(place / f"start-{n}") for n in range(STARTS)]
        return [
            Figure("from the command to /ready", statistics.median(ready for ready, _ in starts), "s", 0.7, 1.0),
            Figure("idle, one remote provider configured: RSS", max(rss for _, rss in starts), "MB", 90),
            *asyncio.run(measure_first_pieces(place / "pieces")),
            *measure_page(place / "page"),
        ]


@dataclass(frozen=True, slots=True)
class Served:
    address: str
    token: str
    pid: int
    since_start: float  # seconds from the command to /ready


@contextlib.contextmanager
def serve(home: Path, base_url: str, **settings: Any) -> Iterator[Served]:
    """`hermes gateway run`, from the command until `/ready` answers."""
    home.mkdir(parents=True)
    model = {"base_url": base_url, "default": "bench"}
    config = {"model": model, "titles": {"enabled": False}, "web": {"port": 0}, **settings}
    (home / "config.yaml").write_text(json.dumps(config))
    begun = time.monotonic()
    child = subprocess.Popen(
        [HERMES, "gateway", "run"], stdout=subprocess.PIPE, text=True, env={**os.environ, "HERMES_HOME": str(home)}
    )
    try:
        assert child.stdout is not None
        found = next(found for line in child.stdout if (found := _ADDRESS.search(line)))
        while not is_ready(found[1]):
            time.sleep(0.005)
        seconds = time.monotonic() - begun
        token = (home / WEB_TOKEN_FILE).read_text("ascii").strip()  # a pipe is not told
        yield Served(found[1], token, child.pid, seconds)
    finally:
        child.terminate()
        child.wait(30)


def is_ready(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/ready", timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def measure_start(home: Path) -> tuple[float, float]:
    """Seconds to /ready, and megabytes once what loads behind it is there."""
    with serve(home, NOBODY) as served:
        time.sleep(3)
        status = Path(f"/proc/{served.pid}/status").read_text()
        kilobytes = re.search(r"VmRSS:\s+(\d+)", status)
        assert kilobytes is not None
        return served.since_start, int(kilobytes[1]) / 1024


# --- the first piece of a streamed answer


@dataclass(slots=True)
class Model:
    """A model server that notes when it sent the first piece of each answer."""

    sent: dict[str, float] = field(default_factory=dict)

    @contextlib.asynccontextmanager
    async def listen(self) -> AsyncIterator[str]:
        server = await asyncio.start_server(self._answer, "127.0.0.1", 0)
        async with server:
            yield f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"

    async def _answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                await self._answer_one(reader, writer)

    async def _answer_one(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = (await reader.readuntil(b"\r\n\r\n")).lower()
        length = re.search(rb"content-length: (\d+)", head)
        body = await reader.readexactly(int(length[1]) if length else 0)
        asked = re.findall(r"client-\d+", body.decode())[-1]
        writer.write(b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n")
        await writer.drain()
        await asyncio.sleep(THINKING_SECONDS)
        self.sent[asked] = time.perf_counter()
        for piece in ({"content": "first"}, {"content": " second"}):
            _write_chunk(writer, {"choices": [{"index": 0, "delta": piece, "finish_reason": None}]})
            await writer.drain()
            await asyncio.sleep(0.05)
        _write_chunk(writer, {"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
        writer.write(b"e\r\ndata: [DONE]\n\n\r\n0\r\n\r\n")
        await writer.drain()


def _write_chunk(writer: asyncio.StreamWriter, more: dict[str, Any]) -> None:
    whole = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "bench", **more}
    line = f"data: {json.dumps(whole)}\n\n".encode()
    writer.write(f"{len(line):x}\r\n".encode() + line + b"\r\n")


async def measure_first_pieces(home: Path) -> list[Figure]:
    """The median delay that the house adds, over clients who come one after the other."""
    model = Model()
    async with model.listen() as base_url:
        loop = asyncio.get_running_loop()
        opened = serve(home, base_url)
        served = await loop.run_in_executor(None, opened.__enter__)
        try:
            await ask(served, "client-0")  # what is loaded at the first answer is loaded
            arrived = await asyncio.gather(*(come(served, number) for number in range(1, CLIENTS + 1)))
        finally:
            await loop.run_in_executor(None, opened.__exit__, None, None, None)
    delays = [1000 * (at - model.sent[name]) for name, at in arrived]
    name = f"{CLIENTS} clients: first piece, after the model's, median"
    return [Figure(name, statistics.median(delays), "ms", 15.0)]


async def come(served: Served, number: int) -> tuple[str, float]:
    await asyncio.sleep(SPREAD_SECONDS * number / CLIENTS)
    name = f"client-{number}"
    return name, await ask(served, name)


async def ask(served: Served, text: str) -> float:
    """Ask over the API; when the first piece of the answer came."""
    host, _, port = served.address.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    body = json.dumps({"model": "hermes", "stream": True, "messages": [{"role": "user", "content": text}]}).encode()
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}:{port}\r\nAuthorization: Bearer {served.token}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    writer.write(head.encode() + body)
    while b'"content":"first' not in (await reader.readline()).replace(b'": "', b'":"'):
        pass
    arrived = time.perf_counter()
    await reader.read()
    writer.close()
    return arrived


# --- the page in a browser


def measure_page(home: Path) -> list[Figure]:
    """Bytes over the wire and the time until one can type, in headless Chromium; nothing where there is none."""
    if not CHROMIUM.exists():
        print("The page is not measured: there is no Chromium here.", file=sys.stderr)
        return []
    # Only this one needs it, and it is slow to load.
    from playwright.sync_api import sync_playwright  # noqa: PLC0415

    with serve(home, NOBODY) as served, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=CHROMIUM_FLAGS)
        loads = [load_page(browser, served) for _ in range(STARTS)]
        browser.close()
    return [
        Figure("the page without a formula, over the wire", max(size for size, _ in loads), "KB", 150),
        Figure("the page can be typed into after", statistics.median(ready for _, ready in loads), "s", 1.0),
    ]


def load_page(browser: Any, served: Served) -> tuple[float, float]:
    """Kilobytes received and seconds from the navigation to a composer that takes text, with an empty cache."""
    context = browser.new_context()
    page = context.new_page()
    received: list[int] = []
    wire = context.new_cdp_session(page)
    wire.send("Network.enable")
    wire.on("Network.loadingFinished", lambda event: received.append(int(event["encodedDataLength"])))
    page.goto(f"{served.address}/?token={served.token}", wait_until="commit")
    page.locator("textarea:enabled").first.wait_for()
    seconds = float(page.evaluate("performance.now()")) / 1000
    page.wait_for_timeout(500)
    context.close()
    return sum(received) / 1024, seconds
