"""A gateway on a thread of the test with the API served on loopback, and clients of it."""

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from openai import AsyncOpenAI, OpenAI
from waiting import wait_until

from gateway.service import Gateway
from gateway.serving import open_page
from hermes_state.home_lock import HomeLock
from hermes_state.people import MEMBER

T = TypeVar("T")
PATIENCE = 30.0


class ApiHouse:
    """One home; its gateway and server start and stop."""

    def __init__(self, home: Path, base_url: str, **settings: Any) -> None:
        self.home = home
        model = {"base_url": base_url, "default": "lab"}
        home.mkdir(parents=True, exist_ok=True)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        written = {"model": model, "approvals": {"mode": "auto"}, "web": {"port": self.port}, **settings}
        (home / "config.yaml").write_text(json.dumps(written))
        self.address = f"http://127.0.0.1:{self.port}"
        self._clients: list[OpenAI | httpx2.Client] = []

    # --- life

    def start(self) -> None:
        self._ready = threading.Event()
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="api-house", daemon=True)
        self._thread.start()
        assert self._ready.wait(PATIENCE), "the gateway did not start"
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        for client in self._clients:
            client.close()
        self._clients.clear()
        if self._thread.is_alive():
            self._loop.call_soon_threadsafe(self.gateway.shut_down, "the test stops it")
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the gateway did not end"

    def __enter__(self) -> "ApiHouse":
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            with HomeLock(self.home):
                asyncio.run(self._serve())
        except BaseException as problem:  # the thread's top: the test gets it
            self._problem = problem
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self.gateway = Gateway(self.home)
        await self.gateway.start()
        server = await open_page(self.gateway)
        assert server is not None
        self.token = server.address.partition("?token=")[2]
        self._ready.set()
        await self.gateway.wait_closed()

    # --- from the test's thread

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(PATIENCE)

    def store(self, work: Callable[[Any], T]) -> T:
        return work(self.gateway.store)

    def make_key(self, person: str = "", name: str = "") -> str:
        made = self.run(self.gateway.operations.perform("keys.create", {"person": person, "name": name}))
        return str(made["key"])

    def make_member(self, name: str) -> str:
        return str(self.gateway.people.add(name, MEMBER, "chat", name).id)

    def client(self, key: str | None = None, **options: Any) -> OpenAI:
        self._clients.append(
            made := OpenAI(base_url=f"{self.address}/v1", api_key=self.token if key is None else key, **options)
        )
        return made

    def async_client(self, key: str | None = None, **options: Any) -> AsyncOpenAI:
        return AsyncOpenAI(base_url=f"{self.address}/v1", api_key=self.token if key is None else key, **options)

    def http(self, key: str | None = None, **headers: str) -> httpx2.Client:
        """Without a key it comes with the page's token; with an empty one, with none."""
        key = self.token if key is None else key
        bearer = {"Authorization": f"Bearer {key}"} if key else {}
        self._clients.append(
            made := httpx2.Client(base_url=self.address, headers={**bearer, **headers}, timeout=30, verify=False)
        )
        return made

    def wait_quiet(self) -> None:
        turns = self.gateway.turns
        wait_until(lambda: turns.depth() == (0, 0) and not self.gateway.lanes)
