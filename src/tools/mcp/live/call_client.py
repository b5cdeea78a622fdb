"""What goes wrong with one call to an address is told to that call, and the others go on.

The SDK ends the whole session at a status that is no success, for everybody who waits; and where an answer breaks off
it waits on. So an error of the protocol stands in the place of what does not come.
"""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Callable
from typing import Any

import httpx
from mcp.client.auth.exceptions import OAuthFlowError

from hermes_base.text.harmless import clean_shown
from mcp import types
from tools.mcp.live.wire_texts import find_words, make_error
from tools.mcp.mcp_specs import HTTP, ServerSpec

log = logging.getLogger(__name__)

#: The code of an error that we put in the place of an answer: nobody knows what was done.
CUT = -32098
OK, ACCEPTED, UNKNOWN_SESSION = 200, 202, (400, 404)
JSON, EVENTS = "application/json", "text/event-stream"
SESSION, LAST_EVENT = "mcp-session-id", "last-event-id"
SESSION_GONE = "Session terminated"  # how the SDK says that the server does not know us any more
LOGIN_STATUS = (401, 403)
TOO_MANY, FAULTS = 429, 500
WORDS_CHARS = 500
UNANSWERED_SECONDS = 5.0  # for what has no answer
BROKE_OFF = "the connection broke off before an answer came"
NOT_RESUMED = "its answer broke off, and it does not go on with it"
RESUME_SECONDS = 0.5  # between two tries to go on with answers, whatever a server says of it
IDLE_RESUME_SECONDS = 30.0  # and while nobody waits for one
_EVENT_ID = re.compile(rb"[\r\n]id:[^\r\n]")
_TAIL = 4  # bytes of a piece that may belong to such a line in the next

Broken = Callable[[str], None]
Waiting = Callable[[], bool]


class CallClient(httpx.AsyncClient):
    """`on_broken` is told when a connection broke off (""), or why the session cannot go on; `is_waiting` says whether
    anybody waits for an answer."""

    def __init__(self, spec: ServerSpec, on_broken: Broken, is_waiting: Waiting, **options: Any) -> None:
        super().__init__(**options)
        self._spec, self._on_broken, self._is_waiting = spec, on_broken, is_waiting
        self._next_resume = 0.0

    async def send(self, request: httpx.Request, **options: Any) -> httpx.Response:
        if request.method == "GET" and LAST_EVENT in request.headers:
            return await self._resume(request, options)
        if request.method == "DELETE":  # the end of the session
            return await self._send_unanswered(request, options)
        if request.method != "POST":
            return await super().send(request, **options)
        method, call = _read_call(await request.aread())
        if method == "initialize":
            return await self._send_first(request, options)
        if call is None:
            return await self._send_unanswered(request, options)
        if self._spec.transport != HTTP:
            return await self._send_aside(request, options)
        return await self._send_call(request, call, options)

    async def _send_first(self, request: httpx.Request, options: dict[str, Any]) -> httpx.Response:
        """Without a session nothing can go on: whatever refuses it is told by its status."""
        answer = await super().send(request, **options)
        if answer.status_code >= 400:
            await answer.aclose()
            answer.raise_for_status()
        return answer

    async def _send_call(self, request: httpx.Request, call: str | int, options: dict[str, Any]) -> httpx.Response:
        try:
            answer = await super().send(request, **options)
        except OAuthFlowError:
            return _write_error(request, call, types.INVALID_REQUEST, tell_login_over(self._spec))
        except (httpx.ConnectError, httpx.ConnectTimeout):  # nobody is there: the session is over
            raise
        except httpx.TransportError:
            self._on_broken("")
            return _write_error(request, call, CUT, BROKE_OFF)
        if answer.status_code >= 400:
            return await self._refuse(request, call, answer)
        if _kind_of(answer) == EVENTS:
            assert isinstance(answer.stream, httpx.AsyncByteStream)
            answer.stream = EndedStream(answer.stream, _write_event(make_error(call, CUT, BROKE_OFF)))
        return answer

    async def _refuse(self, request: httpx.Request, call: str | int, answer: httpx.Response) -> httpx.Response:
        """The refusal in words; of a session that the server has forgotten, as the SDK says it."""
        try:
            body = await answer.aread()
        except httpx.TransportError:
            body = b""
        finally:
            await answer.aclose()
        status = answer.status_code
        if SESSION in request.headers and (status == 404 or (status in UNKNOWN_SESSION and b"session" in body.lower())):
            return _write_error(request, call, types.INVALID_REQUEST, SESSION_GONE)
        try:
            words = find_words(json.loads(body))
        except (ValueError, RecursionError):
            words = ""
        return _write_error(request, call, types.INVALID_REQUEST, words or self._describe(answer))

    def _describe(self, answer: httpx.Response) -> str:
        status, patience = answer.status_code, answer.headers.get("retry-after", "")
        words = f"it answered with status {status}"
        if status in LOGIN_STATUS:
            return f"{words}; `hermes mcp login {self._spec.name}` signs in"
        if status == TOO_MANY and patience.isdecimal():
            return f"{words}: too many calls. It can be tried again in {patience[:6]} seconds"
        return f"{words}. Whether something was done is not known" if status >= FAULTS else words

    async def _send_unanswered(self, request: httpx.Request, options: dict[str, Any]) -> httpx.Response:
        """A notice, or the end of the session: nobody waits for what becomes of it. The SDK does, and sends nothing
        else meanwhile, so a server that does not answer has a few seconds."""
        try:
            async with asyncio.timeout(UNANSWERED_SECONDS):
                answer = await super().send(request, **options)
                await answer.aclose()
        except TimeoutError:
            log.debug("a notice was not answered")
        except httpx.TransportError:
            self._on_broken("")
        return httpx.Response(ACCEPTED, request=request)

    async def _send_aside(self, request: httpx.Request, options: dict[str, Any]) -> httpx.Response:
        """A call whose answer comes on another stream: nothing can be put in its place, so the session ends."""
        try:
            answer = await super().send(request, **options)
        except httpx.TransportError as problem:
            self._on_broken(f"it cannot be reached ({type(problem).__name__})")
            return httpx.Response(ACCEPTED, request=request)
        if answer.status_code >= 400:
            self._on_broken(self._describe(answer))
            await answer.aclose()
            return httpx.Response(ACCEPTED, request=request)
        return answer

    async def _resume(self, request: httpx.Request, options: dict[str, Any]) -> httpx.Response:
        """An answer that broke off is asked for again; the SDK writes the number of the call into what comes."""
        await self._pace()
        answer = await super().send(request, **options)
        if answer.status_code < 400:
            return answer
        await answer.aclose()
        error = _write_event(make_error(0, CUT, NOT_RESUMED))
        return httpx.Response(OK, headers={"content-type": EVENTS}, content=error, request=request)

    async def _pace(self) -> None:
        """The SDK asks without end, as fast as the server likes, also when nobody waits for the answer any more."""
        loop = asyncio.get_running_loop()
        idle_until = loop.time() + IDLE_RESUME_SECONDS
        while not self._is_waiting() and (left := idle_until - loop.time()) > 0:  # noqa: ASYNC110 - whoever waits is found
            await asyncio.sleep(min(left, RESUME_SECONDS))
        begins = max(loop.time(), self._next_resume)
        self._next_resume = begins + RESUME_SECONDS
        await asyncio.sleep(begins - loop.time())


