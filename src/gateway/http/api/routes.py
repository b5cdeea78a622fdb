"""All calls of the API, as the server routes them."""

import asyncio
from collections.abc import Callable

from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from gateway.http.api import routes_about, routes_runs, routes_sessions, routes_talk
from gateway.http.api.description import describe_api
from gateway.http.api.door import Api, ApiCall, CallTable, serve
from gateway.http.api.runs.runs import Runs
from gateway.http.calls import answer_json
from gateway.platforms.api.adapter import ApiAdapter
from gateway.service.queries.all_queries import Queries

CALLS = CallTable()
for module in (routes_talk, routes_about, routes_sessions, routes_runs):
    CALLS |= module.CALLS
_ALL_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


@CALLS.call("GET", "/openapi.json", is_open=True)
async def tell_description(api: Api) -> Response:
    """This description."""
    return answer_json(await asyncio.to_thread(describe_api, api.queries.version, CALLS))


def make_routes(queries: Queries, adapter: ApiAdapter, page_token: Callable[[str], bool]) -> list[BaseRoute]:
    """The routes of the API; `page_token` says whether a bearer is the page's own token, which is the owner's."""
    api = Api(queries, adapter, page_token, Runs(queries, adapter))
    routes = [Route(path, serve(api, call), methods=[method]) for (method, path), call in CALLS.items()]
    unknown = ApiCall(routes_about.refuse_unknown, is_open=True)
    return [*routes, Route("/v1/{rest:path}", serve(api, unknown), methods=_ALL_METHODS)]
