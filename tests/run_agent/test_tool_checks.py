"""A5: a tool whose check fails for a moment is back with the next conversation, and running ones keep their bytes."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hermes_lab.server import LabServer
from tools import registry as registry_module
from tools.registry import registry


@pytest.fixture
def shaky(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[bool], None]]:
    """A tool whose requirements come and go."""
    monkeypatch.setattr(registry_module, "CHECK_SECONDS", 0.0)
    works = [True]
    schema = {"description": "shaky", "parameters": {"type": "object", "properties": {}}}
    registry.register("shaky", "lab-tools", schema, lambda args: "ok", check_fn=lambda: works[0])
    yield lambda now: works.__setitem__(0, now)
    registry.deregister("shaky")


def offered(lab: LabServer) -> list[str]:
    return [tool["function"]["name"] for tool in lab.requests[-1].json().get("tools", [])]


def test_a_tool_comes_back_without_a_restart(make_agent: Any, lab: LabServer, shaky: Callable[[bool], None]) -> None:
    """A5"""
    shaky(False)
    without = make_agent()
    without.run_conversation("hello")
    assert offered(lab) == []
    shaky(True)
    make_agent().run_conversation("hello")
    assert offered(lab) == ["shaky"]
    without.run_conversation("again")
    assert offered(lab) == []  # a running conversation keeps its prefix


def test_a_failing_check_takes_nothing_out_of_a_running_conversation(
    make_agent: Any, lab: LabServer, shaky: Callable[[bool], None]
) -> None:
    """A5"""
    agent = make_agent()
    agent.run_conversation("hello")
    shaky(False)
    make_agent().run_conversation("hello")
    assert offered(lab) == []
    agent.run_conversation("again")
    assert offered(lab) == ["shaky"]
