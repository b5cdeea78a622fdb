"""A gateway whose pauses between two tries of a model call are short."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from onlookers import EveryHouse

from hermes_base.turn.cancel import CancelToken
from hermes_lab.server import LabServer


@pytest.fixture(scope="module", autouse=True)
def _quick_retries() -> Iterator[None]:
    wait = CancelToken.wait
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(CancelToken, "wait", lambda self, seconds: wait(self, min(seconds, 0.01)))
        yield


@pytest.fixture
def house(home: Path, lab: LabServer) -> Iterator[EveryHouse]:
    with EveryHouse(home, lab.base_url) as made:
        yield made
