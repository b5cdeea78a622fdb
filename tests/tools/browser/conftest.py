"""One browser for the tests of a file; each test has a site and a task of its own."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from web_surfing import Site, Surfer, browser_of_file, open_site

FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder takes a browser, and its time."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker("peers")


@pytest.fixture(scope="module", autouse=True)
def browser() -> Iterator[None]:
    with browser_of_file():
        yield


@pytest.fixture
def site() -> Iterator[Site]:
    with open_site() as opened:
        yield opened


@pytest.fixture
def surfer(tmp_path: Path) -> Iterator[Surfer]:
    folder = tmp_path / "work"
    folder.mkdir()
    opened = Surfer(folder)
    yield opened
    opened.close()
