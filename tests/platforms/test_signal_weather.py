"""Signal in bad weather: refusals, cuts, delays, a daemon that goes and comes, and a gateway that is killed. Nothing
comes out of order, and what may stand there twice says so. The daemon brings nothing twice, so what it has just brought
in the moment of a cut or a kill may be gone: here it comes again, with the time that it had, as if its telephone had
sent it later."""

import random
from collections import Counter
from pathlib import Path

import pytest
from app_people import SignalPeople
from weather import SEED, WeatherApp, play

from hermes_lab.chats.faults import CUT_AFTER, CUT_BEFORE, ERROR, LATE, PAGE, TOO_MANY, ChatFault
from hermes_lab.chats.signal.signal_lab import SignalLab
from hermes_lab.server import LabServer

WEATHER = (
    ChatFault(TOO_MANY, "send", times=0, chance=0.02, seconds=1),
    ChatFault(TOO_MANY, "send", times=0, chance=0.01, seconds=1, whole_account=True),
    ChatFault(CUT_BEFORE, "send*", times=0, chance=0.003),  # all chats share the line that is cut
    ChatFault(CUT_AFTER, "send*", times=0, chance=0.003),
    ChatFault(ERROR, "send*", times=0, chance=0.02, status=-3, text="Failed to send message: timeout"),
    ChatFault(PAGE, "*", times=0, chance=0.02),
    ChatFault(LATE, "*", times=0, chance=0.1, seconds=0.2),
    ChatFault(CUT_BEFORE, "subscribeReceive", times=0, chance=0.05),
    ChatFault(CUT_AFTER, "subscribeReceive", times=0, chance=0.05),
)


class SignalWeather(SignalPeople, WeatherApp):
    takes_keys = False

    def begin(self, seed: int) -> None:
        self.lab.set_up(step=97, late=0.05)
        self.lab.plan(WEATHER, seed)

    def disturb(self, die: random.Random) -> None:
        if die.random() < 0.03:
            self.lab.cut()
        if die.random() < 0.01:
            self.lab.go()
            self.lab.come()
        self.lab.redeliver(len(self.people))

    def before_start(self) -> None:
        self.lab.redeliver(2 * len(self.people))

    def end(self) -> None:
        self.lab.plan([])

    def judge(self, log: str) -> None:
        judged = Counter(complaint["kind"] for complaint in self.lab.complaints)
        assert not judged, f"seed {SEED}: {self.lab.complaints[:5]}"
        assert self.lab.calls("trust") == []


def test_a_few_chats_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: four chats, and the gateway is killed twice."""
    with SignalLab() as signal:
        assert play(SignalWeather(signal), home, lab, chats=4, messages=6, kills=2)["answered"] == 24


@pytest.mark.soak
def test_a_thousand_messages_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: 1,000 messages over 20 chats, and five kills."""
    with SignalLab() as signal:
        found = play(SignalWeather(signal), home, lab, chats=20, messages=50, kills=5)
    print(f"\nseed {SEED}: {dict(found)}")
    assert found["answered"] == 1000
