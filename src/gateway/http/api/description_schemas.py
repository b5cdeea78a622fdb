"""The shapes of the API's requests and answers, in the words of JSON Schema."""

from collections.abc import Mapping, Sequence
from typing import Any

Schema = Mapping[str, Any]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "number"}
WHOLE: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}


def ref(name: str) -> Schema:
    return {"$ref": f"#/components/schemas/{name}"}


def shape(needed: Sequence[str] = (), about: str = "", **fields: Schema) -> Schema:
    """An object with these fields; others may stand beside them."""
    made: dict[str, Any] = {"type": "object", "properties": fields}
    return made | ({"required": list(needed)} if needed else {}) | ({"description": about} if about else {})


def listed(entry: Schema) -> Schema:
    return {"type": "array", "items": entry}


def maybe(field: Schema) -> Schema:
    return {"anyOf": [field, {"type": "null"}]}


def told(field: Schema, about: str) -> Schema:
    return {**field, "description": about}


def one_of(*words: str) -> Schema:
    return {"type": "string", "enum": list(words)}


def page(entry: str) -> Schema:
    return shape(
        ("object", "data", "has_more"), object=one_of("list"), data=listed(ref(entry)), has_more=FLAG, before=NUMBER
    )


_USAGE = shape(
    ("prompt_tokens", "completion_tokens", "total_tokens"),
    "All model calls of the run together.",
    prompt_tokens=WHOLE,
    completion_tokens=WHOLE,
    total_tokens=WHOLE,
    prompt_tokens_details=shape(cached_tokens=WHOLE),
    completion_tokens_details=shape(reasoning_tokens=WHOLE),
)
#: A name of one's own, or the key of a conversation; the id of a session looks like a name.
PLACE: Schema = {"type": "string", "maxLength": 500, "pattern": "^([A-Za-z0-9_.-]{1,64}|agent:.+)$"}
_PLACE = told(
    PLACE,
    "The conversation: a name of your own (1 to 64 letters, digits, dots, dashes, underscores), the id of a session, "
    "or what X-Hermes-Conversation told. Only the last user message is said there. Without it, the messages before the "
    "last one must be the transcript of a conversation of this key, which then goes on; else a new one begins.",
)
_MODEL = told(TEXT, "`hermes` for whatever answers here, or another name from /v1/models.")
_PARTS = listed(
    shape(
        ("type",),
        type=one_of("text", "input_text", "output_text", "image_url", "input_image", "refusal"),
        text=TEXT,
        image_url=told({}, "A data: address of a PNG, JPEG, GIF or WebP image; in Chat an object with `url`."),
    )
)
_MESSAGE = shape(
    ("role",),
    "System and developer messages become instructions in front of the first user message.",
    role=one_of("system", "developer", "user", "assistant"),
    content={"anyOf": [{"type": "string", "minLength": 1}, {**_PARTS, "minItems": 1}]},
)
_EVENTS = shape(about="`events`: also send what happens beside the text, in the stream.", events=FLAG)
_EXTRAS = shape(
    (),
    "What OpenAI's form has no place for.",
    interrupted=FLAG,
    reason=TEXT,
    incomplete=one_of("max_output_tokens", "content_filter"),
    files=listed(shape(name=TEXT, kind=TEXT, size=WHOLE)),
)

