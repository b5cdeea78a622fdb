"""The OpenAPI description of all calls: hand-written data, and what makes a document of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gateway.http.api.description_schemas import NUMBER, PLACE, SCHEMAS, TEXT, Schema, ref

ABOUT = (
    "The agent of this home as an API. `/v1/chat/completions` and `/v1/responses` take what OpenAI clients send; "
    "sessions and runs are Hermes' own. Errors have OpenAI's form."
)
_LIMIT: Schema = {"type": "integer", "minimum": 1, "maximum": 100}
_BEFORE: Schema = {"type": "integer", "minimum": 0, "maximum": 999_999_999}
_WORDS: Schema = {"type": "string", "maxLength": 500}
_HEADER: Schema = {"type": "string", "maxLength": 255}
_FORMS: Mapping[str, Schema] = {"X-Hermes-Conversation": PLACE}
_TALK: tuple[str, ...] = ("X-Hermes-Conversation", "Idempotency-Key", "X-Hermes-Commands", "X-Hermes-Events")
_TALK_ERRORS = (404, 409, 413, 422, 429, 502, 503)
_HEADERS: Mapping[str, str] = {
    "X-Hermes-Conversation": "As the field `conversation`.",
    "Idempotency-Key": "The same key never runs twice: a repetition gets the answer of the first request.",
    "X-Hermes-Commands": "1: a text that begins with a slash is a command. For the owner's keys only.",
    "X-Hermes-Events": "1: also send what happens beside the text, in the stream.",
    "Last-Event-ID": "Go on after this event; one that is not known begins anew.",
}
_TOLD: Mapping[str, Any] = {
    name: {"schema": TEXT, "description": about}
    for name, about in (
        ("X-Hermes-Conversation", "The conversation, to be named in the next request."),
        ("X-Hermes-Session", "The session, if there is one yet."),
        ("X-Hermes-Run", "The run, for /v1/runs/{id}."),
    )
}


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


CALLS: Mapping[tuple[str, str], ApiCall] = {
    ("post", "/v1/chat/completions"): ApiCall(
        "Ask, in the Chat Completions format.",
        "Chat",
        body="ChatRequest",
        headers=_TALK,
        streams=True,
        errors=_TALK_ERRORS,
    ),
    ("post", "/v1/responses"): ApiCall(
        "Ask, in the Responses format.",
        "Response",
        body="ResponseRequest",
        headers=_TALK,
        streams=True,
        errors=_TALK_ERRORS,
    ),
    ("get", "/v1/responses/{id}"): ApiCall("A response as it stands.", "Response", errors=(404,)),
    ("post", "/v1/responses/{id}/cancel"): ApiCall("Stop a response under way.", "Response", errors=(403, 404)),
    ("get", "/v1/models"): ApiCall("The models that a conversation may choose.", "Models"),
    ("get", "/v1/models/{id}"): ApiCall("One of them.", "Model", errors=(404,)),
    ("get", "/v1/sessions"): ApiCall(
        "Your sessions, those with the newest activity first, or those with these words.",
        "Sessions",
        query={"limit": _LIMIT, "before": NUMBER, "words": _WORDS},
    ),
    ("get", "/v1/sessions/{id}"): ApiCall("A session.", "Session", errors=(404,)),
    ("patch", "/v1/sessions/{id}"): ApiCall(
        "Give a session a title.", "Session", body="TitleRequest", errors=(404, 413)
    ),
    ("delete", "/v1/sessions/{id}"): ApiCall("Delete a session for good.", "Deleted", errors=(404, 409)),
    ("get", "/v1/sessions/{id}/messages"): ApiCall(
        "What people see of a session, in order; the newest ones, or those before a position.",
        "Entries",
        query={"limit": _LIMIT, "before": _BEFORE},
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
        "Ask, and do not wait.", "Run", 202, body="RunRequest", headers=_TALK[:3], errors=(404, 409, 413, 422, 429, 503)
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
            "schemas": SCHEMAS,
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _describe_call(path: str, call: ApiCall) -> dict[str, Any]:
    error = {"description": "It could not be done.", "content": _as_json(ref("Health" if call.is_open else "Error"))}
    errors = call.errors if call.is_open else (400, 401, 500, *call.errors)
    answers = {str(call.status): _describe_answer(path, call)} | {str(status): error for status in sorted(set(errors))}
    in_path = [{"name": "id", "in": "path", "required": True, "schema": TEXT}] if "{id}" in path else []
    in_query = [{"name": name, "in": "query", "schema": schema} for name, schema in call.query.items()]
    in_headers = [
        {"name": name, "in": "header", "schema": _FORMS.get(name, _HEADER), "description": _HEADERS[name]}
        for name in call.headers
    ]
    parameters = [*in_path, *in_query, *in_headers]
    told: dict[str, Any] = {"summary": call.summary, "responses": answers, "parameters": parameters}
    if call.body:
        told["requestBody"] = {"required": call.body_needed, "content": _as_json(ref(call.body))}
    return told | ({"security": []} if call.is_open else {})


def _describe_answer(path: str, call: ApiCall) -> dict[str, Any]:
    content: dict[str, Any] = _as_json(ref(call.answer)) if call.answer else {}
    if call.streams:
        content["text/event-stream"] = {"schema": TEXT}
    if not content:
        content = _as_json({"type": "object"}) if path.endswith(".json") else {"text/plain": {"schema": TEXT}}
    told: dict[str, Any] = {"description": call.summary, "content": content}
    return told | ({"headers": _TOLD} if call.headers else {})


def _as_json(schema: Schema) -> dict[str, Any]:
    return {"application/json": {"schema": schema}}
