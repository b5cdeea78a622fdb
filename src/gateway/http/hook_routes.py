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

from gateway.http.answers import Refusal
from gateway.http.reading import check_length, too_large
from gateway.platforms.face import Adapter, HookAnswer, HookRequest

log = logging.getLogger(__name__)

HOOKS = "/hooks/"
MOST_OPEN = 64  # requests of one account that are read or wait
MOST_AT_WORK = 16  # of them, that are looked at
BODY_SECONDS = 15.0  # for the whole body
RETRY_SECONDS = "10"  # after which a service may try again what was not taken now
TOLD_SECONDS = 60.0  # between two lines of the log about requests that were not signed
_AGAIN_LATER = frozenset({429, 503})


class HookAccount:
    """What one account is being asked."""

    def __init__(self) -> None:
        self.open = 0
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
        asked = (adapter for adapter in self._adapters if adapter.spec.takes_hooks)
        return next((one for one in asked if (one.spec.name, one.account) == (platform, account)), None)

    async def _serve(self, adapter: Adapter, request: Request, path: str) -> HookAnswer:
        account = self._accounts.setdefault(adapter, HookAccount())
        if account.open >= MOST_OPEN:
            return HookAnswer(503)
        account.open += 1
        try:
            body = await _read_whole(request, adapter.spec.max_hook_bytes)
            asked = HookRequest(request.method, path, _list_headers(request.headers), _list_query(request), body)
            async with account.places:
                answer = await _ask(adapter, asked)
        except Refusal as refusal:
            return HookAnswer(refusal.status, str(refusal))
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


async def _read_whole(request: Request, most: int) -> bytes:
    """The bytes as they came, since they are signed; given up as soon as they are too many or too slow."""
    check_length(request, most)
    body = bytearray()
    try:
        async with asyncio.timeout(BODY_SECONDS):
            async for piece in request.stream():
                body += piece
                if len(body) > most:
                    raise too_large(most)
    except TimeoutError as error:
        raise Refusal(408, "too_slow", "The body did not come in time. Nothing was kept.") from error
    return bytes(body)


def _list_headers(headers: Headers) -> Mapping[str, str]:
    """By their names in small letters; of several with one name the first."""
    return dict(reversed(headers.items()))


def _list_query(request: Request) -> Mapping[str, str]:
    return dict(parse_qsl(request.scope["query_string"].decode("latin-1"), keep_blank_values=True))
