"""Failover, case by case: real turns of an agent against model servers on this machine that fail in one way each."""

import json
import threading
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from waiting import wait_until

from agent.providers.table import PROVIDERS
from agent.turn import rules
from hermes_base.chat import Notice
from hermes_lab.server import LabServer

#: Failures are over at once, so that the next turn probes.
AT_ONCE = {"Retry-After": "0"}


@pytest.fixture
def second() -> Iterator[LabServer]:
    with LabServer() as server:
        yield server


@pytest.fixture
def third() -> Iterator[LabServer]:
    with LabServer() as server:
        yield server


def entry(server: LabServer, model: str = "second", key: str = "second-key-1") -> dict[str, Any]:
    return {"provider": "custom", "base_url": server.base_url, "model": model, "api_key": key}


def fails(status: int, message: str = "", *, at_once: bool = False, **more: Any) -> list[dict[str, Any]]:
    fault: dict[str, Any] = {"status": status} | ({"message": message} if message else {})
    return [{"fault": fault | ({"headers": AT_ONCE} if at_once else {}), "times": 0, **more}]


def models_asked(server: LabServer) -> list[str]:
    return [request.json()["model"] for request in server.requests]


# --- a probe ends with its turn (D3)


def break_by_stop(agent: Any, lab: LabServer) -> None:
    lab.set_plan([{"stall_first": 60.0}])
    asked = len(lab.requests)
    turn = threading.Thread(target=agent.run_conversation, args=("probe",))
    turn.start()
    wait_until(lambda: len(lab.requests) > asked)
    agent.interrupt("stopped by the test")
    turn.join(20)
    assert not turn.is_alive()


def break_by_bad_request(agent: Any, lab: LabServer) -> None:
    lab.set_plan(fails(400, "Unrecognized request argument supplied: foo"))
    agent.run_conversation("probe")


def break_by_overflow(agent: Any, lab: LabServer) -> None:
    lab.set_plan(fails(400, "prompt is too long: 201000 tokens > 200000 maximum"))
    agent.run_conversation("probe")


def break_by_compress(agent: Any, lab: LabServer) -> None:
    lab.set_plan([])
    agent.compress_now()


def break_by_failed_restoration(agent: Any, lab: LabServer) -> None:
    build, agent._build_client = agent._build_client, _raise
    agent.run_conversation("probe")
    agent._build_client = build


def _raise(*_: object) -> None:
    raise RuntimeError("it cannot be built")


BREAKS = [break_by_stop, break_by_bad_request, break_by_overflow, break_by_compress, break_by_failed_restoration]


@pytest.mark.parametrize("broken", BREAKS, ids=lambda broken: broken.__name__)
def test_a_probe_without_a_result_locks_nobody_out(
    make_agent: Any, lab: LabServer, second: LabServer, broken: Any
) -> None:
    """D3: however the probing turn ends, the next one may probe."""
    agent = make_agent(fallback_model=entry(second))
    lab.set_plan(fails(401, at_once=True))
    assert agent.run_conversation("one")["model"] == "second"
    broken(agent, lab)
    lab.set_plan([])
    assert agent.run_conversation("two")["model"] == "lab-model"


# --- what failed, and what did not (D1, D3)


@pytest.mark.parametrize("status", [404, 429, 503])
def test_another_model_at_the_same_address_takes_over(make_agent: Any, lab: LabServer, status: int) -> None:
    """D1: one router, two models."""
    agent = make_agent(fallback_model=entry(lab, "small-model", "lab-key-12345678"))
    lab.set_plan(fails(status, model="lab-model"))
    result = agent.run_conversation("[[say from the small one]]")
    assert (result["final_response"], result["model"]) == ("from the small one", "small-model")


def test_another_key_at_the_same_address_takes_over(make_agent: Any, lab: LabServer) -> None:
    """D1, D8"""
    agent = make_agent(fallback_model=entry(lab, "lab-model", "another-key-123"))
    lab.set_plan([{"fault": {"status": 402}}])
    assert agent.run_conversation("hello")["completed"]
    assert [request.header("authorization") for request in lab.requests] == [
        "Bearer lab-key-12345678",
        "Bearer another-key-123",
    ]


def test_one_chats_mistyped_model_leaves_the_others_where_they_are(
    make_agent: Any, lab: LabServer, second: LabServer
) -> None:
    """D3"""
    lab.set_plan(fails(404, model="lab-modle"))
    mistaken = make_agent(model="lab-modle", fallback_model=entry(second))
    assert mistaken.run_conversation("hello")["model"] == "second"
    other = make_agent(fallback_model=entry(second))
    assert other.run_conversation("hello")["model"] == "lab-model"


