"""Calls over HTTP. What clients send is read as the messages that it has to be: bodies up to a limit, queries, and a
sentence that says which field is not right. What goes back is JSON, server-sent events, and for every failure a status,
a code and a sentence; decided here alone."""

import asyncio
import json
import logging
import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from inspect import signature
from types import MappingProxyType
from typing import Annotated, Any, TypeVar, get_type_hints

import msgspec
from msgspec import Meta, Struct, ValidationError
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
_FAILURES: tuple[tuple[type[Exception], int, str], ...] = (
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
MOST_BODY = 2 * 1024 * 1024
SAYS_SOMETHING = r"\S"
NAME = r"^[A-Za-z0-9_.-]{1,64}$"
SmallText = Annotated[str, Meta(max_length=10_000)]
T = TypeVar("T")

_TYPE_WORDS = {
    "str": "a text",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "array": "a list",
    "object": "an object",
}
#: What is said of a value that does not fit, and how we say it; the first row decides.
_SAYINGS: tuple[tuple[re.Pattern[str], str], ...] = tuple(
    (re.compile(found), said)
    for found, said in (
        (r"Expected `str` of length <= (\d+)", "must not be longer than {0} characters"),
        (r"Expected `array` of length <= (\d+)", "must not have more than {0} entries"),
        (r"Expected `array` of length >= 1", "must not be empty"),
        (f"Expected `str` matching regex {re.escape(repr(SAYS_SOMETHING))}", "must not be empty"),
        (f"Expected `str` matching regex {re.escape(repr(NAME))}", "must be 1 to 64 letters, digits, `.`, `-` or `_`"),
        (r"Expected `\w+` >= (\S+)", "must be at least {0}"),
        (r"Expected `\w+` <= (\S+)", "must be at most {0}"),
        (r"", "cannot be taken"),
    )
)
_TYPES = re.compile(r"Expected `([\w |]+)`, got")
_MISSING = re.compile(r"Object missing required field `(\w+)`")


# --- what comes


class NoFields(Struct):
    """A message that says all by being sent."""


async def read_message(request: Request, kind: type[T], most: int = MOST_BODY) -> T:
    """The body of a call of the page. An empty one is an object without fields. That it has to be called JSON keeps
    out the forms of other sites."""
    called = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if called != "application/json":
        raise Refusal(415, "not_json", "This call takes JSON: send `Content-Type: application/json`.")
    return parse(await read_body(request, most) or b"{}", kind, mend=True)


def read_query(request: Request, kind: type[T]) -> T:
    """What stands behind the question mark; a name without a value is not there."""
    given = {name: value for name, value in request.query_params.items() if value}
    try:
        return msgspec.convert(given, kind, strict=False)
    except ValidationError as error:
        raise explain(error) from error


def bring_between(least: int, wanted: int, most: int) -> int:
    return min(max(wanted, least), most)


async def read_body(request: Request, most: int) -> bytes:
    """The body, given up as soon as it is known to be too large."""
    check_length(request, most)
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > most:
            raise too_large(most)
    return bytes(body.strip())


def check_length(request: Request, most: int) -> int:
    """What the client says that it sends; 0: it does not say."""
    said = request.headers.get("content-length", "")
    length = int(said) if said.isascii() and said.isdigit() else 0
    if length > most:
        raise too_large(most)
    return length


def too_large(most: int) -> Refusal:
    size = f"{most / 1024 / 1024:.0f} MB" if most >= 1024 * 1024 else f"{most} bytes"
    return Refusal(413, "too_large", f"That is too large: at most {size} are taken. Nothing was kept.")


def parse(body: bytes, kind: type[T], *, mend: bool = False) -> T:
    """The message. Halves of characters can neither be stored nor sent on: they are refused, or replaced (`mend`)."""
    try:
        return msgspec.json.decode(body, type=kind)
    except ValidationError as error:
        raise explain(error) from error
    except (msgspec.DecodeError, RecursionError) as error:
        whole = _make_whole(body)
        if not mend:
            raise malformed("holds half a character (a lone surrogate)") from error
    return parse(whole, kind)


def _make_whole(body: bytes) -> bytes:
    """The same without halves of characters, which alone make it no JSON to others; whatever else it is not is said."""
    try:
        return encode_text(json.dumps(json.loads(body.decode(), parse_constant=_refuse), ensure_ascii=False))
    except UnicodeDecodeError as error:
        raise malformed("is not UTF-8") from error
    except RecursionError as error:
        raise malformed("is nested too deeply") from error
    except ValueError as error:
        raise malformed(f"is not valid JSON: {str(error)[:200]}") from error


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


def malformed(what: str) -> Refusal:
    return Refusal(400, "malformed", f"The body {what}.")


def wrong_field(name: str, says: str) -> Refusal:
    return Refusal(422, "wrong_field", f"{name} {says}.", param=name)


def explain(error: ValidationError) -> Refusal:
    """What is not right with which field."""
    what, _, at = str(error).rpartition(" - at `$")
    what, place = (what, at.removesuffix("`").lstrip(".")) if what else (str(error), "")
    missing = _MISSING.match(what)
    if missing is not None:
        return wrong_field(f"{place}.{missing[1]}".lstrip("."), "is missing")
    if not place:
        return malformed("must be a JSON object")
    types = _TYPES.match(what)
    if types is not None:
        return wrong_field(
            place, "must be " + " or ".join(_TYPE_WORDS[one] for one in types[1].split(" | ") if one in _TYPE_WORDS)
        )
    found, said = next((match, said) for pattern, said in _SAYINGS if (match := pattern.match(what)))
    return wrong_field(place, said.format(*found.groups()))


# --- what goes back


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
    return next((status, code) for kind, status, code in _FAILURES if isinstance(error, kind))


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


def served(handler: Callable[..., Awaitable[Any]]) -> Handler:
    """A call of the page. What it takes beside the request are the fields of its message, which stand in the body, or
    in the query of a call that only looks. What it gives back is written as JSON,
    and its failures are answers."""
    hints, taken = get_type_hints(handler, include_extras=True), dict(signature(handler).parameters)
    with_request = taken.pop("request", None) is not None
    fields = [(name, hints[name], *([] if one.default is one.empty else [one.default])) for name, one in taken.items()]
    kind = msgspec.defstruct(handler.__name__, fields)

    async def serve(request: Request) -> Response:
        given: dict[str, Any] = {"request": request} if with_request else {}
        try:
            if fields and request.method in ("GET", "HEAD"):
                given |= msgspec.structs.asdict(read_query(request, kind))
            elif fields:
                given |= msgspec.structs.asdict(await read_message(request, kind))
            made = await handler(**given)
            return made if isinstance(made, Response) else answer_json(made)
        except Exception as error:  # noqa: BLE001 - the boundary to a request; `answer_failure` logs what is ours
            return answer_failure(error)

    return serve
