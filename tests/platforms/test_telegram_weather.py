"""Telegram in bad weather: refusals, cuts, repetitions, delays, and a gateway that is killed. Nothing is lost, nothing
comes out of order, and what may stand there twice says so."""

import os
import random
import re
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from gateway_process import GatewayProcess

from gateway.core.drafts import UNFINISHED
from gateway.core.render import LONG_MARK
from hermes_lab.chats.faults import CUT_AFTER, CUT_BEFORE, ERROR, LATE, PAGE, TOO_MANY, ChatFault
from hermes_lab.chats.telegram.telegram_lab import TelegramLab
from hermes_lab.server import LabServer

SEED = int(os.environ.get("HERMES_WEATHER_SEED", "0")) or int.from_bytes(os.urandom(3), "big")
PATIENCE = 300.0
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


class Chatter:
    """A person who asks one thing after the other, each when the one before was answered."""

    def __init__(self, lab: TelegramLab, number: int, messages: int) -> None:
        self.number = number
        self.lab = lab
        self.person = lab.add_person(f"Person {number}")
        self.tokens = [f"k{number}.{index}" for index in range(messages)]
        self.lost = ""
        self._thread = threading.Thread(target=self._talk, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def answers(self) -> list[str]:
        """What stands in the chat, without drafts that a killed process left behind."""
        shown = (text for text in self.lab.seen(self.person) if not text.endswith(UNFINISHED))
        return [text for text in shown if text.removeprefix(LONG_MARK).lstrip().startswith("answer")]

    def _talk(self) -> None:
        for token in self.tokens:
            self.lab.say(self.person, f"{token} [[chunks 5]] [[say answer {token} end]]")
            end = time.monotonic() + PATIENCE
            while not any(f"answer {token} end" in text for text in self.answers()):
                if time.monotonic() > end:
                    self.lost = token
                    return
                time.sleep(0.1)


def brew(gateway: GatewayProcess, lab: TelegramLab, chatters: list[Chatter], kills: int) -> None:
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
        if die.random() < 0.1:
            lab.cut()
        time.sleep(0.3)
    assert not answered_at, "not all kills came"


def audit(chatters: list[Chatter]) -> Counter[str]:
    """Nothing lost, nothing out of order, every repetition marked; what was seen of it, counted."""
    found: Counter[str] = Counter()
    for chatter in chatters:
        assert not chatter.lost, f"seed {SEED}: {chatter.lost} was never answered"
        seen: list[str] = []
        for text in chatter.answers():
            token = re.search(r"answer (k[\d.]+) end", text)
            assert token, f"seed {SEED}: {text!r}"
            if token[1] in seen:
                assert LONG_MARK in text, f"seed {SEED}: {token[1]} stands there twice, unmarked"
                found["repeated"] += 1
            else:
                seen.append(token[1])
        assert seen == chatter.tokens, f"seed {SEED}: lost or out of order"
        found["answered"] += len(seen)
    return found


def play(home: Path, lab: LabServer, chats: int, messages: int, kills: int) -> Counter[str]:
    with TelegramLab() as telegram:
        chatters = [Chatter(telegram, number, messages) for number in range(chats)]
        section = {
            "enabled": True,
            "token": telegram.token,
            "base_url": telegram.base_url,
            "allow": [chatter.person for chatter in chatters],
        }
        with GatewayProcess(home, lab.base_url, platforms={"telegram": section}) as gateway:
            gateway.start()
            telegram.plan(WEATHER, SEED)
            for chatter in chatters:
                chatter.start()
            brew(gateway, telegram, chatters, kills)
            telegram.plan([])
            found = audit(chatters)
            assert telegram.token not in gateway.log, "G6: the token is in the log"
            telegram.forgive(SAME_TEXT)  # an edit whose answer was cut off is made again, and may have been done
            judged = Counter(complaint["kind"] for complaint in telegram.complaints)
            assert not judged, f"seed {SEED}: {telegram.complaints[:5]}"
    return found


def test_a_few_chats_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: four chats, and the gateway is killed twice."""
    assert play(home, lab, chats=4, messages=6, kills=2)["answered"] == 24


@pytest.mark.soak
def test_a_thousand_messages_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: 1,000 messages over 20 chats, and five kills."""
    found = play(home, lab, chats=20, messages=50, kills=5)
    print(f"\nseed {SEED}: {dict(found)}")
    assert found["answered"] == 1000
