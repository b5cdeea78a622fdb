"""C7: the model's stream breaks after text was shown, and the call is made again. Everybody has the text once."""

from pathlib import Path
from typing import Any

import pytest
from gateway_process import HERMES, GatewayProcess
from onlookers import EveryHouse, Terminals, check_page
from openai import APIError, OpenAI
from waiting import wait_until
from warm_python import run_text

from hermes_base.chat import TextDelta, TextEnded
from hermes_lab.server import LabServer
from run_agent import AIAgent

WHOLE = "The quick brown fox jumps over the lazy dog"
OTHER = "A slow green turtle crawls under the eager cat"
CUT = {"text": WHOLE, "chunks": 9, "fault": {"cut_after_chunks": 4}}
WORKS = {"text": "I look.", "chunks": 2, "tool_calls": [{"name": "todo", "arguments": {"action": "list"}}]}
#: What breaks off, and what comes of it then.
SAME, ANOTHER = [CUT, {"text": WHOLE, "chunks": 9}], [CUT, {"text": OTHER, "chunks": 9}]
LATER = [WORKS, CUT, {"text": OTHER, "chunks": 9}]


def ask(client: OpenAI, **more: Any) -> Any:
    return client.chat.completions.create(model="hermes", messages=[{"role": "user", "content": "Well?"}], **more)


@pytest.mark.parametrize(("plan", "text"), [(SAME, WHOLE), (ANOTHER, OTHER), (LATER, f"I look.\n\n{OTHER}")])
def test_the_api_answers_with_the_text_once(house: EveryHouse, lab: LabServer, plan: Any, text: str) -> None:
    """C7: whole answers of both formats; and the client's history is the conversation's (B9)."""
    lab.set_plan([*plan, *plan])
    client = house.client()
    told = ask(client).choices[0].message.content
    assert told == text
    assert client.responses.create(model="hermes", input="Well?").output_text == text
    history = [{"role": "user", "content": "Well?"}, {"role": "assistant", "content": told}]
    went = client.chat.completions.with_raw_response.create(
        model="hermes", messages=[*history, {"role": "user", "content": "And?"}]
    )
    assert len(house.transcript(went.headers["x-hermes-conversation"])) == len(text.split("\n\n")) + 1


def test_a_stream_of_the_api_goes_on_where_it_was(house: EveryHouse, lab: LabServer) -> None:
    """C7: a new try that begins with what was sent goes on from there, in both formats."""
    lab.set_plan([*SAME, *SAME])
    client = house.client()
    assert "".join(chunk.choices[0].delta.content or "" for chunk in ask(client, stream=True)) == WHOLE
    events = list(client.responses.create(model="hermes", input="Well?", stream=True))
    assert "".join(event.delta for event in events if event.type == "response.output_text.delta") == WHOLE
    assert events[-1].type == "response.completed"


@pytest.mark.parametrize("plan", [ANOTHER, LATER])
def test_a_stream_of_the_api_never_ends_well_with_another_text(house: EveryHouse, lab: LabServer, plan: Any) -> None:
    """C7: what was sent cannot be unsent; the client gets an error, and the answer from the run."""
    lab.set_plan([*plan, *plan])
    client = house.client()
    stream = client.chat.completions.with_raw_response.create(
        model="hermes", messages=[{"role": "user", "content": "Well?"}], stream=True
    )
    with pytest.raises(APIError, match="begun anew") as told:
        list(stream.parse())
    assert told.value.code == "begun_anew"
    http, run = house.http(), f"/v1/runs/{stream.headers['x-hermes-run']}"
    wait_until(lambda: http.get(run).json()["status"] == "completed")
    assert http.get(run).json()["output"].endswith(OTHER)
    events = list(client.responses.create(model="hermes", input="Well?", stream=True))
    assert (events[-1].type, events[-1].code) == ("error", "begun_anew")


def test_who_follows_a_run_is_told(house: EveryHouse, lab: LabServer) -> None:
    """C7: the events of a run say which text stands."""
    lab.set_plan(LATER)
    http = house.http()
    run = http.post("/v1/runs", json={"input": "Well?"}).json()
    body = http.get(f"/v1/runs/{run['id']}/events").text
    ends = [line for line in body.splitlines() if line.startswith("data:") and "text.ended" in line]
    assert [("true" in line) for line in ends] == [True, False]


