"""C2, H8: a turn that ends without an answer is an error in the API's form, with the reason, never an empty answer."""

from collections.abc import Callable
from typing import Any

import openai
import pytest
from api_house import ApiHouse
from waiting import wait_until

from gateway.core import route
from gateway.turns import lane
from hermes_lab.server import LabServer
from hermes_state import turn_rules

ASKED: Any = [{"role": "user", "content": "Hello? [[stall 60]]"}]
Ask = Callable[[openai.OpenAI], Any]


def ask_chat(client: openai.OpenAI) -> None:
    client.chat.completions.create(model="hermes", messages=ASKED)


def stream_chat(client: openai.OpenAI) -> None:
    for _ in client.chat.completions.create(model="hermes", messages=ASKED, stream=True):
        pass


def ask_response(client: openai.OpenAI) -> None:
    client.responses.create(model="hermes", input=ASKED)


@pytest.mark.parametrize("ask", [ask_chat, stream_chat, ask_response])
def test_a_turn_that_was_given_up_is_an_error(api: ApiHouse, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    """C2"""
    monkeypatch.setattr(turn_rules, "MAX_ATTEMPTS", 0)
    with pytest.raises(openai.APIError) as failed:
        ask(api.client(max_retries=0))
    assert "broke off three times" in failed.value.message
    assert failed.value.code == "interrupted"


def test_a_streamed_response_that_was_given_up_has_failed(api: ApiHouse, monkeypatch: pytest.MonkeyPatch) -> None:
    """C2"""
    monkeypatch.setattr(turn_rules, "MAX_ATTEMPTS", 0)
    events = list(api.client().responses.create(model="hermes", input=ASKED, stream=True))
    assert events[-1].type == "response.failed"
    ended = events[-1].response
    assert ended.status == "failed"
    assert ended.error is not None
    assert "broke off three times" in ended.error.message
    assert ended.output == []


def test_a_run_that_was_stopped_before_its_first_word_names_the_reason(api: ApiHouse, lab: LabServer) -> None:
    """C6"""
    http = api.http()
    run = http.post("/v1/runs", json={"input": "[[stall 60]]"}).json()["id"]
    wait_until(lambda: bool(lab.in_flight))
    http.post(f"/v1/runs/{run}/stop")
    wait_until(lambda: http.get(f"/v1/runs/{run}").json()["status"] == "stopped")
    ended = http.get(f"/v1/runs/{run}").json()
    assert "stopped by the user" in ended["error"]["message"]
    assert ended["output"] is None


def test_a_full_queue_is_told_to_each_request(api: ApiHouse, lab: LabServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """C2: each request learns at once that its own message was not taken, whichever call it makes."""
    for place in (route, lane):
        monkeypatch.setattr(place, "MAX_WAITING", 2)
    http = api.http()
    held = http.post("/v1/runs", json={"input": "[[stall 60]]", "conversation": "full"}).json()["id"]
    wait_until(lambda: bool(lab.in_flight))
    text = {"input": "[[say In time.]]", "conversation": "full"}
    waiting = [http.post("/v1/runs", json=text) for _ in range(2)]
    assert [answer.status_code for answer in waiting] == [202, 202]
    chat = {"messages": [{"role": "user", "content": "[[say Late.]]"}], "conversation": "full"}
    late: list[tuple[str, dict[str, Any]]] = [
        ("/v1/runs", text),
        ("/v1/runs", text),
        ("/v1/chat/completions", {**chat, "model": "hermes"}),
        ("/v1/chat/completions", {**chat, "model": "hermes", "stream": True}),
        ("/v1/responses", {**text, "model": "hermes", "background": True}),
        ("/v1/responses", {**text, "model": "hermes", "stream": True}),
    ]
    for number, (path, body) in enumerate([*late, *late]):  # each is sent a second time with its key
        answer = http.post(path, json=body, headers={"Idempotency-Key": str(number % len(late))})
        assert (answer.status_code, answer.json()["error"]["message"]) == (429, route.TOO_MANY), path
        assert answer.headers["X-Hermes-Run"]
    http.post(f"/v1/runs/{held}/stop")
    for run in (answer.json()["id"] for answer in waiting):
        wait_until(lambda run=run: http.get(f"/v1/runs/{run}").json()["output"] == "In time.")  # type: ignore[misc]
