"""Matrix in bad weather: refusals, cuts, delays, and a gateway that is killed, with a real Synapse behind them. Nothing
is lost, nothing is doubled, nothing comes out of order."""

import random
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from matrix_peer import PASSWORD, MatrixPerson, MatrixServer, start_server
from matrix_proxy import (
    ANSWER,
    CUT_AFTER,
    CUT_BEFORE,
    LATE,
    LIMITED,
    RECEIPT,
    SEND,
    SYNC,
    TYPING,
    MatrixProxy,
    ProxyFault,
)
from weather import SEED, WeatherApp, play

from hermes_lab.server import LabServer

PAGE = "<html>bad gateway</html>"
LOOK_SECONDS = 0.5  # a homeserver that is asked all the time has none for anybody else


def make_weather() -> list[ProxyFault]:
    limited = {**LIMITED, "retry_after_ms": 1000}
    faults = [
        ProxyFault(ANSWER, SEND, chance=0.02, status=429, body=limited),
        ProxyFault(CUT_BEFORE, SYNC, chance=0.05),
        ProxyFault(CUT_AFTER, SYNC, chance=0.05),
        ProxyFault(ANSWER, SYNC, chance=0.02, status=500, body={"errcode": "M_UNKNOWN", "error": "Internal"}),
    ]
    for path in (SEND, TYPING, RECEIPT):
        faults += [
            ProxyFault(CUT_BEFORE, path, chance=0.02),
            ProxyFault(CUT_AFTER, path, chance=0.02),
            ProxyFault(ANSWER, path, chance=0.02, status=502, body=PAGE),
            ProxyFault(LATE, path, chance=0.1, seconds=0.2),
        ]
    for fault in faults:
        fault.times = 0
    return faults


class _Watched:
    """A person, their room, and what they have seen there: asked for now and then, and only what is new."""

    def __init__(self, person: MatrixPerson, room: str, bot: str) -> None:
        self.person, self.room, self.bot = person, room, bot
        self._lock = threading.Lock()
        self._since = ""
        self._looked = 0.0
        self._shown: dict[str, str] = {}

    def look(self) -> list[str]:
        with self._lock:
            if time.monotonic() - self._looked > LOOK_SECONDS:
                news = self.person.sync(self._since)
                self._since, self._looked = news["next_batch"], time.monotonic()
                told = news.get("rooms", {}).get("join", {}).get(self.room, {}).get("timeline", {})
                assert not (told.get("limited") and self._shown), "more was said than a look shows"
                for event in told.get("events", ()):
                    if event["type"] == "m.room.message" and event["sender"] == self.bot:
                        self._note(event)
            return list(self._shown.values())

    def _note(self, event: dict[str, Any]) -> None:
        related = event["content"].get("m.relates_to", {})
        if related.get("rel_type") == "m.replace":
            self._shown[related["event_id"]] = event["content"]["m.new_content"]["body"]
        else:
            self._shown[event["event_id"]] = event["content"]["body"]


class MatrixWeather(WeatherApp):
    name = "matrix"
    takes_keys = True

    def __init__(self, server: MatrixServer, proxy: MatrixProxy) -> None:
        self.server, self.proxy = server, proxy
        self.bot = server.add_person("Hermes")
        self._people: dict[str, _Watched] = {}

    def add_person(self, name: str) -> str:
        person = self.server.add_person(name)
        self._people[person.id] = _Watched(person, person.make_room(self.bot.id), self.bot.id)
        return person.id

    def say(self, person: str, text: str) -> None:
        self._people[person].person.say(self._people[person].room, text)

    def seen(self, person: str) -> list[str]:
        return self._people[person].look()

    def settings(self) -> Mapping[str, Any]:
        return {"homeserver": self.proxy.address, "user": self.bot.id, "password": PASSWORD}

    def begin(self, seed: int) -> None:
        self.proxy.plan(make_weather())

    def disturb(self, die: random.Random) -> None:
        if die.random() < 0.1:
            self.proxy.cut()

    def before_start(self) -> None:
        pass

    def end(self) -> None:
        self.proxy.plan([])

    def judge(self, log: str) -> None:
        """What stands there is looked at once more, in full."""
        assert PASSWORD not in log, "G6: the password is in the log"
        for watched in self._people.values():
            shown = [one["text"] for one in watched.person.messages(watched.room, self.bot.id)]
            assert shown == watched.look(), f"seed {SEED}"


def test_a_few_rooms_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: two rooms, and the gateway is killed twice."""
    server = start_server()
    with MatrixProxy(server.address, SEED) as proxy:
        assert play(MatrixWeather(server, proxy), home, lab, chats=2, messages=2, kills=2)["answered"] == 4


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_thousand_messages_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: 1,000 messages over 20 rooms, and five kills."""
    server = start_server()
    with MatrixProxy(server.address, SEED) as proxy:
        found = play(MatrixWeather(server, proxy), home, lab, chats=20, messages=50, kills=5)
    print(f"\nseed {SEED}: {dict(found)}")
    assert found["answered"] == 1000
