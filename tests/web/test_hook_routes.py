"""Requests below /hooks: who is asked, what is bounded, and that nothing else is reached by them."""

import asyncio
import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest
from waiting import wait_until
from web_house import WebHouse

from gateway.http import hook_routes
from gateway.platforms import platform_list
from gateway.platforms.face import BaseAdapter, Core, HookAnswer, HookRequest, Part, PlatformSpec
from hermes_lab.server import LabServer

SPEC = PlatformSpec("bell", "Bell", "", takes_hooks=True, max_hook_bytes=1000)


class BellAdapter(BaseAdapter):
    """Keeps what it is asked, and answers as the path says."""

    spec = SPEC
    made: dict[str, "BellAdapter"] = {}

    async def connect(self, core: Core) -> None:
        self.core = core
        self.asked: list[HookRequest] = []
        self.at_work = self.most_at_work = 0
        self.go_on = asyncio.Event()
        BellAdapter.made[self.account] = self

    async def disconnect(self) -> None: ...

    async def send(self, part: Part) -> str:
        return part.key

    async def receive_hook(self, request: HookRequest) -> HookAnswer:
        self.asked.append(request)
        if request.path == "break":
            raise RuntimeError("no clapper")
        if request.path == "wait":
            self.at_work += 1
            self.most_at_work = max(self.most_at_work, self.at_work)
            await self.go_on.wait()
            self.at_work -= 1
        status = int(request.path) if request.path.isdigit() else 200
        return HookAnswer(status, f"{request.method} {len(request.body)}")


@pytest.fixture
def house(tmp_path: Path, lab: LabServer) -> Iterator[WebHouse]:
    platform_list.register(SPEC, BellAdapter)
    mute = PlatformSpec("mute", "Mute", "")
    platform_list.register(mute, type("MuteAdapter", (BellAdapter,), {"spec": mute}))
    accounts = {"front": {}, "back": {}}
    platforms = {"bell": {"enabled": True, "accounts": accounts}, "mute": {"enabled": True}}
    try:
        with WebHouse(tmp_path / "home", lab.base_url, platforms=platforms) as running:
            yield running
    finally:
        platform_list.unregister("bell")
        platform_list.unregister("mute")


@pytest.fixture
def http(house: WebHouse) -> Iterator[httpx2.Client]:
    with httpx2.Client(base_url=house.url, timeout=30) as client:
        yield client


def test_an_account_is_asked_from_anywhere_under_any_name(http: httpx2.Client) -> None:
    headers = {
        "Host": "tunnel.example",
        "Origin": "https://elsewhere.example",
        "Sec-Fetch-Site": "cross-site",
        "X-A": "1",
    }
    answer = http.post("/hooks/bell/front/more/of it?a=1&b=", content=b" x \n", headers=headers)
    assert (answer.status_code, answer.text) == (200, "POST 4")
    (asked,) = BellAdapter.made["front"].asked
    assert (asked.method, asked.path, asked.body) == ("POST", "more/of it", b" x \n")
    assert (asked.headers["x-a"], asked.query) == ("1", {"a": "1", "b": ""})
    assert BellAdapter.made["back"].asked == []
    assert answer.headers["x-content-type-options"] == "nosniff"
    for method in ("GET", "PUT", "DELETE", "OPTIONS", "PATCH"):
        assert http.request(method, "/hooks/bell/back").status_code == 200
    assert http.head("/hooks/bell/back").content == b""


@pytest.mark.parametrize(
    "path", ["bell/nobody", "nothing/front", "web/web", "mute/mute", "bell", "", "bell/", "pretend/x", "bell/front%00"]
)
def test_who_is_not_there_is_not_told_of(http: httpx2.Client, path: str) -> None:
    answer = http.post(f"/hooks/{path}", content=b"x")
    assert (answer.status_code, answer.content) == (404, b"")


