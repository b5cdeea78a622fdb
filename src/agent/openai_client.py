"""The official OpenAI SDK as we use it: clients on shared pools, raw bodies out, raw event lines in.

This is the only module that imports the SDK; it is loaded late (`run_agent.OpenAI`), because the import costs most of
a second. The SDK's typed requests and chunks are never built: they cost forty times the bytes.
"""

import json
import logging
import threading
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import httpx2
import openai

from agent import transport
from agent.chat_completions import StreamDecoder
from agent.failures import classify, cut_failure, parse_retry_after, transport_failure
from agent.reply import Reply
from agent.sse import DONE, iter_event_data
from hermes_base.cancel import CancelToken
from hermes_base.errors import ModelFailure

log = logging.getLogger(__name__)


class Lines(openai.Stream[object]):
    """A stream of the data of each event, as bytes."""

    def __stream__(self) -> Iterator[object]:
        try:
            yield from iter_event_data(self.response.iter_bytes())
        finally:
            self.response.close()


@dataclass(frozen=True, slots=True)
class CallLimits:
    first_byte: float = 60.0
    between_chunks: float = 60.0


_releases: "weakref.WeakKeyDictionary[openai.OpenAI, weakref.finalize[Any, Any]]" = weakref.WeakKeyDictionary()


def build_client(*, api_key: str, base_url: str) -> openai.OpenAI:
    """A client on the shared pool of its address and key: 0.1 ms and 1 KB once the pool exists."""
    name, http = transport.acquire_pool(base_url, api_key)
    # The SDK wants some key even where the server wants none; retries are the turn's business, not the SDK's.
    client = openai.OpenAI(api_key=api_key or "none", base_url=base_url or None, http_client=http, max_retries=0)
    _releases[client] = weakref.finalize(client, transport.release_pool, name)
    return client


def release_client(client: object) -> None:
    """Give the pool back. The SDK's own close() would close it for everyone, so it is never called."""
    release = _releases.pop(client, None) if isinstance(client, openai.OpenAI) else None
    if release is not None:
        release()


def stream_chat(
    client: openai.OpenAI,
    body: bytes,
    decoder: StreamDecoder,
    *,
    who: str,
    limits: CallLimits,
    cancel: CancelToken,
    on_chunk: Callable[[], None],
) -> Reply:
    """One Chat Completions call: the whole answer, or a ModelFailure, or Interrupted."""
    thread = threading.get_ident()
    forget = cancel.on_cancel(lambda: transport.cut_thread(thread))
    try:
        cancel.check()
        _read_stream(client, body, decoder, limits, on_chunk)
    except openai.APIStatusError as error:
        cancel.check()
        raise _status_failure(error, who) from error
    except (openai.APIConnectionError, httpx2.HTTPError, httpx2.StreamError, OSError) as error:
        cancel.check()
        raise _broken_failure(error, decoder, who, str(client.base_url)) from error
    finally:
        forget()
        transport.forget_thread(thread)
    cancel.check()  # a cut socket looks like a clean end
    if not decoder.whole:
        raise cut_failure(who)
    return decoder.reply()


def _read_stream(
    client: openai.OpenAI,
    body: bytes,
    decoder: StreamDecoder,
    limits: CallLimits,
    on_chunk: Callable[[], None],
) -> None:
    timeout = httpx2.Timeout(limits.between_chunks, connect=10.0, read=limits.first_byte)
    stream = client.post(
        "/chat/completions",
        content=body,
        cast_to=object,
        options={"headers": {"Content-Type": "application/json"}, "timeout": timeout},
        stream=True,
        stream_cls=Lines,
    )
    with stream:
        if not _is_event_stream(stream.response):
            decoder.feed(_parse(stream.response.read()))
            return
        _limit_reads(stream.response, limits.between_chunks)
        for data in stream:
            if data == DONE:
                decoder.finish()
                break
            decoder.feed(_parse(data))
            on_chunk()


def _is_event_stream(response: httpx2.Response) -> bool:
    """Some servers answer with one JSON document although a stream was asked for."""
    return "application/json" not in response.headers.get("content-type", "")


def _limit_reads(response: httpx2.Response, seconds: float) -> None:
    """From the first byte on, the shorter limit between chunks holds (the connection reads it for every read)."""
    timeouts = response.request.extensions.get("timeout")
    if isinstance(timeouts, dict):
        timeouts["read"] = seconds


def _parse(data: object) -> dict[str, Any]:
    """One chunk; an error object in mid-stream is the failure it names."""
    try:
        chunk = json.loads(data) if isinstance(data, bytes | str) else None
    except ValueError as error:
        raise ModelFailure(f"The model server sent something that is not JSON ({str(data)[:120]}).") from error
    if not isinstance(chunk, dict):
        raise ModelFailure(f"The model server sent an answer of the wrong form ({str(data)[:120]}).")
    problem = chunk.get("error")
    if problem:
        code = problem.get("code") if isinstance(problem, dict) else None
        status = code if isinstance(code, int) else 500
        raise classify(status, json.dumps(problem, ensure_ascii=False), None, "The model server")
    return chunk


def _status_failure(error: openai.APIStatusError, who: str) -> ModelFailure:
    body = json.dumps(error.body, ensure_ascii=False) if error.body is not None else str(error)
    message = error.body.get("message") if isinstance(error.body, dict) else None
    retry_after = parse_retry_after(error.response.headers.get("retry-after"))
    return classify(error.status_code, body, retry_after, who, str(message or ""))


def _broken_failure(error: Exception, decoder: StreamDecoder, who: str, address: str) -> ModelFailure:
    if decoder.text:
        return cut_failure(who)
    return transport_failure(error, who, address)
