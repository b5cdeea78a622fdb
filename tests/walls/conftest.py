"""The walls are tried where they can be built; with HERMES_TESTS_NEED_WALLS set, not being able to is a failure."""

import os

import pytest

from tools.shell.sandbox import is_bubblewrap_usable


@pytest.fixture(scope="session", autouse=True)
def walls_can_be_built() -> None:
    if os.environ.get("HERMES_TESTS_NEED_WALLS") and not is_bubblewrap_usable():
        pytest.fail("bubblewrap does not work here, so the walls cannot be tried")
