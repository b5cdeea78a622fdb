"""All calls of the API as one table of paths, methods and handlers."""

from collections.abc import Callable

from starlette.routing import BaseRoute, Route

from gateway.http.api import routes_about, routes_runs, routes_sessions, routes_talk
from gateway.http.api.door import Api, Closed, Open, for_all, for_callers
from gateway.http.api.runs.repeats import Repeats
from gateway.http.api.runs.retries import Retries
from gateway.http.api.runs.runs import Runs
from gateway.platforms.api.adapter import ApiAdapter
from gateway.service.queries.all_queries import Queries

#: Calls that need a key.
CALLS: tuple[tuple[str, str, Closed], ...] = (
    ("POST", "/v1/chat/completions", routes_talk.complete_chat),
    ("POST", "/v1/responses", routes_talk.create_response),
    ("GET", "/v1/responses/{id}", routes_talk.get_response),
    ("POST", "/v1/responses/{id}/cancel", routes_talk.cancel_response),
    ("GET", "/v1/models", routes_about.list_models),
    ("GET", "/v1/models/{id:path}", routes_about.get_model),
    ("GET", "/v1/sessions", routes_sessions.list_sessions),
    ("GET", "/v1/sessions/{id}", routes_sessions.get_session),
    ("PATCH", "/v1/sessions/{id}", routes_sessions.change_session),
    ("DELETE", "/v1/sessions/{id}", routes_sessions.delete_session),
    ("GET", "/v1/sessions/{id}/messages", routes_sessions.list_messages),
    ("POST", "/v1/sessions/{id}/fork", routes_sessions.fork_session),
    ("POST", "/v1/runs", routes_runs.start_run),
    ("GET", "/v1/runs/{id}", routes_runs.get_run),
    ("GET", "/v1/runs/{id}/events", routes_runs.follow_run),
    ("POST", "/v1/runs/{id}/stop", routes_runs.stop_run),
    ("POST", "/v1/runs/{id}/approve", routes_runs.answer_run),
    ("GET", "/metrics", routes_about.tell_metrics),
)
#: Calls that anybody may make who can reach the server.
OPEN_CALLS: tuple[tuple[str, str, Open], ...] = (
    ("GET", "/health", routes_about.tell_health),
    ("GET", "/ready", routes_about.tell_readiness),
    ("GET", "/openapi.json", routes_about.tell_description),
)
_ALL_METHODS = ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"]


def make_routes(queries: Queries, adapter: ApiAdapter, page_token: Callable[[str], bool]) -> list[BaseRoute]:
    """The routes of the API; `page_token` says whether a bearer is the page's own token, which is the owner's."""
    api = Api(queries, adapter, page_token, Runs(queries, adapter), Repeats(adapter.home), Retries())
    calls = [Route(path, for_callers(api, work), methods=[method]) for method, path, work in CALLS]
    opened = [Route(path, for_all(api, work), methods=[method]) for method, path, work in OPEN_CALLS]
    unknown = Route("/v1/{rest:path}", for_all(api, routes_about.refuse_unknown), methods=_ALL_METHODS)
    return [*calls, *opened, unknown]
