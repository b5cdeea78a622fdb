"""G8: the proxy of the browser, over real sockets: who may use it, where it connects, and what it says otherwise."""

import asyncio
import base64
import os
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from ipaddress import ip_address

import pytest

from hermes_net import filter_proxy, proxy_accounts
from hermes_net.address_rules import AddressRules, IpAddress, read_rules
from hermes_net.filter_proxy import FilterProxy
from hermes_net.proxy_accounts import USER, ConnectionShare, ProxyAccount

LOOPBACK = read_rules(["127.0.0.1", "mine.test"])
EVERYTHING = read_rules(["0.0.0.0/0", "::/0"])


class Target:
    """A server that keeps what it is sent, and answers as it is told."""

    def __init__(self, answer: bytes) -> None:
        self.answer, self.heard, self.port, self.calls = answer, b"", 0, 0
        self.account = ProxyAccount(LOOPBACK)  # whose password is shown

    async def take(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.calls += 1
        self.heard += await reader.readuntil(b"\r\n\r\n")
        with suppress(ConnectionError):
            writer.write(self.answer)
            await writer.drain()
            while piece := await reader.read(1000):
                self.heard += piece
        writer.close()


OK = b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nConnection: keep-alive\r\n\r\nhello"


@asynccontextmanager
async def serving(
    rules: AddressRules = LOOPBACK, answer: bytes = OK, names: dict[str, Sequence[str]] | None = None
) -> AsyncIterator[tuple[FilterProxy, Target]]:
    target = Target(answer)

    async def resolve(host: str, port: int) -> Sequence[IpAddress]:
        if host not in (names or {}):
            raise OSError("unknown")
        return [ip_address(one) for one in (names or {})[host]]

    proxy = FilterProxy(resolve)
    target.account = proxy.add_account(ProxyAccount(rules))
    server = await asyncio.start_server(target.take, "127.0.0.1", 0)
    target.port = server.sockets[0].getsockname()[1]
    await proxy.start()
    try:
        yield proxy, target
    finally:
        await proxy.stop()
        server.close()
        await server.wait_closed()


async def ask(
    proxy: FilterProxy, account: ProxyAccount, first: str, *fields: str, password: str | None = None, more: bytes = b""
) -> bytes:
    """Everything that the proxy answers to a request, until it closes or has said enough."""
    reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
    secret = base64.b64encode(f"{USER}:{account.password if password is None else password}".encode()).decode()
    lines = (f"{first} HTTP/1.1", f"Proxy-Authorization: Basic {secret}", *fields, "", "")
    writer.write("\r\n".join(lines).encode() + more)
    answer = b""
    async with asyncio.timeout(10):
        while piece := await reader.read(10_000):
            answer += piece
            if answer.endswith(b"hello"):
                break
    writer.close()
    await writer.wait_closed()
    return answer


def run(check: Callable[[FilterProxy, Target], object], **options: object) -> None:
    async def go() -> None:
        async with serving(**options) as (proxy, target):  # type: ignore[arg-type]
            await check(proxy, target)  # type: ignore[misc]

    asyncio.run(go())


def test_a_page_is_fetched_and_the_connection_carries_nothing_else() -> None:
    """The password goes no further, and both sides hear that nothing follows."""

    async def check(proxy: FilterProxy, target: Target) -> None:
        second = b"GET http://169.254.169.254/ HTTP/1.1\r\n\r\n"
        answer = await ask(proxy, target.account, f"GET http://127.0.0.1:{target.port}/a?b=c", "Accept: x", more=second)
        assert answer.startswith(b"HTTP/1.1 200 OK\r\n")
        assert answer.endswith(b"\r\nConnection: close\r\n\r\nhello")
        assert b"keep-alive" not in answer
        assert target.heard == b"GET /a?b=c HTTP/1.1\r\nAccept: x\r\nConnection: close\r\n\r\n"

    run(check)


def test_a_body_is_passed_on_as_long_as_it_says() -> None:
    async def check(proxy: FilterProxy, target: Target) -> None:
        await ask(proxy, target.account, f"POST http://127.0.0.1:{target.port}/", "Content-Length: 3", more=b"abcdef")
        assert target.heard.endswith(b"\r\n\r\nabc")
        body = b"3;x=y\r\nabc\r\n0\r\n\r\n"
        await ask(
            proxy,
            target.account,
            f"POST http://127.0.0.1:{target.port}/",
            "Transfer-Encoding: chunked",
            more=body + b"more",
        )
        assert target.heard.endswith(body)

    run(check, answer=b"HTTP/1.1 100 Continue\r\n\r\n" + OK)


def test_a_tunnel_is_opened() -> None:
    async def check(proxy: FilterProxy, target: Target) -> None:
        answer = await ask(proxy, target.account, f"CONNECT 127.0.0.1:{target.port}", more=b"GET / HTTP/1.1\r\n\r\n")
        assert answer == b"HTTP/1.1 200 Connection established\r\n\r\n" + OK

    run(check)


@pytest.mark.parametrize("password", ["", "wrong"])
@pytest.mark.parametrize("first", ["GET http://127.0.0.1:{port}/", "CONNECT 127.0.0.1:{port}"])
def test_nobody_uses_it_without_its_password(password: str, first: str) -> None:
    async def check(proxy: FilterProxy, target: Target) -> None:
        answer = await ask(proxy, target.account, first.format(port=target.port), password=password)
        assert answer.startswith(b"HTTP/1.1 407 ")
        assert b"Proxy-Authenticate: Basic" in answer
        assert target.calls == 0

    run(check)


def test_each_account_has_a_password_of_its_own() -> None:
    assert len({ProxyAccount(LOOPBACK).password for _ in range(10)}) == 10


METADATA = (
    *("169.254.169.254", "2852039166", "0xA9FEA9FE", "0251.0376.0251.0376", "[::ffff:169.254.169.254]"),
    *("[fd00:ec2::254]", "[64:ff9b::a9fe:a9fe]", "metadata.google.internal", "METADATA.google.internal."),
)


@pytest.mark.parametrize("host", METADATA)
@pytest.mark.parametrize("first", ["GET http://{host}/latest", "CONNECT {host}:443"])
def test_metadata_is_never_called(host: str, first: str) -> None:
    """G8: also where the settings allow everything; the answer says why."""

    async def check(proxy: FilterProxy, target: Target) -> None:
        answer = await ask(proxy, target.account, first.format(host=host))
        assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
        assert b"which is never called" in answer
        assert "never called" in target.account.explain(host)

    names = {name: ["93.184.216.34"] for name in ("metadata.google.internal", "metadata.google.internal.")}
    run(check, rules=EVERYTHING, names=names)


PRIVATE = ("127.0.0.2", "2130706434", "0177.2", "10.0.0.1", "192.168.0.1", "[::1]", "[fe80::1]", "[::ffff:10.0.0.1]")


@pytest.mark.parametrize("host", PRIVATE)
def test_private_addresses_need_the_setting(host: str) -> None:
    """G8"""

    async def check(proxy: FilterProxy, target: Target) -> None:
        answer = await ask(proxy, target.account, f"GET http://{host}:{target.port}/")
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"network.private" in answer
        assert (await ask(proxy, target.account, f"CONNECT {host}:{target.port}")).startswith(b"HTTP/1.1 403 ")
        assert target.calls == 0

    run(check)


def test_a_name_counts_for_where_it_leads_at_that_moment() -> None:
    """G8: a name that led to an allowed address leads to a private one the next time; one look-up each."""

    async def check() -> None:
        answers = [["127.0.0.1"], ["127.0.0.2"], ["127.0.0.1", "10.0.0.1"]]
        looked: list[str] = []

        async def resolve(host: str, port: int) -> Sequence[IpAddress]:
            looked.append(host)
            return [ip_address(one) for one in answers[len(looked) - 1]]

        target = Target(OK)
        target.account = ProxyAccount(read_rules(["127.0.0.1"]))
        server = await asyncio.start_server(target.take, "127.0.0.1", 0)
        port = server.sockets[0].getsockname()[1]
        proxy = FilterProxy(resolve)
        proxy.add_account(target.account)
        await proxy.start()
        first, second, third = [await ask(proxy, target.account, f"GET http://changes.test:{port}/") for _ in range(3)]
        await proxy.stop()
        server.close()
        await server.wait_closed()
        assert first.endswith(b"hello")
        assert second.startswith(b"HTTP/1.1 403 ")
        assert third.startswith(b"HTTP/1.1 403 "), "one private address among several refuses the name"
        assert looked == ["changes.test"] * 3
        assert target.calls == 1

    asyncio.run(check())


def test_an_allowed_name_may_be_private_and_an_unknown_one_leads_nowhere() -> None:
    async def check(proxy: FilterProxy, target: Target) -> None:
        assert (await ask(proxy, target.account, f"GET http://mine.test:{target.port}/")).endswith(b"hello")
        unknown = await ask(proxy, target.account, f"GET http://nowhere.test:{target.port}/")
        assert unknown.startswith(b"HTTP/1.1 502 ")
        assert b"is not known" in unknown
        closed = await ask(proxy, target.account, "GET http://127.0.0.1:1/")
        assert b"cannot be reached" in closed

    run(check, names={"mine.test": ["127.0.0.1"]})


@pytest.mark.parametrize(
    "first",
    ["GET /", "GET file:///etc/passwd", "GET https://127.0.0.1/", "CONNECT 127.0.0.1", "CONNECT :1", "GET http://a:b/"],
)
def test_what_is_no_request_for_a_proxy_is_refused(first: str) -> None:
    async def check(proxy: FilterProxy, target: Target) -> None:
        assert (await ask(proxy, target.account, first)).startswith(b"HTTP/1.1 400 ")

    run(check)


@pytest.mark.parametrize(
    "fields",
    [
        ("Content-Length: 3", "Transfer-Encoding: chunked"),
        ("Transfer-Encoding: gzip, chunked",),
        ("Content-Length: 3", "Content-Length: 4"),
        ("Content-Length: +3",),
    ],
)
def test_a_body_that_two_readers_would_read_differently_goes_nowhere(fields: tuple[str, ...]) -> None:
    async def check(proxy: FilterProxy, target: Target) -> None:
        await ask(
            proxy, target.account, f"POST http://127.0.0.1:{target.port}/", *fields, more=b"3\r\nabc\r\n0\r\n\r\n"
        )
        assert b"abc" not in target.heard

    run(check, answer=b"")


async def hold(proxy: FilterProxy, first: bytes, count: int) -> list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """Connections that begin to say something, and no more."""
    held = [await asyncio.open_connection("127.0.0.1", proxy.port) for _ in range(count)]
    for _, writer in held:
        writer.write(first)
        await writer.drain()
    return held


async def let_go(held: list[tuple[asyncio.StreamReader, asyncio.StreamWriter]]) -> None:
    for _, writer in held:
        writer.close()
    await asyncio.gather(*(writer.wait_closed() for _, writer in held), return_exceptions=True)


def test_a_head_is_bounded() -> None:
    async def check(proxy: FilterProxy, target: Target) -> None:
        held = await hold(proxy, b"GET / HTTP/1.1\r\nX: " + b"x" * (filter_proxy.HEAD_BYTES * 2) + b"\r\n\r\n", 1)
        assert (await held[0][0].read(12)).startswith(b"HTTP/1.1 400")
        await let_go(held)

    run(check)


@pytest.mark.parametrize("first", [b"", b"GET http://127.0.0.1/ HTTP/1.1\r\nAcc"])
def test_silent_strangers_are_in_nobodys_way(monkeypatch: pytest.MonkeyPatch, first: bytes) -> None:
    """Whoever says nothing, or half of a request, gives way to whoever comes, the oldest first."""
    monkeypatch.setattr(proxy_accounts, "MOST_CONNECTIONS", 8)

    async def check(proxy: FilterProxy, target: Target) -> None:
        held = await hold(proxy, first, 40)
        assert (await ask(proxy, target.account, f"GET http://127.0.0.1:{target.port}/")).endswith(b"hello")
        async with asyncio.timeout(10):
            for reader, _ in held[:32]:
                with suppress(ConnectionError):  # it was closed with what it had said unread
                    assert await reader.read() == b""
        await let_go(held)

    run(check)


def test_one_account_never_takes_the_connections_of_another(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tunnels that nobody uses fill the account that opened them; the others go on."""
    monkeypatch.setattr(proxy_accounts, "MOST_CONNECTIONS", 4)

    async def check(proxy: FilterProxy, target: Target) -> None:
        other = proxy.add_account(ProxyAccount(LOOPBACK))
        first = f"CONNECT 127.0.0.1:{target.port} HTTP/1.1\r\nProxy-Authorization: Basic "
        secret = base64.b64encode(f"{USER}:{other.password}".encode())
        held = await hold(proxy, first.encode() + secret + b"\r\n\r\n", 4)
        for reader, _ in held:
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200 ")
        assert (await ask(proxy, other, f"GET http://127.0.0.1:{target.port}/")).startswith(b"HTTP/1.1 503 ")
        assert (await ask(proxy, target.account, f"GET http://127.0.0.1:{target.port}/")).endswith(b"hello")
        proxy.drop_account(other)
        async with asyncio.timeout(10):
            assert [await reader.read() for reader, _ in held] == [b""] * 4
        assert (await ask(proxy, other, f"GET http://127.0.0.1:{target.port}/")).startswith(b"HTTP/1.1 407 ")
        await let_go(held)

    run(check)


def test_when_descriptors_run_short_whoever_has_most_gives_way() -> None:
    async def check(proxy: FilterProxy, target: Target) -> None:
        proxy._most_open = 6
        held = await hold(proxy, b"", 30)
        assert (await ask(proxy, target.account, f"GET http://127.0.0.1:{target.port}/")).endswith(b"hello")
        await let_go(held)

    run(check)


def test_names_that_nobody_answers_for_hold_up_their_own_account_alone() -> None:
    """A look-up holds a thread also when nobody waits for it any more: it counts until it has ended."""

    async def check() -> None:
        never, share, other = asyncio.Event(), ConnectionShare(), ConnectionShare()
        running = 0

        async def resolve(host: str, port: int) -> Sequence[IpAddress]:
            nonlocal running
            running += 1
            if host == "slow.test":
                await never.wait()
            return [ip_address("127.0.0.1")]

        slow = [asyncio.ensure_future(share.look_up(resolve, "slow.test", 1)) for _ in range(20)]
        await asyncio.sleep(0)
        for each in slow[:10]:
            each.cancel()
        assert await other.look_up(resolve, "fast.test", 1)
        assert running == proxy_accounts.MOST_LOOKUPS + 1
        never.set()
        await asyncio.gather(*slow, return_exceptions=True)
        assert await share.look_up(resolve, "fast.test", 1)

    asyncio.run(check())


def test_what_was_refused_is_told_to_whoever_asked_for_it() -> None:
    """G8: another user of the proxy hears nothing of it."""

    async def check(proxy: FilterProxy, target: Target) -> None:
        told: list[str] = []
        other = proxy.add_account(ProxyAccount(LOOPBACK, told=told.append))
        await ask(proxy, other, "GET http://10.0.0.1/")
        assert (other.refusals, target.account.refusals) == (1, 0)
        assert target.account.explain("10.0.0.1") == target.account.explain_last() == ""
        assert other.explain("10.0.0.1") == other.explain_last() == told[0]

    run(check)


def test_a_reader_that_takes_nothing_is_let_go(monkeypatch: pytest.MonkeyPatch) -> None:
    """A half that is never read holds no descriptor for good."""
    monkeypatch.setattr(filter_proxy, "CONNECT_SECONDS", 0.2)
    monkeypatch.setattr(filter_proxy, "SILENT_SECONDS", 0.2)

    async def check(proxy: FilterProxy, target: Target) -> None:
        before = len(os.listdir("/proc/self/fd"))
        _, writer = await asyncio.open_connection("127.0.0.1", proxy.port, limit=1)
        secret = base64.b64encode(f"{USER}:{target.account.password}".encode()).decode()
        head = f"GET http://127.0.0.1:{target.port}/ HTTP/1.1\r\nProxy-Authorization: Basic {secret}\r\n\r\n"
        writer.write(head.encode())
        async with asyncio.timeout(10):
            while not target.calls:  # noqa: ASYNC110 - as below
                await asyncio.sleep(0.02)
            while len(os.listdir("/proc/self/fd")) > before + 1:  # noqa: ASYNC110 - ours is left; nobody tells of theirs
                await asyncio.sleep(0.02)
        writer.close()
        await asyncio.gather(writer.wait_closed(), return_exceptions=True)

    run(check, answer=b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n" + b"x" * 40_000_000)


def test_silence_ends_a_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before a request, and in the middle of an answer that never goes on."""
    monkeypatch.setattr(filter_proxy, "HEAD_SECONDS", 0.2)
    monkeypatch.setattr(filter_proxy, "SILENT_SECONDS", 0.2)

    async def check(proxy: FilterProxy, target: Target) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", proxy.port)
        async with asyncio.timeout(10):
            assert await reader.read() == b""
        writer.close()
        await writer.wait_closed()
        answer = await ask(proxy, target.account, f"GET http://127.0.0.1:{target.port}/")
        assert answer.endswith(b"\r\n\r\nhell")

    run(check, answer=OK[:-1])


def test_heads_before_an_answer_are_held_back_like_everything_else() -> None:
    """Whoever does not read them does not have them kept here: of those there may be any number."""
    sent = 0

    async def tell(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        await reader.readuntil(b"\r\n\r\n")
        piece = b"HTTP/1.1 100 Continue\r\nX: " + b"x" * 60_000 + b"\r\n\r\n"
        with suppress(OSError):
            while sent < 100_000_000:
                writer.write(piece)
                await writer.drain()
                sent += len(piece)

    async def check(proxy: FilterProxy, target: Target) -> None:
        async with await asyncio.start_server(tell, "127.0.0.1", 0) as server:
            port = server.sockets[0].getsockname()[1]
            _, writer = await asyncio.open_connection("127.0.0.1", proxy.port, limit=1000)
            secret = base64.b64encode(f"{USER}:{target.account.password}".encode()).decode()
            first = f"GET http://127.0.0.1:{port}/ HTTP/1.1\r\nProxy-Authorization: Basic {secret}\r\n\r\n"
            writer.write(first.encode())
            before = -1
            async with asyncio.timeout(20):
                while sent != before or not sent:
                    before = sent
                    await asyncio.sleep(0.3)
            assert sent < 50_000_000
            writer.transport.abort()

    run(check)