def test_a_text_that_is_not_wanted_concerns_nobody_else(make_agent: Any, lab: LabServer, second: LabServer) -> None:
    """D1, D3"""
    lab.set_plan(fails(403, "Your input was flagged", contains="secret plan"))
    agent = make_agent(fallback_model=entry(second))
    assert agent.run_conversation("the secret plan")["model"] == "second"
    other = make_agent(fallback_model=entry(second))
    assert other.run_conversation("hello")["model"] == "lab-model"
    assert agent.run_conversation("hello")["model"] == "lab-model"


BODIES = [
    (400, "Your credit balance is too low to access the API. Please go to Plans & Billing."),
    (400, "lab-model is not a valid model ID"),
    (400, "The model `lab-model` has been decommissioned and is no longer supported."),
    (400, "API key not valid. Please pass a valid API key."),
    (425, "Too Early"),
    (451, "Unavailable For Legal Reasons"),
    (499, "Client Closed Request"),
]


@pytest.mark.parametrize(("status", "message"), BODIES)
def test_a_body_that_others_would_not_send_reaches_the_fallback(
    make_agent: Any, lab: LabServer, second: LabServer, status: int, message: str
) -> None:
    """D1"""
    agent = make_agent(fallback_model=entry(second))
    lab.set_plan(fails(status, message))
    assert agent.run_conversation("hello")["model"] == "second"


def test_a_request_that_everybody_refuses_is_not_sent_down_the_chain(
    make_agent: Any, lab: LabServer, second: LabServer
) -> None:
    """D10"""
    agent = make_agent(fallback_model=entry(second))
    lab.set_plan(fails(400, "Invalid schema for function 'look'"))
    assert not agent.run_conversation("hello")["completed"]
    assert not second.requests


@pytest.mark.parametrize(
    ("status", "message"),
    [(400, "This model's maximum context length is 8192 tokens"), (413, "Request Entity Too Large")],
)
def test_what_nothing_can_shorten_reaches_a_fallback_whose_window_may_be_larger(
    make_agent: Any, lab: LabServer, second: LabServer, status: int, message: str
) -> None:
    """D10, E10: the first message is all there is, so there is nothing to compact."""
    agent = make_agent(fallback_model={**entry(second), "context_length": 200_000})
    lab.set_plan(fails(status, message))
    assert agent.run_conversation("hello")["model"] == "second"
    lab.set_plan([])
    assert agent.run_conversation("hello")["model"] == "lab-model"


# --- the chain (D4)


def test_a_fallback_that_was_passed_over_is_tried_again_later(
    make_agent: Any, lab: LabServer, second: LabServer
) -> None:
    """D4: it was not well in the first turn, because of somebody else's failure; in the next it is."""
    other = make_agent(base_url=second.base_url, model="second", api_key="second-key-1")
    second.set_plan([{"fault": {"status": 401}}])
    assert not other.run_conversation("hello")["completed"]
    agent = make_agent(fallback_model=entry(second))
    lab.set_plan(fails(401))
    assert not agent.run_conversation("one")["completed"]
    assert len(second.requests) == 1
    assert other.run_conversation("hello")["completed"]
    assert agent.run_conversation("two")["model"] == "second"


def test_each_turn_begins_with_the_first_of_the_chain_that_is_well(
    make_agent: Any, lab: LabServer, second: LabServer, third: LabServer
) -> None:
    """D3, D4"""
    agent = make_agent(fallback_model=[entry(second), entry(third, "third")])
    lab.set_plan(fails(401))
    second.set_plan(fails(401, at_once=True))
    assert agent.run_conversation("one")["model"] == "third"
    second.set_plan([])
    assert agent.run_conversation("two")["model"] == "second"


def test_when_the_chain_is_at_its_end_the_first_choice_is_asked_after_all(
    make_agent: Any, lab: LabServer, second: LabServer
) -> None:
    """D4: it was not well when the turn began, and the only other one fails now."""
    agent = make_agent(fallback_model=entry(second))
    lab.set_plan([{"fault": {"status": 401}}])
    agent.run_conversation("one")
    second.set_plan(fails(401))
    assert agent.run_conversation("two")["model"] == "lab-model"


@pytest.mark.parametrize("status", [401, 503])
def test_when_the_fallback_dies_in_mid_turn_the_first_choice_is_asked_again(
    make_agent: Any, tool: Any, lab: LabServer, second: LabServer, status: int
) -> None:
    """D4: it failed earlier in the same turn, and an answer came since; the chain is whole for each answer."""
    tool("look", lambda args: "three")
    agent = make_agent(fallback_model=entry(second))
    lab.set_plan([{"fault": {"status": status}, "times": 1 if status == 401 else 2}, {"text": "three"}])
    second.set_plan([{"tool_calls": [{"name": "look", "arguments": {}}]}, *fails(401)])
    result = agent.run_conversation("look")
    assert (result["final_response"], result["model"]) == ("three", "lab-model"), result["error"]
    assert len(second.requests) == 2


