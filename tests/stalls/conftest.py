"""A gateway in the test's home that asks the lab server, with clocks that do not take half an hour."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from local_gateway import LocalHouse

from gateway.service import chores
from hermes_cli import config
from hermes_lab.server import LabServer
from tools.registry import registry


@pytest.fixture
def settings(lab: LabServer) -> None:
    config.set_value("model.base_url", lab.base_url)
    config.set_value("model.default", "lab-model")
    config.set_value("approvals.mode", "auto")


@pytest.fixture
def quick_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chores, "WATCH_SECONDS", 0.05)
    monkeypatch.setattr(chores, "read_limits", lambda settings: chores.clocks.TurnTimes(silence=1.0))


@pytest.fixture
def house(settings: None, home: Path) -> Iterator[LocalHouse]:
    made = LocalHouse(home)
    yield made
    made.stop()


@pytest.fixture
def add_tool() -> Iterator[Callable[[str, Callable[..., str]], None]]:
    """Offers a tool of the test to the model."""
    added: list[str] = []
    schema: dict[str, Any] = {"description": "a tool", "parameters": {"type": "object", "properties": {}}}

    def add(name: str, work: Callable[..., str]) -> None:
        added.append(name)
        registry.register(name, "files", schema, work)

    yield add
    for name in added:
        registry.deregister(name)