class EndedStream(httpx.AsyncByteStream):
    """The events of an answer. Where they end without it, and none had a name from which it could go on, the call
    ends; whoever has its answer does not read so far."""

    def __init__(self, inner: httpx.AsyncByteStream, end: bytes) -> None:
        self._inner, self._end = inner, end

    async def __aiter__(self) -> AsyncIterator[bytes]:
        tail, goes_on = b"\n", False
        try:
            async for piece in self._inner:
                goes_on = goes_on or _EVENT_ID.search(tail + piece) is not None
                tail = (tail + piece)[-_TAIL:]
                yield piece
        except httpx.TransportError:
            if goes_on:
                raise
        if not goes_on:
            yield self._end

    async def aclose(self) -> None:
        await self._inner.aclose()


def tell_login_over(spec: ServerSpec) -> str:
    return f"its login is over; `hermes mcp login {spec.name}` signs in anew"


def _read_call(body: bytes) -> tuple[str, str | int | None]:
    """The method of a message, and its number if somebody waits for an answer."""
    try:
        said = json.loads(body)
    except ValueError:
        return "", None
    method, call = (said.get("method"), said.get("id")) if isinstance(said, dict) else ("", None)
    return str(method or ""), call if method and isinstance(call, int | str) else None


def _kind_of(answer: httpx.Response) -> str:
    return str(answer.headers.get("content-type", "")).partition(";")[0].strip().lower()


def _write_error(request: httpx.Request, call: str | int, code: int, words: str) -> httpx.Response:
    body = make_error(call, code, clean_shown(words)[:WORDS_CHARS]).model_dump_json(exclude_none=True)
    return httpx.Response(OK, headers={"content-type": JSON}, content=body.encode(), request=request)


def _write_event(error: types.JSONRPCError) -> bytes:
    return f"\n\nevent: message\ndata: {error.model_dump_json(exclude_none=True)}\n\n".encode()
