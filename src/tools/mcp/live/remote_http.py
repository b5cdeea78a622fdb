"""A server at an address: where it leads is judged when it is connected, and the connection goes to exactly that (G8).

That holds for everything that the SDK calls by itself, too: redirects, and the addresses of a login that servers name.
Private ones are called only if the owner wrote that very address, or has them in `network.private`. The owner's headers
go to the address in the settings, and to no other.
"""

import asyncio
import json
import ssl
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import lru_cache
from typing import Any

import httpx
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client

from hermes_base.errors import ToolFailure
from hermes_net.address_rules import AddressRules, IpAddress, find_fault, read_numeric, read_rules
from hermes_net.call_values import AddressRefused
from hermes_net.lookup import MOST_ADDRESSES, look_up
from tools.mcp.live.call_client import EVENTS, JSON, OK, Broken, CallClient, Waiting
from tools.mcp.live.keeper_stdio import Received, Sent, ServerPlace
from tools.mcp.live.wire_texts import mend_escapes, split_open_end
from tools.mcp.mcp_results import clean_line
from tools.mcp.mcp_specs import SSE, ServerSpec, check_address, check_header, expand

ANSWER_BYTES = 32 * 1024 * 1024  # of an answer, or of one event of a stream
PLAIN = "identity"  # what is asked for; a limit counts what is unpacked
GZIP = frozenset({"gzip", "x-gzip"})  # what many send all the same
UNPACK_BYTES = 64 * 1024  # at a time, however little it was packed to
IDLE_SECONDS = 3600.0  # a stream of events may be silent for so long
#: Names that stand for this machine itself, and for nothing else.
THIS_MACHINE = frozenset({"localhost"})

PACKED_FIX = "Have it, or the proxy in front of it, send them plain or with gzip."


class AnswerRefused(ToolFailure):
    """An answer that is not taken, whatever it says."""


def _nobody_waits(why: str) -> None:
    """For a client that is asked once."""


def _always() -> bool:
    return True


@asynccontextmanager
async def open_remote(
    spec: ServerSpec, place: ServerPlace, auth: httpx.Auth | None, on_broken: Broken, is_waiting: Waiting
) -> AsyncIterator[tuple[Received, Sent]]:
    """The streams of a session with the server at the address. `on_broken`: an answer broke off, or cannot be taken for
    this reason, which the SDK keeps to itself; `is_waiting`: somebody waits for an answer."""
    url = expand(spec.url, place.look_up, f"{spec.name}.url")
    headers = {name: expand(text, place.look_up, f"{spec.name}.headers.{name}") for name, text in spec.headers.items()}
    check_address(f"mcp_servers.{spec.name}", url)
    for name, text in headers.items():
        check_header(f"mcp_servers.{spec.name}.headers", name, text)
    client = make_client(url, headers, place, spec, auth, on_broken, is_waiting)
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
    on_broken: Broken = _nobody_waits,
    is_waiting: Waiting = _always,
) -> httpx.AsyncClient:
    """A client without proxies and cookies of the environment, whose every connection is judged."""
    rules = read_rules(place.settings.network.private)
    limits = httpx.Limits(max_keepalive_connections=4, keepalive_expiry=30.0)
    plain = httpx.AsyncHTTPTransport(verify=_make_context(), limits=limits)
    timeout = httpx.Timeout(spec.connect_timeout, read=max(spec.timeout, IDLE_SECONDS))
    transport = JudgedTransport(plain, httpx.URL(url), headers, rules, on_broken)
    options: dict[str, Any] = {"transport": transport, "timeout": timeout, "auth": auth, "trust_env": False}
    if on_broken is _nobody_waits:
        return httpx.AsyncClient(**options)
    return CallClient(spec, on_broken, is_waiting, **options)


_make_context = lru_cache(1)(ssl.create_default_context)  # reads all certificates: done once


