"""One HTTP call to an address that somebody else may have chosen. Where it leads is looked up and judged when it is
connected, and the connection goes to exactly that address: a name that changes its answer in between gets nowhere (G8).

Bounded in time and size; no proxy of the environment, no cookie; redirects only if asked for, each judged like the
first address. A compressed answer only if asked for, too: the limit holds for what it unpacks to. Who wants the status
alone has it, whatever the body is.
"""

import asyncio
import logging
import ssl
import zlib
from collections.abc import Sequence
from functools import lru_cache

import httpx2

from hermes_base.text.addresses import describe_address
from hermes_net.address_rules import AddressRules, IpAddress
from hermes_net.call_values import AddressRefused, AnsweredCall, CallFailed, HttpCall, Resolve
from hermes_net.lookup import find_addresses, look_up

__all__ = ["AddressRefused", "AnsweredCall", "CallFailed", "HttpCall", "Resolve", "call_checked"]

UNWANTED_SECONDS = 2.0  # for a body that nobody asked for
_PACKING, _GZIP_BITS = "gzip", zlib.MAX_WBITS | 16

# It would log each address as it is, with whatever secret it holds (G6).
logging.getLogger("httpx2").setLevel(logging.WARNING)


class _UnknownName(httpx2.ConnectError):
    """Nobody knows where the host is."""


#: The first that is among the causes of a failure says what it was.
_TOLD: tuple[tuple[type[BaseException], str], ...] = (
    (_UnknownName, "nobody knows that name"),
    (ssl.SSLError, "its certificate is not valid, or it does not speak TLS"),
    (httpx2.ConnectError, "nobody takes the connection"),
    (httpx2.UnsupportedProtocol, "it leads to no address of the web"),
    (httpx2.TransportError, "it broke off, or what it speaks is no HTTP"),
    (BaseException, "it leads to no address of the web"),
)
_make_ssl_context = lru_cache(1)(httpx2.create_ssl_context)  # reads all certificates: done once


async def call_checked(call: HttpCall, rules: AddressRules, resolve: Resolve = look_up) -> AnsweredCall:
    """Make the call; AddressRefused or CallFailed when there is no answer."""
    shown = describe_address(call.url)
    context = await asyncio.to_thread(_make_ssl_context)
    # One connection for each request: none is kept that another host on the same address would be given.
    plain = httpx2.AsyncHTTPTransport(verify=context, limits=httpx2.Limits(max_keepalive_connections=0))
    transport = _CheckedTransport(plain, rules, resolve)
    try:
        async with (
            asyncio.timeout(call.seconds) as limit,
            httpx2.AsyncClient(transport=transport, trust_env=False, timeout=call.seconds) as client,
        ):
            return await _exchange(client, call, limit)
    except AddressRefused as refusal:
        refusal.was_led = transport.sent
        raise
    except TimeoutError as error:
        raise CallFailed(f"{shown} did not answer within {call.seconds:g} seconds.", sent=transport.sent) from error
    except (httpx2.HTTPError, httpx2.InvalidURL, ValueError) as error:  # its words may hold the address as it is
        raise CallFailed(f"{shown} cannot be called: {_tell(error)}.", sent=transport.sent) from None


def _tell(error: Exception) -> str:
    """What went wrong, in words of ours."""
    causes: list[BaseException] = [error]
    while (cause := causes[-1].__cause__ or causes[-1].__context__) is not None:
        causes.append(cause)
    return next(words for kind, words in _TOLD if any(isinstance(cause, kind) for cause in causes))


async def _exchange(client: httpx2.AsyncClient, call: HttpCall, limit: asyncio.Timeout) -> AnsweredCall:
    headers = {"accept-encoding": _PACKING if call.unpacks else "identity", "user-agent": "hermes"}
    given = {**headers, **call.headers}
    request = client.build_request(call.method, call.url, headers=given, content=call.body or None)
    for left in range(call.redirects, -1, -1):
        answer = await client.send(request, stream=True)
        try:
            following = answer.next_request
            if following is None or not left:
                if not call.wants_body:
                    limit.reschedule(None)  # it is answered: from here on it cannot fail
                body, is_cut = await _read_as_asked(answer, call)
                return AnsweredCall(str(request.url), answer.status_code, dict(answer.headers), body, is_cut)
        finally:
            await answer.aclose()
        client.cookies.clear()
        following.headers.pop("cookie", None)  # it was made before they were forgotten
        request = following
    raise AssertionError("the last try returns")


