"""The API of a gateway on a thread, in the test's home, that asks the lab server."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from api_house import ApiHouse

from hermes_lab.server import LabServer


@pytest.fixture
def api(lab: LabServer, home: Path) -> Iterator[ApiHouse]:
    with ApiHouse(home, lab.base_url) as made:
        yield made
