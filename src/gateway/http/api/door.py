"""Who comes in: checks the key of a request, and answers every failure in one form."""

import asyncio
import logging
import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from starlette.requests import Request
from starlette.responses import Response

from gateway.http.api.problems import ApiProblem, problem_of
from gateway.http.api.runs.repeats import Repeats
from gateway.http.api.runs.retries import Retries
from gateway.http.api.runs.runs import Runs
from gateway.platforms.api.adapter import ApiAdapter
from gateway.service.queries.all_queries import Queries
from hermes_base.errors import HermesError
from hermes_base.query_values import Caller

log = logging.getLogger(__name__)

KEY_IN_ADDRESS = (
    "A key must not stand in the address, since addresses are logged on their way. Send it in the header "
    "`Authorization: Bearer KEY`, and revoke this one: `hermes api-keys list`, then `hermes api-keys revoke ID`."
)
NO_KEY = "This needs a key: send the header `Authorization: Bearer KEY`. `hermes api-keys create` makes one."
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
    repeats: Repeats
    retries: Retries
    repeating: WeakValueDictionary[str, asyncio.Lock] = field(default_factory=WeakValueDictionary)

    def one_at_a_time(self, name: str) -> asyncio.Lock:
        """Held while the place of a request with this idempotency key is looked for."""
        return self.repeating.setdefault(name, asyncio.Lock())


Open = Callable[[Api, Request], Awaitable[Response]]
Closed = Callable[[Api, Request, Caller], Awaitable[Response]]
Endpoint = Callable[[Request], Awaitable[Response]]


def for_all(api: Api, work: Open) -> Endpoint:
    """A call that needs no key."""

    async def answer(request: Request) -> Response:
        try:
            refuse_key_in_address(request)
            return await work(api, request)
        except ApiProblem as problem:
            return problem.respond()
        except HermesError as error:
            return problem_of(error).respond()
        except Exception:  # the boundary to a client; neither body nor key goes into the log
            log.exception("a call of the API failed: %s %s", request.method, request.scope.get("path", "")[:100])
            return ApiProblem(500, "Something broke inside of Hermes; the log has the details.").respond()

    return answer


def for_callers(api: Api, work: Closed) -> Endpoint:
    """A call that needs a key, or the page's own token."""

    async def find_and_work(api: Api, request: Request) -> Response:
        return await work(api, request, await find_caller(api, request))

    return for_all(api, find_and_work)


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
    return caller
