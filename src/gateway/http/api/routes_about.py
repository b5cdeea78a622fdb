"""What Hermes says about itself: models, health, metrics, and the description of all calls."""

from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from gateway.http.api.description import describe_api
from gateway.http.api.door import Api
from gateway.http.api.formats.asking import MODEL
from gateway.http.api.problems import ApiProblem
from gateway.http.api.saying import check_model
from hermes_base.query_values import Caller

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"


async def list_models(api: Api, request: Request, caller: Caller) -> Response:
    del request, caller
    names = dict.fromkeys([MODEL, *await api.queries.setup.models()])
    return JSONResponse({"object": "list", "data": [_write_model(name) for name in names]})


async def get_model(api: Api, request: Request, caller: Caller) -> Response:
    del caller
    name = request.path_params["id"]
    await check_model(api, name)
    return JSONResponse(_write_model(name))


def _write_model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 0, "owned_by": "hermes"}


async def tell_health(api: Api, request: Request) -> Response:
    """The process answers."""
    del api, request
    return JSONResponse({"status": "ok"})


async def tell_readiness(api: Api, request: Request) -> Response:
    """Whether a message would be taken now."""
    del request
    reason = await api.queries.operations.find_unready()
    if reason:
        return JSONResponse({"status": "not_ready", "reason": reason}, 503)
    warning = api.queries.gateway.warning()
    return JSONResponse({"status": "ready", **({"warning": warning} if warning else {})})


async def tell_metrics(api: Api, request: Request, caller: Caller) -> Response:
    del request
    if not caller.is_owner:
        raise ApiProblem(403, "Metrics are the owner's to see.")
    return Response(await api.queries.gateway.metrics(), media_type=METRICS_TYPE)


async def tell_description(api: Api, request: Request) -> Response:
    del request
    return JSONResponse(describe_api(api.queries.version))


async def refuse_unknown(api: Api, request: Request) -> Response:
    del api
    raise ApiProblem(404, f"There is no such call of the API for {request.method}. GET /openapi.json lists them.")
