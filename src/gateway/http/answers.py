"""What goes back to whoever asks: JSON, server-sent events, and for every failure a status, a code and a sentence;
decided here alone."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import msgspec
from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response, StreamingResponse

from hermes_base.chat import Question
from hermes_base.errors import ConfigProblem, HermesError, StoreFailure
from hermes_base.query_values import Conflict, NotAllowed, NotThere
from hermes_base.text.whole_text import encode_text
from hermes_base.turn.consent import label_choices

log = logging.getLogger(__name__)

Handler = Callable[[Request], Awaitable[Response]]


class Refusal(HermesError):
    """The request itself cannot be served; `status` and `code` say which way."""

    def __init__(self, status: int, code: str, what: str, *, param: str = "") -> None:
        super().__init__(what)
        self.status = status
        self.code = code
        self.param = param  # the field that is not right


#: The first row whose kind fits decides.
_KINDS: tuple[tuple[type[Exception], int, str], ...] = (
    (NotThere, 404, "not_there"),
    (Conflict, 409, "not_now"),
    (NotAllowed, 403, "not_allowed"),
    (ConfigProblem, 422, "not_valid"),
    (StoreFailure, 503, "store"),
    (HermesError, 422, "not_possible"),
)
PULSE_SECONDS = (
    15.0  # in which something is sent: a proxy closes a silent connection, and who does not take it has gone
)
#: A comment, which every client skips.
PULSE = b": still here\n\n"
DONE = b"data: [DONE]\n\n"
_STREAM_HEADERS: Mapping[str, str] = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
NOT_READ = 499  # nobody reads it: the client has gone


def answer_json(value: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> Response:
    return Response(write_json(value), status, {"cache-control": "no-store", **(headers or {})}, "application/json")


async def answer_large(value: Any) -> Response:
    """JSON that may have megabytes, written beside the event loop."""
    return await asyncio.to_thread(answer_json, value)


def answer_nothing() -> Response:
    return Response(status_code=204, headers={"cache-control": "no-store"})


def answer_error(status: int, code: str, message: str, headers: Mapping[str, str] | None = None) -> Response:
    return answer_json({"error": {"message": message, "code": code}}, status, headers)


def write_json(value: Any) -> bytes:
    """Messages, data classes and plain values."""
    try:
        return msgspec.json.encode(value)
    except UnicodeEncodeError:  # text from tools may hold halves of characters, which no UTF-8 has
        plain = msgspec.to_builtins(value)
        return encode_text(json.dumps(plain, ensure_ascii=False, separators=(",", ":")))


def write_question(question: Question | None) -> dict[str, Any] | None:
    """An open question, as the page and the API tell it."""
    told = ("id", "kind", "text", "choices", "reason", "expires_in")
    return None if question is None else {name: getattr(question, name) for name in told}


def write_labels(question: Question | None) -> Sequence[str]:
    """What stands on the buttons of a question, in the order of its choices."""
    return () if question is None else label_choices(question.kind, question.choices)


def write_event(data: Any, *, event: str = "", id: str = "") -> bytes:
    numbered, named = (f"{name}: {value}\n" if value else "" for name, value in (("id", id), ("event", event)))
    return b"%b%bdata: %b\n\n" % (numbered.encode(), named.encode(), write_json(data))


def write_events(told: Sequence[Any]) -> bytes:
    return b"".join([b"data: %b\n\n" % write_json(one) for one in told]) or PULSE


def stream(pieces: AsyncIterator[bytes], headers: Mapping[str, str] = MappingProxyType({})) -> StreamingResponse:
    return StreamingResponse(pieces, media_type="text/event-stream", headers={**_STREAM_HEADERS, **headers})


def name_failure(error: HermesError) -> tuple[int, str]:
    """Status and code."""
    if isinstance(error, Refusal):
        return error.status, error.code
    return next((status, code) for kind, status, code in _KINDS if isinstance(error, kind))


def answer_failure(error: Exception) -> Response:
    """What a failed call is answered with. What nobody expected goes to the log, and a plain sentence to the page."""
    match error:
        case HTTPException():
            return answer_error(error.status_code, "http", error.detail, error.headers)
        case ClientDisconnect():
            return Response(status_code=NOT_READ)
        case HermesError():
            return answer_error(*name_failure(error), str(error))
    log.error("a call of the page broke", exc_info=error)
    return answer_error(500, "broken", "Something broke in Hermes; nothing else was touched. The log says more.")


def guarded(handler: Handler, answer: Callable[[Exception], Response] = answer_failure) -> Handler:
    """The handler, with its failures as answers."""

    async def serve(request: Request) -> Response:
        try:
            return await handler(request)
        except Exception as error:  # noqa: BLE001 - the boundary to a request; `answer` logs what is ours
            return answer(error)

    return serve
