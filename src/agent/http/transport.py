"""HTTP for model calls: connections kept open and shared by everyone who talks to one address with one key.

It stands under the SDKs in the place of their own transport, and turns send through it without them: a request takes
300 function calls this way and 2,200 through an SDK, a piece of a streamed answer 24 and 70. One TLS context serves the
process. A pool is counted and closed with its last user. A call can be cut from outside whatever it waits for (`Line`),
and nothing is sent for it afterwards.
"""

import base64
import hashlib
import http.client
import io
import logging
import queue
import select
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import httpx2

from agent.providers.wire_limits import MOST_ANSWER_BYTES, MOST_ERROR_BYTES, NotUnderstood
from hermes_base.errors import HermesError

log = logging.getLogger(__name__)

IDLE_SECONDS = 60.0
MOST_IDLE = 32
READ_SIZE = 65_536
DRAIN_SECONDS = 0.1
MOST_DRAIN_READS = 4
#: The line before a chunk holds its size and perhaps a word; a trailer is a header.
MOST_LINE_BYTES = 65_536

#: Answers come as they are: pieces are read below the layer that would undo a compression.
_UNPACKED = {"Accept-Encoding": "identity"}

#: A host may have several addresses, each of which is tried for the whole time to connect.
TRIED_ADDRESSES = 3


# --- the chunks of HTTP/1.1, however they are cut on their way


class BrokenFraming(HermesError):
    """The bytes are not what the coding allows."""


@dataclass(eq=False, slots=True)
class ChunkDecoder:
    """Feed it what was received; it gives back the payload, and knows when the body is over."""

    _rest: bytes = b""
    _left: int = 0  # bytes of the current chunk that are still to come, its line end included
    _in_trailer: bool = False
    done: bool = False

    def feed(self, data: bytes) -> bytes:
        payload: list[bytes] = []
        data = self._rest + data if self._rest else data
        place, end = 0, len(data)
        while place < end and not self.done:
            if self._left:
                stop = place + self._left  # the last two bytes of a chunk are its line end
                if place < stop - 2:
                    payload.append(data[place : min(stop - 2, end)])
                self._left = max(0, stop - end)
                place = min(stop, end)
                continue
            line_end = data.find(b"\r\n", place)
            if line_end < 0:
                if end - place > MOST_LINE_BYTES:
                    raise BrokenFraming("A line between chunks does not end.")
                break
            size = self._take_line(data[place:line_end])
            place = line_end + 2
            if size and place + size <= end:  # the whole chunk is here
                payload.append(data[place : place + size - 2])
                place += size
            else:
                self._left = size
        self._rest = data[place:]
        return payload[0] if len(payload) == 1 else b"".join(payload)

    def _take_line(self, line: bytes) -> int:
        """What the line announces: the bytes of a chunk, its line end included."""
        if self._in_trailer:
            self.done = not line  # trailers are passed over; an empty line ends them
            return 0
        try:
            size = int(line.partition(b";")[0] if b";" in line else line, 16)
        except ValueError as problem:
            raise BrokenFraming(f"A chunk has no size ({line[:40]!r}).") from problem
        if size < 0:
            raise BrokenFraming("A chunk has a negative size.")
        self._in_trailer = not size
        return size + 2 if size else 0


# --- cutting a call from outside


