"""Reads a request of the Chat Completions format. What cannot be honoured is refused; harmless tuning is ignored."""

from collections.abc import Mapping
from dataclasses import replace

from gateway.http.api.formats.asking import ONLY_IMAGES, Ask, ClientMessage, fold, join
from gateway.http.api.formats.images import MOST_IMAGES, Image, read_image
from gateway.http.api.formats.request_fields import MOST_CHARS, Fields
from gateway.http.api.problems import wrong

TOOLS_ARE_OURS = "the agent works with its own tools and cannot call yours."
_ROLES: Mapping[str, str] = {"system": "system", "developer": "system", "user": "user", "assistant": "assistant"}
_TEXTS: Mapping[str, str] = {"text": "text", "input_text": "text", "output_text": "text", "refusal": "refusal"}
_IMAGES = frozenset({"image_url", "input_image"})
#: Fields whose absence would be noticed.
_REFUSED: Mapping[str, str] = {
    "tools": TOOLS_ARE_OURS,
    "functions": TOOLS_ARE_OURS,
    "audio": "there is no audio here.",
    "prediction": "predicted output is not supported.",
    "web_search_options": TOOLS_ARE_OURS,
    "logprobs": "there are no log probabilities here.",
}


def read_chat(body: Fields) -> Ask:
    for field, why in _REFUSED.items():
        body.refuse(field, why)
    refuse_formats(body.section("response_format"))
    if body.whole("n") not in (None, 1):
        raise wrong("n", "n: there is one answer to a question.", "unsupported")
    if (body.get("modalities") or ["text"]) != ["text"]:
        raise wrong("modalities", "modalities: answers are text.", "unsupported")
    messages = [read_message(entry) for entry in body.entries("messages")]
    ask = check_last(messages, "messages")
    return replace(
        ask,
        model=body.text("model", needed=True, most=200),
        place=read_place(body),
        stream=body.flag("stream"),
        include_usage=body.section("stream_options").flag("include_usage"),
        events=body.section("hermes").flag("events"),
    )


def read_place(body: Fields) -> str:
    """The conversation that the client names: a field, or an entry of its metadata."""
    return body.text("conversation", most=500) or body.section("metadata").text("conversation", most=500)


def refuse_formats(form: Fields) -> None:
    if form.has("type") and form.get("type") != "text":
        raise wrong(form.name("type"), f"{form.name('type')}: answers are plain text.", "unsupported")


def check_last(messages: list[ClientMessage], field: str) -> Ask:
    """The messages as one question, which the user must have asked."""
    if not messages:
        raise wrong(field, f"{field} must not be empty.")
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


def read_message(entry: Fields) -> ClientMessage:
    role = _ROLES.get(entry.text("role", needed=True, most=50))
    if entry.get("role") in ("tool", "function"):
        raise wrong(entry.name("role"), f"{entry.name('role')}: {TOOLS_ARE_OURS}", "unsupported")
    if role is None:
        raise wrong(entry.name("role"), f"{entry.name('role')} must be system, developer, user or assistant.")
    entry.refuse("tool_calls", TOOLS_ARE_OURS)
    entry.refuse("function_call", TOOLS_ARE_OURS)
    return read_content(entry, role)


def read_content(entry: Fields, role: str) -> ClientMessage:
    """A text, or a list of parts. Only an assistant may have said nothing."""
    content = entry.get("content")
    if isinstance(content, list):
        return read_parts(entry, role)
    if content is None and role == "assistant":
        return ClientMessage(role, entry.text("refusal"))
    return ClientMessage(role, entry.text("content", needed=role != "assistant"))


def read_parts(entry: Fields, role: str) -> ClientMessage:
    texts: list[str] = []
    images: list[Image] = []
    for part in entry.entries("content"):
        kind = part.text("type", needed=True, most=50)
        if kind in _TEXTS:
            texts.append(part.text(_TEXTS[kind]))
        elif kind in _IMAGES and role == "user":
            images.append(read_image(_find_address(part), part.name("image_url")))
        else:
            raise wrong(part.name("type"), f"{part.name('type')}: only text and images can be taken.", "unsupported")
    return ClientMessage(role, join(texts) or (ONLY_IMAGES if images else ""), tuple(images))


def _find_address(part: Fields) -> str:
    """Chat wraps the address in an object, Responses does not."""
    if isinstance(part.get("image_url"), Mapping):
        return part.section("image_url").text("url", needed=True, most=11_000_000)
    return part.text("image_url", needed=True, most=11_000_000)
