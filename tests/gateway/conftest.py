"""A gateway on a thread, in the test's home, that asks the lab server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from local_gateway import LocalHouse

from hermes_cli import config
from hermes_lab.server import LabServer


@pytest.fixture
def settings(lab: LabServer) -> None:
    config.set_value("model.base_url", lab.base_url)
    config.set_value("model.default", "lab-model")


@pytest.fixture
def house(settings: None, home: Path) -> Iterator[LocalHouse]:
    made = LocalHouse(home)
    yield made
    made.stop()
