"""C7 for clients: an answer that stopped before its end says so, whole, streamed, and asked for after a restart."""

from typing import Any

import pytest
from api_house import ApiHouse

EARLY = [
    ("[[say Half an]][[length]]", "length", "max_output_tokens"),
    ("[[say Half an]][[refuse]]", "content_filter", "content_filter"),
]


@pytest.mark.parametrize(("text", "finish", "incomplete"), EARLY)
def test_an_answer_that_ended_early_says_so_in_chat_completions(
    api: ApiHouse, text: str, finish: str, incomplete: str
) -> None:
    client, messages = api.client(), [{"role": "user", "content": text}]
    asked: Any = {"model": "hermes", "messages": messages}
    whole = client.chat.completions.create(**asked)
    assert (whole.choices[0].finish_reason, whole.choices[0].message.content) == (finish, "Half an")
    assert whole.model_dump()["hermes"] == {"incomplete": incomplete}
    chunks = list(client.chat.completions.create(**asked, stream=True))
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices[0].finish_reason] == [finish]


@pytest.mark.parametrize(("text", "finish", "incomplete"), EARLY)
def test_a_response_that_ended_early_is_incomplete(api: ApiHouse, text: str, finish: str, incomplete: str) -> None:
    del finish
    client = api.client()
    made = client.responses.create(model="hermes", input=text)
    assert (made.status, made.output_text, made.output[0].status) == ("incomplete", "Half an", "incomplete")
    assert made.incomplete_details is not None
    assert made.incomplete_details.reason == incomplete
    events = list(client.responses.create(model="hermes", input=text, stream=True))
    assert events[-1].type == "response.incomplete"
    api.stop()
    api.start()
    again = api.client().responses.retrieve(made.id)
    assert (again.status, again.incomplete_details) == ("incomplete", made.incomplete_details)


def test_a_run_that_ended_early_says_so(api: ApiHouse) -> None:
    http = api.http()
    run = http.post("/v1/runs", json={"input": "[[say Half an]][[length]]"}).json()["id"]
    with http.stream("GET", f"/v1/runs/{run}/events") as told:
        told.read()
    assert http.get(f"/v1/runs/{run}").json()["hermes"] == {"incomplete": "max_output_tokens"}


def test_a_whole_answer_says_nothing_of_it(api: ApiHouse) -> None:
    made = api.client().responses.create(model="hermes", input="[[say All.]]")
    assert (made.status, made.incomplete_details, made.output[0].status) == ("completed", None, "completed")
