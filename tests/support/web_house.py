"""A gateway on a thread of the test with its page served on loopback, and browsers of the simplest kind: they log in,
send, and read the live stream."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import quote

import httpx2
from waiting import wait_until

from gateway.app.foreground import open_page
from gateway.app.socket_door import open_socket
from gateway.http.server import HttpServer
from gateway.service.gateway import Gateway
from hermes_lab.ports import free_ports
from hermes_state.home_lock import HomeLock

T = TypeVar("T")
PATIENCE = 30.0


class WebHouse:
    """One home; its gateway and its page start and stop, at the same port each time."""

    def __init__(self, home: Path, base_url: str, **settings: Any) -> None:
        self.home = home
        self.port = find_free_port()
        self.base_url = base_url
        self.write_settings(**settings)
        self._visitors: list[Visitor] = []

    def write_settings(self, **settings: Any) -> None:
        """The settings file; sections of `settings` stand in the place of ours."""
        self.home.mkdir(parents=True, exist_ok=True)
        model = {"base_url": self.base_url, "default": "lab"}
        web = {"port": self.port, **settings.pop("web", {})}
        written = {"model": model, "approvals": {"mode": "auto"}, "web": web, **settings}
        (self.home / "config.yaml").write_text(json.dumps(written))

    # --- life

    def start(self) -> None:
        self._ready = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE), "the gateway did not start"
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        for visitor in self._visitors:
            visitor.close()
        self._visitors.clear()
        if self._thread.is_alive():
            self.loop.call_soon_threadsafe(self.gateway.shut_down, "the test stops it")
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the gateway did not end"

    def __enter__(self) -> "WebHouse":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            with HomeLock(self.home):
                asyncio.run(self._serve())
        except BaseException as problem:  # the thread's top: the test gets it
            self._problem = problem
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.gateway = Gateway(self.home)
        await self.gateway.start()
        await open_socket(self.gateway)
        self.server: HttpServer | None = await open_page(self.gateway)
        self._ready.set()
        await self.gateway.wait_closed()

    # --- from the test's thread

    @property
    def address(self) -> str:
        """With the token."""
        assert self.server is not None, "the page is not served"
        return self.server.address

    @property
    def url(self) -> str:
        """Without a slash at the end."""
        return f"http://127.0.0.1:{self.port}"

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self.loop).result(PATIENCE)

    def visit(self, **headers: str) -> "Visitor":
        """Somebody who came by the printed address."""
        self._visitors.append(visitor := Visitor(self.url, headers))
        assert visitor.http.get(self.address).status_code == 303
        return visitor

    def stranger(self, **headers: str) -> httpx2.Client:
        """Somebody without a cookie."""
        self._visitors.append(visitor := Visitor(self.url, headers))
        return visitor.http

    def watchers(self) -> int:
        web = next(adapter for adapter in self.gateway.adapters if adapter.spec.name == "web")
        return int(web.hub.count())  # type: ignore[attr-defined]

    def wait_quiet(self) -> None:
        wait_until(lambda: self.gateway.turns.depth() == (0, 0) and not self.gateway.lanes.at_work, 60)


class Visitor:
    """A browser without a screen."""

    def __init__(self, url: str, headers: dict[str, str]) -> None:
        self.url = url
        self.http = httpx2.Client(base_url=url, headers={"Origin": url, **headers}, timeout=PATIENCE)
        self._streams: list[Stream] = []
        self._said = 0

    def close(self) -> None:
        for stream in self._streams:
            stream.close()
        self.http.close()

    def get(self, path: str, status: int = 200) -> Any:
        return _read(self.http.get(path), status)

    def post(self, path: str, status: int = 200, **fields: Any) -> Any:
        return _read(self.http.post(path, json=fields), status)

    def open(self) -> str:
        """A new conversation."""
        return str(self.post("/web/threads")["conversation"])

    def say(self, conversation: str, text: str, **fields: Any) -> int:
        self._said += 1
        id = fields.pop("id", f"{id_of(self)}-{self._said}")
        return int(self.post("/web/say", conversation=conversation, id=id, text=text, **fields)["seq"])

    def watch(self, conversation: str) -> "Stream":
        self._streams.append(stream := Stream(self.http, conversation))
        return stream


def id_of(visitor: Visitor) -> str:
    return f"v{id(visitor):x}"


class Stream:
    """The live view of a conversation, read on a thread of its own and kept as a page would keep it."""

    def __init__(self, http: httpx2.Client, conversation: str) -> None:
        self.events: list[dict[str, Any]] = []
        self.comments = 0
        self.ended = threading.Event()
        self.state = PageState()
        self._http = http
        self._conversation = conversation
        self._response: httpx2.Response | None = None
        threading.Thread(target=self._read, daemon=True).start()
        wait_until(lambda: bool(self.events) or self.ended.is_set())

    def _read(self) -> None:
        try:
            with self._http.stream("GET", f"/web/live?conversation={quote(self._conversation)}", timeout=60) as answer:
                self._response = answer
                assert answer.status_code == 200, answer.read()
                for line in answer.iter_lines():
                    self._take(line)
        except (httpx2.TransportError, httpx2.StreamError, RuntimeError, ValueError):
            pass  # it was closed, from here or from there
        finally:
            self.ended.set()

    def _take(self, line: str) -> None:
        if line.startswith("data: "):
            event = json.loads(line[6:])
            self.state.take(event)
            self.events.append(event)
        elif line.startswith(":"):
            self.comments += 1

    def close(self) -> None:
        if self._response is not None:
            shut(self._response)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in list(self.events) if event["type"] == kind]

    def wait_for(self, kind: str, count: int = 1) -> dict[str, Any]:
        wait_until(lambda: len(self.of(kind)) >= count, PATIENCE)
        return self.of(kind)[count - 1]

    def wait_until(self, is_true: Callable[["PageState"], bool]) -> None:
        wait_until(lambda: is_true(self.state), PATIENCE)


class PageState:
    """What a page shows after the events that it got, by the rules of the protocol."""

    def __init__(self) -> None:
        self.entries: list[dict[str, Any]] = []
        self.waiting: dict[int, str] = {}
        self.live: dict[str, Any] | None = None
        self.question: dict[str, Any] | None = None
        self.thread: dict[str, Any] | None = None
        self.notices: list[str] = []

    def texts(self, *kinds: str) -> list[str]:
        return [entry["text"] for entry in list(self.entries) if not kinds or entry["kind"] in kinds]

    @property
    def live_text(self) -> str:
        live = self.live
        return live["text"] + live["open"]["text"] if live else ""

    def take(self, event: dict[str, Any]) -> None:
        getattr(self, f"_take_{event['type']}", lambda _: None)(event)

    def _take_snapshot(self, event: dict[str, Any]) -> None:
        self.entries = list(event["entries"])
        self.waiting = {message["seq"]: message["text"] for message in event["waiting"]}
        self.live, self.question, self.thread = event["live"], event["question"], event["thread"]

    def _take_heard(self, event: dict[str, Any]) -> None:
        self.waiting = {**self.waiting, event["seq"]: event["text"]}

    def _take_begun(self, event: dict[str, Any]) -> None:
        nothing = {"text": "", "reasoning": ""}
        self.live = {"seqs": event["seqs"], **nothing, "tools": [], "open": nothing}

    def _take_text(self, event: dict[str, Any]) -> None:
        if self.live is not None:
            open = self.live["open"]
            gap = "\n\n" if self.live["text"] and not open["text"] else ""
            self.live = {**self.live, "open": {**open, "text": open["text"] + gap + event["text"]}}

    def _take_text_ended(self, event: dict[str, Any]) -> None:
        if self.live is not None:
            stays = self.live["open"]["text"] if event["kept"] else ""
            self.live = {**self.live, "text": self.live["text"] + stays, "open": {"text": "", "reasoning": ""}}

    def _take_notice(self, event: dict[str, Any]) -> None:
        self.notices.append(event["text"])

    def _take_asked(self, event: dict[str, Any]) -> None:
        self.question = event["question"]

    def _take_note(self, event: dict[str, Any]) -> None:
        self._add([event["entry"]])

    def _take_settled(self, event: dict[str, Any]) -> None:
        self._add(event["entries"])
        self.waiting = {seq: text for seq, text in self.waiting.items() if seq not in event["seqs"]}
        self.thread = event["thread"]
        if self.live is not None and not set(self.live["seqs"]).isdisjoint(event["seqs"]):
            self.live = None

    def _add(self, entries: list[dict[str, Any]]) -> None:
        """One that is there already moves to its right place."""
        ids = {entry["id"] for entry in entries}
        self.entries = [*(entry for entry in self.entries if entry["id"] not in ids), *entries]


def _read(answer: httpx2.Response, status: int) -> Any:
    assert answer.status_code == status, (answer.status_code, answer.text)
    return answer.json() if answer.content and "json" in answer.headers.get("content-type", "") else answer.text


def shut(response: httpx2.Response) -> None:
    """Close the connection under a response that another thread reads."""
    stream = response.extensions.get("network_stream")
    sock = stream.get_extra_info("socket") if stream is not None else None
    if sock is not None:
        try:
            sock.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is closed already


def find_free_port() -> int:
    return free_ports(1)[0]
