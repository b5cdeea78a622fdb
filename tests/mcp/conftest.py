"""Servers of tools for one test, or for a module of them."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from mcp_rig import McpHouse, RemoteServer, end_all, stdio

from tools.shell.spawning import keeper


@pytest.fixture(scope="module")
def shared_house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpHouse]:
    """One server for all tests of a module."""
    yield McpHouse(tmp_path_factory.mktemp("house"), {"t": stdio(sampling=100)})
    end_all()


@pytest.fixture
def house(tmp_path: Path) -> Iterator[Callable[..., McpHouse]]:
    """Makes a home with servers; they end with the test."""
    yield lambda servers, **others: McpHouse(tmp_path / "house", servers, **others)
    end_all()


@pytest.fixture(scope="session", autouse=True)
def _no_keeper_is_left() -> Iterator[None]:
    yield
    keeper.close()


@pytest.fixture(scope="module", params=["http", "sse"])
def remote(request: pytest.FixtureRequest) -> Iterator[RemoteServer]:
    server = RemoteServer(request.param)
    yield server
    server.kill()
