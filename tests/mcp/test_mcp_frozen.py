"""A server at an address that takes what it is sent and says nothing: it keeps its own callers waiting for as long as
the settings say, and then it is given up (C4, C11, H8)."""

import os
import signal
import threading
from collections.abc import Callable

import pytest
from mcp_rig import McpHouse, RemoteServer

from tools.mcp.live import call_client, server_link

House = Callable[..., McpHouse]
LIMIT = 60.0


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_link, "PING_SECONDS", 0.3)
    monkeypatch.setattr(call_client, "UNANSWERED_SECONDS", 0.3)


@pytest.mark.parametrize("way", ["http", "sse"])
def test_one_that_froze_is_given_up_and_used_again_when_it_lives(house: House, way: str) -> None:
    """C11: neither the goodbye to it nor the wait for a new session goes beyond the times of the settings."""
    remote = RemoteServer(way)
    assert remote.process is not None
    entry = {"url": remote.url, "transport": way, "trust": True, "timeout": 0.5, "connect_timeout": 0.5}
    try:
        there = house({"t": {**entry, "connect_timeout": LIMIT}})
        assert there.call("mcp_t_add", {"a": 1, "b": 1}).endswith("2")
        there = McpHouse(there.home, {"t": entry})
        assert there.call("mcp_t_add", {"a": 1, "b": 1}).endswith("2")
        os.kill(remote.process.pid, signal.SIGSTOP)
        assert "did not answer within 0.5 seconds" in there.fails("mcp_t_add", {"a": 1, "b": 1})
        told: list[str] = []
        call = threading.Thread(target=lambda: told.append(there.fails("mcp_t_add", {"a": 1, "b": 1})), daemon=True)
        call.start()
        call.join(LIMIT)
        assert told, "the call waits for a server that is not there"
        assert "is not there: it did not answer within 0.5 seconds" in told[0]
        os.kill(remote.process.pid, signal.SIGCONT)
        there = McpHouse(there.home, {"t": {**entry, "connect_timeout": LIMIT}})
        assert there.call("mcp_t_add", {"a": 1, "b": 1}).endswith("2")
    finally:
        remote.kill()
