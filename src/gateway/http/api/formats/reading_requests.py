"""Makes a question of a request, in the Chat Completions or in the Responses format."""

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import get_args

from msgspec import Meta, Struct, structs

from gateway.http.api.formats.asking import MODEL, ONLY_IMAGES, Ask, ClientMessage, fold, join
from gateway.http.api.formats.images import MOST_IMAGES, Image, read_image
from gateway.http.api.messages import (
    IMAGES,
    MOST_CHARS,
    ROLES,
    TEXTS,
    TOOLS_ARE_OURS,
    AnswerFormat,
    ChatRequest,
    ImageAddress,
    MessagePart,
    PlaceMetadata,
    PlaceObject,
    ResponseRequest,
    SentMessage,
)
from gateway.http.api.problems import ApiProblem, wrong


def read_chat(body: ChatRequest) -> Ask:
    refuse_unsupported(body)
    refuse_formats(body.response_format, "response_format")
    if body.n not in (None, 1):
        raise unsupported("n", "there is one answer to a question.")
    if (body.modalities or ["text"]) != ["text"]:
        raise unsupported("modalities", "answers are text.")
    return replace(
        check_last(read_sent(body.messages, "messages"), "messages"),
        model=body.model,
        place=read_place(body.conversation, body.metadata),
        stream=bool(body.stream),
        include_usage=bool(body.stream_options and body.stream_options.include_usage),
        events=bool(body.hermes and body.hermes.events),
    )


def read_response_request(body: ResponseRequest) -> Ask:
    refuse_unsupported(body)
    refuse_formats(body.text.format if body.text else None, "text.format")
    if isinstance(body.input, list):
        for number, one in enumerate(body.input):
            if one.type not in (None, "message"):
                raise unsupported(f"input[{number}].type", "only messages can be taken.")
        messages = read_sent(body.input, "input")
    else:
        messages = [ClientMessage("user", body.input)]
    head = [ClientMessage("system", body.instructions)] if body.instructions else []
    named = body.conversation.id if isinstance(body.conversation, PlaceObject) else body.conversation
    follows, place = body.previous_response_id or "", read_place(named, body.metadata)
    if follows and place:
        raise wrong("previous_response_id", "Name either previous_response_id or a conversation, not both.")
    return replace(
        check_last([*head, *messages], "input"),
        model=body.model or MODEL,
        place=place,
        follows=follows,
        stream=bool(body.stream),
        events=bool(body.hermes and body.hermes.events),
    )


def unsupported(field: str, why: str) -> ApiProblem:
    return wrong(field, f"{field}: {why}", "unsupported")


def read_place(named: str | None, metadata: PlaceMetadata | None) -> str:
    """The conversation that the client names: a field, or an entry of its metadata."""
    return named or (metadata and metadata.conversation) or ""


def refuse_unsupported(body: Struct, path: str = "") -> None:
    for field, why in list_refused(type(body)):
        if getattr(body, field) not in (None, [], {}, False, ""):
            raise unsupported(path + field, why)


@functools.cache
def list_refused(kind: type[Struct]) -> Sequence[tuple[str, str]]:
    """Fields whose absence would be noticed, and why they cannot be honoured."""
    metas = [(one.name, meta) for one in structs.fields(kind) for meta in get_args(one.type) if isinstance(meta, Meta)]
    return [(name, meta.description or "") for name, meta in metas if meta.extra and meta.extra.get("refused")]


def refuse_formats(form: AnswerFormat | None, path: str) -> None:
    if form is not None and form.type not in (None, "text"):
        raise unsupported(f"{path}.type", "answers are plain text.")


def check_last(messages: Sequence[ClientMessage], field: str) -> Ask:
    """The messages as one question, which the user must have asked."""
    if messages[-1].role != "user":
        raise wrong(field, f"{field}: the last message must be the user's.")
    ask = fold(messages)
    if not ask.said.strip():
        raise wrong(field, f"{field}: the last message says nothing.")
    if len(ask.first_said) > MOST_CHARS:
        raise wrong(field, f"{field}: what is asked is longer than {MOST_CHARS:,} characters.", "too_large")
    if len(ask.images) > MOST_IMAGES:
        raise wrong(field, f"{field}: more than {MOST_IMAGES} images are too many.")
    return ask


def read_sent(messages: Sequence[SentMessage], field: str) -> list[ClientMessage]:
    return [_read_one(one, f"{field}[{number}]") for number, one in enumerate(messages)]


def _read_one(sent: SentMessage, path: str) -> ClientMessage:
    """Only an assistant may have said nothing."""
    if sent.role in ("tool", "function"):
        raise unsupported(f"{path}.role", TOOLS_ARE_OURS)
    role = ROLES.get(sent.role)
    if role is None:
        raise wrong(f"{path}.role", f"{path}.role must be one of {', '.join(ROLES)}.")
    refuse_unsupported(sent, f"{path}.")
    if isinstance(sent.content, list):
        return _read_parts(sent.content, role, f"{path}.content")
    if role != "assistant" and not (sent.content or "").strip():
        raise wrong(f"{path}.content", f"{path}.content must not be empty.")
    return ClientMessage(role, (sent.refusal or "") if sent.content is None else sent.content)


def _read_parts(parts: Sequence[MessagePart], role: str, path: str) -> ClientMessage:
    texts: list[str] = []
    images: list[Image] = []
    for number, part in enumerate(parts):
        if part.type in TEXTS:
            texts.append(getattr(part, TEXTS[part.type]) or "")
        elif part.type in IMAGES and role == "user":
            images.append(read_image(_find_address(part), f"{path}[{number}].image_url"))
        else:
            raise unsupported(f"{path}[{number}].type", "only text and images can be taken.")
    return ClientMessage(role, join(texts) or (ONLY_IMAGES if images else ""), tuple(images))


def _find_address(part: MessagePart) -> str:
    """Chat wraps the address in an object, Responses does not."""
    return part.image_url.url if isinstance(part.image_url, ImageAddress) else part.image_url or ""
