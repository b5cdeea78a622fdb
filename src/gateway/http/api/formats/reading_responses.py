"""Makes a question of a request of the Responses format."""

from dataclasses import replace

from gateway.http.api.formats.asking import MODEL, Ask, ClientMessage
from gateway.http.api.formats.reading_chat import (
    check_last,
    read_place,
    read_sent,
    refuse_formats,
    refuse_unsupported,
    unsupported,
)
from gateway.http.api.messages import PlaceObject, ResponseRequest
from gateway.http.api.problems import wrong


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
