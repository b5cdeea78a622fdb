"""Discord in bad weather: refusals, cuts, repetitions, delays, sessions that end, and a gateway that is killed. Nothing
is lost, nothing is doubled, nothing comes out of order."""

import random
from collections import Counter
from pathlib import Path

import pytest
from app_people import DiscordPeople
from discord_rig import IDENTIFY_SECONDS
from weather import SEED, WeatherApp, play

from hermes_lab.chats.discord.discord_lab import DiscordLab
from hermes_lab.chats.faults import CUT_AFTER, CUT_BEFORE, ERROR, LATE, PAGE, TOO_MANY, ChatFault
from hermes_lab.server import LabServer

CALLS = "[!g]*"  # all but those that only look
IN_A_CHANNEL = "[!gp]*"  # and without the menu, which belongs to none
WEATHER = (
    ChatFault(TOO_MANY, IN_A_CHANNEL, times=0, chance=0.02, seconds=1),
    ChatFault(CUT_BEFORE, CALLS, times=0, chance=0.02),
    ChatFault(CUT_AFTER, CALLS, times=0, chance=0.02),
    ChatFault(ERROR, CALLS, times=0, chance=0.01, status=502),
    ChatFault(PAGE, CALLS, times=0, chance=0.01),
    ChatFault(LATE, CALLS, times=0, chance=0.1, seconds=0.2),
    ChatFault(CUT_BEFORE, "getMessages", times=0, chance=0.1),
    ChatFault(ERROR, "getMessages", times=0, chance=0.05, status=500),
    ChatFault(ERROR, "getMessages", times=0, chance=0.05, status=429, text="1"),
)


class DiscordWeather(DiscordPeople, WeatherApp):
    takes_keys = True

    def begin(self, seed: int) -> None:
        self.lab.plan(WEATHER, seed)

    def disturb(self, die: random.Random) -> None:
        self.lab.redeliver(die.randint(1, 3), backwards=die.random() < 0.5)
        chance = die.random()
        if chance < 0.1:
            self.lab.cut()
        elif chance < 0.15:
            self.lab.reconnect()
        elif chance < 0.18:
            self.lab.close_lines(4000)
        elif chance < 0.2:
            self.lab.invalidate(resumable=chance < 0.19)

    def before_start(self) -> None:
        self.lab.advance(IDENTIFY_SECONDS)

    def end(self) -> None:
        self.lab.plan([])

    def judge(self, log: str) -> None:
        assert self.lab.token not in log, "G6: the token is in the log"
        judged = Counter(complaint["kind"] for complaint in self.lab.complaints)
        assert not judged, f"seed {SEED}: {self.lab.complaints[:5]}"


def test_a_few_chats_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: four chats, and the gateway is killed twice."""
    with DiscordLab() as discord:
        assert play(DiscordWeather(discord), home, lab, chats=4, messages=3, kills=2)["answered"] == 12


@pytest.mark.soak
def test_a_thousand_messages_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: 1,000 messages over 20 chats, and five kills."""
    with DiscordLab() as discord:
        found = play(DiscordWeather(discord), home, lab, chats=20, messages=50, kills=5)
    print(f"\nseed {SEED}: {dict(found)}")
    assert found["answered"] == 1000
