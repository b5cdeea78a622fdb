"""Connection pools shared by everyone who talks to the same address with the same key, and sockets that can be cut.

One TLS context serves the process. A pool is counted and closed with its last user. A thread that is blocked in a
read is freed by shutting its socket down from outside: closing the response alone would not wake it.
"""

import hashlib
import logging
import socket
import ssl
import threading
from collections.abc import Iterable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import httpcore2
import httpx2

log = logging.getLogger(__name__)

#: Streams in use, by the thread that reads or writes them.
_busy: dict[int, "_CuttableStream"] = {}


class _CuttableStream(httpcore2.NetworkStream):
    """A network stream that notes which thread waits on it."""

    def __init__(self, stream: httpcore2.NetworkStream) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        _busy[threading.get_ident()] = self
        return self._stream.read(max_bytes, timeout)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        _busy[threading.get_ident()] = self
        self._stream.write(buffer, timeout)

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore2.NetworkStream:
        return _CuttableStream(self._stream.start_tls(ssl_context, server_hostname, timeout))

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)

    def cut(self) -> None:
        wire = self._stream.get_extra_info("socket")
        if isinstance(wire, socket.socket):
            wire.shutdown(socket.SHUT_RDWR)


class _CuttableBackend(httpcore2.NetworkBackend):
    def __init__(self) -> None:
        self._sockets = httpcore2.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore2.NetworkStream:
        return _CuttableStream(self._sockets.connect_tcp(host, port, timeout, local_address, socket_options))

    def sleep(self, seconds: float) -> None:
        self._sockets.sleep(seconds)


def cut_thread(thread_id: int) -> None:
    """End whatever network wait that thread is in; its call then fails at once."""
    stream = _busy.get(thread_id)
    if stream is None:
        return
    try:
        stream.cut()
    except OSError as problem:  # the socket was closed in the meantime: there is nothing left to cut
        log.debug("nothing to cut: %s", problem)


def forget_thread(thread_id: int) -> None:
    """The thread's call is over; its stream belongs to the pool again."""
    _busy.pop(thread_id, None)


@lru_cache(maxsize=1)
def _tls() -> ssl.SSLContext:
    """Loading the certificates costs 30 ms and 1 MB, so it is done once."""
    return httpx2.create_ssl_context()


@dataclass
class _Pool:
    http: httpx2.Client
    users: int = 0


_pools: dict[str, _Pool] = {}
_lock = threading.Lock()


def acquire_pool(base_url: str, api_key: str) -> tuple[str, httpx2.Client]:
    """The shared HTTP client of an address and key, with the name to give it back by."""
    name = hashlib.sha256(f"{base_url}\0{api_key}".encode("utf-8", "replace")).hexdigest()
    with _lock:
        pool = _pools.get(name)
        if pool is None:
            pool = _pools[name] = _Pool(_make_http())
        pool.users += 1
        return name, pool.http


def release_pool(name: str) -> None:
    with _lock:
        pool = _pools[name]
        pool.users -= 1
        if pool.users:
            return
        del _pools[name]
    pool.http.close()


def count_pools() -> int:
    with _lock:
        return len(_pools)


def _make_http() -> httpx2.Client:
    """As many connections as there are calls under way; idle ones are kept for a minute. Proxies of the environment
    are honoured."""
    limits = httpx2.Limits(max_connections=None, max_keepalive_connections=32, keepalive_expiry=60.0)
    client = httpx2.Client(verify=_tls(), limits=limits, follow_redirects=True)
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx2.HTTPTransport):
            # A transport takes no backend as an argument; its pool reads this attribute for each new connection.
            transport._pool._network_backend = _CuttableBackend()
    return client