@pytest.mark.parametrize(
    "path",
    [
        *("/hooks/../web/threads", "/hooks/bell/front/../../../web/threads", "/hooks/..%2fweb/threads", "/hooks//web"),
        *("/hooks/%2e%2e/status", "/hooks/bell/../../status", "/hooks/./../v1/models", "/hooks/..;/web/threads"),
    ],
)
def test_nothing_else_is_reached_by_a_hook(house: WebHouse, path: str) -> None:
    """G11: the request goes as it is written, since clients would tidy it up."""
    with socket.create_connection(("127.0.0.1", house.port)) as sock:
        sock.sendall(f"GET {path} HTTP/1.1\r\nHost: tunnel.example\r\nConnection: close\r\n\r\n".encode())
        answer = b"".join(iter(lambda: sock.recv(65536), b""))
    head, _, body = answer.partition(b"\r\n\r\n")
    told_by_account = body == b"GET 0" and BellAdapter.made["front"].asked[-1].path.startswith("../")
    assert (head.startswith(b"HTTP/1.1 404") and not body) or told_by_account


@pytest.mark.parametrize(
    "path", ["/hooks", "/Hooks/bell/front", "//hooks/bell/front", "/web/../hooks/bell/front", "/hook/x"]
)
def test_everything_else_keeps_its_rules(house: WebHouse, path: str) -> None:
    """G11: neither another name nor a request without a login gets further than before."""
    for host, statuses in (("tunnel.example", {421}), (f"127.0.0.1:{house.port}", {401, 403, 404})):
        with socket.create_connection(("127.0.0.1", house.port)) as sock:
            sock.sendall(f"POST {path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
            answer = b"".join(iter(lambda: sock.recv(65536), b""))
        assert int(answer.split(b" ")[1]) in statuses
    assert BellAdapter.made["front"].asked == []


def test_a_body_that_is_too_large_is_not_read(house: WebHouse, http: httpx2.Client) -> None:
    assert http.post("/hooks/bell/front", content=b"x" * 1000).status_code == 200
    answer = http.post("/hooks/bell/front", content=b"x" * 1001)
    assert answer.status_code == 413
    assert "Nothing was kept" in answer.text
    pieces = (b"x" * 600 for _ in range(2))
    assert http.post("/hooks/bell/front", content=pieces).status_code == 413  # it does not say how long it is
    with socket.create_connection(("127.0.0.1", house.port)) as sock:  # answered although the body never comes
        sock.sendall(b"POST /hooks/bell/front HTTP/1.1\r\nHost: x\r\nContent-Length: 2000000\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 413")
    assert len(BellAdapter.made["front"].asked) == 1


def test_where_no_hook_is_expected_nothing_is_read(house: WebHouse) -> None:
    """An account that hears in another way is not there: it is answered although the body never comes."""
    BellAdapter.made["back"].expects_hooks = False
    with socket.create_connection(("127.0.0.1", house.port)) as sock:
        sock.sendall(b"POST /hooks/bell/back HTTP/1.1\r\nHost: x\r\nContent-Length: 900\r\n\r\n")
        assert sock.recv(100).startswith(b"HTTP/1.1 404")
    assert BellAdapter.made["back"].asked == []


def test_a_body_that_does_not_come_is_given_up(house: WebHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hook_routes, "BODY_SECONDS", 0.1)
    with socket.create_connection(("127.0.0.1", house.port)) as sock:
        sock.sendall(b"POST /hooks/bell/front HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\nabc")
        assert sock.recv(100).startswith(b"HTTP/1.1 408")
    assert BellAdapter.made["front"].asked == []


def test_what_was_not_taken_may_be_sent_again(http: httpx2.Client, caplog: pytest.LogCaptureFixture) -> None:
    for path in ("503", "429", "break"):
        assert int(http.post(f"/hooks/bell/front/{path}").headers["retry-after"]) > 0
    assert "retry-after" not in http.post("/hooks/bell/front/400").headers
    assert "no clapper" in caplog.text
    assert http.post("/hooks/bell/front/break").status_code == 503


def test_unsigned_requests_make_few_lines(http: httpx2.Client, caplog: pytest.LogCaptureFixture) -> None:
    for _ in range(20):
        answer = http.post("/hooks/bell/front/401", content=b"x")
        assert answer.status_code == 401
    assert caplog.text.count("not signed by it") == 1


def test_requests_at_once_are_bounded_for_each_account(house: WebHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """F1: many wait for their turn, too many are told to come later, and the other account is served meanwhile."""
    front = BellAdapter.made["front"]

    async def rush() -> list[int]:
        many = httpx2.Limits(max_connections=200)
        async with httpx2.AsyncClient(base_url=house.url, timeout=60, limits=many) as client:
            calls = [
                asyncio.create_task(client.post("/hooks/bell/front/wait")) for _ in range(hook_routes.MOST_OPEN + 6)
            ]
            done: set[asyncio.Task[httpx2.Response]] = set()
            while len(done) < 6:
                done, _ = await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED, timeout=0.05)
            assert (await client.post("/hooks/bell/back")).status_code == 200
            house.loop.call_soon_threadsafe(front.go_on.set)
            return [answer.status_code for answer in await asyncio.gather(*calls)]

    statuses = asyncio.run(rush())
    assert (statuses.count(503), statuses.count(200)) == (6, hook_routes.MOST_OPEN)
    assert front.most_at_work == hook_routes.MOST_AT_WORK


def begin_body(house: WebHouse, sent: bytes, length: int) -> socket.socket:
    sock = socket.create_connection(("127.0.0.1", house.port))
    sock.sendall(f"POST /hooks/bell/front HTTP/1.1\r\nHost: x\r\nContent-Length: {length}\r\n\r\n".encode() + sent)
    return sock


def test_who_sends_one_byte_and_waits_takes_no_place(house: WebHouse, http: httpx2.Client) -> None:
    """F1: as many of them as there are places, and the service is still served."""
    with contextlib.ExitStack() as slow:
        for _ in range(hook_routes.MOST_OPEN + 6):
            slow.enter_context(contextlib.closing(begin_body(house, b"a", 20)))
        assert http.post("/hooks/bell/back", content=b"x").status_code == 200
        for _ in range(5):
            assert http.post("/hooks/bell/front", content=b"x").status_code == 200


def test_bodies_that_are_not_ended_hold_little(
    house: WebHouse, http: httpx2.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """F1: where they are too large together, the oldest is given up, and what comes now is read."""
    monkeypatch.setattr(hook_routes, "MOST_HELD", 2500)
    with contextlib.ExitStack() as slow:
        begun = [slow.enter_context(contextlib.closing(begin_body(house, b"a" * 900, 1000))) for _ in range(3)]
        wait_until(lambda: any(is_told(sock, b"408") for sock in begun))
        assert http.post("/hooks/bell/front", content=b"x" * 900).status_code == 200
        assert http.post("/hooks/bell/front", content=b"x" * 900).status_code == 200


def is_told(sock: socket.socket, status: bytes) -> bool:
    sock.setblocking(False)
    try:
        return sock.recv(100, socket.MSG_PEEK).startswith(b"HTTP/1.1 " + status)
    except BlockingIOError:
        return False


def test_without_the_header_of_the_service_nothing_is_read(house: WebHouse, http: httpx2.Client) -> None:
    """G1: before the body comes."""
    front = BellAdapter.made["front"]
    front.hook_header = "x-bell"
    with contextlib.closing(begin_body(house, b"", 20)) as sock:
        assert sock.recv(100).startswith(b"HTTP/1.1 401")
    assert front.asked == []
    assert http.post("/hooks/bell/front", content=b"x", headers={"X-Bell": "1"}).status_code == 200


def test_a_service_may_ask_who_is_there(house: WebHouse, http: httpx2.Client) -> None:
    """G1: such a question is not signed, so nothing of its body is read."""
    front = BellAdapter.made["front"]
    front.hook_header = "x-bell"
    assert http.request("GET", "/hooks/bell/front?who=you", content=b"x").text == "GET 0"
    assert front.asked[-1].query == {"who": "you"}


def test_who_goes_away_leaves_nothing_behind(house: WebHouse, http: httpx2.Client) -> None:
    for _ in range(hook_routes.MOST_OPEN + 1):
        with contextlib.closing(socket.create_connection(("127.0.0.1", house.port))) as sock:
            sock.sendall(b"POST /hooks/bell/front HTTP/1.1\r\nHost: x\r\nContent-Length: 20\r\n\r\nabc")
    wait_until(lambda: http.post("/hooks/bell/front", content=b"x").status_code == 200)
