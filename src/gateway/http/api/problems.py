"""What a client is told when something cannot be done, in the form that OpenAI clients read."""

import logging
from collections.abc import Mapping

from starlette.requests import ClientDisconnect
from starlette.responses import Response

from gateway.http.api.messages import ErrorAnswer, ErrorDetail
from gateway.http.calls import NOT_READ, Refusal, answer_json, name_failure
from hermes_base.errors import HermesError

log = logging.getLogger(__name__)

#: Clients repeat failed requests by themselves; a repeated turn would be paid twice.
NO_RETRY: Mapping[str, str] = {"x-should-retry": "false"}

_TYPES: Mapping[int, str] = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_CODES: Mapping[int, str] = {
    400: "invalid_request",
    403: "not_allowed",
    404: "not_found",
    409: "conflict",
    503: "unavailable",
}
#: How OpenAI's clients know what the page knows otherwise.
_STATUS_OF: Mapping[int, int] = {422: 400}
_CODES_OF: Mapping[str, str] = {"wrong_field": "invalid_value", "malformed": "invalid_json", "too_large": "too_large"}


class ApiProblem(Exception):
    """An answer that is an error. `retry`: nothing was begun, so trying again is harmless."""

    def __init__(self, status: int, message: str, code: str = "", *, param: str = "", retry: bool = False) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code or _CODES.get(status, "server_error" if status >= 500 else "invalid_request")
        self.param = param
        self.retry = retry
        self.headers: Mapping[str, str] = {}  # that go along

    def describe(self) -> ErrorDetail:
        kind = _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return ErrorDetail(self.message, kind, self.param or None, self.code)

    def respond(self) -> Response:
        extra = {"WWW-Authenticate": "Bearer"} if self.status == 401 else {}
        retry = {} if self.retry else NO_RETRY
        return answer_json(ErrorAnswer(self.describe()), self.status, {**self.headers, **extra, **retry})


def wrong(param: str, message: str, code: str = "invalid_value") -> ApiProblem:
    """Something in the request that cannot be taken; `message` is a sentence that names it."""
    return ApiProblem(400, message, code, param=param)


def answer_problem(error: Exception) -> Response:
    """What a failed call is answered with. Neither body nor key goes into the log."""
    match error:
        case ApiProblem():
            return error.respond()
        case ClientDisconnect():
            return Response(status_code=NOT_READ)
        case HermesError():
            status, code = name_failure(error)
            status, param = _STATUS_OF.get(status, status), error.param if isinstance(error, Refusal) else ""
            made = ApiProblem(status, str(error), _CODES_OF.get(code, ""), param=param, retry=status == 503)
            return made.respond()
    log.error("a call of the API failed", exc_info=error)
    return ApiProblem(500, "Something broke inside of Hermes; the log has the details.").respond()
