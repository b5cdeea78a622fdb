"""The official client and `/v1/responses`: answers, typed events, chains, cancelling."""

from typing import Any

import openai
import pytest
from api_house import ApiHouse
from waiting import wait_until

from hermes_lab.server import LabServer

WORKS = '[[say I look.]][[tool terminal {"command": "echo hi"}]][[then]][[say Done.]]'


def test_a_response_has_the_form_of_openai(api: ApiHouse) -> None:
    client = api.client()
    made = client.responses.create(model="hermes", input=WORKS, instructions="Be kind.", store=False)
    assert (made.status, made.output_text) == ("completed", "I look.\n\nDone.")
    assert made.usage is not None
    assert made.usage.input_tokens_details.cached_tokens > 0
    assert client.responses.retrieve(made.id).output_text == made.output_text


def test_typed_events_make_the_whole_response(api: ApiHouse) -> None:
    """The client's own stream accepts every event, in order, and ends with the response."""
    with api.client().responses.stream(model="hermes", input=WORKS) as stream:
        events = list(stream)
        final = stream.get_final_response()
    assert [event.type for event in events][:4] == [
        "response.created",
        "response.in_progress",
        "response.output_item.added",
        "response.content_part.added",
    ]
    assert events[-1].type == "response.completed"
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert final.output_text == "I look.\n\nDone."
    pieces = [event.delta for event in events if event.type == "response.output_text.delta"]
    assert "".join(pieces) == final.output_text


def test_a_chain_goes_on_in_its_conversation(api: ApiHouse, lab: LabServer) -> None:
    client = api.client(api.make_key())
    first = client.responses.create(model="hermes", input="One")
    second = client.responses.create(model="hermes", input="[[say Two.]]", previous_response_id=first.id)
    assert second.previous_response_id == first.id
    assert second.conversation == first.conversation
    assert len(lab.requests[-1].json()["messages"]) == 4
    third = client.responses.create(model="hermes", input="Three", conversation=second.conversation.id)  # type: ignore[union-attr]
    assert third.conversation == first.conversation


def test_a_list_is_taken_like_a_string(api: ApiHouse, lab: LabServer) -> None:
    items: Any = [
        {"role": "user", "content": "One"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "1"}]},
        {"role": "user", "content": [{"type": "input_text", "text": "[[say Two.]]"}]},
    ]
    assert api.client().responses.create(model="hermes", input=items).output_text == "Two."
    assert [message["content"] for message in lab.requests[-1].json()["messages"][1:3]] == ["One", "1"]


def test_a_failed_response(api: ApiHouse, lab: LabServer) -> None:
    lab.set_plan([{"fault": {"status": 401, "message": "No."}, "times": 0}])
    client = api.client()
    with pytest.raises(openai.InternalServerError) as failed:
        client.responses.create(model="hermes", input="Hello")
    assert failed.value.status_code == 502
    events = list(client.responses.create(model="hermes", input="Hello", stream=True))
    assert events[-1].type == "response.failed"
    assert events[-1].response.error is not None
    assert client.responses.retrieve(events[-1].response.id).status == "failed"


def test_a_response_in_the_background_is_cancelled(api: ApiHouse, lab: LabServer) -> None:
    """C4, C6: stopped within seconds, and the response says by whom."""
    client = api.client()
    made = client.responses.create(model="hermes", input="[[stall 30]]", background=True)
    wait_until(lambda: bool(lab.in_flight))
    ended = client.responses.cancel(made.id)
    assert ended.status == "incomplete"
    assert "stopped by the user" in ended.model_dump()["hermes"]["reason"]
    assert client.responses.retrieve(made.id).status == "incomplete"
