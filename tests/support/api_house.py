"""A gateway on a thread of the test with the API served on loopback, and clients of it."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx2
from openai import AsyncOpenAI, OpenAI
from web_house import WebHouse

from hermes_state.people_store import MEMBER

T = TypeVar("T")
Told = list[tuple[str, dict[str, Any]]]


def read_events(http: httpx2.Client, run: str, last: str = "", until: Callable[[Told], bool] = lambda _: False) -> Told:
    """The events of a run with their ids, as an EventSource reads them that was told `last` before."""
    told: Told = []
    id = ""
    with http.stream("GET", f"/v1/runs/{run}/events", headers={"Last-Event-ID": last} if last else {}) as got:
        assert got.status_code == 200
        for line in got.iter_lines():
            name, _, value = line.partition(": ")
            id = value if name == "id" else id
            if name == "data":
                told.append((id, json.loads(value)))
                if until(told):
                    break
    return told


def join_texts(told: Told) -> str:
    """What docs/api.md says about `text` and `text.ended`."""
    kept = text = ""
    for _, event in told:
        if event["type"] == "text":
            text += event["text"]
        elif event["type"] == "text.ended":
            kept, text = "" if event.get("all") else kept + text if event["kept"] else kept, ""
    return kept + text


class ApiHouse(WebHouse):
    """The same house, seen by programs."""

    def __init__(self, home: Path, base_url: str, **settings: Any) -> None:
        super().__init__(home, base_url, **settings)
        self._clients: list[OpenAI | httpx2.Client] = []

    def stop(self) -> None:
        self.close_clients()
        super().stop()

    def close_clients(self) -> None:
        for client in self._clients:
            client.close()
        self._clients.clear()

    @property
    def address(self) -> str:
        """Without a token: clients bring keys."""
        return self.url

    @property
    def token(self) -> str:
        assert self.server is not None
        return self.server.address.partition("?token=")[2]

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
