"""The OpenAPI description of all calls: hand-written data, and what makes a document of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from gateway.http.api.description_schemas import NUMBER, PLACE, SCHEMAS, TEXT, Schema, ref

ABOUT = (
    "The agent of this home as an API. `/v1/chat/completions` and `/v1/responses` take what OpenAI clients send; "
    "sessions and runs are Hermes' own. Errors have OpenAI's form."
)
_LIMIT: Schema = MappingProxyType({"type": "integer", "minimum": 1, "maximum": 100})
_BEFORE: Schema = MappingProxyType({"type": "integer", "minimum": 0, "maximum": 999_999_999})
_WORDS: Schema = MappingProxyType({"type": "string", "maxLength": 500})
_HEADER: Schema = MappingProxyType({"type": "string", "maxLength": 255})
_FORMS: Mapping[str, Schema] = MappingProxyType(
    {"X-Hermes-Conversation": PLACE, "Last-Event-ID": MappingProxyType({"type": "string", "pattern": "^[0-9]{1,9}$"})}
)
_TALK: tuple[str, ...] = ("X-Hermes-Conversation", "Idempotency-Key", "X-Hermes-Commands", "X-Hermes-Events")
_HEADERS: Mapping[str, str] = MappingProxyType(
    {
        "X-Hermes-Conversation": "As the field `conversation`.",
        "Idempotency-Key": "The same key never runs twice: a repetition gets the answer of the first request.",
        "X-Hermes-Commands": "1: a text that begins with a slash is a command. For the owner's keys only.",
        "X-Hermes-Events": "1: also send what happens beside the text, in the stream.",
        "Last-Event-ID": "Go on after this event.",
    }
)
_TOLD: Mapping[str, Any] = MappingProxyType(
    {
        name: {"schema": TEXT, "description": about}
        for name, about in (
            ("X-Hermes-Conversation", "The conversation, to be named in the next request."),
            ("X-Hermes-Session", "The session, if there is one yet."),
            ("X-Hermes-Run", "The run, for /v1/runs/{id}."),
        )
    }
)


@dataclass(frozen=True, slots=True)
class ApiCall:
    """One call: its answer, what it takes, and which errors it may give beside those that all have."""

    summary: str
    answer: str = ""  # name of a schema; empty: a text
    status: int = 200
    body: str = ""
    body_needed: bool = True
    query: Mapping[str, Schema] = field(default_factory=dict)
    headers: tuple[str, ...] = ()
    streams: bool = False  # also, or only, as server-sent events
    errors: tuple[int, ...] = ()
    is_open: bool = False  # without a key


CALLS: Mapping[tuple[str, str], ApiCall] = MappingProxyType(
    {
        ("post", "/v1/chat/completions"): ApiCall(
            "Ask, in the Chat Completions format.",
            "Chat",
            body="ChatRequest",
            headers=_TALK,
            streams=True,
            errors=(404, 409, 413, 429, 502, 503),
        ),
        ("post", "/v1/responses"): ApiCall(
            "Ask, in the Responses format.",
            "Response",
            body="ResponseRequest",
            headers=_TALK,
            streams=True,
            errors=(404, 409, 413, 429, 502, 503),
        ),
        ("get", "/v1/responses/{id}"): ApiCall("A response as it stands.", "Response", errors=(404,)),
        ("post", "/v1/responses/{id}/cancel"): ApiCall("Stop a response under way.", "Response", errors=(403, 404)),
        ("get", "/v1/models"): ApiCall("The models that a conversation may choose.", "Models"),
        ("get", "/v1/models/{id}"): ApiCall("One of them.", "Model", errors=(404,)),
        ("get", "/v1/sessions"): ApiCall(
            "Your sessions, those with the newest activity first, or those with these words.",
            "Sessions",
            query=MappingProxyType({"limit": _LIMIT, "before": NUMBER, "words": _WORDS}),
        ),
        ("get", "/v1/sessions/{id}"): ApiCall("A session.", "Session", errors=(404,)),
        ("patch", "/v1/sessions/{id}"): ApiCall(
            "Give a session a title.", "Session", body="TitleRequest", errors=(404, 413)
        ),
        ("delete", "/v1/sessions/{id}"): ApiCall("Delete a session for good.", "Deleted", errors=(404, 409)),
        ("get", "/v1/sessions/{id}/messages"): ApiCall(
            "What people see of a session, in order; the newest ones, or those before a position.",
            "Entries",
            query=MappingProxyType({"limit": _LIMIT, "before": _BEFORE}),
            errors=(404,),
        ),
        ("post", "/v1/sessions/{id}/fork"): ApiCall(
            "A copy of a session, which goes on by itself.",
            "Session",
            201,
            body="ForkRequest",
            body_needed=False,
            errors=(404, 409, 413),
        ),
        ("post", "/v1/runs"): ApiCall(
            "Ask, and do not wait.", "Run", 202, body="RunRequest", headers=_TALK[:3], errors=(404, 409, 413, 503)
        ),
        ("get", "/v1/runs/{id}"): ApiCall("A run as it stands.", "Run", errors=(404,)),
        ("get", "/v1/runs/{id}/events"): ApiCall(
            "What happens in a run, from its beginning.", headers=("Last-Event-ID",), streams=True, errors=(404,)
        ),
        ("post", "/v1/runs/{id}/stop"): ApiCall("Stop a run under way.", "Stopped", errors=(403, 404)),
        ("post", "/v1/runs/{id}/approve"): ApiCall(
            "Answer the question that a run asks.", "Answered", body="AnswerRequest", errors=(403, 404, 409, 413)
        ),
        ("get", "/metrics"): ApiCall("Figures in the text format of Prometheus, for the owner.", errors=(403,)),
        ("get", "/health"): ApiCall("The process answers.", "Health", is_open=True),
        ("get", "/ready"): ApiCall("Whether a message would be taken now.", "Health", is_open=True, errors=(503,)),
        ("get", "/openapi.json"): ApiCall("This description.", is_open=True),
    }
)


def describe_api(version: str) -> dict[str, Any]:
    """The whole document."""
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), call in CALLS.items():
        paths.setdefault(path, {})[method] = _describe_call(path, call)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hermes", "version": version, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": {name: _plain(schema) for name, schema in SCHEMAS.items()},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _describe_call(path: str, call: ApiCall) -> dict[str, Any]:
    errors = call.errors if call.is_open else (400, 401, 500, *call.errors)
    answers = {str(call.status): _describe_answer(path, call)}
    for status in sorted(set(errors)):
        answers[str(status)] = _describe_error("Health" if call.is_open else "Error")
    told: dict[str, Any] = {"summary": call.summary, "responses": answers, "parameters": _list_parameters(path, call)}
    if call.body:
        told["requestBody"] = {
            "required": call.body_needed,
            "content": {"application/json": {"schema": ref(call.body)}},
        }
    return told | ({"security": []} if call.is_open else {})


def _list_parameters(path: str, call: ApiCall) -> list[dict[str, Any]]:
    """Those of the path, of the query and of the headers."""
    in_path = [{"name": "id", "in": "path", "required": True, "schema": _plain(TEXT)}] if "{id}" in path else []
    in_query = [{"name": name, "in": "query", "schema": _plain(schema)} for name, schema in call.query.items()]
    in_headers = [
        {"name": name, "in": "header", "schema": _plain(_FORMS.get(name, _HEADER)), "description": _HEADERS[name]}
        for name in call.headers
    ]
    return [*in_path, *in_query, *in_headers]


def _describe_answer(path: str, call: ApiCall) -> dict[str, Any]:
    content: dict[str, Any] = {}
    if call.answer:
        content["application/json"] = {"schema": ref(call.answer)}
    if call.streams:
        content["text/event-stream"] = {"schema": _plain(TEXT)}
    if not content:
        kind = "application/json" if path.endswith(".json") else "text/plain"
        content[kind] = {"schema": {"type": "object"} if path.endswith(".json") else _plain(TEXT)}
    told: dict[str, Any] = {"description": call.summary, "content": content}
    return told | ({"headers": _plain(_TOLD)} if call.headers else {})


def _describe_error(schema: str) -> dict[str, Any]:
    return {"description": "It could not be done.", "content": {"application/json": {"schema": ref(schema)}}}


def _plain(value: Any) -> Any:
    """The data without its read-only faces, as JSON takes it."""
    if isinstance(value, Mapping):
        return {name: _plain(inner) for name, inner in value.items()}
    return [_plain(inner) for inner in value] if isinstance(value, list | tuple) else value
