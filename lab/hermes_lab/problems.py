"""The error answers that real providers give, by status and by error code."""

from collections.abc import Mapping
from types import MappingProxyType

from hermes_lab.values import Problem

_BY_STATUS: Mapping[int, Problem] = MappingProxyType(
    {
        problem.status: problem
        for problem in (
            Problem(400, "The request is not valid.", "invalid_request_error"),
            Problem(401, "Incorrect API key provided.", "authentication_error", "invalid_api_key"),
            Problem(402, "Insufficient credits.", "insufficient_quota", "insufficient_credits"),
            Problem(403, "This key may not use this model.", "permission_error", "permission_denied"),
            Problem(404, "The model does not exist or you do not have access to it.", code="model_not_found"),
            Problem(408, "The request took too long.", "timeout", "timeout"),
            Problem(413, "The request is too large.", code="request_too_large"),
            Problem(429, "Rate limit reached.", "rate_limit_error", "rate_limit_exceeded"),
            Problem(500, "The server had an error while processing your request.", "server_error"),
            Problem(502, "Bad gateway.", "server_error"),
            Problem(503, "The engine is currently overloaded.", "server_error", "service_unavailable"),
            Problem(504, "The model did not answer in time.", "server_error", "timeout"),
            Problem(529, "Overloaded.", "overloaded_error", "overloaded"),
        )
    }
)

_BY_CODE: Mapping[str, tuple[str, str]] = MappingProxyType(  # code -> (type, message)
    {
        "insufficient_quota": ("insufficient_quota", "You exceeded your current quota: check plan and billing."),
        "content_policy_violation": ("invalid_request_error", "The request was refused by the safety system."),
    }
)


def describe_failure(status: int, code: str | None = None, message: str | None = None) -> Problem:
    """The usual body for a status; a code and a message of one's own replace the usual ones."""
    usual = _BY_STATUS.get(status) or Problem(status, f"The lab answers {status}.", "server_error")
    kind, text = _BY_CODE.get(code or "", (usual.type, usual.message))
    return Problem(status, message or text, kind, code or usual.code)
