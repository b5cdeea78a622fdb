"""An HTTP proxy on loopback that lets programs call only what `address_rules` allow, judged when it connects (G8).

Whoever uses it has an account: known by its password, which is made anew for each, or by the socket that it comes
through. A name is looked up here, once, and the connection goes to exactly the address that was judged. Each connection
carries one exchange or one tunnel; connections, look-ups, heads and silence are bounded for each account, so that none
is in the way of another. What is refused gets a page that says why.
"""

import asyncio
import html
import logging
import resource
import socket
from collections.abc import Awaitable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from http import HTTPStatus
from types import MappingProxyType
from urllib.parse import urlsplit

from hermes_net.address_rules import AddressRules
from hermes_net.call_values import AddressRefused, Resolve
from hermes_net.lookup import find_addresses, look_up
from hermes_net.proxy_accounts import USER, ProxyAccount

log = logging.getLogger(__name__)

WIDEST_DESCRIPTORS, LOOKUP_THREADS = 65_536, 64
SPARE_DESCRIPTORS = 128  # for everything else that the process has open
HEAD_BYTES = 64 * 1024
PIECE_BYTES = 64 * 1024
HEAD_SECONDS = 60.0  # a browser opens connections ahead, and uses them later or never
CONNECT_SECONDS = 20.0
SILENT_SECONDS = 600.0  # without a byte in either direction
LINGER_SECONDS = 30.0  # for one direction, when the other has ended
UNREAD_SECONDS = 2.0
HTTP_PORT = 80
#: Fields that hold between two neighbours: they are not passed on.
_HOP_FIELDS = frozenset(
    {"connection", "proxy-connection", "proxy-authorization", "proxy-authenticate", "keep-alive", "te", "upgrade"}
)
_ESTABLISHED = b"HTTP/1.1 200 Connection established\r\n\r\n"
TOO_MANY = "Too many connections are open."
_ASKS_PASSWORD = MappingProxyType({"Proxy-Authenticate": 'Basic realm="hermes"'})


class BadMessage(Exception):
    """What came is no HTTP that is passed on."""


@dataclass(frozen=True, slots=True)
class MessageHead:
    """The first line of a request or an answer, in its three parts, and its fields."""

    start: tuple[str, str, str]
    fields: tuple[tuple[str, str], ...]

    def get(self, name: str) -> str:
        """All values of a field, with commas between them."""
        return ", ".join(value for known, value in self.fields if known.lower() == name)

    def write(self, start: str) -> bytes:
        """The head for the next neighbour, who is told that nothing follows this exchange."""
        passed = [f"{name}: {value}" for name, value in self.fields if name.lower() not in _HOP_FIELDS]
        return "\r\n".join((start, *passed, "Connection: close", "", "")).encode("latin-1")


def read_head(data: bytes) -> MessageHead:
    """The head of a message; BadMessage for what two readers might read differently."""
    first, *lines = data.decode("latin-1").removesuffix("\r\n\r\n").split("\r\n")
    words = first.split(" ", 2)
    fields = []
    for line in lines:
        name, colon, value = line.partition(":")
        if not colon or not name or name != name.strip() or any(sign in line for sign in "\r\n\0"):
            raise BadMessage("a field that is none")
        fields.append((name, value.strip()))
    if len(words) < 2 or not (words[0].startswith("HTTP/") or words[-1].startswith("HTTP/1.")):
        raise BadMessage("a first line that is none")
    return MessageHead((words[0], words[1], words[2] if len(words) > 2 else ""), tuple(fields))