@pytest.mark.parametrize("plan", [SAME, ANOTHER, LATER])
def test_terminals_page_and_chat_have_the_text_once(house: EveryHouse, lab: LabServer, plan: Any) -> None:
    """C7: the answer to a chat, seen by a terminal and by the page."""
    lab.set_plan(plan)
    key = house.chat_key("c1")
    terminals, page = Terminals(house.home, "one", key), house.visit().watch(key)
    house.write_in_chat("c1", "Well?")
    terminals.wait_ended()
    house.wait_quiet()
    texts = house.transcript(key)
    assert texts[-1] == plan[-1]["text"]
    terminals.check(texts, texts[-1:])
    check_page(page, texts, [])
    assert house.service.seen("c1") == house.answers(key) == texts[-1:]
    assert terminals.count(TextEnded) >= 1
    terminals.close()


def test_a_text_of_many_lines_that_does_not_count_is_marked(house: EveryHouse, lab: LabServer) -> None:
    """C7: lines that have scrolled off cannot be taken back; a word says that they do not count."""
    lines = "\n".join(f"line {number}" for number in range(20))
    lab.set_plan([{"text": lines, "chunks": 40, "fault": {"cut_after_chunks": 20}}, {"text": OTHER}])
    key = house.chat_key("c1")
    terminals = Terminals(house.home, "one", key)
    house.write_in_chat("c1", "Well?")
    terminals.wait_ended()
    screen = terminals._view.pop_finished()
    assert screen.index("line 0") < screen.index("begins anew") < screen.index(OTHER)
    terminals.close()


def test_a_steered_answer_is_two_texts(house: EveryHouse, lab: LabServer) -> None:
    """C7: what was said before the steering stands, and what breaks off after it does not take it along."""
    slow = {"text": WHOLE, "chunks": 9, "stall_between": 0.1}
    lab.set_plan([slow, {"text": OTHER, "chunks": 9, "fault": {"cut_after_chunks": 4}}, {"text": OTHER, "chunks": 9}])
    visitor = house.visit()
    key = visitor.open()
    terminals, page = Terminals(house.home, "one", key), visitor.watch(key)
    visitor.say(key, "Well?")
    page.wait_until(lambda state: bool(state.live_text))
    visitor.say(key, "And then?", mode="steer")
    terminals.wait_ended()
    texts = house.transcript(key)
    assert texts == [WHOLE, OTHER]
    house.wait_quiet()
    terminals.check(texts, texts[-1:])
    check_page(page, texts, [])
    terminals.close()


@pytest.mark.slow
@pytest.mark.parametrize(("args", "said"), [(("-q", "Well?"), ""), ((), "Well?\n")])
def test_a_pipe_has_the_text_once(home: Path, lab: LabServer, args: tuple[str, ...], said: str) -> None:
    """C7: `hermes -q` and lines into `hermes`, both into a pipe."""
    lab.set_plan(LATER)
    gateway = GatewayProcess(home, lab.base_url)
    code, shown, told = run_text([HERMES, "chat", *args], gateway.environment, said)
    assert code == 0, told
    assert shown.count(OTHER) == 1
    assert "The quick" not in shown
    assert ("I look." in shown) == bool(said)


def test_callbacks_of_an_agent_are_told_what_stands(lab: LabServer) -> None:
    """C7: a host in Python that shows text gets a word on each text that does not end its turn."""
    lab.set_plan(LATER)
    told: list[TextDelta | TextEnded] = []
    agent = AIAgent(
        base_url=lab.base_url,
        model="lab",
        api_key="k",
        stream_delta_callback=lambda text: told.append(TextDelta(text)),
        text_end_callback=told.append,
    )
    try:
        assert agent.run_conversation("Well?")["final_response"] == OTHER
    finally:
        agent.close()
    ends = [place for place, event in enumerate(told) if isinstance(event, TextEnded)]
    assert [told[place] for place in ends] == [TextEnded(kept=True), TextEnded(kept=False)]
    assert "".join(event.text for event in told[: ends[0]]) == "I look."
    assert "".join(event.text for event in told[ends[1] + 1 :]) == OTHER
