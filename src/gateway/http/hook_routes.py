"""Requests that services make of our accounts, below /hooks/<platform>/<account>. No login and no rule about hosts
holds there: each account checks who asks by itself. What it costs to ask is bounded here."""

import asyncio
import logging
import time
from collections.abc import Mapping, Sequence
from urllib.parse import parse_qsl
from weakref import WeakKeyDictionary

from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from gateway.http.calls import Refusal, check_length, too_large
from gateway.platforms.face import Adapter, HookAnswer, HookRequest

log = logging.getLogger(__name__)

HOOKS = "/hooks/"
MOST_OPEN = 64  # requests of one account that were read and wait
MOST_HELD = 32 * 1024 * 1024  # bytes of bodies of one account that are being read
MOST_AT_WORK = 16  # of them, that are looked at
BODY_SECONDS = 15.0  # for the whole body
RETRY_SECONDS = "10"  # after which a service may try again what was not taken now
TOLD_SECONDS = 60.0  # between two lines of the log about requests that were not signed
_AGAIN_LATER = frozenset({429, 503})


class BodyReader:
    """Reads bodies of one account. Anybody can begin one, so who is slow gives way: where all of them together are too
    large, the oldest is given up."""

    def __init__(self) -> None:
        self._sizes: dict[asyncio.Timeout, int] = {}  # the oldest first
        self._held = 0

    async def read_whole(self, request: Request, most: int) -> bytes:
        """The bytes as they came, since they are signed; given up as soon as they are too many or too slow."""
        check_length(request, most)
        body = bytearray()
        try:
            async with asyncio.timeout(BODY_SECONDS) as limit:
                self._sizes[limit] = 0
                try:
                    async for piece in request.stream():
                        body += piece
                        if len(body) > most:
                            raise too_large(most)
                        self._note(limit, len(piece))
                finally:
                    self._held -= self._sizes.pop(limit, 0)
        except TimeoutError as error:
            raise Refusal(408, "too_slow", "The body did not come in time. Nothing was kept.") from error
        return bytes(body)

    def _note(self, limit: asyncio.Timeout, more: int) -> None:
        if limit not in self._sizes:  # it gave way already
            return
        self._sizes[limit] += more
        self._held += more
        while self._held > MOST_HELD:
            oldest = next(iter(self._sizes))
            self._held -= self._sizes.pop(oldest)
            if not oldest.expired():
                oldest.reschedule(asyncio.get_running_loop().time())


class HookAccount:
    """What one account is being asked."""

    def __init__(self) -> None:
        self.open = 0
        self.bodies = BodyReader()
        self.places = asyncio.Semaphore(MOST_AT_WORK)
        self._unsigned = 0
        self._told = -TOLD_SECONDS

    def note_unsigned(self, adapter: Adapter, now: float) -> None:
        """Counted; told now and then, since anybody can make them come."""
        self._unsigned += 1
        if now - self._told >= TOLD_SECONDS:
            label, account = adapter.spec.label, adapter.account
            log.warning("%s, account %s: %d requests were not signed by it", label, account, self._unsigned)
            self._unsigned, self._told = 0, now


class HookRoutes:
    """Finds the account that is asked, hands it the request, and gives its answer back. `adapters` is the one list of
    them, from which they come and go with the settings."""

    def __init__(self, adapters: Sequence[Adapter]) -> None:
        self._adapters = adapters
        self._accounts: WeakKeyDictionary[Adapter, HookAccount] = WeakKeyDictionary()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        platform, _, rest = str(scope["path"]).removeprefix(HOOKS).partition("/")
        name, _, more = rest.partition("/")
        adapter = self._find(platform, name)
        try:
            answer = HookAnswer(404) if adapter is None else await self._serve(adapter, Request(scope, receive), more)
        except ClientDisconnect:
            return
        headers = {"cache-control": "no-store"}
        if answer.status in _AGAIN_LATER:
            headers["retry-after"] = RETRY_SECONDS
        response = Response(answer.body, answer.status, headers, answer.content_type if answer.body else None)
        await response(scope, receive, send)

    def _find(self, platform: str, account: str) -> Adapter | None:
        asked = (adapter for adapter in self._adapters if adapter.spec.takes_hooks and adapter.expects_hooks)
        return next((one for one in asked if (one.spec.name, one.account) == (platform, account)), None)

    async def _serve(self, adapter: Adapter, request: Request, path: str) -> HookAnswer:
        """A place is taken by what was read, or whoever sends one byte and waits would keep the service out."""
        account = self._accounts.setdefault(adapter, HookAccount())
        headers = _list_headers(request.headers)
        is_signed = not adapter.hook_header or adapter.hook_header in headers
        if not is_signed and request.method != "GET":
            account.note_unsigned(adapter, time.monotonic())
            return HookAnswer(401)
        try:
            body = await account.bodies.read_whole(request, adapter.spec.max_hook_bytes) if is_signed else b""
        except Refusal as refusal:
            return HookAnswer(refusal.status, str(refusal))
        if account.open >= MOST_OPEN:
            return HookAnswer(503)
        account.open += 1
        try:
            async with account.places:
                answer = await _ask(adapter, HookRequest(request.method, path, headers, _list_query(request), body))
        finally:
            account.open -= 1
        if answer.status == 401:
            account.note_unsigned(adapter, time.monotonic())
        return answer


async def _ask(adapter: Adapter, asked: HookRequest) -> HookAnswer:
    try:
        return await adapter.receive_hook(asked)
    except Exception:  # the boundary to platforms: the service may send it again
        log.exception("%s, account %s: a request broke", adapter.spec.label, adapter.account)
        return HookAnswer(503)


def _list_headers(headers: Headers) -> Mapping[str, str]:
    """By their names in small letters; of several with one name the first."""
    return dict(reversed(headers.items()))


def _list_query(request: Request) -> Mapping[str, str]:
    return dict(parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True))
