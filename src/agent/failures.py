"""One classifier from a failed model call to what it calls for, and to a sentence a person understands."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from agent.wire_limits import NotUnderstood, read_json
from hermes_base.addresses import describe_address
from hermes_base.errors import FailureKind, ModelFailure

#: Errors of the connection itself, by the name of their class (SDKs and HTTP libraries agree on these names).
TRANSPORT_ERRORS = frozenset(
    {
        "ReadTimeout",
        "ConnectTimeout",
        "PoolTimeout",
        "WriteTimeout",
        "ConnectError",
        "ReadError",
        "WriteError",
        "CloseError",
        "RemoteProtocolError",
        "APIConnectionError",
        "APITimeoutError",
        "ConnectionError",
        "ConnectionResetError",
        "ConnectionRefusedError",
        "BrokenPipeError",
    }
)

_OVERFLOW = re.compile(
    r"context.{0,8}(length|window|size)|maximum context|too many (input )?tokens|prompt is too long"
    r"|input is too long|exceeds? .{0,30}context|request_too_large|reduce the length",
    re.IGNORECASE,
)
_OUTPUT_LIMIT = re.compile(r"max_(completion_|output_)?tokens", re.IGNORECASE)
_NO_CREDIT = re.compile(
    r"insufficient.{0,12}(quota|credit|balance|funds)|exceeded your current quota|billing", re.IGNORECASE
)

_BY_STATUS: Mapping[int, tuple[FailureKind, str, str]] = {
    400: (FailureKind.FIX, "refused the request", ""),
    401: (FailureKind.ROTATE, "did not accept the key", "Set a valid key with 'hermes config set NAME_API_KEY KEY'."),
    402: (FailureKind.ROTATE, "has no credit left for this key", "Add credit, or set another provider."),
    403: (FailureKind.ROTATE, "does not allow this key to use the model", "Check the key's rights, or choose a model."),
    404: (FailureKind.NEXT, "does not know the model or the address", "Check model.default and model.base_url."),
    408: (FailureKind.RETRY, "took too long", ""),
    409: (FailureKind.RETRY, "was busy with a conflicting request", ""),
    413: (FailureKind.OVERFLOW, "refused the request as too large", "Start anew with /new, or send less."),
    422: (FailureKind.FIX, "refused the request", ""),
    429: (FailureKind.RETRY, "limits the rate of requests", "Wait a moment, or set a fallback in model.fallbacks."),
}


#: How much of an error body is looked at for words that tell its kind.
_LOOKED_AT = 20_000


def classify_answer(status: int, body: str, retry_after: float | None, who: str) -> ModelFailure:
    """The failure that an answer with an error status tells of; its body may be anything."""
    told = _read_mapping(body)
    inner = told.get("error")
    message = told.get("message") or (inner.get("message") if isinstance(inner, Mapping) else inner)
    return classify(status, body, retry_after, who, message if isinstance(message, str) else "")


def _read_mapping(body: str) -> Mapping[str, Any]:
    try:
        told = read_json(body)
    except (ValueError, RecursionError):
        return {}
    return told if isinstance(told, Mapping) else {}


def classify(status: int | None, body: str, retry_after: float | None, who: str, detail: str = "") -> ModelFailure:
    """A failure answer of a provider as what it calls for; `detail` is its own short message, if it has one."""
    body = body[:_LOOKED_AT]
    detail = _first_line(detail or body)
    if status in (400, 413, 422) and _OVERFLOW.search(body) and not _mentions_only_output_limit(body):
        return ModelFailure(
            f"The conversation is longer than the window of {who} ({detail}).",
            kind=FailureKind.OVERFLOW,
            status=status,
            fix="Shorten it with /compress, or start anew with /new.",
        )
    if status == 429 and _NO_CREDIT.search(body):
        status = 402
    kind, what, fix = _BY_STATUS.get(status or 0, _unlisted(status))
    return ModelFailure(
        f"{who} {what} (HTTP {status}: {detail})." if status else f"{who} {what}: {detail}.",
        kind=kind,
        status=status,
        retry_after=retry_after,
        fix=fix,
    )


#: Errors that are told inside a stream, after the answer had begun, by their type or code.
_STATUS_OF_TYPE: Mapping[str, int] = {
    "overloaded_error": 529,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 408,
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
    "request_too_large": 413,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "insufficient_quota": 402,
}


def in_stream_failure(problem: Mapping[str, Any], who: str) -> ModelFailure:
    """The failure that a chunk of a stream tells of."""
    named = (problem.get("code"), problem.get("type"))
    status = next((name for name in named if type(name) is int and 400 <= name < 600), None)
    status = status or next((_STATUS_OF_TYPE[str(name)] for name in named if str(name) in _STATUS_OF_TYPE), 500)
    failure = classify(
        status, json.dumps(dict(problem), ensure_ascii=False), None, who, str(problem.get("message") or "")
    )
    failure.began = True
    return failure


def transport_failure(error: BaseException, who: str, address: str) -> ModelFailure:
    """The connection was refused, lost or timed out."""
    cause = _root_cause(error)
    reason = str(cause) or type(cause).__name__
    return ModelFailure(
        f"{who} cannot be reached at {describe_address(address)} ({_first_line(reason)}).",
        kind=FailureKind.RETRY,
        fix="Check the address (hermes config get model.base_url) and that the server runs.",
        transport=True,
    )


def cut_failure(who: str) -> ModelFailure:
    """The stream ended before the answer did."""
    failure = ModelFailure(f"The answer of {who} broke off.", kind=FailureKind.RETRY, transport=True)
    failure.began = True
    return failure


def misunderstood_failure(error: Exception, who: str) -> ModelFailure:
    """The server sent something that its format does not have. It may have been a slip, so it is tried again."""
    why = f" ({_first_line(str(error))})" if isinstance(error, NotUnderstood) else ""
    failure = ModelFailure(
        f"{who} sent something that is not understood{why}.",
        kind=FailureKind.RETRY,
        fix="Check that model.base_url is the address of a model server and that model.api_mode is its format.",
    )
    failure.began = True
    return failure


def is_transport_error(error: BaseException) -> bool:
    return type(error).__name__ in TRANSPORT_ERRORS or bool(getattr(error, "transport", False))


def parse_retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header; a date or nonsense counts as absent."""
    try:
        seconds = float(value or "nan")
    except ValueError:
        return None
    return max(0.0, seconds) if math.isfinite(seconds) else None


def _unlisted(status: int | None) -> tuple[FailureKind, str, str]:
    if status is not None and 400 <= status < 500:
        return FailureKind.FIX, "refused the request", ""
    return FailureKind.RETRY, "has a problem of its own", "Try again, or set a fallback in model.fallbacks."


def _mentions_only_output_limit(body: str) -> bool:
    """`max_tokens` too large is a wrong output limit, not a long conversation."""
    return bool(_OUTPUT_LIMIT.search(body)) and "context" not in body.lower() and "prompt" not in body.lower()


def _root_cause(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def _first_line(text: str, limit: int = 300) -> str:
    line = " ".join(text[:_LOOKED_AT].split())
    return line if len(line) <= limit else line[:limit] + "…"
