"""Matrix in bad weather: refusals, cuts, delays, and a gateway that is killed, with a real Synapse behind them. Nothing
is lost, nothing is doubled, nothing comes out of order."""

import random
from pathlib import Path

import pytest
from app_people import MatrixPeople
from matrix_peer import PASSWORD, MatrixServer, start_server
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


class MatrixWeather(MatrixPeople, WeatherApp):
    takes_keys = True

    def __init__(self, server: MatrixServer, proxy: MatrixProxy) -> None:
        super().__init__(server, proxy.address)
        self.proxy = proxy

    def begin(self, seed: int) -> None:
        self.proxy.plan(make_weather())

    def disturb(self, die: random.Random) -> None:
        if die.random() < 0.1:
            self.proxy.cut()

    def end(self) -> None:
        self.proxy.plan([])

    def judge(self, log: str) -> None:
        """What stands there is looked at once more, in full."""
        assert PASSWORD not in log, "G6: the password is in the log"
        for watched in self.watched.values():
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
