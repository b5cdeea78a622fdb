"""A gateway with its page, the lab server as its model, and a real browser in front of it."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from browsing import Tab, Visitor, open_browser
from playwright.sync_api import Browser
from web_house import WebHouse

from hermes_lab.server import LabServer

FOLDER = Path(__file__).parent


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Everything in this folder takes a browser, and its time."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker("peers")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for the tests of a file: its driver keeps an event loop on this thread, which other tests may not find."""
    with open_browser() as opened:
        yield opened


@pytest.fixture
def house(home: Path, lab: LabServer, request: pytest.FixtureRequest) -> Iterator[WebHouse]:
    """A gateway; a mark of the test (`pytest.param` of this fixture) may change its settings."""
    with WebHouse(home, lab.base_url, **getattr(request, "param", {})) as opened:
        yield opened


@pytest.fixture
def visit(browser: Browser, house: WebHouse) -> Iterator[Callable[..., Visitor]]:
    """Makes visitors; at the end none of their tabs may have had an error or a breach of the content policy."""
    del house  # it has to outlive them
    visitors: list[Visitor] = []

    def make(**options: Any) -> Visitor:
        visitors.append(visitor := Visitor(browser, **options))
        return visitor

    yield make
    for visitor in visitors:
        visitor.close()


@pytest.fixture
def visitor(visit: Callable[..., Visitor]) -> Visitor:
    return visit()


@pytest.fixture
def tab(visitor: Visitor, house: WebHouse) -> Tab:
    """The page, opened by its printed address."""
    return visitor.tab().open(house.address)
