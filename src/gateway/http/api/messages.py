"""The messages of the API, each defined once: what is read, checked, written and described comes from here.

In a request a field that is null is a field that is not there, and fields that are not named here are ignored.
"""

from collections.abc import Mapping
from typing import Annotated, Any, Generic, Literal, TypeVar

from msgspec import UNSET, Meta, Struct, UnsetType, field

from gateway.http.calls import SAYS_SOMETHING
from hermes_base.text.tool_views import ToolPart

T = TypeVar("T")

MOST_CHARS = 2_000_000  # of one text
MOST_ENTRIES = 5_000
MOST_ADDRESS = 11_000_000  # of an image that comes inside of a request
#: Who may speak in a request, and as what it is taken.
ROLES: Mapping[str, str] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
#: Parts of a message that are text, and the field that holds it.
TEXTS: Mapping[str, str] = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
IMAGES = ("image_url", "input_image")
#: A name of one's own, or the key of a conversation; the id of a session looks like a name.
PLACE_SCHEMA: Mapping[str, Any] = {"maxLength": 500, "pattern": "^([A-Za-z0-9_.-]{1,64}|agent:.+)$"}


def choices(*words: str) -> dict[str, Any]:
    """Told in the description. Where another word comes, its reader says more than that it is another."""
    return {"enum": list(words)}


# --- what clients send

LongText = Annotated[str, Meta(max_length=MOST_CHARS)]
Words = Annotated[str, Meta(pattern=SAYS_SOMETHING, max_length=MOST_CHARS)]
ModelName = Annotated[
    str, Meta(max_length=200, description="`hermes` for whatever answers here, or another name from /v1/models.")
]
Place = Annotated[
    str,
    Meta(
        max_length=500,
        description="The conversation: a name of your own (1 to 64 letters, digits, dots, dashes, underscores), the id "
        "of a session, or what X-Hermes-Conversation told. Only the last user message is said there. Without it, the "
        "messages before the last one must be the transcript of a conversation of this key, which then goes on; else a "
        "new one begins.",
        extra_json_schema=dict(PLACE_SCHEMA),
    ),
]
_REFUSED = {"refused": True}
#: What cannot be honoured, and would be missed, is refused instead of ignored; empty is as good as absent.
TOOLS_ARE_OURS = "the agent works with its own tools and cannot call yours."
OwnTools = Annotated[Any, Meta(description=TOOLS_ARE_OURS, extra=_REFUSED)]
Audio = Annotated[Any, Meta(description="there is no audio here.", extra=_REFUSED)]
Prediction = Annotated[Any, Meta(description="predicted output is not supported.", extra=_REFUSED)]
Chances = Annotated[Any, Meta(description="there are no log probabilities here.", extra=_REFUSED)]
Template = Annotated[Any, Meta(description="prompt templates are not kept here.", extra=_REFUSED)]


class ImageAddress(Struct):
    url: Annotated[str, Meta(pattern=SAYS_SOMETHING, max_length=MOST_ADDRESS)]


class MessagePart(Struct):
    type: Annotated[str, Meta(max_length=50, extra_json_schema=choices(*TEXTS, *IMAGES))]
    text: LongText | None = None
    refusal: LongText | None = None
    image_url: Annotated[
        Annotated[str, Meta(max_length=MOST_ADDRESS)] | ImageAddress | None,
        Meta(description="A data: address of a PNG, JPEG, GIF or WebP image; in Chat an object with `url`."),
    ] = None


class SentMessage(Struct):
    """System and developer messages become instructions in front of the first user message."""

    role: Annotated[str, Meta(max_length=50, extra_json_schema=choices(*ROLES))]
    content: LongText | Annotated[list[MessagePart], Meta(max_length=MOST_ENTRIES)] | None = None
    refusal: LongText | None = None
    type: Annotated[str | None, Meta(extra_json_schema=choices("message"))] = None
    tool_calls: OwnTools = None
    function_call: OwnTools = None


class InputMessage(SentMessage):
    """As in Chat. Items of other types have no role; they are named as such."""

    role: Annotated[str, Meta(max_length=50, extra_json_schema=choices(*ROLES))] = ""


class EventWish(Struct):
    """`events`: also send what happens beside the text, in the stream."""

    events: bool | None = None


class StreamOptions(Struct):
    include_usage: bool | None = None


class PlaceMetadata(Struct):
    conversation: Place | None = None


class AnswerFormat(Struct):
    type: Annotated[Any, Meta(extra_json_schema=choices("text"))] = None