class Line:
    """The way of one call through the network. Whoever cuts it ends what it waits for: a name, a connection, an answer.

    It has one patience: something of the answer has to come in so many seconds of waiting. Bytes alone do not renew it,
    only whoever reads the answer does, when there was something in them.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._is_cut = False
        self._wire: socket.socket | None = None
        self._patience: float | None = None
        self._deadline = 0.0
        self.answered = False  # something of the answer came: the next wait has its whole time again
        self._opened: queue.SimpleQueue[http.client.HTTPConnection | Exception | None] = queue.SimpleQueue()

    def cut(self) -> None:
        """End whatever the call waits for; it then fails at once, and sends nothing more."""
        with self._lock:
            self._is_cut = True
            if self._wire is not None:
                try:
                    self._wire.shutdown(socket.SHUT_RDWR)
                except OSError as problem:  # the server has closed it: there is nothing left to cut
                    log.debug("nothing to cut: %s", problem)
        self._opened.put(None)

    def expect(self, seconds: float | None) -> None:
        """From the next wait on, something of the answer has to come in so many seconds each time."""
        self._patience, self.answered = seconds, True

    def limit_wait(self, wire: socket.socket) -> None:
        """The next word to or from the server has to come in what is left of the time."""
        if self._patience is None:
            wire.settimeout(None)
            return
        now = time.monotonic()
        if self.answered:
            self._deadline, self.answered = now + self._patience, False
        if self._deadline <= now:
            raise TimeoutError("nothing of the answer came in time")
        wire.settimeout(self._deadline - now)

    def hold(self, wire: socket.socket) -> None:
        """From now on a cut shuts this socket down."""
        with self._lock:
            if self._is_cut:
                raise ConnectionAbortedError("the call was cut")
            self._wire = wire

    def let_go(self) -> bool:
        """The call is done with its socket, which no cut touches any more: it may be somebody else's from here on, or
        closed. False: it was cut."""
        with self._lock:
            self._wire = None
            return not self._is_cut

    def open(self, connection: http.client.HTTPConnection) -> None:
        """Connect on a thread beside this one: looking up a name cannot be ended from outside, only left behind."""
        seconds = connection.timeout

        def connect() -> None:
            try:
                connection.connect()
            except Exception as problem:  # a thread's top: whoever waits raises it
                log.debug("connecting to %s failed", connection.host, exc_info=True)
                connection.close()
                self._opened.put(problem)
                return
            with self._lock:
                if not self._is_cut:
                    self._opened.put(connection)
                    return
            connection.close()

        threading.Thread(target=connect, name="connect", daemon=True).start()
        try:
            came = self._opened.get(timeout=None if seconds is None else seconds * TRIED_ADDRESSES)
        except queue.Empty:
            self.cut()
            late = self._opened.get()  # it came just now, or this is the word of the cut
            if isinstance(late, http.client.HTTPConnection):
                late.close()
            raise TimeoutError("the connection was not there in time") from None
        if isinstance(came, Exception):
            raise came
        if came is None:
            raise ConnectionAbortedError("the call was cut")


# --- connections


@dataclass(frozen=True, slots=True)
class Origin:
    scheme: str
    host: str
    port: int


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """Loading the certificates costs 30 ms and 1 MB, so it is done once."""
    return httpx2.create_ssl_context()


@lru_cache(maxsize=64)
def _proxy_for(origin: Origin) -> str:
    """The proxy that the environment names for an address; empty: none. Asked once, since it reads all variables."""
    proxies = getproxies()
    named = proxies.get(origin.scheme) or proxies.get("all") or ""
    return "" if not named or proxy_bypass(origin.host) else named


@dataclass(frozen=True, slots=True)
class RequestHead:
    """The head of a request but for the length of its body: all requests of a client to one address have the same."""

    method: str
    url: httpx2.URL
    headers: httpx2.Headers
    origin: Origin
    lines: bytes

    @classmethod
    def of(cls, method: str, url: httpx2.URL, headers: httpx2.Headers) -> "RequestHead":
        if url.scheme not in ("http", "https"):
            raise httpx2.UnsupportedProtocol(f"an address of the kind '{url.scheme}' cannot be used")
        origin = Origin(url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80))
        proxied = origin.scheme == "http" and bool(_proxy_for(origin))
        target = str(url.copy_with(userinfo=b"")).encode() if proxied else url.raw_path
        fields = [name + b": " + value + b"\r\n" for name, value in headers.raw if name.lower() not in _OF_THE_BODY]
        lines = b"".join((method.encode(), b" ", target, b" HTTP/1.1\r\n", *fields))
        return cls(method, url, headers, origin, lines)

    @classmethod
    def of_client(cls, client: Any, path: str) -> "RequestHead":
        """What a client of an SDK posts to a path below its address."""
        told = {**client.auth_headers, **client.default_headers}
        headers = httpx2.Headers(
            {name: value for name, value in told.items() if isinstance(value, str)}
        )  # others: none
        url = client.base_url.copy_with(raw_path=client.base_url.raw_path + path.lstrip("/").encode())
        headers.update({"Host": url.netloc.decode("ascii"), "Connection": "keep-alive", **_UNPACKED})
        if url.userinfo:  # a server that asks for a login of its own is in front of the model
            headers["Authorization"] = "Basic " + base64.b64encode(unquote(url.userinfo.decode()).encode()).decode()
        return cls.of("POST", url, headers)

    def moved_to(self, location: str) -> "RequestHead":
        """The same request where a server sends it. Its key goes to no other address."""
        url = self.url.join(location)
        headers = httpx2.Headers(self.headers)
        headers["Host"] = url.netloc.decode("ascii")
        before = self.url
        if (url.scheme, before.scheme, before.port) == ("https", "http", None):  # the same door, now with a lock
            before = before.copy_with(scheme="https")
        if (url.scheme, url.host, url.port) != (before.scheme, before.host, before.port):
            for name in _CREDENTIALS:
                headers.pop(name, None)
        return RequestHead.of(self.method, url, headers)


_CREDENTIALS = ("authorization", "x-api-key", "cookie")
_OF_THE_BODY = (b"content-length", b"transfer-encoding")


class PooledTransport(httpx2.BaseTransport):
    """Keeps idle connections by origin; as many are open as there are calls under way."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: dict[Origin, list[tuple[float, http.client.HTTPConnection]]] = {}
        self._closed = False

    def handle_request(self, request: httpx2.Request) -> httpx2.Response:
        """A request of an SDK."""
        timeouts: Mapping[str, Any] = request.extensions.get("timeout", {})
        head = RequestHead.of(request.method, request.url, request.headers)
        answer = self.send(head, request.read(), timeouts.get("connect"), timeouts.get("read"), Line())
        headers = httpx2.Headers(answer.fields, encoding="latin-1")  # as the parser reads them
        return httpx2.Response(answer.status, headers=headers, stream=answer, request=request)

    def send(
        self, head: RequestHead, body: bytes, connect: float | None, first: float | None, line: Line
    ) -> "HttpAnswer":
        """Send a request in one piece; its answer has begun when this returns. The seconds are those for a connection
        and for the first word."""
        try:
            connection = self._take(head.origin) or self._open(head.origin, connect, line)
        except _BROKEN as error:
            raise _as_http_error(error, _CONNECT_ERRORS) from error
        wire, coming = connection.sock, None
        try:
            line.hold(wire)
            line.expect(first)
            line.limit_wait(wire)
            length = b"Content-Length: %d\r\n" % len(body) if body or head.method == "POST" else b""
            wire.sendall(b"".join((head.lines, length, b"\r\n", body)))
            answer = http.client.HTTPResponse(_Reader(wire, line), method=head.method)  # type: ignore[arg-type]
            answer.begin()
            coming = HttpAnswer(self, head.origin, connection, answer, line)
            return coming
        except _BROKEN as error:
            raise _as_http_error(error, _ANSWER_ERRORS) from error
        finally:
            if coming is None:
                line.let_go()
                connection.close()

    def give_back(self, origin: Origin, connection: http.client.HTTPConnection) -> None:
        """The connection's answer was read to its end; it can carry the next one."""
        now = time.monotonic()
        with self._lock:
            idle = self._idle.setdefault(origin, [])
            keep = not self._closed and len(idle) < MOST_IDLE
            if keep:
                idle.append((now, connection))
        if not keep:
            connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            idle, self._idle = self._idle, {}
        for kept in idle.values():
            for _, connection in kept:
                connection.close()

    def _take(self, origin: Origin) -> http.client.HTTPConnection | None:
        """The connection that was used last, unless it has been idle for too long or the server hung up."""
        while True:
            with self._lock:
                idle = self._idle.get(origin)
                if not idle:
                    return None
                since, connection = idle.pop()
            if time.monotonic() - since < IDLE_SECONDS and not _has_hung_up(connection.sock):
                return connection
            connection.close()

    def _open(self, origin: Origin, seconds: float | None, line: Line) -> http.client.HTTPConnection:
        proxy = _proxy_for(origin)
        target = urlsplit(proxy if "://" in proxy else f"http://{proxy}") if proxy else None
        if target is not None and target.scheme not in ("http", "https"):
            raise httpx2.ProxyError(f"a proxy of the kind '{target.scheme}' cannot be used")
        host, port = (target.hostname or "", target.port or 80) if target else (origin.host, origin.port)
        if origin.scheme == "http":
            connection = http.client.HTTPConnection(host, port, timeout=seconds)
        else:
            connection = http.client.HTTPSConnection(host, port, timeout=seconds, context=_tls())
            if target is not None:
                login = f"{unquote(target.username or '')}:{unquote(target.password or '')}".encode()
                auth = {"Proxy-Authorization": "Basic " + base64.b64encode(login).decode()}
                connection.set_tunnel(origin.host, origin.port, headers=auth if target.username else {})
        line.open(connection)
        assert connection.sock is not None
        connection.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection


def _has_hung_up(wire: socket.socket | None) -> bool:
    """Nothing may come on an idle connection: what is readable is its end."""
    if wire is None:
        return True
    looking = select.poll()  # `select` itself takes no descriptor above a thousand
    looking.register(wire, select.POLLIN)
    return bool(looking.poll(0))


class _Reader(socket.SocketIO):
    """Reads an answer from its socket, by the deadline of its call: a server that drips gets no more time for that."""

    def __init__(self, wire: socket.socket, line: Line) -> None:
        super().__init__(wire, "r")
        self._wire = wire
        self._line = line

    def makefile(self, mode: str) -> io.BufferedReader:
        """What the parser asks a socket for."""
        del mode
        return io.BufferedReader(self)

    def readinto(self, buffer: Any) -> int | None:
        self._line.limit_wait(self._wire)
        return super().readinto(buffer)


class HttpAnswer(httpx2.SyncByteStream):
    """An answer: its head, and its body in the pieces in which it arrives, as much of it as an answer may have."""

    def __init__(
        self,
        pool: PooledTransport,
        origin: Origin,
        connection: http.client.HTTPConnection,
        answer: http.client.HTTPResponse,
        line: Line,
    ) -> None:
        self._pool = pool
        self._line = line
        self._origin = origin
        self._connection: http.client.HTTPConnection | None = connection
        self._answer = answer
        self._decoder: ChunkDecoder | None = None
        self.status = answer.status
        self.headers = answer.headers
        self._of_error = answer.status >= 300
        self._left = MOST_ERROR_BYTES if self._of_error else MOST_ANSWER_BYTES
        if self._of_error and self.headers["content-encoding"] is not None:
            # A compressed error is taken without its body: it could be unpacked to any size.
            del self.headers["content-encoding"]
            self._left = 0

    @property
    def fields(self) -> list[tuple[str, str]]:
        return self._answer.getheaders()

    def __iter__(self) -> Iterator[bytes]:
        if self._connection is None:
            return
        try:
            yield from self._read_chunks() if self._answer.chunked else self._read_length()
        except _BROKEN as error:
            raise _as_http_error(error, _ANSWER_ERRORS) from error
        if not self._answer.will_close:
            self._part(is_whole=True)

    def close(self) -> None:
        """An answer whose end is not there by now takes its connection along. The last words of a stream come with, or
        right behind, the event that says it is over."""
        decoder, is_whole = self._decoder, False
        if decoder is not None and not self._answer.will_close and self._connection is not None:
            with suppress(OSError, BrokenFraming):
                self._line.expect(DRAIN_SECONDS)
                for _ in range(MOST_DRAIN_READS):
                    if decoder.done:
                        break
                    data = self._answer.fp.read1(READ_SIZE)
                    if not data or decoder.feed(data):
                        break
                is_whole = decoder.done
        self._part(is_whole=is_whole)

    def _read_chunks(self) -> Iterator[bytes]:
        self._decoder = decoder = ChunkDecoder()
        read = self._answer.fp.read1
        while not decoder.done:
            data = read(READ_SIZE)
            if not data:
                raise httpx2.RemoteProtocolError("the connection ended in the middle of an answer")
            self._left -= len(data)
            if self._left < 0:
                return self._stop_reading()
            payload = decoder.feed(data)
            if payload:
                yield payload

    def _read_length(self) -> Iterator[bytes]:
        """A body of known length, or one that ends with its connection."""
        left = self._answer.length
        while left is None or left > 0:
            data = self._answer.fp.read1(READ_SIZE if left is None else min(left, READ_SIZE))
            if not data and left is None:
                return
            if not data:
                raise httpx2.RemoteProtocolError("the connection ended in the middle of an answer")
            left = None if left is None else left - len(data)
            self._left -= len(data)
            if self._left < 0:
                return self._stop_reading()
            yield data

    def _stop_reading(self) -> None:
        """It is longer than any answer. The rest stays unread, so the connection cannot carry another one."""
        self._answer.will_close = True
        if not self._of_error:
            raise NotUnderstood(f"an answer of more than {MOST_ANSWER_BYTES:,} bytes")

    def _part(self, *, is_whole: bool) -> None:
        """The call is done with its connection, which can carry another one if its answer was read to its end."""
        connection, self._connection = self._connection, None
        if connection is None:
            return
        is_well = self._line.let_go()
        self._answer.close()
        if is_whole and is_well:
            self._pool.give_back(self._origin, connection)
        else:
            connection.close()


