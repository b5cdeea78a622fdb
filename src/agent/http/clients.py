"""Clients of the official SDKs on shared pools, and one way to stream beside them: raw bodies out, raw events in.

The SDKs say where a request goes and with which headers. Their requests, errors and chunks are never built for a turn:
they cost far more CPU.
An SDK is loaded by one function, when the first client of its kind is built; the import costs most of a second.
"""

import contextlib
import http.client
import importlib
import logging
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

from agent.formats.reply import Reply
from agent.formats.wire import AnswerReader, WireFormat
from agent.providers.failures import (
    classify_answer,
    cut_failure,
    in_stream_failure,
    misunderstood_failure,
    parse_retry_after,
    transport_failure,
)
from agent.providers.table import ANTHROPIC_MESSAGES
from agent.providers.wire_limits import (
    FORM_ERRORS,
    MOST_DEPTH,
    MOST_PIECE_BYTES,
    MOST_PIECES,
    NotUnderstood,
    is_shallow,
    read_json,
    scan_json,
)
from hermes_base.errors import ConfigProblem, ModelFailure
from hermes_base.turn.cancel import CancelToken

log = logging.getLogger(__name__)

DONE = b"[DONE]"
CONNECT_SECONDS = 5.0
MOST_REDIRECTS = 5


@dataclass(frozen=True, slots=True)
class StreamCall:
    """One request: in which format, to whom, and how long its silence is borne."""

    format: WireFormat
    body: bytes
    who: str
    first_byte: float = 60.0
    between_chunks: float = 60.0


@dataclass(frozen=True, slots=True)
class Sdk:
    """An official SDK, the part of it that we use."""

    module: ModuleType
    transport: ModuleType
    http: ModuleType

    @property
    def errors(self) -> tuple[type[Exception], ...]:
        """What sending raises; a redirect can lead to an address that is none."""
        return self.http.HTTPError, self.http.StreamError, self.http.InvalidURL, OSError


#: Of openai: a second client, for which it loads aiohttp (9 MB) wherever a chat app has brought that along.
_NOT_USED = "openai._vendor.httpx_aiohttp"


@lru_cache
def load_sdk(name: str) -> Sdk:
    """Late: importing an SDK costs most of a second and 40 MB, and nothing needs it before the first model call."""
    try:
        with _passed_over(_NOT_USED):
            module = importlib.import_module(name)
    except ImportError as problem:
        raise ConfigProblem(
            f"The SDK '{name}' is not installed.", fix=f"Install it where Hermes is installed: pip install {name}"
        ) from problem

    return Sdk(module, importlib.import_module("agent.http.transport"), importlib.import_module("httpx2"))


@contextlib.contextmanager
def _passed_over(name: str) -> Iterator[None]:
    """A module that cannot be imported meanwhile, unless it is there."""
    if name in sys.modules:
        yield
        return
    sys.modules[name] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[name]


@dataclass(frozen=True, slots=True)
class Wiring:
    """What a client sends through, and the heads of its requests by path, which stay the same."""

    transport: Any
    release: "weakref.finalize[Any, Any]"
    heads: dict[str, Any]


_wirings: "weakref.WeakKeyDictionary[Any, Wiring]" = weakref.WeakKeyDictionary()


def build_openai_client(*, api_key: str, base_url: str, default_headers: Mapping[str, str] | None = None) -> Any:
    """A client on the shared pool of its address and key: 0.1 ms and 1 KB once the pool exists."""
    options = {"api_key": api_key or "none", "default_headers": dict(default_headers or {})}
    return _build(load_sdk("openai"), "OpenAI", base_url or None, api_key, options)


def build_anthropic_client(*, api_key: str, base_url: str, default_headers: Mapping[str, str] | None = None) -> Any:
    """The same for Anthropic; its SDK adds the version to the address itself, and a subscription's token is no key."""
    address = base_url.rstrip("/").removesuffix("/v1") or None
    if is_oauth_token(api_key):
        credentials: dict[str, Any] = {"auth_token": api_key}
        headers = {"anthropic-beta": "oauth-2025-04-20", **(default_headers or {})}
    else:
        credentials, headers = {"api_key": api_key or "none"}, dict(default_headers or {})
    return _build(load_sdk("anthropic"), "Anthropic", address, api_key, {**credentials, "default_headers": headers})