class TextOptions(Struct):
    format: AnswerFormat | None = None


class PlaceObject(Struct):
    id: Annotated[str, Meta(pattern=SAYS_SOMETHING, max_length=500)]


class ChatRequest(Struct):
    """Tuning fields of OpenAI (temperature, max_tokens, stop, seed, …) are accepted and ignored."""

    model: Annotated[ModelName, Meta(pattern=SAYS_SOMETHING)]
    messages: Annotated[list[SentMessage], Meta(min_length=1, max_length=MOST_ENTRIES)]
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    conversation: Place | None = None
    metadata: PlaceMetadata | None = None
    n: Annotated[int | None, Meta(extra_json_schema={"enum": [1]})] = None
    hermes: EventWish | None = None
    response_format: AnswerFormat | None = None
    modalities: Annotated[Any, Meta(extra_json_schema={"enum": [["text"]]})] = None
    tools: OwnTools = None
    functions: OwnTools = None
    web_search_options: OwnTools = None
    audio: Audio = None
    prediction: Prediction = None
    logprobs: Chances = None


class ResponseRequest(Struct):
    """`store: false` is accepted and not honoured: conversations are kept in the home."""

    input: Words | Annotated[list[InputMessage], Meta(min_length=1, max_length=MOST_ENTRIES)]
    model: ModelName | None = None
    instructions: LongText | None = None
    previous_response_id: Annotated[
        Annotated[str, Meta(max_length=1_000)] | None,
        Meta(description="Go on in the conversation of that response."),
    ] = None
    conversation: Place | PlaceObject | None = None
    metadata: PlaceMetadata | None = None
    stream: bool | None = None
    background: Annotated[
        bool | None, Meta(description="Answer at once; GET /v1/responses/{id} tells how it stands.")
    ] = None
    hermes: EventWish | None = None
    text: TextOptions | None = None
    tools: OwnTools = None
    prompt: Template = None
    top_logprobs: Chances = None


class RunRequest(Struct):
    input: Words
    instructions: LongText | None = None
    conversation: Place | None = None
    model: ModelName | None = None


class AnswerRequest(Struct):
    choice: Annotated[
        str,
        Meta(
            pattern=SAYS_SOMETHING,
            max_length=10_000,
            description="One of its choices, `deny: WORDS`, or a text.",
        ),
    ]
    question: Annotated[
        Annotated[str, Meta(max_length=200)] | None,
        Meta(description="Its id; without it, the first one that the run asked."),
    ] = None


class ForkRequest(Struct):
    before: Annotated[
        Annotated[int, Meta(ge=0, lt=2**31)] | None,
        Meta(description="Copy what stands before this position; without it, everything."),
    ] = None
    apart: Annotated[
        bool | None,
        Meta(description="False: the copy takes the old one's place in its conversation. True by default."),
    ] = None


class TitleRequest(Struct):
    title: Annotated[str, Meta(pattern=SAYS_SOMETHING, max_length=1_000, extra_json_schema={"maxLength": 200})]


class SessionsQuery(Struct):
    limit: Annotated[int, Meta(ge=1, le=100)] = 20
    before: Annotated[float, Meta(ge=-1e12, le=1e12)] | None = None
    words: Annotated[str, Meta(max_length=500)] = ""


class MessagesQuery(Struct):
    limit: Annotated[int, Meta(ge=1, le=100)] = 50
    before: Annotated[int, Meta(ge=0, le=999_999_999)] | None = None


# --- what they get


class ListAnswer(Struct, Generic[T], tag_field="object", tag="list"):
    data: list[T]
    has_more: bool = False
    before: float | UnsetType = UNSET  # where the next page of it begins


class ErrorDetail(Struct):
    message: Annotated[str, Meta(description="A sentence for a person: what happened, and what to do.")]
    type: str
    param: str | None
    code: str


class ErrorAnswer(Struct):
    error: ErrorDetail


class TokenUsage(Struct):
    """All model calls of the run together."""

    prompt_tokens: int
    completion_tokens: int
    total_tokens: int
    prompt_tokens_details: dict[str, int]
    completion_tokens_details: dict[str, int]


class GivenFile(Struct):
    name: str
    kind: str
    size: int


class Extras(Struct):
    """What OpenAI's form has no place for: that it was stopped or is not whole, and files that the agent hands over."""

    interrupted: bool | UnsetType = UNSET
    reason: str | UnsetType = UNSET
    incomplete: Annotated[str, Meta(extra_json_schema=choices("max_output_tokens", "content_filter"))] | UnsetType = (
        UNSET
    )
    files: list[GivenFile] | UnsetType = UNSET


