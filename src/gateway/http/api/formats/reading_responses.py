"""Reads a request of the Responses format."""

from collections.abc import Mapping
from dataclasses import replace

from gateway.http.api.formats.asking import MODEL, Ask, ClientMessage
from gateway.http.api.formats.reading_chat import TOOLS_ARE_OURS, check_last, read_message, read_place, refuse_formats
from gateway.http.api.formats.request_fields import Fields
from gateway.http.api.problems import wrong

_REFUSED: Mapping[str, str] = {
    "tools": TOOLS_ARE_OURS,
    "prompt": "prompt templates are not kept here.",
    "top_logprobs": "there are no log probabilities here.",
}


def read_response_request(body: Fields) -> Ask:
    for field, why in _REFUSED.items():
        body.refuse(field, why)
    refuse_formats(body.section("text").section("format"))
    if isinstance(body.get("input"), list):
        messages = []
        for entry in body.entries("input"):
            if entry.has("type") and entry.get("type") != "message":
                raise wrong(entry.name("type"), f"{entry.name('type')}: only messages can be taken.", "unsupported")
            messages.append(read_message(entry))
    else:
        messages = [ClientMessage("user", body.text("input", needed=True))]
    head = body.text("instructions")
    ask = check_last([ClientMessage("system", head), *messages] if head else messages, "input")
    follows, place = body.text("previous_response_id", most=1_000), _read_conversation(body)
    if follows and place:
        raise wrong("previous_response_id", "Name either previous_response_id or a conversation, not both.")
    return replace(
        ask,
        model=body.text("model", most=200) or MODEL,
        place=place,
        follows=follows,
        stream=body.flag("stream"),
        events=body.section("hermes").flag("events"),
    )


def _read_conversation(body: Fields) -> str:
    """A name or id, or an object with the id."""
    if isinstance(body.get("conversation"), Mapping):
        return body.section("conversation").text("id", needed=True, most=500)
    return read_place(body)