def build_client(
    api_mode: str, *, api_key: str, base_url: str, default_headers: Mapping[str, str] | None = None
) -> Any:
    build = build_anthropic_client if api_mode == ANTHROPIC_MESSAGES else build_openai_client
    return build(api_key=api_key, base_url=base_url, default_headers=default_headers)


def is_oauth_token(api_key: str) -> bool:
    """Tokens of a subscription have another form than API keys and travel in another header."""
    return api_key.startswith("sk-ant-oat")


def _build(sdk: Sdk, kind: str, base_url: str | None, api_key: str, credentials: dict[str, Any]) -> Any:
    name, pool = sdk.transport.acquire_pool(base_url or kind, api_key)
    # Retries are the turn's business, not the SDK's.
    client = getattr(sdk.module, kind)(base_url=base_url, http_client=pool.http, max_retries=0, **credentials)
    _wire(sdk, client, name, pool)
    return client


def _wire(sdk: Sdk, client: Any, name: str, pool: Any) -> Wiring:
    wiring = Wiring(pool.transport, weakref.finalize(client, sdk.transport.release_pool, name), {})
    return _wirings.setdefault(client, wiring)


def release_client(client: object) -> None:
    """Give the pool back. The SDK's own close() would close it for everyone, so it is never called."""
    try:
        wiring = _wirings.get(client)
    except TypeError:  # something that cannot be referred to weakly is no client of ours
        return
    if wiring is not None:
        wiring.release()


#: An answer that is whole may be followed by its usage and the mark of its end; nobody waits longer for them.
AFTER_END_SECONDS = 2.0


def stream(
    client: Any, call: StreamCall, answer: AnswerReader, cancel: CancelToken, on_chunk: Callable[[], None]
) -> Reply:
    """One model call: the whole answer, or a ModelFailure, or Interrupted."""
    sdk = load_sdk(type(client).__module__.partition(".")[0])
    line = sdk.transport.Line()
    forget = cancel.on_cancel(line.cut)
    began = False
    try:
        cancel.check()
        coming = _open(sdk, client, call, line)
        if coming.status >= 300:
            with contextlib.closing(coming):
                text = b"".join(coming).decode("utf-8", "replace")
            if coming.status < http.client.BAD_REQUEST:
                text = f"it is at {coming.headers['location'] or 'no address that it names'}"
            cancel.check()
            raise classify_answer(
                coming.status, text, parse_retry_after(coming.headers.get("retry-after", "")), call.who
            )
        began = True
        _read(coming, call, answer, on_chunk, line)
    except FORM_ERRORS as error:
        raise _tell_misunderstood(error, call.who) from error
    except sdk.errors as error:
        cancel.check()
        if not (began and answer.whole):  # behind the end of an answer nothing can break it
            if began:
                raise cut_failure(call.who, error) from error
            raise transport_failure(error, call.who, str(client.base_url)) from error
    finally:
        forget()
    cancel.check()  # a cut socket looks like a clean end
    if not answer.whole:
        raise cut_failure(call.who)
    try:
        return answer.reply()
    except FORM_ERRORS as error:
        raise _tell_misunderstood(error, call.who) from error


def _open(sdk: Sdk, client: Any, call: StreamCall, line: Any) -> Any:
    """Send the request; the answer has begun when this returns. Its first data has the limit of its first byte."""
    wiring, path = _wirings.get(client), call.format.PATH
    if wiring is None:  # a client that a host made itself says where to and with which headers, as ours do
        pool = sdk.transport.acquire_pool(str(client.base_url), str(client.api_key or ""))
        wiring = _wire(sdk, client, *pool)
    head = wiring.heads.get(path) or wiring.heads.setdefault(path, sdk.transport.RequestHead.of_client(client, path))
    for _ in range(MOST_REDIRECTS):
        coming = wiring.transport.send(head, call.body, CONNECT_SECONDS, call.first_byte, line)
        if coming.status not in (307, 308):
            return coming
        coming.close()
        head = head.moved_to(coming.headers.get("location", ""))
    raise NotUnderstood("one redirect after the other")