async def _read_as_asked(answer: httpx2.Response, call: HttpCall) -> tuple[bytes, bool]:
    if not call.wants_body:
        return await _read_unwanted(answer, call.most_bytes)
    packing = answer.headers.get("content-encoding", "").strip().lower()
    if packing in ("", "identity"):
        return await _read(answer, call.most_bytes)
    if not call.unpacks:
        raise CallFailed("The answer is compressed although that was not asked for.", sent=True)
    if packing != _PACKING:
        raise CallFailed("The answer is compressed in a way that was not asked for.", sent=True)
    try:
        return await _read_packed(answer, call.most_bytes)
    except zlib.error as error:
        raise CallFailed("The answer cannot be unpacked: it is damaged.", sent=True) from error


async def _read_packed(answer: httpx2.Response, most: int) -> tuple[bytes, bool]:
    """Unpacked piece by piece, and no further than the limit: what comes in is at most as much again."""
    unpacker, body, taken = zlib.decompressobj(_GZIP_BITS), bytearray(), 0
    async for piece in answer.aiter_raw():
        taken += len(piece)
        body += unpacker.decompress(piece, most - len(body) + 1)
        if len(body) > most or taken > most:  # whoever sends much that unpacks to nothing is done, too
            return bytes(body[:most]), True
        if unpacker.eof:
            return bytes(body), False
    if not unpacker.eof:
        raise CallFailed("The answer ended before it was whole.", sent=True)
    return bytes(body), False


async def _read(answer: httpx2.Response, most: int) -> tuple[bytes, bool]:
    body = bytearray()
    async for piece in answer.aiter_raw():
        body += piece
        if len(body) > most:
            return bytes(body[:most]), True
    return bytes(body), False


async def _read_unwanted(answer: httpx2.Response, most: int) -> tuple[bytes, bool]:
    """What comes in a short time: a service that is cut off while it answers may take that for a failure."""
    body = bytearray()
    try:
        async with asyncio.timeout(UNWANTED_SECONDS):
            async for piece in answer.aiter_raw():
                body += piece[: most - len(body)]
                if len(body) == most:
                    return bytes(body), True
    except (TimeoutError, httpx2.HTTPError):
        return bytes(body), True
    return bytes(body), False


class _CheckedTransport(httpx2.AsyncBaseTransport):
    """Looks the host up, judges what it finds, and connects to that; certificates are still those of the host."""

    def __init__(self, plain: httpx2.AsyncBaseTransport, rules: AddressRules, resolve: Resolve) -> None:
        self._plain = plain
        self._rules = rules
        self._resolve = resolve
        self.sent = False

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        host, port = request.url.host, request.url.port or (443 if request.url.scheme == "https" else 80)
        problem: httpx2.ConnectError | httpx2.ConnectTimeout | None = None
        for address in await self._find(host, port):
            # The header `Host` was made from the address as it was asked for, and stays.
            pinned = httpx2.Request(
                request.method,
                request.url.copy_with(host=str(address)),
                headers=request.headers,
                stream=request.stream,
                extensions={**request.extensions, "sni_hostname": host},
            )
            try:
                self.sent = True
                return await self._plain.handle_async_request(pinned)
            except (httpx2.ConnectError, httpx2.ConnectTimeout) as error:
                self.sent, problem = False, error
        raise problem or httpx2.ConnectError("the name leads nowhere")

    async def _find(self, host: str, port: int) -> Sequence[IpAddress]:
        try:
            return await find_addresses(host, port, self._rules, self._resolve)
        except OSError as error:
            raise _UnknownName(str(error)) from error

    async def aclose(self) -> None:
        await self._plain.aclose()
