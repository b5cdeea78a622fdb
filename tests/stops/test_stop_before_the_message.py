"""A stop that comes before the message stands in the conversation: nothing of what was said is lost."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from moody_model import MoodyModel

from hermes_base.turn.cancel import CancelToken
from hermes_constants import get_hermes_home
from run_agent import AIAgent
from run_agent.options import TurnOptions

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}}
NOTE = "[Memory was changed: likes tea]"


@pytest.fixture
def model() -> Iterator[MoodyModel]:
    with MoodyModel() as server:
        yield server


@pytest.fixture
def agent(model: MoodyModel) -> AIAgent:
    get_hermes_home().mkdir(exist_ok=True)
    return AIAgent(model="m", provider="custom", base_url=model.base_url, api_key="k", enabled_toolsets=[])


def run_stopped(agent: AIAgent, said: Any) -> None:
    """A turn whose stop was there before it."""
    stopped = CancelToken()
    stopped.cancel("stopped by Ann")
    assert agent.run_conversation(said, given=TurnOptions(cancel=stopped))["interrupted"] is True


def sent(model: MoodyModel) -> str:
    return json.dumps(json.loads(model.requests[-1])["messages"])


def test_images_and_notes_of_a_stopped_message_are_kept(agent: AIAgent, model: MoodyModel) -> None:
    """A4, C2: the next request has them, once."""
    agent.tell_model(NOTE)
    run_stopped(agent, [{"type": "text", "text": "what is this"}, IMAGE])
    assert model.requests == []
    agent.run_conversation("and now?")
    told = sent(model)
    assert [told.count(part) for part in ("what is this", IMAGE["image_url"]["url"], NOTE)] == [1, 1, 1]


def test_a_note_waits_for_a_message_that_can_take_it_along(agent: AIAgent, model: MoodyModel) -> None:
    """A4: a turn that goes on without a new message tells it to nobody; the next message does, once."""
    agent.run_conversation("hello")
    agent.tell_model(NOTE)
    agent.run_conversation("", goes_on=True)
    assert NOTE not in sent(model)
    agent.run_conversation("and now?")
    assert sent(model).count(NOTE) == 1