def _tell_misunderstood(error: Exception, who: str) -> ModelFailure:
    """The boundary to a model server: what it sends in another form than its format promises is a failed call."""
    log.warning("an answer of %s is not understood", who, exc_info=not isinstance(error, NotUnderstood))
    return misunderstood_failure(error, who)


def _read(coming: Any, call: StreamCall, answer: AnswerReader, on_chunk: Callable[[], None], line: Any) -> None:
    """The limit between chunks counts from the last data: a comment that keeps the connection open is no answer."""
    find_error, feed = call.format.find_error, answer.feed
    with contextlib.closing(coming):
        if coming.headers.get("content-encoding", "").lower() not in ("", "identity"):
            raise NotUnderstood("a compressed answer, although none was asked for")  # it may unpack to any size
        # Some servers answer with one JSON document although a stream was asked for.
        is_document = "application/json" in coming.headers.get("content-type", "")
        pieces = [_read_document(coming, call, line)] if is_document else iter_event_data(coming)
        for number, data in enumerate(pieces):
            if data == DONE:
                answer.finish()
                break
            if number >= MOST_PIECES:
                raise NotUnderstood(f"more than {MOST_PIECES:,} pieces")
            chunk = read_piece(data)
            problem = find_error(chunk)
            if problem is not None:
                raise in_stream_failure(problem, call.who)
            feed(chunk)
            on_chunk()
            if number and not answer.whole:
                line.answered = True
            else:
                line.expect(AFTER_END_SECONDS if answer.whole else call.between_chunks)


def _read_document(blocks: Iterable[bytes], call: StreamCall, line: Any) -> bytes:
    document = bytearray()
    for block in blocks:
        if not block.isspace():  # white space keeps the connection open, as comments do
            line.expect(call.between_chunks)
        document += block
        if len(document) > MOST_PIECE_BYTES:
            raise NotUnderstood(f"an answer of more than {MOST_PIECE_BYTES:,} bytes in one piece")
    return bytes(document)


# --- server-sent events, and the JSON of each


def iter_event_data(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """Lines may end in LF, CRLF or CR; a comment or another field is passed over; an event ends at an empty line.

    An event that is cut before its empty line is not yielded: half a line is never taken for a whole one.
    """
    rest = b""
    for block in blocks:
        rest = rest + block if rest else block
        if len(rest) > MOST_PIECE_BYTES:
            raise NotUnderstood(f"one event of more than {MOST_PIECE_BYTES:,} bytes")
        held = b""
        if b"\r" in rest:
            # Plain line ends; a CR at the very end is held back, since its LF may still come.
            held = b"\r" if rest[-1:] == b"\r" else b""
            rest = rest[: len(rest) - len(held)].replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        events = rest.split(b"\n\n")
        rest = events.pop() + held
        for event in events:
            # Nearly every event is one line of data; the others are looked at line by line.
            data = event[6:] if event[:6] == b"data: " and b"\n" not in event else _data_of(event)
            if data:
                yield data
    if rest[-1:] == b"\r":
        for event in rest.replace(b"\r\n", b"\n").replace(b"\r", b"\n").split(b"\n\n")[:-1]:
            data = _data_of(event)
            if data:
                yield data


def _data_of(event: bytes) -> bytes:
    """The data lines of an event; a line that ends an earlier event may stand before them."""
    lines = (line[5:] for line in event.split(b"\n") if line.startswith(b"data:"))
    return b"\n".join(line[1:] if line[:1] == b" " else line for line in lines)


def read_piece(data: bytes) -> dict[str, Any]:
    """One piece of an answer, which is a JSON object in every format; NotUnderstood."""
    try:
        piece = scan_json(data.decode(), 0)[0] if data[:1] == b"{" else read_json(data.decode("utf-8-sig"))
    except (ValueError, StopIteration, RecursionError) as error:
        raise NotUnderstood(f"no JSON: {_quote(data)}") from error
    if not isinstance(piece, dict):
        raise NotUnderstood(f"no JSON object: {_quote(data)}")
    if data.count(b"[") + data.count(b"{") > MOST_DEPTH and not is_shallow(piece):
        raise NotUnderstood("JSON that is nested too deeply")
    return piece


def _quote(data: bytes) -> str:
    return data[:120].decode("utf-8", "replace")
