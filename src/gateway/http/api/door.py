"""Who comes in: checks the key of a request, and answers every failure in one form."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, get_type_hints
from weakref import WeakValueDictionary

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

from gateway.http.api.problems import ApiProblem, answer_problem
from gateway.http.api.runs.runs import Runs
from gateway.http.calls import Handler, answer_json, guarded, parse, read_body, read_query
from gateway.platforms.api.adapter import ApiAdapter
from gateway.service.queries.all_queries import Queries
from hermes_base.query_values import Caller

#: Headers and errors of the calls that say something to the agent.
TALK = ("X-Hermes-Conversation", "Idempotency-Key", "X-Hermes-Commands", "X-Hermes-Events")
TALK_ERRORS = (404, 409, 413, 422, 429, 502, 503)
BODY_BYTES = 10 * 1024 * 1024
SMALL_BYTES = 32 * 1024  # what is larger is parsed beside the event loop
KEY_IN_ADDRESS = (
    "A key must not stand in the address, since addresses are logged on their way. Send it in the header "
    "`Authorization: Bearer KEY`, and revoke this one: `hermes api-keys list`, then `hermes api-keys revoke ID`."
)
NO_KEY = "This needs a key: send the header `Authorization: Bearer KEY`. `hermes api-keys create` makes one."
NOT_LET_IN = (
    "The person of this key may not speak here any more, so nothing was done. Whoever runs this Hermes lets them in."
)
WRONG_KEY = "This key is not known here, or was revoked. `hermes api-keys create` makes another one."
_KEY_NAMES = frozenset({"api_key", "api-key", "apikey", "key", "token", "access_token"})
_KEY = re.compile(r"hk_|hk%5f", re.IGNORECASE)


@dataclass(frozen=True)
class Api:
    """What the calls of the API work with."""

    queries: Queries
    adapter: ApiAdapter
    is_page_token: Callable[[str], bool]
    runs: Runs
    repeating: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    def one_at_a_time(self, name: str) -> asyncio.Lock:
        """Held while the place of a request with this idempotency key is looked for."""
        return self.repeating.setdefault(name, asyncio.Lock())


Work = Callable[..., Awaitable[Response | Struct]]


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One call: who does it, what it gives, and which errors it may give beside those that all have. What it takes are
    the kinds of the parameters `body` and `query` of `work`; what it does is the first sentence of its docstring."""

    work: Work
    answer: type[Struct] | None = None  # None: a text
    status: int = 200
    headers: tuple[str, ...] = ()
    streams: bool = False  # also, or only, as server-sent events
    errors: tuple[int, ...] = ()
    is_open: bool = False  # without a key

    def find_kind(self, part: str) -> type[Struct] | None:
        return get_type_hints(self.work).get(part)


class CallTable(dict[tuple[str, str], ApiCall]):
    """By method and path, the calls of a module."""

    def call(self, method: str, path: str, answer: type[Struct] | None = None, **more: Any) -> Callable[[Work], Work]:
        """Marks what serves a call."""

        def add(work: Work) -> Work:
            self[method, path] = ApiCall(work, answer, **more)
            return work

        return add


def serve(api: Api, call: ApiCall) -> Handler:
    """The call as a client makes it: its key is checked, then what it sends."""
    body, query, taken = call.find_kind("body"), call.find_kind("query"), signature(call.work).parameters

    async def answer(request: Request) -> Response:
        refuse_key_in_address(request)
        given: dict[str, Any] = {"api": api, "request": request}
        given["caller"] = None if call.is_open else await find_caller(api, request)
        given["query"] = read_query(request, query) if query else None
        given["body"] = await _read_sent(request, body) if body else None
        made = await call.work(**{name: given[name] for name in taken})
        return made if isinstance(made, Response) else answer_json(made, call.status)

    return guarded(answer, answer_problem)


async def _read_sent(request: Request, kind: type[Struct]) -> Struct:
    """No body at all says as much as an empty object; a large one is read beside the event loop."""
    sent = await read_body(request, BODY_BYTES) or b"{}"
    return parse(sent, kind) if len(sent) <= SMALL_BYTES else await asyncio.to_thread(parse, sent, kind)


def refuse_key_in_address(request: Request) -> None:
    query = request.url.query
    named = any(name.lower() in _KEY_NAMES for name in request.query_params)
    in_path = any(part.startswith("hk_") for part in request.url.path.split("/"))
    if named or in_path or _KEY.search(query):
        raise ApiProblem(400, KEY_IN_ADDRESS, "key_in_url")


async def find_caller(api: Api, request: Request) -> Caller:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    secret = secret.strip()
    if scheme.lower() != "bearer" or not secret:
        raise ApiProblem(401, NO_KEY, "missing_api_key")
    if api.is_page_token(secret):
        return Caller()
    caller = await api.queries.keys.check(secret)
    if caller is None:
        raise ApiProblem(401, WRONG_KEY, "invalid_api_key")
    if not caller.role:
        raise ApiProblem(401, NOT_LET_IN, "invalid_api_key")
    return caller
