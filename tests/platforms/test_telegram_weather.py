"""Telegram in bad weather: refusals, cuts, repetitions, delays, and a gateway that is killed. Nothing is lost, nothing
comes out of order, and what may stand there twice says so."""

import random
from collections import Counter
from pathlib import Path

import pytest
from app_people import TelegramPeople
from weather import SEED, WeatherApp, play

from hermes_lab.chats.faults import CUT_AFTER, CUT_BEFORE, ERROR, LATE, PAGE, TOO_MANY, ChatFault
from hermes_lab.chats.telegram.telegram_lab import TelegramLab
from hermes_lab.server import LabServer

SAME_TEXT = "same text"  # a kind of complaint
CALLS = "[!g]*"  # all but getUpdates and its like
WEATHER = (
    ChatFault(TOO_MANY, CALLS, times=0, chance=0.02, seconds=1),
    ChatFault(CUT_BEFORE, CALLS, times=0, chance=0.02),
    ChatFault(CUT_AFTER, CALLS, times=0, chance=0.02),
    ChatFault(ERROR, CALLS, times=0, chance=0.01, status=502),
    ChatFault(PAGE, CALLS, times=0, chance=0.01),
    ChatFault(LATE, CALLS, times=0, chance=0.1, seconds=0.2),
    ChatFault(CUT_BEFORE, "getUpdates", times=0, chance=0.05),
    ChatFault(CUT_AFTER, "getUpdates", times=0, chance=0.05),
    ChatFault(ERROR, "getUpdates", times=0, chance=0.02, status=500),
)


class TelegramWeather(TelegramPeople, WeatherApp):
    takes_keys = False

    def begin(self, seed: int) -> None:
        self.lab.plan(WEATHER, seed)

    def disturb(self, die: random.Random) -> None:
        self.lab.redeliver(die.randint(1, 3), backwards=die.random() < 0.5)
        if die.random() < 0.1:
            self.lab.cut()

    def end(self) -> None:
        self.lab.plan([])

    def judge(self, log: str) -> None:
        assert self.lab.token not in log, "G6: the token is in the log"
        self.lab.forgive(SAME_TEXT)  # an edit whose answer was cut off is made again, and may have been done
        judged = Counter(complaint["kind"] for complaint in self.lab.complaints)
        assert not judged, f"seed {SEED}: {self.lab.complaints[:5]}"


def test_a_few_chats_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: four chats, and the gateway is killed twice."""
    with TelegramLab() as telegram:
        assert play(TelegramWeather(telegram), home, lab, chats=4, messages=6, kills=2)["answered"] == 24


@pytest.mark.soak
def test_a_thousand_messages_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: 1,000 messages over 20 chats, and five kills."""
    with TelegramLab() as telegram:
        found = play(TelegramWeather(telegram), home, lab, chats=20, messages=50, kills=5)
    print(f"\nseed {SEED}: {dict(found)}")
    assert found["answered"] == 1000
