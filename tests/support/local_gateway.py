"""A gateway on a thread of the test, with terminals that can be opened on it."""

from pathlib import Path
from typing import Any

from raw_client import RawClient

from gateway.app.hosted import GatewayThread
from gateway.service.gateway import Gateway
from hermes_state.home_lock import HomeLock


class LocalHouse:
    """The gateway of a home, with terminals that can be opened on it; it can be stopped and started again."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._lock = HomeLock(home)
        self._clients: list[RawClient] = []
        self.start()

    @property
    def gateway(self) -> Gateway:
        assert self.thread._gateway is not None
        return self.thread._gateway

    @property
    def counters(self) -> dict[str, int]:
        return dict(self.gateway.runner.counters)

    def start(self) -> None:
        self._lock.acquire()
        self.thread = GatewayThread(self.home, self._lock)
        self.thread.start()

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        self.thread.stop()
        self._lock.release()

    def client(self, name: str = "one", **hello: Any) -> RawClient:
        self._clients.append(RawClient(self.home, name, **hello))
        return self._clients[-1]