_ERROR = shape(
    ("error",),
    error=shape(
        ("message", "type", "param", "code"),
        message=told(TEXT, "A sentence for a person: what happened, and what to do."),
        type=TEXT,
        param=maybe(TEXT),
        code=TEXT,
    ),
)
_CHAT_REQUEST = shape(
    ("model", "messages"),
    "Tuning fields of OpenAI (temperature, max_tokens, stop, seed, …) are accepted and ignored.",
    model=_MODEL,
    messages={**listed(ref("Message")), "minItems": 1},
    stream=FLAG,
    stream_options=shape(include_usage=FLAG),
    conversation=_PLACE,
    metadata={"type": "object", "additionalProperties": {"type": "string"}},
    n={"type": "integer", "enum": [1]},
    hermes=_EVENTS,
)
_CHAT = shape(
    ("id", "object", "created", "model", "choices", "usage"),
    id=TEXT,
    object=one_of("chat.completion"),
    created=WHOLE,
    model=TEXT,
    choices=listed(
        shape(
            ("index", "message", "finish_reason"),
            index=WHOLE,
            message=shape(("role", "content"), role=one_of("assistant"), content=TEXT, reasoning_content=TEXT),
            finish_reason=one_of("stop", "length", "content_filter"),
        )
    ),
    usage=ref("Usage"),
    hermes=ref("Extras"),
)
_RESPONSE_REQUEST = shape(
    ("input",),
    "`store: false` is accepted and not honoured: conversations are kept in the home.",
    model=_MODEL,
    input={"anyOf": [{"type": "string", "minLength": 1}, {**listed(ref("Message")), "minItems": 1}]},
    instructions=TEXT,
    previous_response_id=told(TEXT, "Go on in the conversation of that response."),
    conversation={"anyOf": [_PLACE, shape(("id",), id=TEXT)]},
    stream=FLAG,
    background=told(FLAG, "Answer at once; GET /v1/responses/{id} tells how it stands."),
    hermes=_EVENTS,
)
_RESPONSE = shape(
    ("id", "object", "created_at", "status", "model", "output"),
    id=TEXT,
    object=one_of("response"),
    created_at=WHOLE,
    status=one_of("queued", "in_progress", "completed", "failed", "incomplete"),
    model=TEXT,
    output=listed(shape(("id", "type"), id=TEXT, type=TEXT, role=TEXT, status=TEXT, content=listed(shape()))),
    error=maybe(shape(code=TEXT, message=TEXT)),
    incomplete_details=maybe(shape(("reason",), reason=one_of("max_output_tokens", "content_filter", "interrupted"))),
    conversation=shape(id=TEXT),
    previous_response_id=maybe(TEXT),
    usage=maybe(shape(input_tokens=WHOLE, output_tokens=WHOLE, total_tokens=WHOLE)),
    hermes=ref("Extras"),
)
_RUN = shape(
    ("id", "object", "status", "conversation", "created"),
    id=TEXT,
    object=one_of("run"),
    status=one_of("queued", "in_progress", "completed", "failed", "stopped"),
    conversation=TEXT,
    session=maybe(TEXT),
    created=WHOLE,
    output=maybe(TEXT),
    error=maybe(shape(message=TEXT, code=TEXT)),
    question=maybe(ref("Question")),
    usage=maybe(ref("Usage")),
    hermes=ref("Extras"),
)
_QUESTION = shape(
    ("id", "kind", "text", "choices"),
    "Something that only a person can decide. Without choices any text answers it.",
    id=TEXT,
    kind=one_of("approval", "clarification", "confirmation"),
    text=TEXT,
    choices=listed(TEXT),
    reason=TEXT,
    expires_in=NUMBER,
)
_SESSION = shape(
    ("id", "object", "conversation", "title", "started", "updated", "messages"),
    id=TEXT,
    object=one_of("session"),
    conversation=TEXT,
    title=TEXT,
    preview=TEXT,
    platform=TEXT,
    model=TEXT,
    started=NUMBER,
    updated=NUMBER,
    messages=WHOLE,
    task=TEXT,
    parent=TEXT,
    current=told(FLAG, "Its conversation goes on here."),
    working=told(FLAG, "A turn is under way."),
    role=told(TEXT, "Of a search: who said it, or `title`."),
    excerpt=told(TEXT, "Of a search: the found words stand between « and »."),
    at=NUMBER,
)
_ENTRY = shape(
    ("id", "object", "kind", "text", "at"),
    id=TEXT,
    object=one_of("session.entry"),
    kind=one_of("user", "assistant", "tool", "note", "file"),
    text=TEXT,
    at=NUMBER,
    position=told({"type": "integer"}, "Where to fork before it; -1: it stands in no transcript."),
    level=TEXT,
    name=TEXT,
    detail=TEXT,
    ok=maybe(FLAG),
    reasoning=TEXT,
    files=listed(shape(name=TEXT, kind=TEXT, size=WHOLE)),
)
_MODEL_VIEW = shape(("id", "object"), id=TEXT, object=one_of("model"), created=WHOLE, owned_by=TEXT)

SCHEMAS: Mapping[str, Schema] = {
    "Error": _ERROR,
    "Message": _MESSAGE,
    "Usage": _USAGE,
    "Extras": _EXTRAS,
    "ChatRequest": _CHAT_REQUEST,
    "Chat": _CHAT,
    "ResponseRequest": _RESPONSE_REQUEST,
    "Response": _RESPONSE,
    "RunRequest": shape(
        ("input",), input={"type": "string", "minLength": 1}, instructions=TEXT, conversation=_PLACE, model=_MODEL
    ),
    "Run": _RUN,
    "Question": _QUESTION,
    "Stopped": shape(("id", "stopped", "status"), id=TEXT, stopped=FLAG, status=TEXT),
    "AnswerRequest": shape(
        ("choice",),
        choice=told({"type": "string", "minLength": 1}, "One of the question's choices, or a text."),
        question=told(TEXT, "Its id; without it, the first one that the run asked."),
    ),
    "Answered": shape(("id", "question", "answered"), id=TEXT, question=TEXT, answered=TEXT),
    "Session": _SESSION,
    "Sessions": page("Session"),
    "Entry": _ENTRY,
    "Entries": page("Entry"),
    "ForkRequest": shape(
        before=told(WHOLE, "Copy what stands before this position; without it, everything."),
        apart=told(FLAG, "False: the copy takes the old one's place in its conversation. True by default."),
    ),
    "TitleRequest": shape(("title",), title={"type": "string", "minLength": 1, "maxLength": 200}),
    "Deleted": shape(("id", "deleted"), id=TEXT, object=one_of("session"), deleted=FLAG),
    "Model": _MODEL_VIEW,
    "Models": shape(("object", "data"), object=one_of("list"), data=listed(ref("Model"))),
    "Health": shape(("status",), status=TEXT, reason=TEXT),
}
