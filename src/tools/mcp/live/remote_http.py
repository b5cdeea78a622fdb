"""A server at an address: where it leads is judged when it is connected, and the connection goes to exactly that (G8).

That holds for everything that the SDK calls by itself, too: redirects, and the addresses of a login that servers name.
Private ones are called only if the owner wrote that very address, or has them in `network.private`. The owner's headers
go to the address in the settings, and to no other.
"""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import httpx
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from hermes_net.address_rules import AddressRules, IpAddress, find_fault, read_numeric, read_rules
from hermes_net.call_values import AddressRefused
from hermes_net.lookup import MOST_ADDRESSES, look_up
from tools.mcp.live.keeper_stdio import Received, Sent, ServerPlace
from tools.mcp.mcp_specs import SSE, ServerSpec, expand

ANSWER_BYTES = 32 * 1024 * 1024  # of an answer, or of one event of a stream
PLAIN = "identity"  # the only way an answer may be packed: a limit on packed bytes is none
IDLE_SECONDS = 3600.0  # a stream of events may be silent for so long
#: Names that stand for this machine itself, and for nothing else.
THIS_MACHINE = frozenset({"localhost"})


@asynccontextmanager
async def open_remote(
    spec: ServerSpec, place: ServerPlace, auth: httpx.Auth | None, on_broken: Callable[[], None]
) -> AsyncIterator[tuple[Received, Sent]]:
    """The streams of a session with the server at the address. `on_broken`: an answer broke off, which the SDK keeps to
    itself."""
    url = expand(spec.url, place.look_up, f"{spec.name}.url")
    headers = {name: expand(text, place.look_up, f"{spec.name}.headers.{name}") for name, text in spec.headers.items()}
    client = make_client(url, headers, place, spec, auth, on_broken)
    if spec.transport == SSE:  # it opens and closes the client itself
        async with sse_client(url, httpx_client_factory=lambda headers=None, timeout=None, auth=None: client) as two:
            yield two
        return
    async with client, streamable_http_client(url, http_client=client) as (received, sent, _):
        yield received, sent


def make_client(
    url: str,
    headers: Mapping[str, str],
    place: ServerPlace,
    spec: ServerSpec,
    auth: httpx.Auth | None = None,
    on_broken: Callable[[], None] | None = None,
) -> httpx.AsyncClient:
    """A client without proxies and cookies of the environment, whose every connection is judged."""
    rules = read_rules(place.settings.network.private)
    limits = httpx.Limits(max_keepalive_connections=4, keepalive_expiry=30.0)
    plain = httpx.AsyncHTTPTransport(verify=_make_context(), limits=limits)
    timeout = httpx.Timeout(spec.connect_timeout, read=max(spec.timeout, IDLE_SECONDS))
    transport = JudgedTransport(plain, httpx.URL(url), headers, rules, on_broken)
    return httpx.AsyncClient(transport=transport, timeout=timeout, auth=auth, trust_env=False)


_make_context = lru_cache(1)(ssl.create_default_context)  # reads all certificates: done once


class JudgedTransport(httpx.AsyncBaseTransport):
    """Looks the host up, judges what it finds, and connects to that; certificates are still those of the host."""

    def __init__(
        self,
        plain: httpx.AsyncBaseTransport,
        own: httpx.URL,
        headers: Mapping[str, str],
        rules: AddressRules,
        on_broken: Callable[[], None] | None = None,
    ) -> None:
        self._plain, self._own, self._headers, self._rules = plain, own, headers, rules
        self._on_broken = on_broken

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        url = request.url
        is_own = _origin(url) == _origin(self._own)
        headers = httpx.Headers(request.headers)
        headers["accept-encoding"] = PLAIN
        if is_own:
            headers.update(self._headers)
        problem: Exception | None = None
        for address in await self._find(url, is_own=is_own):
            pinned = httpx.Request(
                request.method,
                url.copy_with(host=str(address)),
                headers=headers,  # `Host` was made from the address as it was asked for, and stays
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": url.host},
            )
            try:
                answer = await self._plain.handle_async_request(pinned)
            except (httpx.ConnectError, httpx.ConnectTimeout) as error:
                problem = error
                continue
            if answer.headers.get("content-encoding", PLAIN).strip().lower() not in ("", PLAIN):
                await answer.aclose()
                if self._on_broken is not None:
                    self._on_broken()
                raise httpx.DecodingError("the answer is packed, which was not asked for", request=request)
            events = answer.headers.get("content-type", "").startswith("text/event-stream")
            assert isinstance(answer.stream, httpx.AsyncByteStream)
            answer.stream = BoundedStream(answer.stream, self._on_broken, events=events)
            return answer
        raise problem or httpx.ConnectError("the name leads nowhere")

    async def _find(self, url: httpx.URL, *, is_own: bool) -> Sequence[IpAddress]:
        """All addresses of the host, judged together: one that may not be called refuses the name."""
        host, port = url.host, url.port or (443 if url.scheme == "https" else 80)
        numeric = read_numeric(host)
        try:
            found = [numeric] if numeric is not None else list(await look_up(host, port))[:MOST_ADDRESSES]
        except OSError as error:
            raise httpx.ConnectError(f"the name is not known: {type(error).__name__}") from error
        written = is_own and (numeric is not None or host.lower() in THIS_MACHINE)
        rules = replace(self._rules, names=self._rules.names | {host.lower()}) if written else self._rules
        for address in found:
            if fault := find_fault(host, address, rules):
                fix = "If it is yours, add the host to `network.private` in the settings."
                raise AddressRefused(f"{host} is not called: {fault}.", kept="Nothing was sent.", fix=fix)
        return found

    async def aclose(self) -> None:
        await self._plain.aclose()


class BoundedStream(httpx.AsyncByteStream):
    """The bytes of an answer, up to a limit; a stream of events may go on, each of them is limited."""

    def __init__(
        self, inner: httpx.AsyncByteStream, on_broken: Callable[[], None] | None = None, *, events: bool
    ) -> None:
        self._inner, self._on_broken, self._events = inner, on_broken, events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._bounded():
                yield piece
        except httpx.HTTPError:
            if self._on_broken is not None:
                self._on_broken()
            raise

    async def _bounded(self) -> AsyncIterator[bytes]:
        count = 0
        async for piece in self._inner:
            count += len(piece)
            if count > ANSWER_BYTES:
                raise httpx.ReadError(f"the answer is longer than {ANSWER_BYTES >> 20} MB")
            if self._events and (b"\n\n" in piece or b"\r\n\r\n" in piece):
                count = 0
            yield piece
            await asyncio.sleep(0)

    async def aclose(self) -> None:
        await self._inner.aclose()


def _origin(url: httpx.URL) -> tuple[Any, ...]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)