class SaidText(Struct):
    content: str
    role: Literal["assistant"] = "assistant"
    refusal: None = None
    reasoning_content: str | UnsetType = UNSET


class ChatChoice(Struct):
    message: SaidText
    finish_reason: Annotated[str, Meta(extra_json_schema=choices("stop", "length", "content_filter"))]
    index: int = 0
    logprobs: None = None


class ChatAnswer(Struct, kw_only=True, tag_field="object", tag="chat.completion"):
    id: str
    created: int
    model: str
    choices: list[ChatChoice]
    usage: TokenUsage
    hermes: Extras | UnsetType = UNSET


class OutputText(Struct, tag_field="type", tag="output_text"):
    text: str
    annotations: tuple[()] = ()


class OutputItem(Struct, tag_field="type", tag="message"):
    id: str
    status: str
    content: list[OutputText]
    role: Literal["assistant"] = "assistant"


class ResponseUsage(Struct):
    input_tokens: int
    input_tokens_details: dict[str, int]
    output_tokens: int
    output_tokens_details: dict[str, int]
    total_tokens: int


class ResponseAnswer(Struct, kw_only=True, tag_field="object", tag="response"):
    id: str
    created_at: int
    status: Annotated[
        str, Meta(extra_json_schema=choices("queued", "in_progress", "completed", "failed", "incomplete", "stopped"))
    ]
    model: str
    output: list[OutputItem]
    error: dict[str, str] | None = None
    incomplete_details: dict[str, str] | None = None
    conversation: PlaceObject
    instructions: None = None
    metadata: dict[str, str] = {}
    parallel_tool_calls: bool = True
    previous_response_id: str | None = None
    tool_choice: Literal["auto"] = "auto"
    tools: tuple[()] = ()
    temperature: None = None
    top_p: None = None
    usage: ResponseUsage | None = None
    hermes: Extras | UnsetType = UNSET


class AskedQuestion(Struct):
    """Something that only a person can decide. Without choices any text answers it."""

    id: str
    kind: Annotated[str, Meta(extra_json_schema=choices("approval", "clarification", "confirmation"))]
    text: str
    choices: tuple[str, ...]
    reason: str
    expires_in: float


class RunAnswer(Struct, kw_only=True, tag_field="object", tag="run"):
    id: str
    status: Annotated[str, Meta(extra_json_schema=choices("queued", "in_progress", "completed", "failed", "stopped"))]
    conversation: str
    session: str | None = None
    created: int
    output: str | None = None
    error: ErrorDetail | None = None
    question: AskedQuestion | UnsetType | None = UNSET
    usage: TokenUsage | None = None
    hermes: Extras | UnsetType = UNSET


class StoppedAnswer(Struct):
    id: str
    stopped: bool
    status: str


class AnsweredQuestion(Struct):
    id: str
    question: str
    answered: str


class SessionAnswer(Struct, kw_only=True, tag_field="object", tag="session"):
    session: str = field(name="id")
    conversation: str
    title: str
    preview: str
    platform: str
    model: str
    started: float
    updated: float
    messages: int
    task: str
    parent: str
    current: Annotated[bool, Meta(description="Its conversation goes on here.")]
    working: Annotated[bool, Meta(description="A turn is under way.")]
    asking: Annotated[bool, Meta(description="And waits for a person's answer.")]
    role: Annotated[str, Meta(description="Of a search: who said it, or `title`.")] | UnsetType = UNSET
    excerpt: Annotated[str, Meta(description="Of a search: the found words stand between « and ».")] | UnsetType = UNSET
    at: float | UnsetType = UNSET


class EntryAnswer(Struct, kw_only=True, tag_field="object", tag="session.entry"):
    id: str
    kind: Annotated[str, Meta(extra_json_schema=choices("user", "assistant", "tool", "note", "file"))]
    text: str
    at: float
    position: Annotated[int, Meta(description="Where to fork before it; -1: it stands in no transcript.")]
    level: str
    name: str
    detail: str
    ok: bool | None
    reasoning: str
    files: list[GivenFile]
    model: str
    parts: tuple[ToolPart, ...]


class DeletedAnswer(Struct, tag_field="object", tag="session"):
    id: str
    deleted: bool = True


class ModelAnswer(Struct, tag_field="object", tag="model"):
    id: str
    created: int = 0
    owned_by: str = "hermes"


class HealthAnswer(Struct):
    status: str
    reason: str | UnsetType = UNSET
    warning: str | UnsetType = UNSET
