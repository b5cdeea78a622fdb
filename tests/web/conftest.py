"""A gateway with its page, in the test's home, that asks the lab server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from web_house import WebHouse

from hermes_lab.server import LabServer


@pytest.fixture
def web(home: Path, lab: LabServer) -> Iterator[WebHouse]:
    with WebHouse(home, lab.base_url) as house:
        yield house
