"""XMPP in bad weather: cuts, silence, and a gateway that is killed, with a real Prosody behind them. Nothing is lost,
nothing is doubled, nothing comes out of order."""

import random
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from app_people import XmppPeople
from waiting import wait_until
from weather import SEED, WeatherApp, play
from xmpp_peer import CUT_AFTER, CUT_BEFORE, PASSWORD, XmppProxy, XmppServer, start_server

from hermes_lab.server import LabServer


class XmppWeather(XmppPeople, WeatherApp):
    takes_keys = True

    def __init__(self, server: XmppServer, proxy: XmppProxy) -> None:
        super().__init__(server, proxy.port)
        self.proxy = proxy

    def begin(self, seed: int) -> None:
        die, lock = random.Random(seed), threading.Lock()

        def choose() -> str:
            with lock:
                return die.choices(("", CUT_BEFORE, CUT_AFTER), (0.98, 0.01, 0.01))[0]

        self.proxy.chance = choose

    def disturb(self, die: random.Random) -> None:
        if die.random() < 0.01:
            self.proxy.cut()

    def end(self) -> None:
        self.proxy.chance = lambda: ""

    def judge(self, log: str) -> None:
        assert PASSWORD not in log, "G6: the password is in the log"


class RoomWeather(XmppWeather):
    """The same, with a room for each person."""

    def __init__(self, server: XmppServer, proxy: XmppProxy) -> None:
        super().__init__(server, proxy)
        self._rooms: dict[str, str] = {}
        self._nick = self.bot.partition("@")[0]

    def add_person(self, name: str) -> str:
        jid = super().add_person(name)
        self._rooms[jid] = self._there[jid].make_room()
        return jid

    def say(self, person: str, text: str) -> None:
        self._there[person].say(self._rooms[person], f"{self._nick}: {text}", kind="groupchat")

    def seen(self, person: str) -> list[str]:
        shown = self._there[person].messages(f"{self._rooms[person]}/{self._nick}")
        return [one["text"] for one in shown]

    def begin(self, seed: int) -> None:
        """What is said in a room before somebody first comes there is not for them."""
        for jid, room in self._rooms.items():
            wait_until(lambda jid=jid, room=room: self._nick in self._there[jid].occupants(room))
        super().begin(seed)

    def settings(self) -> Mapping[str, Any]:
        return {**super().settings(), "rooms": list(self._rooms.values())}


def test_a_few_chats_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: two chats, and the gateway is killed twice."""
    server = start_server()
    with XmppProxy(server.port) as proxy:
        assert play(XmppWeather(server, proxy), home, lab, chats=2, messages=2, kills=2)["answered"] == 4


@pytest.mark.peers
@pytest.mark.timeout(600)
def test_a_few_rooms_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: three rooms with archives of their own, and the gateway is killed three times."""
    server = start_server()
    with XmppProxy(server.port) as proxy:
        assert play(RoomWeather(server, proxy), home, lab, chats=3, messages=6, kills=3)["answered"] == 18


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_a_thousand_messages_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: 1,000 messages over 20 chats, and five kills."""
    server = start_server()
    with XmppProxy(server.port) as proxy:
        found = play(XmppWeather(server, proxy), home, lab, chats=20, messages=50, kills=5)
    print(f"\nseed {SEED}: {dict(found)}")
    assert found["answered"] == 1000
