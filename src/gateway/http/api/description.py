"""Makes the OpenAPI description of the calls and their messages."""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from gateway.http.api.door import ApiCall
from gateway.http.api.messages import PLACE_SCHEMA, ErrorAnswer, HealthAnswer

Schema = Mapping[str, Any]

ABOUT = (
    "The agent of this home as an API. `/v1/chat/completions` and `/v1/responses` take what OpenAI clients send; "
    "sessions and runs are Hermes' own. Errors have OpenAI's form."
)
_PLACE = "#/components/schemas/{name}"
_TEXT: Schema = {"type": "string"}
_HEADER: Schema = {"type": "string", "maxLength": 255}
_FORMS: Mapping[str, Schema] = {"X-Hermes-Conversation": {"type": "string", **PLACE_SCHEMA}}
_HEADERS: Mapping[str, str] = {
    "X-Hermes-Conversation": "As the field `conversation`.",
    "Idempotency-Key": "The same key never runs twice: a repetition gets the answer of the first request.",
    "X-Hermes-Commands": "1: a text that begins with a slash is a command. For the owner's keys only.",
    "X-Hermes-Events": "1: also send what happens beside the text, in the stream.",
    "Last-Event-ID": "Go on after this event; one that is not known begins anew.",
}
_TOLD: Mapping[str, Any] = {
    name: {"schema": _TEXT, "description": about}
    for name, about in (
        ("X-Hermes-Conversation", "The conversation, to be named in the next request."),
        ("X-Hermes-Session", "The session, if there is one yet."),
        ("X-Hermes-Run", "The run, for /v1/runs/{id}."),
    )
}


def describe_api(version: str, calls: Mapping[tuple[str, str], ApiCall]) -> dict[str, Any]:
    """The whole document."""
    kinds: set[type[Struct]] = {ErrorAnswer}
    paths: dict[str, dict[str, Any]] = {}
    for (method, path), call in calls.items():
        path = path.replace(":path", "")
        paths.setdefault(path, {})[method.lower()] = _describe_call(path, call)
        kinds |= {kind for kind in (call.answer, call.find_kind("body")) if kind is not None}
    _, schemas = msgspec.json.schema_components(kinds, ref_template=_PLACE)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Hermes", "version": version, "description": ABOUT},
        "paths": paths,
        "components": {
            "schemas": dict(sorted(schemas.items())),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _describe_call(path: str, call: ApiCall) -> dict[str, Any]:
    error = {"description": "It could not be done.", "content": _as_json(HealthAnswer if call.is_open else ErrorAnswer)}
    errors = call.errors if call.is_open else (400, 401, 500, *call.errors)
    answers = {str(call.status): _describe_answer(path, call)} | {str(status): error for status in sorted(set(errors))}
    in_path = [{"name": "id", "in": "path", "required": True, "schema": _TEXT}] if "{id}" in path else []
    in_headers = [
        {"name": name, "in": "header", "schema": _FORMS.get(name, _HEADER), "description": _HEADERS[name]}
        for name in call.headers
    ]
    parameters = [*in_path, *_describe_query(call.find_kind("query")), *in_headers]
    told: dict[str, Any] = {"summary": _summarize(call), "responses": answers, "parameters": parameters}
    body = call.find_kind("body")
    if body is not None:
        needed = any(one.required for one in msgspec.structs.fields(body))
        told["requestBody"] = {"required": needed, "content": _as_json(body)}
    return told | ({"security": []} if call.is_open else {})


def _describe_query(kind: type[Struct] | None) -> list[dict[str, Any]]:
    if kind is None:
        return []
    fields = msgspec.json.schema_components([kind])[1][kind.__name__]["properties"]
    return [{"name": name, "in": "query", "schema": schema} for name, schema in fields.items()]


def _describe_answer(path: str, call: ApiCall) -> dict[str, Any]:
    content: dict[str, Any] = _as_json(call.answer) if call.answer else {}
    if call.streams:
        content["text/event-stream"] = {"schema": _TEXT}
    if not content:
        is_json = path.endswith(".json")
        content = {"application/json": {"schema": {"type": "object"}}} if is_json else {"text/plain": {"schema": _TEXT}}
    told: dict[str, Any] = {"description": _summarize(call), "content": content}
    return told | ({"headers": _TOLD} if call.headers else {})


def _summarize(call: ApiCall) -> str:
    return " ".join((call.work.__doc__ or "").partition(".")[0].split()) + "."


def _as_json(kind: type[Struct]) -> dict[str, Any]:
    (schema,), _ = msgspec.json.schema_components([kind], ref_template=_PLACE)
    return {"application/json": {"schema": schema}}
