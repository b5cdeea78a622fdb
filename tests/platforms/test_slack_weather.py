"""Slack in bad weather: refusals, cuts, repetitions, delays, sockets that end, and a gateway that is killed. Nothing is
lost, nothing comes out of order, and nothing stands there twice."""

import random
from pathlib import Path

import pytest
from app_people import SlackPeople
from weather import SEED, WeatherApp, play

from hermes_lab.chats.chat_app import RATE
from hermes_lab.chats.faults import CUT_AFTER, CUT_BEFORE, ERROR, LATE, PAGE, TOO_MANY, ChatFault
from hermes_lab.chats.slack.slack_lab import SlackLab
from hermes_lab.server import LabServer

CALLS = "[!/]*.*"  # every method
WEATHER = (
    ChatFault(TOO_MANY, "chat.*", times=0, chance=0.03, seconds=1),
    ChatFault(CUT_BEFORE, CALLS, times=0, chance=0.02),
    ChatFault(CUT_AFTER, CALLS, times=0, chance=0.02),
    ChatFault(ERROR, CALLS, times=0, chance=0.01, status=500),
    ChatFault(PAGE, CALLS, times=0, chance=0.01),
    ChatFault(LATE, CALLS, times=0, chance=0.1, seconds=0.2),
    ChatFault(ERROR, "apps.connections.open", times=0, chance=0.05, status=503),
)


class SlackWeather(SlackPeople, WeatherApp):
    takes_keys = True  # what was posted is found by its metadata before it is posted again

    def begin(self, seed: int) -> None:
        self.lab.plan(WEATHER, seed)

    def disturb(self, die: random.Random) -> None:
        self.lab.redeliver(die.randint(1, 3), backwards=die.random() < 0.5)
        if die.random() < 0.02:
            self.lab.cut()
        if die.random() < 0.02:
            self.lab.disconnect(die.choice(("warning", "refresh_requested")))

    def end(self) -> None:
        self.lab.plan([])

    def judge(self, log: str) -> None:
        for secret in (self.lab.token, self.lab.app_token):
            assert secret not in log, "G6: a token is in the log"
        self.lab.forgive(RATE)  # a process cannot know what the one before it, which was killed, has called
        assert self.lab.complaints == [], f"seed {SEED}: {self.lab.complaints[:5]}"


@pytest.mark.peers
def test_a_few_chats_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: four chats, and the gateway is killed twice."""
    with open_lab() as slack:
        assert play(SlackWeather(slack), home, lab, chats=4, messages=6, kills=2)["answered"] == 24


@pytest.mark.soak
def test_two_hundred_messages_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: 200 messages over ten chats, and five kills."""
    with open_lab() as slack:
        found = play(SlackWeather(slack), home, lab, chats=10, messages=20, kills=5)
    print(f"\nseed {SEED}: {dict(found)}")
    assert found["answered"] == 200


def open_lab() -> SlackLab:
    """One that brings again in seconds what it would in minutes."""
    return SlackLab(ack_seconds=1.0, pauses=(0.0, 2.0, 10.0))
