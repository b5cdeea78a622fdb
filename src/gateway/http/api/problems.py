"""What a client is told when something cannot be done, in the form that OpenAI clients read."""

from collections.abc import Mapping
from typing import Any

from starlette.responses import JSONResponse

from hermes_base.errors import ConfigProblem, HermesError, StoreFailure
from hermes_base.query_values import Conflict, NotAllowed, NotThere

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
#: The first kind that fits decides.
_STATUS_OF: tuple[tuple[type[HermesError], int], ...] = (
    (NotThere, 404),
    (Conflict, 409),
    (NotAllowed, 403),
    (ConfigProblem, 400),
    (StoreFailure, 503),
    (HermesError, 400),
)


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

    def describe(self) -> dict[str, Any]:
        kind = _TYPES.get(self.status, "server_error" if self.status >= 500 else "invalid_request_error")
        return {"message": self.message, "type": kind, "param": self.param or None, "code": self.code}

    def respond(self) -> JSONResponse:
        extra = {"WWW-Authenticate": "Bearer"} if self.status == 401 else {}
        retry = {} if self.retry else NO_RETRY
        return JSONResponse({"error": self.describe()}, self.status, {**self.headers, **extra, **retry})


def wrong(param: str, message: str, code: str = "invalid_value") -> ApiProblem:
    """Something in the request that cannot be taken; `message` is a sentence that names it."""
    return ApiProblem(400, message, code, param=param)


def problem_of(error: HermesError) -> ApiProblem:
    status = next(status for kind, status in _STATUS_OF if isinstance(error, kind))
    return ApiProblem(status, str(error), retry=status == 503)
