"""One classifier from a failed model call to what it calls for, and to a sentence a person understands."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from agent.providers.wire_limits import NotUnderstood, read_json
from hermes_base.errors import Concern, FailureKind, ModelFailure
from hermes_base.text.addresses import describe_address

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

#: Those of them that came of waiting, and whether it was the server's silence: it had the request and said nothing.
_WAITED = {"ReadTimeout": True, "TimeoutError": True, "ConnectTimeout": False}

#: Words for a request that is too long, by the statuses that they come with.
_OVERFLOW: Mapping[int, re.Pattern[str]] = dict.fromkeys(
    (400, 413, 422),
    re.compile(
        r"context.{0,8}(length|window|size)|maximum context|too many (input )?tokens|prompt is too long"
        r"|input is too long|exceeds? .{0,30}context|request_too_large|reduce the length",
        re.IGNORECASE,
    ),
) | {429: re.compile(r"request too large", re.IGNORECASE)}  # more than a whole minute has room for
_TOO_MANY_BYTES = 413  # a body gets that large by pictures, if it has any
_OUTPUT_LIMIT = re.compile(r"max_(completion_|output_)?tokens", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Reading:
    """What a failure calls for, what it is about, and how it is said."""

    kind: FailureKind
    concern: Concern
    what: str
    fix: str = ""
    status: int | None = None  # which status says this elsewhere


_K, _S = FailureKind, Concern
_REFUSED = Reading(_K.FIX, _S.REQUEST, "refused the request")
_NO_CREDIT = Reading(_K.ROTATE, _S.KEY, "has no credit left for this key", "Add credit, or set another provider.", 402)
_BAD_KEY = Reading(_K.ROTATE, _S.KEY, "did not accept the key", "Set a valid key.", 401)
_NO_MODEL = Reading(
    _K.NEXT, _S.MODEL, "does not know the model or the address", "Check model.default and model.base_url.", 404
)
_NO_RIGHT = Reading(
    _K.ROTATE, _S.KEY, "does not allow this key to be used", "Check the key's rights, or choose another model."
)
_NOT_THIS_TEXT = Reading(_K.NEXT, _S.TEXT, "does not want to answer this text", "Say it in other words.")
_NOT_THIS_PICTURE = Reading(
    _K.NEXT, _S.PICTURE, "does not take this picture", "Set a model that takes it in model.fallbacks."
)
_ELSEWHERE = Reading(_K.NEXT, _S.REQUEST, "does not take this request", "Set a fallback in model.fallbacks.")
_BUSY = Reading(
    _K.RETRY, _S.MODEL, "limits the rate of requests", "Wait a moment, or set a fallback in model.fallbacks."
)
_TROUBLE = Reading(_K.RETRY, _S.MODEL, "has a problem of its own", "Try again, or set a fallback in model.fallbacks.")

_MOVED = Reading(_K.NEXT, _S.ADDRESS, "serves this at another address", "Set model.base_url to where it is.")

_BY_STATUS: Mapping[int, Reading] = {
    **dict.fromkeys((301, 302, 303), _MOVED),
    400: _REFUSED,
    401: _BAD_KEY,
    402: _NO_CREDIT,
    403: Reading(
        _K.NEXT, _S.REQUEST, "does not allow this request", "Check the key's rights, or choose another model."
    ),
    404: _NO_MODEL,
    408: Reading(_K.RETRY, _S.MODEL, "took too long"),
    409: Reading(_K.RETRY, _S.REQUEST, "was busy with a conflicting request"),
    _TOO_MANY_BYTES: Reading(
        _K.OVERFLOW, _S.PICTURE, "refused the request as too large", "Start anew with /new, or send less."
    ),
    422: _REFUSED,
    425: Reading(_K.RETRY, _S.REQUEST, "was not ready for the request"),
    429: _BUSY,
    499: Reading(_K.RETRY, _S.MODEL, "broke the request off"),
}

#: What the body says goes before what the status says: providers agree on words more than on numbers. Each row: the
#: statuses in which the words are looked for, the words (in the code, the type or the message), what they mean.
_BY_WORDS: tuple[tuple[frozenset[int], re.Pattern[str], Reading], ...] = tuple(
    (frozenset(statuses), re.compile(words, re.IGNORECASE), reading)
    for statuses, words, reading in (
        (
            (400, 403, 429),
            r"insufficient.{0,12}(quota|credit|balance|funds)|credit balance is too low|out of credit"
            r"|exceeded your current quota|\bbilling\b|payment required|arrears|arrearage|spend(ing)? limit",
            _NO_CREDIT,
        ),
        (
            (400, 403),
            r"(invalid|incorrect|expired|not valid|missing|wrong|revoked|unknown|disabled).{0,20}(api.?key|credential)"
            r"|(api.?key|credential)s?.{0,20}(invalid|incorrect|expired|not valid|not found|missing|revoked|disabled)",
            _BAD_KEY,
        ),
        ((400,), r"authentication.{0,12}(error|fail)|unauthori[sz]ed", _BAD_KEY),
        (
            (400, 404, 413, 415, 422),
            r"(?<![-\w])images?(?![-\w]).{0,60}(not (supported|valid|allowed)|unsupported|invalid|exceed|corrupt"
            r"|too (large|big|many)|could not|cannot|unable|failed|appears to be)"
            r"|(support|invalid|valid|could not|cannot|unable|failed|missing|at most \d+).{0,40}"
            r"(?<![-\w])(images?(?![-\w])|vision\b|multimodal)"
            r"|image_(url|parse|content|file|too)|_image(_|\b)|image\.source|mmproj|content must be a string",
            _NOT_THIS_PICTURE,
        ),
        ((500, 501, 503), r"image input|image_url|mmproj", _NOT_THIS_PICTURE),
        (
            (400, 403, 422),
            r"model.?not.?found|(unknown|no such|invalid|unsupported) model\b|not a valid model|model_decommissioned"
            r"|model identifier is invalid"
            r"|\bmodels?\b.{0,60}(does not exist|not exist|not found|not supported|not available"
            r"|is unavailable|decommissioned|deprecated|retired|withdrawn|no longer|not (have )?access|not allowed)"
            r"|(access to|allowed to use) (the |this )?model",
            _NO_MODEL,
        ),
        ((400, 403), r"(account|organi[sz]ation|project|key).{0,40}(suspended|deactivated|disabled|banned)", _NO_RIGHT),
        (
            (400, 403, 422),
            r"moderation|flagged|content.?(policy|filter|management)|safety (system|reason|setting)|inappropriate"
            r"|data_inspection|usage (polic|guideline)|considered high risk|sensitive (content|words)",
            _NOT_THIS_TEXT,
        ),
        (
            (403,),
            r"permission|suspended|deactivated|not allowed to sample|country|region|territory|ip address"
            r"|access.?denied",
            _NO_RIGHT,
        ),
    )
)


#: How much of an error body is looked at for words that tell its kind.
_LOOKED_AT = 20_000


def classify_answer(status: int, body: str, retry_after: float | None, who: str) -> ModelFailure:
    """The failure that an answer with an error status tells of; its body may be anything."""
    try:
        told = read_json(body)
    except (ValueError, RecursionError):
        told = None
    told = told if isinstance(told, Mapping) else {}
    inner = told.get("error")
    message = told.get("message") or (inner.get("message") if isinstance(inner, Mapping) else inner)
    return classify(status, body, retry_after, who, message if isinstance(message, str) else "")


def classify(status: int | None, body: str, retry_after: float | None, who: str, detail: str = "") -> ModelFailure:
    """A failure answer of a provider as what it calls for; `detail` is its own short message, if it has one."""
    body = body[:_LOOKED_AT]
    detail = _first_line(detail or body)
    # `max_tokens` too large is a wrong output limit, not a long conversation.
    is_long = not _OUTPUT_LIMIT.search(body) or "context" in body.lower() or "prompt" in body.lower()
    too_long = _OVERFLOW.get(status or 0)
    if too_long is not None and too_long.search(body) and is_long:
        return ModelFailure(
            f"The conversation is longer than the window of {who} ({detail}).",
            kind=FailureKind.OVERFLOW,
            status=status,
            fix="Shorten it with /compress, or start anew with /new.",
            concern=Concern.PICTURE if status == _TOO_MANY_BYTES else Concern.REQUEST,
        )
    # Only some statuses say that the request is malformed; what else is refused here may be taken elsewhere.
    unlisted = _ELSEWHERE if status is not None and 400 <= status < 500 else _TROUBLE
    meant = (reading for statuses, words, reading in _BY_WORDS if status in statuses and words.search(body))
    reading = next(meant, None) or _BY_STATUS.get(status or 0) or unlisted
    return ModelFailure(
        f"{who} {reading.what} (HTTP {status}: {detail})." if status else f"{who} {reading.what}: {detail}.",
        kind=reading.kind,
        status=reading.status or status,
        retry_after=retry_after,
        fix=reading.fix,
        concern=reading.concern,
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
    "invalid_api_key": 401,
    "not_found_error": 404,
    "model_not_found": 404,
    "insufficient_quota": 402,
    "content_policy_violation": 400,
    "content_filter": 400,
}
#: What is wrong with a picture has many names; they all mean that the request is refused.
_ABOUT_A_PICTURE = re.compile(r"(^|_)image(_|$)")


def in_stream_failure(problem: Mapping[str, Any], who: str) -> ModelFailure:
    """The failure that a chunk of a stream tells of."""
    named = (problem.get("code"), problem.get("type"))
    status = next((name for name in named if type(name) is int and 400 <= name < 600), None)
    status = status or next((_STATUS_OF_TYPE[str(name)] for name in named if str(name) in _STATUS_OF_TYPE), None)
    status = status or (400 if _ABOUT_A_PICTURE.search(str(named[0])) else 500)
    failure = classify(
        status, json.dumps(dict(problem), ensure_ascii=False), None, who, str(problem.get("message") or "")
    )
    failure.began = True
    return failure


def transport_failure(error: BaseException, who: str, address: str) -> ModelFailure:
    """The connection was refused, lost or timed out."""
    cause = error
    while cause.__cause__ is not None:
        cause = cause.__cause__
    reason = str(cause) or type(cause).__name__
    silent = _is_silence(error)
    failure = ModelFailure(
        f"{who} cannot be reached at {describe_address(address)} ({_first_line(reason)}).",
        kind=FailureKind.RETRY,
        fix="Check the address (hermes config get model.base_url) and that the server runs.",
        transport=True,
        concern=Concern.MODEL if silent else Concern.ADDRESS,  # who took the request may serve another model
    )
    failure.stalled = silent
    return failure


def cut_failure(who: str, error: BaseException | None = None) -> ModelFailure:
    """The stream ended before the answer did, or nothing more came of it."""
    failure = ModelFailure(
        f"The answer of {who} broke off.", kind=FailureKind.RETRY, transport=True, concern=Concern.MODEL
    )
    failure.began = True
    failure.stalled = error is not None and _is_silence(error)
    return failure


def _is_silence(error: BaseException) -> bool:
    """Whether the failure is that nothing came for as long as it was waited for; the outermost word on it holds."""
    link: BaseException | None = error
    while link is not None:
        if type(link).__name__ in _WAITED:
            return _WAITED[type(link).__name__]
        link = link.__cause__ or link.__context__
    return False


def misunderstood_failure(error: Exception, who: str) -> ModelFailure:
    """The server sent something that its format does not have. It may have been a slip, so it is tried again."""
    why = f" ({_first_line(str(error))})" if isinstance(error, NotUnderstood) else ""
    failure = ModelFailure(
        f"{who} sent something that is not understood{why}.",
        kind=FailureKind.RETRY,
        fix="Check that model.base_url is the address of a model server and that model.api_mode is its format.",
        concern=Concern.MODEL,
    )
    failure.began = True
    return failure


def is_transport_error(error: BaseException) -> bool:
    return type(error).__name__ in TRANSPORT_ERRORS or bool(getattr(error, "transport", False))


def parse_retry_after(value: str | None) -> float | None:
    """Seconds of a Retry-After header; a date, less than nothing or other nonsense counts as absent."""
    try:
        seconds = float(value or "nan")
    except ValueError:
        return None
    return seconds if math.isfinite(seconds) and seconds >= 0 else None


def _first_line(text: str, limit: int = 300) -> str:
    line = " ".join(text[:_LOOKED_AT].split())
    return line if len(line) <= limit else line[:limit] + "…"
