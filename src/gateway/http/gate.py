"""The gate before everything that is served: hosts, origins, tokens and cookies, and the headers of every answer.

HookRoutes of services stand beside it: they are asked from anywhere, under any name, and reach nothing else.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from msgspec import Struct
from starlette.datastructures import Headers, MutableHeaders
from starlette.exceptions import HTTPException
from starlette.requests import Request as HttpRequest
from starlette.requests import cookie_parser
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from gateway.http import access, guard
from gateway.http.calls import answer_error, answer_failure, answer_nothing, read_message
from gateway.http.hook_routes import HOOKS
from gateway.http.pages import answer_login, answer_missing
from gateway.http.turnstile import Turnstile
from gateway.service.queries.sign_in_queries import SignInQueries
from hermes_base.errors import HermesError

#: What programs ask, with keys of their own; cookies mean nothing there.
API_PATHS = frozenset({"/v1", "/health", "/ready", "/metrics", "/openapi.json"})
#: What programs mean that leave /v1 out of their address.
SHORT_API_PATHS = ("/chat/completions", "/responses", "/models", "/runs", "/sessions")
PAGE_PATHS = frozenset({"/", "/status", "/settings", "/setup"})
LOGIN, LOGOUT = "/web/login", "/web/logout"
READING = frozenset({"GET", "HEAD", "OPTIONS"})

CROWDED = "Too many connections are open. Close some, or try again in a moment."
WRONG_HOST = (
    "Hermes does not answer under this name. If it is a name of yours, add it to the setting `web.names` and start "
    "Hermes again."
)
WITHOUT_V1 = "There is nothing at {path}. The API is below /v1: ask for /v1{path}."
FOREIGN = "This request comes from the page of another site, so nothing was done."
NOT_KNOWN = "You are not logged in. Use the address that `hermes web` prints, or log in with the password."
TOO_MANY_TRIES = "Many passwords are being tried just now, and yours was not looked at. Try again in a moment."
_NOT_IN_HEADERS = bytes({*range(32), 127} - {9})
WRONG_TOKEN = "The token in this address does not hold here, or not any more."


@dataclass(frozen=True, slots=True)
class GateRules:
    """Where the server stands, and who may enter."""

    home: Path
    password: str  # empty: there is none
    names: frozenset[str]  # hosts under which it answers, beside addresses and loopback names
    on_loopback: bool  # it listens where only this machine reaches it
    tokens: access.TokenFile
    cookie: str  # its name

    def holds_token(self, token: str) -> bool:
        """Whether this is the token of the home, and the server stands where the token counts."""
        return self.on_loopback and access.are_equal(token, self.tokens.read())


class PasswordMessage(Struct):
    password: str


def is_page(path: str) -> bool:
    return path in PAGE_PATHS or path.startswith("/c/")


class Gate:
    """Wraps the routes. A request passes from the outermost check to the innermost; the first refusal answers."""

    def __init__(
        self, rules: GateRules, sign_ins: SignInQueries, app: ASGIApp, hooks: ASGIApp, is_crowded: Callable[[], bool]
    ) -> None:
        self._rules = rules
        self._sign_ins = sign_ins
        self._token = ""  # as it was seen last
        self._app = app
        self._hooks = hooks
        self._is_crowded = is_crowded
        self._turnstile = Turnstile(sign_ins.take_try, sign_ins.give_try_back)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = read_request(scope)
        send = _with_headers(send)
        scope["app"] = self  # has the router raise what it does not find
        try:
            if asked.path.startswith(HOOKS):
                await (self._refuse_crowd() or self._hooks)(scope, receive, send)
                return
            answer = self._refuse(asked) or await self._let_in(asked, scope, receive)
            await (answer or self._app)(scope, receive, send)
        except (HTTPException, HermesError) as error:
            is_missing = isinstance(error, HTTPException) and error.status_code == 404
            shown = answer_missing() if is_missing and asked.is_from_person else answer_failure(error)
            await shown(scope, receive, send)

    # --- outermost: what is not for us

    def _refuse_crowd(self) -> Response | None:
        if self._is_crowded():
            return answer_error(503, "crowded", CROWDED, {"retry-after": "10", "connection": "close"})
        return None

    def _refuse(self, asked: guard.Request) -> Response | None:
        if (crowded := self._refuse_crowd()) is not None:
            return crowded
        if not guard.is_known_host(asked.host, self._rules.names):
            return answer_error(421, "wrong_host", WRONG_HOST)
        if guard.is_foreign(asked, is_page(asked.path)):
            return answer_error(403, "foreign", FOREIGN)
        return None

    # --- then: who asks

    async def _let_in(self, asked: guard.Request, scope: Scope, receive: Receive) -> Response | None:
        """None: the request goes through."""
        if asked.path in API_PATHS or asked.path.startswith("/v1/"):
            return None
        if any(asked.path == short or asked.path.startswith(f"{short}/") for short in SHORT_API_PATHS):
            return answer_error(404, "not_there", WITHOUT_V1.format(path=asked.path[:200]))
        if asked.method not in READING and not (asked.origin or asked.fetch_site == "same-origin"):
            return answer_error(403, "foreign", FOREIGN)
        if asked.path == LOGIN and asked.method == "POST":
            return await self._log_in(asked, HttpRequest(scope, receive))
        if asked.path == LOGOUT and asked.method == "POST":
            return await self._log_out(scope)
        query = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True)
        if any(name == "token" for name, _ in query) and asked.method in READING:
            return await self._take_token(asked, scope, query)
        is_program = asked.path.startswith("/static/") or asked.path == "/favicon.ico"
        if is_program or await self._knows(scope):  # the program of the page is no secret; what it shows is
            return None
        return self._show_login(401, asked, NOT_KNOWN)

    async def _take_token(self, asked: guard.Request, scope: Scope, query: list[tuple[str, str]]) -> Response:
        given = next(value for name, value in query if name == "token")
        if not (guard.is_loopback(asked.peer) and self._rules.holds_token(given)):
            return self._show_login(403, asked, WRONG_TOKEN)
        rest = urlencode([(name, value) for name, value in query if name != "token"])
        place = "/" + quote(asked.path.lstrip("/"), safe="/") + (f"?{rest}" if rest else "")
        answer = Response(status_code=303, headers={"location": place, "cache-control": "no-store"})
        return await self._sign_in(answer, scope)

    async def _log_in(self, asked: guard.Request, request: HttpRequest) -> Response:
        given = (await read_message(request, PasswordMessage, 10_000)).password
        if not self._rules.password:
            return answer_error(403, "no_password", "No password is set. Use the address that `hermes web` prints.")
        if not await _unless_gone(self._turnstile.wait(asked.peer), request.receive):
            return answer_error(429, "too_many_tries", TOO_MANY_TRIES, {"retry-after": "10"})
        if not access.are_equal(given, self._rules.password):
            return answer_error(403, "wrong_password", "That is not the password.")
        await self._turnstile.note_right()
        return await self._sign_in(answer_nothing(), request.scope)

    async def _sign_in(self, answer: Response, scope: Scope) -> Response:
        value = access.make_cookie()
        bound = access.bind_cookie(value, self._rules.password)
        token = await self._read_token()
        await self._sign_ins.begin(access.digest_cookie(value), bound, token, access.COOKIE_SECONDS)
        return self._set_cookie(answer, scope, value, access.COOKIE_SECONDS)

    async def _log_out(self, scope: Scope) -> Response:
        """On all gateways of the store: the cookie opens nothing any more, whoever has it."""
        digest = access.digest_cookie(self._read_cookie(scope))
        if digest:
            await self._sign_ins.end(digest)
        return self._set_cookie(answer_nothing(), scope, "", 0)

    async def _knows(self, scope: Scope) -> bool:
        value = self._read_cookie(scope)
        digest = access.digest_cookie(value)
        if not digest:
            return False
        bound = await self._sign_ins.find(digest, await self._read_token())
        return access.are_equal(access.bind_cookie(value, self._rules.password), bound)

    def _read_cookie(self, scope: Scope) -> str:
        return cookie_parser(Headers(scope=scope).get("cookie", "")).get(self._rules.cookie, "")

    async def _read_token(self) -> str:
        """The digest of the token as it is now. A new one voids what was signed in here, on other gateways too."""
        token = self._rules.tokens.read()
        digest = access.digest_token(token)
        if token != self._token:
            await self._sign_ins.void_others(digest)
            self._token = token
        return digest

    def _set_cookie(self, answer: Response, scope: Scope, value: str, seconds: int) -> Response:
        """Behind a proxy that does TLS, only the proxy knows that the browser came by it."""
        secure = Headers(scope=scope).get("x-forwarded-proto", "").lower() == "https"
        answer.set_cookie(
            self._rules.cookie, value, max_age=seconds, path="/", httponly=True, samesite="strict", secure=secure
        )
        return answer

    def _show_login(self, status: int, asked: guard.Request, problem: str) -> Response:
        if is_page(asked.path) or asked.is_from_person:
            told = problem if status == 403 else ""
            return answer_login(status, takes_password=bool(self._rules.password), problem=told)
        return answer_error(status, "not_logged_in", problem)


async def _unless_gone(turn: Coroutine[Any, Any, bool], receive: Receive) -> bool:
    """What `turn` says; False when the client goes away before, which gives its place in the line free."""

    async def wait_gone() -> bool:
        while (await receive())["type"] != "http.disconnect":
            pass
        return False

    either = [asyncio.ensure_future(turn), asyncio.ensure_future(wait_gone())]
    try:
        done, _ = await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        return all(task.result() for task in done)
    finally:
        for task in either:
            task.cancel()


def read_request(scope: Scope) -> guard.Request:
    headers = Headers(scope=scope)
    hosts = headers.getlist("host")
    return guard.Request(
        scope["method"],
        scope["path"],
        hosts[0] if len(hosts) == 1 else "",
        headers.get("origin", ""),
        headers.get("sec-fetch-site", ""),
        headers.get("sec-fetch-mode", ""),
        scope["client"][0] if scope.get("client") else "",
        headers.get("accept", ""),
    )


def _with_headers(send: Send) -> Send:
    """Every answer has the headers that keep other sites out; an answer may have stricter ones of its own. None holds
    what a header cannot: an answer that was worked for is not lost over it."""

    async def send_with_headers(message: Message) -> None:
        if message["type"] == "http.response.start":
            message["headers"] = [(name, value.translate(None, _NOT_IN_HEADERS)) for name, value in message["headers"]]
            headers = MutableHeaders(scope=message)
            for name, value in guard.HEADERS.items():
                headers.setdefault(name, value)
        await send(message)

    return send_with_headers