def read_target(head: MessageHead) -> tuple[str, int, str]:
    """Host, port and path that a request asks for; the path is empty for a tunnel."""
    method, target, _ = head.start
    is_tunnel = method == "CONNECT"
    try:
        parts = urlsplit(f"//{target}" if is_tunnel else target)
        host, port = parts.hostname or "", parts.port
    except ValueError as error:
        raise BadMessage("an address that is none") from error
    if not host or (is_tunnel and port is None) or (not is_tunnel and parts.scheme != "http"):
        raise BadMessage("an address that is none")
    path = "" if is_tunnel else (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    return host, port or HTTP_PORT, path


def write_page(status: HTTPStatus, text: str, **fields: str) -> bytes:
    """A whole answer of the proxy's own: a plain page with one sentence."""
    title = html.escape(status.phrase)
    body = f"<!doctype html><title>{title}</title><h1>{title}</h1><p>{html.escape(text)}</p>\n".encode()
    known = {
        **fields,
        "Content-Type": "text/html; charset=utf-8",
        "Content-Length": str(len(body)),
        "Cache-Control": "no-store",
        "Connection": "close",
    }
    lines = [f"HTTP/1.1 {status.value} {status.phrase}", *(f"{name}: {value}" for name, value in known.items())]
    return "\r\n".join((*lines, "", "")).encode() + body


class FilterProxy:
    """Listens while it is started; belongs to the event loop that started it."""

    def __init__(self, resolve: Resolve = look_up) -> None:
        self.port = 0
        self._resolve = resolve
        self._server: asyncio.Server | None = None
        self._strangers = ProxyAccount(AddressRules())  # whoever has shown no password yet
        self._accounts: list[ProxyAccount] = []
        self._open: dict[asyncio.Task[None], ProxyAccount] = {}
        self._most_open = max(1, (resource.getrlimit(resource.RLIMIT_NOFILE)[0] - SPARE_DESCRIPTORS) // 2)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    async def start(self) -> None:
        """Listen on loopback, for those who know the password of an account."""
        self._server = await asyncio.start_server(
            partial(self._take, self._strangers), "127.0.0.1", 0, limit=HEAD_BYTES
        )
        self.port = self._server.sockets[0].getsockname()[1]

    def add_account(self, account: ProxyAccount) -> ProxyAccount:
        """From now on its password is known."""
        self._accounts.append(account)
        return account

    def drop_account(self, account: ProxyAccount) -> None:
        """Its password is worth nothing any more, and its connections end."""
        if account in self._accounts:
            self._accounts.remove(account)
        for task, owner in self._open.items():
            if owner is account:
                task.cancel()

    async def listen_for(self, account: ProxyAccount, listener: socket.socket) -> asyncio.Server:
        """Whoever comes through this socket is of the account; no password is asked for."""
        return await asyncio.start_server(partial(self._take, account), sock=listener, limit=HEAD_BYTES)

    async def stop(self) -> None:
        """Close everything that is open, and listen no more."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)

    # --- one connection

    async def _take(self, account: ProxyAccount, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if len(self._open) >= self._most_open:
            max((owner.share for owner in self._open.values()), key=len).drop_oldest()  # whoever has most gives way
        if not account.share.admit(task):
            writer.write(write_page(HTTPStatus.SERVICE_UNAVAILABLE, TOO_MANY))
            writer.close()  # so short a page needs no waiting
            return
        self._open[task] = account
        try:
            await self._serve(account, reader, writer)
            await _close(writer)
        except asyncio.CancelledError:
            log.debug("a connection gave way, or was open when the proxy ended")
        except (OSError, EOFError, TimeoutError, BadMessage, asyncio.LimitOverrunError) as error:
            log.debug("a connection of the proxy ended: %s", type(error).__name__)
        finally:
            writer.transport.abort()  # nothing more, if it is closed; nothing of it is left, if not
            self._open.pop(task).share.leave(task)

    async def _serve(self, account: ProxyAccount, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with asyncio.timeout(HEAD_SECONDS):
            found = await self._read_request(account, reader)
        if isinstance(found, bytes):
            await _say(found, reader, writer)
            return
        account, head, (host, port, path) = found
        if not self._move_in(account):
            await _say(write_page(HTTPStatus.SERVICE_UNAVAILABLE, TOO_MANY), reader, writer)
            return
        connected = await self._connect(account, host, port)
        if isinstance(connected, bytes):
            await _say(connected, reader, writer)
            return
        far_reader, far_writer = connected
        try:
            if not path:
                writer.write(_ESTABLISHED)
                await _join((reader, far_writer), (far_reader, writer))
            else:
                await _exchange(head, path, (reader, writer), (far_reader, far_writer))
            await _close(far_writer)
        finally:
            far_writer.transport.abort()

    async def _read_request(
        self, account: ProxyAccount, reader: asyncio.StreamReader
    ) -> tuple[ProxyAccount, MessageHead, tuple[str, int, str]] | bytes:
        """The request with whose it is and with host, port and path, or the page that refuses it."""
        try:
            head = read_head(await reader.readuntil(b"\r\n\r\n"))
            given = head.get("proxy-authorization").encode("latin-1", "replace")
            if account is self._strangers:
                account = next((each for each in self._accounts if each.is_shown_by(given)), account)
            if account is not self._strangers:
                return account, head, read_target(head)
        except (BadMessage, asyncio.LimitOverrunError):
            return write_page(HTTPStatus.BAD_REQUEST, "This is no request that a proxy takes.")
        text = "This proxy is for programs of Hermes alone."
        return write_page(HTTPStatus.PROXY_AUTHENTICATION_REQUIRED, text, **_ASKS_PASSWORD)

    def _move_in(self, account: ProxyAccount) -> bool:
        """The connection has asked for something: it counts as its account's; False: that has too many."""
        task = asyncio.current_task()
        assert task is not None
        self._open[task].share.leave(task)
        self._open[task] = account
        return account.share.take_over(task)

    async def _connect(
        self, account: ProxyAccount, host: str, port: int
    ) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | bytes:
        """A connection to an address that was judged, or the page that says why there is none."""
        resolve = partial(account.share.look_up, self._resolve)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                for address in await find_addresses(host, port, account.rules, resolve):
                    with suppress(OSError):
                        return await asyncio.open_connection(str(address), port, limit=HEAD_BYTES)
        except AddressRefused as refusal:
            account.note_refusal(host, str(refusal))
            return write_page(HTTPStatus.FORBIDDEN, str(refusal))
        except TimeoutError:
            return write_page(HTTPStatus.GATEWAY_TIMEOUT, f"{host} took too long to be reached.")
        except (OSError, UnicodeError) as error:
            log.debug("a name is not known: %s", type(error).__name__)
            return write_page(HTTPStatus.BAD_GATEWAY, f"The name {host} is not known.")
        return write_page(HTTPStatus.BAD_GATEWAY, f"{host} cannot be reached.")


def make_room() -> None:
    """For a process of the proxy's own, before it is made: many descriptors, and threads for look-ups of many users."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wide = WIDEST_DESCRIPTORS if hard == resource.RLIM_INFINITY else min(hard, WIDEST_DESCRIPTORS)
    resource.setrlimit(resource.RLIMIT_NOFILE, (wide, hard))
    asyncio.get_running_loop().set_default_executor(ThreadPoolExecutor(LOOKUP_THREADS, "look-up"))


def use_proxy(proxy: FilterProxy, account: ProxyAccount) -> dict[str, str]:
    """How a browser is told to use it, for this machine's own addresses, too."""
    return {"server": proxy.address, "bypass": "<-loopback>", "username": USER, "password": account.password}


Ends = tuple[asyncio.StreamReader, asyncio.StreamWriter]


async def _exchange(head: MessageHead, path: str, near: Ends, far: Ends) -> None:
    """One request and its answer. Both sides are told that it is the last one, so that no request to another host
    comes this way unjudged."""
    far[1].write(head.write(f"{head.start[0]} {path} HTTP/1.1"))
    await _run_until_first_ends(_send_request(head, near[0], far[1]), _send_answer(far[0], near[1]), 0.0)


async def _send_request(head: MessageHead, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The body, as long as the request says, and nothing behind it; ends when whoever asked has gone."""
    length, coding = head.get("content-length"), head.get("transfer-encoding").lower()
    if coding:
        if coding != "chunked" or length:
            raise BadMessage("a body of unknown length")
        while size := await _send_chunk_line(reader, writer):
            await _send_bytes(size + 2, reader, writer)
        while await _send_line(reader, writer) != b"\r\n":
            pass
    elif length:
        if not (length.isascii() and length.isdigit()):
            raise BadMessage("a body of unknown length")
        await _send_bytes(int(length), reader, writer)
    while await reader.read(PIECE_BYTES):
        pass


async def _send_chunk_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
    line = await _send_line(reader, writer)
    try:
        return int(line.partition(b";")[0], 16)
    except ValueError as error:
        raise BadMessage("a chunk that is none") from error


async def _send_line(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
    async with asyncio.timeout(SILENT_SECONDS):
        line = await reader.readuntil(b"\r\n")
        writer.write(line)
        await writer.drain()
    return line


async def _send_bytes(count: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while count > 0:
        async with asyncio.timeout(SILENT_SECONDS):
            piece = await reader.read(min(count, PIECE_BYTES))
            if not piece:
                raise EOFError
            writer.write(piece)
            await writer.drain()
        count -= len(piece)


async def _send_answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """The answer, which ends with its connection; `100 Continue` and its like come before it."""
    while True:
        async with asyncio.timeout(SILENT_SECONDS):
            head = read_head(await reader.readuntil(b"\r\n\r\n"))
            writer.write(head.write(" ".join(head.start).rstrip()))
            await writer.drain()  # of those that come before it there may be any number
        if not head.start[1].startswith("1"):
            break
    await _pass_on(reader, writer)


async def _join(one: Ends, other: Ends) -> None:
    await _run_until_first_ends(_half(*one), _half(*other), LINGER_SECONDS)


async def _run_until_first_ends(one: Awaitable[None], other: Awaitable[None], linger: float) -> None:
    """Both at once; when one has ended the other gets a little time."""
    tasks = [asyncio.ensure_future(each) for each in (one, other)]
    try:
        ended, left = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        if left and linger and not any(task.exception() for task in ended):
            await asyncio.wait(left, timeout=linger)
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _half(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        await _pass_on(reader, writer)
        if writer.can_write_eof():
            writer.write_eof()
    except (OSError, TimeoutError):
        writer.transport.abort()


async def _pass_on(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while True:
        async with asyncio.timeout(SILENT_SECONDS):
            piece = await reader.read(PIECE_BYTES)
            if not piece:
                return
            writer.write(piece)
            await writer.drain()


async def _say(page: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """An answer of the proxy's own. What was still on its way here is taken in for a moment: a connection that is
    closed before that takes the answer with it."""
    writer.write(page)
    writer.write_eof()
    with suppress(TimeoutError):
        async with asyncio.timeout(UNREAD_SECONDS):
            while await reader.read(PIECE_BYTES):
                pass


async def _close(writer: asyncio.StreamWriter) -> None:
    """What is written arrives, if it is read in time."""
    writer.close()
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(CONNECT_SECONDS):
            await writer.wait_closed()
