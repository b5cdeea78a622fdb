"""Slack in bad weather: refusals, cuts, repetitions, delays, sockets that end, and a gateway that is killed. Nothing is
lost, nothing comes out of order, and nothing stands there twice."""

import os
import random
import re
import threading
import time
from pathlib import Path

import pytest
from gateway_process import GatewayProcess

from gateway.core.drafts import UNFINISHED
from hermes_lab.chats.chat_app import RATE
from hermes_lab.chats.faults import CUT_AFTER, CUT_BEFORE, ERROR, LATE, PAGE, TOO_MANY, ChatFault
from hermes_lab.chats.slack.slack_lab import SlackLab
from hermes_lab.server import LabServer

SEED = int(os.environ.get("HERMES_WEATHER_SEED", "0")) or int.from_bytes(os.urandom(3), "big")
PATIENCE = 300.0
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


class Chatter:
    """A person who asks one thing after the other, each when the one before was answered."""

    def __init__(self, lab: SlackLab, number: int, messages: int) -> None:
        self.number = number
        self.lab = lab
        self.person = lab.add_person(f"Person {number}")
        self.channel = lab.dm(self.person)
        self.tokens = [f"k{number}.{index}" for index in range(messages)]
        self.lost = ""
        self._thread = threading.Thread(target=self._talk, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def answers(self) -> list[str]:
        """What stands in the chat, without what still grows."""
        shown = (text for text in self.lab.seen(self.channel) if not text.endswith(UNFINISHED))
        return [text for text in shown if text.startswith("answer")]

    def _talk(self) -> None:
        for token in self.tokens:
            self.lab.say(self.person, f"{token} [[chunks 5]] [[say answer {token} end]]")
            end = time.monotonic() + PATIENCE
            while not any(f"answer {token} end" in text for text in self.answers()):
                if time.monotonic() > end:
                    self.lost = token
                    return
                time.sleep(0.1)


def brew(gateway: GatewayProcess, lab: SlackLab, chatters: list[Chatter], kills: int) -> None:
    """Bad weather until everybody has been answered, with so many kills spread over it."""
    die, total = random.Random(SEED), sum(len(chatter.tokens) for chatter in chatters)
    answered_at = sorted(die.sample(range(1, max(total - 1, kills + 1)), kills))
    while not all(chatter.is_done for chatter in chatters):
        answered = sum(len(chatter.answers()) for chatter in chatters)
        if answered_at and answered >= answered_at[0]:
            del answered_at[0]
            gateway.kill()
            gateway.start()
        lab.redeliver(die.randint(1, 3), backwards=die.random() < 0.5)
        if die.random() < 0.02:
            lab.cut()
        if die.random() < 0.02:
            lab.disconnect(die.choice(("warning", "refresh_requested")))
        time.sleep(0.3)
    assert not answered_at, "not all kills came"


def audit(chatters: list[Chatter]) -> int:
    """Nothing lost, nothing out of order, nothing twice; how many answers there were."""
    for chatter in chatters:
        assert not chatter.lost, f"seed {SEED}: {chatter.lost} was never answered"
        found = [re.search(r"answer (k[\d.]+) end", text) for text in chatter.answers()]
        assert [token and token[1] for token in found] == chatter.tokens, f"seed {SEED}: lost, twice or out of order"
    return sum(len(chatter.tokens) for chatter in chatters)


def play(home: Path, lab: LabServer, chats: int, messages: int, kills: int) -> int:
    with SlackLab(ack_seconds=1.0, pauses=(0.0, 2.0, 10.0)) as slack:
        chatters = [Chatter(slack, number, messages) for number in range(chats)]
        section = {
            "enabled": True,
            "token": slack.token,
            "app_token": slack.app_token,
            "base_url": slack.base_url,
            "allow": [chatter.person for chatter in chatters],
        }
        with GatewayProcess(home, lab.base_url, platforms={"slack": section}) as gateway:
            gateway.start()
            slack.plan(WEATHER, SEED)
            for chatter in chatters:
                chatter.start()
            brew(gateway, slack, chatters, kills)
            slack.plan([])
            answered = audit(chatters)
            for secret in (slack.token, slack.app_token):
                assert secret not in gateway.log, "G6: a token is in the log"
            slack.forgive(RATE)  # a process cannot know what the one before it, which was killed, has called
            assert slack.complaints == [], f"seed {SEED}: {slack.complaints[:5]}"
    return answered


@pytest.mark.peers
def test_a_few_chats_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: four chats, and the gateway is killed twice."""
    assert play(home, lab, chats=4, messages=6, kills=2) == 24


@pytest.mark.soak
def test_two_hundred_messages_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: 200 messages over ten chats, and five kills."""
    assert play(home, lab, chats=10, messages=20, kills=5) == 200
