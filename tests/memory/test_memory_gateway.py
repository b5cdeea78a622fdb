"""The example of a memory provider in a whole gateway: what one conversation said, another one hears of."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from house import House
from memory_rig import find_call, list_calls

from agent import provider_calls
from hermes_lab.server import LabServer

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "notebook"
WATCHED: dict[str, Any] = {"memory": {"provider": "watcher"}, "titles": {"enabled": False}, "people": {"shared": False}}
PEOPLE = {"owner": "olga", "allow": ["ann", "ben"]}


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[House]:
    """Several people, each with a memory of their own."""
    shutil.copytree(EXAMPLE, home / "plugins" / "notebook")
    settings: dict[str, Any] = {"memory": {"provider": "notebook"}, "people": {"shared": True}}
    with House(home, lab.base_url, pretend=PEOPLE, titles={"enabled": False}, **settings) as made:
        yield made


def test_what_was_said_is_recalled_elsewhere_by_the_same_person_alone(house: House, lab: LabServer) -> None:
    """A3, G12"""
    ann, ben = house.person("ann"), house.person("ben")
    ann.ask("my dog is called Waldi")
    provider_calls.drain_all()
    ann.ask("/new")
    ann.ask("who is Waldi?")
    sent = lab.requests[-1].json()["messages"][-1]["content"]
    assert "<memory-context>" in sent
    assert "my dog is called Waldi" in sent
    info = house.gateway.store.current(ann.conversation)
    assert info is not None
    [row, *_] = [row for row in house.gateway.store.load(info.id).rows if row.message["role"] == "user"]
    assert row.message["content"] == sent
    assert row.shown == "who is Waldi?"
    ben.ask("is the dog called Waldi?")
    assert "memory-context" not in str(lab.requests[-1].json()["messages"][-1])
    provider_calls.drain_all()
    assert len(list((house.home / "notebook").iterdir())) == 2


def test_its_tool_runs_in_a_turn(house: House, lab: LabServer) -> None:
    ann = house.person("ann")
    ann.ask("the roses need water")
    provider_calls.drain_all()
    lab.set_plan([{"tool_calls": [{"name": "notebook_search", "arguments": {"words": "roses"}}]}, {"text": "water"}])
    ann.ask("and now?")
    result = next(message for message in lab.requests[-1].json()["messages"] if message["role"] == "tool")
    assert "the roses need water" in json.loads(result["content"])["found"][0]


@pytest.mark.parametrize("warm", [True, False])
def test_the_end_of_a_session_is_told_with_and_without_a_warm_agent(
    home: Path, lab: LabServer, write_provider: Any, warm: bool
) -> None:
    write_provider()
    with House(home, lab.base_url, pretend=PEOPLE, **WATCHED) as house:
        ann = house.person("ann")
        ann.ask("hello")
        if not warm:
            house.gateway.runner._evict_cached_agent(ann.conversation)
        ann.ask("/new")
        provider_calls.drain_all()
        assert find_call("on_session_end") == ((2,), {})
        assert list_calls()[-1] == "shutdown"
        assert find_call("initialize")[1]["chat_id"] == "bot/chat-ann"
        assert "user_id" not in find_call("initialize")[1]  # one memory for all, unless it is shared by person
        left = find_call("initialize")[0][0]
        ann.ask("hello again")
        (new,), facts = find_call("on_session_switch")
        assert facts == {"parent_session_id": left, "reset": True, "reason": "new_session"}
        assert find_call("initialize")[0] == (new,)
        ann.ask("and again")
        assert list_calls().count("on_session_switch") == 1


def test_going_on_elsewhere_is_told(home: Path, lab: LabServer, write_provider: Any) -> None:
    write_provider()
    with House(home, lab.base_url, pretend=PEOPLE, **WATCHED) as house:
        ann = house.person("ann")
        ann.ask("hello")
        ann.ask("/branch")
        (new,), facts = find_call("on_session_switch")
        info = house.gateway.store.current(ann.conversation)
        assert info is not None
        assert (new, facts["reset"], facts["reason"]) == (info.id, False, "branched")
        ann.ask("again")
        assert find_call("initialize")[0] == (info.id,)
        ann.ask("/undo")
        assert find_call("on_session_switch")[1]["rewound"] is True