_ErrorKinds = tuple[tuple[type[BaseException], type[httpx2.RequestError]], ...]


def _as_http_error(error: BaseException, kinds: _ErrorKinds) -> httpx2.RequestError:
    """An error of a socket, of TLS or of the parser as the kind that the SDKs know."""
    kind = next(raised for caught, raised in kinds if isinstance(error, caught))
    return kind(str(error) or type(error).__name__)


_BROKEN = (OSError, http.client.HTTPException, BrokenFraming)
#: While there is no connection, whatever goes wrong is about the address.
_CONNECT_ERRORS: _ErrorKinds = (
    (TimeoutError, httpx2.ConnectTimeout),
    (Exception, httpx2.ConnectError),
)
_ANSWER_ERRORS: _ErrorKinds = (
    (TimeoutError, httpx2.ReadTimeout),
    (http.client.HTTPException, httpx2.RemoteProtocolError),
    (BrokenFraming, httpx2.RemoteProtocolError),
    (OSError, httpx2.ReadError),
)


# --- pools


@dataclass
class Pool:
    transport: PooledTransport
    http: httpx2.Client  # on the transport, for the SDKs
    users: int = 0


_pools: dict[str, Pool] = {}
_lock = threading.Lock()
#: Names of pools that were given back. A client that is forgotten gives its own back in the middle of whatever its
#: thread does, even with the lock held: it leaves a word here and waits for nothing.
_given_back: "queue.SimpleQueue[str]" = queue.SimpleQueue()


def acquire_pool(base_url: str, api_key: str) -> tuple[str, Pool]:
    """The shared connections to an address with a key, with the name to give them back by."""
    name = hashlib.sha256(f"{base_url}\0{api_key}".encode("utf-8", "replace")).hexdigest()
    with _lock:
        pool = _pools.get(name)
        if pool is None:
            transport = PooledTransport()
            pool = _pools[name] = Pool(
                transport, httpx2.Client(transport=transport, follow_redirects=True, headers=_UNPACKED)
            )
        pool.users += 1
    _let_go()
    return name, pool


def release_pool(name: str) -> None:
    _given_back.put(name)
    _let_go()


def _let_go() -> None:
    """Close the pools that nobody uses any more. Whoever holds the lock does it when they have let it go."""
    while not _given_back.empty() and _lock.acquire(blocking=False):
        unused = []  # the pools that have lost their last user
        try:
            while not _given_back.empty():
                name = _given_back.get()
                _pools[name].users -= 1
                if not _pools[name].users:
                    unused.append(_pools.pop(name))
        finally:
            _lock.release()
        for pool in unused:
            pool.http.close()


def count_pools() -> int:
    _let_go()
    with _lock:
        return len(_pools)
