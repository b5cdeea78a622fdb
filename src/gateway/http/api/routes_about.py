"""What programs ask about this home: its models, whether it is there and ready, and its figures."""

from msgspec import UNSET
from starlette.requests import Request
from starlette.responses import Response

from gateway.http.api.door import Api, CallTable
from gateway.http.api.formats.asking import MODEL
from gateway.http.api.messages import HealthAnswer, ListAnswer, ModelAnswer
from gateway.http.api.problems import ApiProblem
from gateway.http.api.saying import check_model
from gateway.http.calls import answer_json
from hermes_base.query_values import Caller

METRICS_TYPE = "text/plain; version=0.0.4; charset=utf-8"

CALLS = CallTable()


@CALLS.call("GET", "/v1/models", ListAnswer[ModelAnswer])
async def list_models(api: Api) -> ListAnswer[ModelAnswer]:
    """The models that a conversation may choose."""
    names = dict.fromkeys([MODEL, *await api.queries.setup.models()])
    return ListAnswer([ModelAnswer(name) for name in names])


@CALLS.call("GET", "/v1/models/{id:path}", ModelAnswer, errors=(404,))
async def get_model(api: Api, request: Request) -> ModelAnswer:
    """One of them."""
    name = request.path_params["id"]
    await check_model(api, name)
    return ModelAnswer(name)


@CALLS.call("GET", "/health", HealthAnswer, is_open=True)
async def tell_health() -> HealthAnswer:
    """The process answers."""
    return HealthAnswer("ok")


@CALLS.call("GET", "/ready", HealthAnswer, is_open=True, errors=(503,))
async def tell_readiness(api: Api) -> Response:
    """Whether a message would be taken now."""
    reason = await api.queries.operations.find_unready()
    if reason:
        return answer_json(HealthAnswer("not_ready", reason), 503)
    return answer_json(HealthAnswer("ready", warning=api.queries.gateway.warning() or UNSET))


@CALLS.call("GET", "/metrics", errors=(403,))
async def tell_metrics(api: Api, caller: Caller) -> Response:
    """Figures in the text format of Prometheus, for the owner."""
    if not caller.is_owner:
        raise ApiProblem(403, "Metrics are the owner's to see.")
    return Response(await api.queries.gateway.metrics(), media_type=METRICS_TYPE)


async def refuse_unknown(request: Request) -> Response:
    raise ApiProblem(404, f"There is no such call of the API for {request.method}. GET /openapi.json lists them.")