def test_a_key_that_was_put_right_is_used_with_the_next_message(
    make_agent: Any, lab: LabServer, second: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D4, H6: the old key's failure is not the new one's."""
    monkeypatch.setenv("CUSTOM_API_KEY", "wrong-key")
    agent = make_agent(api_key="", provider="custom", fallback_model=entry(second))
    lab.set_plan(fails(401))
    assert agent.run_conversation("one")["model"] == "second"
    monkeypatch.setenv("CUSTOM_API_KEY", "right-key")
    lab.set_plan([])
    assert agent.run_conversation("two")["model"] == "lab-model"
    monkeypatch.setenv("CUSTOM_API_KEY", "newer-key")
    agent.run_conversation("three")
    assert lab.requests[-1].header("authorization") == "Bearer newer-key"


# --- how long it takes (C11, D2)


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Silence is noticed after half a second."""
    quick = replace(PROVIDERS["custom"], first_byte_seconds=0.5, between_chunks_seconds=0.5)
    monkeypatch.setitem(PROVIDERS, "custom", quick)


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("stall", ["stall_first", "stall_between"])
def test_a_stalled_stream_is_not_tried_again_where_another_provider_is_well(
    make_agent: Any, lab: LabServer, second: LabServer, stall: str
) -> None:
    """C11, D2"""
    agent = make_agent(fallback_model=entry(second))
    lab.set_plan([{stall: 60.0, "text": "a b c d", "times": 0}])
    assert agent.run_conversation("hello")["model"] == "second"
    assert len(lab.requests) == 1


def test_all_tries_of_one_step_share_one_clock(
    make_agent: Any, lab: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: a server that fails and then says nothing does not get its whole patience once more."""
    monkeypatch.setattr(rules, "TurnLimits", partial(rules.TurnLimits, longest_retry=2.0))
    lab.set_plan([{"fault": {"status": 503}}, {"stall_first": 60.0, "times": 0}])
    result = make_agent().run_conversation("hello")
    assert "the longest for one step" in result["error"]


def test_a_second_try_that_says_nothing_is_handed_over(
    make_agent: Any, lab: LabServer, second: LabServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D2: the answer begins within ten seconds of the detection, whatever the second try does."""
    monkeypatch.setattr(rules, "TurnLimits", partial(rules.TurnLimits, longest_beside=1.5))
    agent = make_agent(fallback_model=entry(second))
    lab.set_plan([{"fault": {"status": 503}}, {"stall_first": 60.0, "times": 0}])
    assert agent.run_conversation("hello")["model"] == "second"


# --- who is told (D12)


def texts(notices: list[Notice]) -> list[str]:
    return [notice.text for notice in notices if "answers" in notice.text]


def test_an_episode_is_told_once_from_its_beginning_to_its_end(
    make_agent: Any, lab: LabServer, second: LabServer, caplog: pytest.LogCaptureFixture
) -> None:
    """D12: the switch, nothing while it lasts (also when a probe fails), the return; each stands in the log."""
    caplog.set_level("INFO", "run_agent")
    agent = make_agent(fallback_model=entry(second))
    notices: list[Notice] = []
    agent.status_callback = notices.append
    lab.set_plan(fails(401, at_once=True))
    for text in ("one", "two", "three"):
        assert agent.run_conversation(text)["model"] == "second"
    assert len(texts(notices)) == 1
    assert "second at" in texts(notices)[0]
    lab.set_plan([])
    for text in ("four", "five"):
        assert agent.run_conversation(text)["model"] == "lab-model"
    assert len(texts(notices)) == 2
    assert "answers again" in texts(notices)[1]
    logged = [record.getMessage() for record in caplog.records if "answers instead of" in record.getMessage()]
    assert len(logged) == 4  # three switches, of which two were probes, and the return
    assert all("lab-model at" in line and "second at" in line for line in logged)


def test_a_turn_that_begins_on_a_stand_in_says_so_once(make_agent: Any, lab: LabServer, second: LabServer) -> None:
    """D12: another conversation met the failure."""
    lab.set_plan(fails(401))
    make_agent(fallback_model=entry(second)).run_conversation("hello")
    agent = make_agent(fallback_model=entry(second))
    notices: list[Notice] = []
    agent.status_callback = notices.append
    asked = len(lab.requests)
    agent.run_conversation("one")
    agent.run_conversation("two")
    assert len(lab.requests) == asked
    assert len(texts(notices)) == 1
    assert "lab-model" in texts(notices)[0]
    assert "second at" in texts(notices)[0]


def test_the_answer_names_who_gave_it(make_agent: Any, lab: LabServer, second: LabServer) -> None:
    """D12"""
    agent = make_agent(fallback_model=entry(second))
    lab.set_plan(fails(401))
    result = agent.run_conversation("hello")
    assert (result["model"], json.loads(second.requests[-1].body)["model"]) == ("second", "second")