class JudgedTransport(httpx.AsyncBaseTransport):
    """Looks the host up, judges what it finds, and connects to that; certificates are still those of the host."""

    def __init__(
        self,
        plain: httpx.AsyncBaseTransport,
        own: httpx.URL,
        headers: Mapping[str, str],
        rules: AddressRules,
        on_broken: Broken = _nobody_waits,
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
            if not await self._is_call(request) or answer.status_code != OK:
                return await self._bound(answer)
            kind = await self._check_kind(answer)
            answer = await self._bound(answer)
            if kind == JSON:
                await self._check_json(request.content, answer)
            return answer
        raise problem or httpx.ConnectError("the name leads nowhere")

    async def _is_call(self, request: httpx.Request) -> bool:
        """Whether somebody waits for what comes back; notices and logins are answered in any way."""
        if request.method != "POST" or request.url != self._own or self._on_broken is _nobody_waits:
            return False
        said = await request.aread()
        return b'"id"' in said and b'"method"' in said

    async def _check_kind(self, answer: httpx.Response) -> str:
        """The kind of the answer. A page (of a proxy, or of a login) in its place: the SDK would wait on."""
        kind = str(answer.headers.get("content-type", "")).partition(";")[0].strip().lower()
        if kind in (JSON, EVENTS):
            return kind
        await answer.aclose()
        shown = clean_line(kind)[:40] or "something without a kind"
        raise self._break(f"it answered with {shown}, which is no message of MCP")

    async def _check_json(self, asked: bytes, answer: httpx.Response) -> None:
        """The same for JSON that is broken, and for what answers another call."""
        try:
            told = json.loads(await answer.aread())
        except (ValueError, RecursionError):
            raise self._break("it answered with JSON that is broken") from None
        call = str(json.loads(asked)["id"])  # some write the number as a text
        messages = told if isinstance(told, list) else [told]
        if not any(isinstance(message, dict) and str(message.get("id")) == call for message in messages):
            raise self._break("its answer is not to the call that it was asked")

    def _break(self, why: str) -> AnswerRefused:
        self._on_broken(why)
        return AnswerRefused(why)

    async def _bound(self, answer: httpx.Response) -> httpx.Response:
        """The answer with what it says unpacked, up to the limit."""
        packed = answer.headers.pop("content-encoding", PLAIN).strip().lower() or PLAIN
        assert isinstance(answer.stream, httpx.AsyncByteStream)
        events = answer.headers.get("content-type", "").startswith(EVENTS)
        if packed in GZIP:
            answer.headers.pop("content-length", None)
            answer.stream = MendedStream(BoundedStream(UnpackedStream(answer.stream), self._on_broken, events=events))
        elif packed == PLAIN:
            answer.stream = MendedStream(BoundedStream(answer.stream, self._on_broken, events=events))
        else:
            await answer.aclose()
            shown = clean_line(packed)[:40]
            problem = AnswerRefused(
                f"it packs its answers as {shown}, though plain ones were asked for.", fix=PACKED_FIX
            )
            self._on_broken(str(problem))
            raise problem
        return answer

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
                raise AddressRefused(f"{host} is not called: {fault.why}.", kept="Nothing was sent.", fix=fault.fix)
        return found

    async def aclose(self) -> None:
        await self._plain.aclose()


class BoundedStream(httpx.AsyncByteStream):
    """The bytes of an answer, up to a limit; a stream of events may go on, each of them is limited."""

    def __init__(self, inner: httpx.AsyncByteStream, on_broken: Broken = _nobody_waits, *, events: bool) -> None:
        self._inner, self._on_broken, self._events = inner, on_broken, events

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._bounded():
                yield piece
        except AnswerRefused as problem:
            self._on_broken(str(problem))
            raise
        except httpx.HTTPError:
            self._on_broken("")
            raise

    async def _bounded(self) -> AsyncIterator[bytes]:
        count = 0
        async for piece in self._inner:
            count += len(piece)
            if count > ANSWER_BYTES:
                raise AnswerRefused(f"it sent an answer of more than {ANSWER_BYTES >> 20} MB")
            if self._events and (b"\n\n" in piece or b"\r\n\r\n" in piece):
                count = 0
            yield piece
            await asyncio.sleep(0)

    async def aclose(self) -> None:
        await self._inner.aclose()


class MendedStream(httpx.AsyncByteStream):
    """Without half signs, which the reader of the SDK refuses with everything around them."""

    def __init__(self, inner: httpx.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        left = b""
        async for piece in self._inner:
            ready, left = split_open_end(left + piece)
            if ready:
                yield mend_escapes(ready)
        if left:
            yield mend_escapes(left)

    async def aclose(self) -> None:
        await self._inner.aclose()


class UnpackedStream(httpx.AsyncByteStream):
    """What is packed with gzip, piece by piece: whoever counts stops it before more is unpacked."""

    def __init__(self, inner: httpx.AsyncByteStream) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
        begun = False
        async for piece in self._inner:
            while piece:
                begun = True
                if unpack.eof:  # another part follows
                    unpack = zlib.decompressobj(zlib.MAX_WBITS | 16)
                try:
                    yield unpack.decompress(piece, UNPACK_BYTES)
                except zlib.error:
                    raise AnswerRefused("it sent an answer that cannot be unpacked") from None
                piece = unpack.unused_data if unpack.eof else unpack.unconsumed_tail
        if begun and not unpack.eof:
            raise httpx.ReadError("the answer broke off")

    async def aclose(self) -> None:
        await self._inner.aclose()


def _origin(url: httpx.URL) -> tuple[Any, ...]:
    return url.scheme, url.host, url.port or (443 if url.scheme == "https" else 80)
