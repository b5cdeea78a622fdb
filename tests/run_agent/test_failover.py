"""Another provider for one turn, the first choice back for the next: through real turns on two lab servers."""

from collections.abc import Iterator
from typing import Any

import pytest

from agent.providers.health import health
from hermes_base.chat import Notice
from hermes_lab.server import LabServer


@pytest.fixture
def second() -> Iterator[LabServer]:
    with LabServer() as server:
        yield server


@pytest.fixture
def chained(make_agent: Any, second: LabServer) -> Any:
    """An agent whose fallback is the second server."""
    entry = {"provider": "custom", "base_url": second.base_url, "model": "second", "api_key": "second-key-1"}
    return make_agent(fallback_model=entry)


DOWN = [{"fault": {"status": 503}, "times": 0}]


def test_a_failing_provider_is_replaced_for_this_turn_and_tried_again_in_the_next(
    chained: Any, lab: LabServer, second: LabServer
) -> None:
    """D3, D4: the contract's cycle, with requests that really travel."""
    notices: list[Notice] = []
    chained.status_callback = notices.append
    lab.set_plan(DOWN)
    first = chained.run_conversation("[[say from the second]]")
    assert (first["final_response"], first["model"]) == ("from the second", "second")
    assert second.requests[0].header("authorization") == "Bearer second-key-1"
    assert "second at" in notices[0].text

    lab.set_plan([])
    health.forget()  # the pause is over
    asked = len(lab.requests)
    result = chained.run_conversation("[[say first again]]")
    assert (result["final_response"], result["model"]) == ("first again", "lab-model")
    assert len(lab.requests) == asked + 1
    assert chained._fallback_index == 0
    assert "answers again" in notices[-1].text


def test_while_the_first_choice_is_down_turns_start_on_the_fallback(
    chained: Any, lab: LabServer, second: LabServer
) -> None:
    """D3: health is asked at the start of the turn and is shared by all conversations."""
    lab.set_plan(DOWN)
    chained.run_conversation("one")
    asked = len(lab.requests)
    chained.run_conversation("two")
    assert len(lab.requests) == asked
    assert len(second.requests) == 2


def test_the_way_back_sends_the_first_bytes_again(chained: Any, lab: LabServer, second: LabServer) -> None:
    """A1, D7"""
    chained.run_conversation("one")
    lab.set_plan(DOWN)
    chained.run_conversation("two")
    lab.set_plan([])
    health.forget()
    chained.run_conversation("three")
    kept = lab.requests[0].body
    assert lab.requests[-1].body.startswith(kept[: kept.rindex(b'],"stream"')])
    assert len(lab.requests[-1].json()["messages"]) == 6


def test_a_fallback_that_fails_too_leaves_the_message_kept(chained: Any, lab: LabServer, second: LabServer) -> None:
    lab.set_plan(DOWN)
    second.set_plan([{"fault": {"status": 401}, "times": 0}])
    result = chained.run_conversation("hello")
    assert not result["completed"]
    assert "did not accept the key" in result["error"]
    assert "hello" in result["messages"][0]["content"]


def test_restoration_uses_todays_key(make_agent: Any, lab: LabServer, second: LabServer, monkeypatch: Any) -> None:
    """D4"""
    monkeypatch.setenv("CUSTOM_API_KEY", "yesterdays-key")
    entry = {"provider": "custom", "base_url": second.base_url, "model": "second", "api_key": "second-key-1"}
    agent = make_agent(api_key="", provider="custom", fallback_model=entry)
    lab.set_plan(DOWN)
    agent.run_conversation("one")
    monkeypatch.setenv("CUSTOM_API_KEY", "todays-key")
    lab.set_plan([])
    health.forget()
    agent.run_conversation("two")
    assert lab.requests[0].header("authorization") == "Bearer yesterdays-key"
    assert lab.requests[-1].header("authorization") == "Bearer todays-key"


def test_the_engine_learns_every_window(make_agent: Any, lab: LabServer, second: LabServer) -> None:
    entry = {"base_url": second.base_url, "model": "second", "context_length": 70_000}
    agent = make_agent(fallback_model=[entry], context_length=200_000)
    engine = agent.context_compressor
    lab.set_plan(DOWN)
    agent.run_conversation("one")
    assert engine.context_length == 70_000
    lab.set_plan([])
    health.forget()
    agent.run_conversation("two")
    assert engine.context_length == 200_000
