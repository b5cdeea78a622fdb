"""Bad weather for any chat app: people ask, the service refuses, cuts and repeats, the gateway is killed. Afterwards it
is counted what was lost, doubled or out of order."""

import os
import random
import re
import threading
import time
from abc import abstractmethod
from collections import Counter
from pathlib import Path

from app_people import AppPeople
from gateway_process import GatewayProcess

from gateway.core.drafts import UNFINISHED
from gateway.core.text.render import LONG_MARK
from hermes_lab.server import LabServer

SEED = int(os.environ.get("HERMES_WEATHER_SEED", "0")) or int.from_bytes(os.urandom(3), "big")
PATIENCE = 300.0


class WeatherApp(AppPeople):
    """What differs between apps."""

    takes_keys: bool  # a message sent twice stands there once; else a repetition has to be marked

    @abstractmethod
    def begin(self, seed: int) -> None:
        """From now on things go wrong."""

    @abstractmethod
    def disturb(self, die: random.Random) -> None:
        """What the service does by itself, a few times a second."""

    @abstractmethod
    def end(self) -> None:
        """Nothing goes wrong any more."""

    @abstractmethod
    def judge(self, log: str) -> None:
        """Asserts that the service has nothing to complain about, and the log no secret in it."""

    def before_start(self) -> None:
        """The gateway was killed, and begins anew now."""


class Chatter:
    """A person who asks one thing after the other, each when the one before was answered."""

    def __init__(self, app: WeatherApp, number: int, messages: int) -> None:
        self.app = app
        self.person = app.come(f"Person {number}")
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
        shown = (text for text in self.app.seen(self.person) if not text.endswith(UNFINISHED))
        return [text for text in shown if text.removeprefix(LONG_MARK).lstrip().startswith("answer")]

    def _talk(self) -> None:
        for token in self.tokens:
            self.app.say(self.person, f"{token} [[chunks 5]] [[say answer {token} end]]")
            end = time.monotonic() + PATIENCE
            while not any(f"answer {token} end" in text for text in self.answers()):
                if time.monotonic() > end:
                    self.lost = token
                    return
                time.sleep(0.1)


def brew(gateway: GatewayProcess, app: WeatherApp, chatters: list[Chatter], kills: int) -> None:
    """Bad weather until everybody has been answered, with so many kills spread over it."""
    die, total = random.Random(SEED), sum(len(chatter.tokens) for chatter in chatters)
    answered_at = sorted(die.sample(range(1, max(total * 2 // 3, kills + 1)), kills))
    while not all(chatter.is_done for chatter in chatters):
        answered = sum(len(chatter.answers()) for chatter in chatters)
        if answered_at and answered >= answered_at[0]:
            del answered_at[0]
            gateway.kill()
            app.before_start()
            gateway.start()
        app.disturb(die)
        time.sleep(0.3)
    lost = any(chatter.lost for chatter in chatters)
    assert len(answered_at) < kills or lost, "no kill came"  # the last ones may be late where answers are quick


def audit(chatters: list[Chatter], takes_keys: bool) -> Counter[str]:
    """Nothing lost, nothing out of order, nothing doubled where there are keys, else every repetition marked; what was
    seen of it, counted."""
    found: Counter[str] = Counter()
    for chatter in chatters:
        assert not chatter.lost, f"seed {SEED}: {chatter.lost} was never answered"
        seen: list[str] = []
        for text in chatter.answers():
            token = re.search(r"answer (k[\d.]+) end", text)
            assert token, f"seed {SEED}: {text!r}"
            if token[1] in seen:
                assert not takes_keys, f"seed {SEED}: {token[1]} stands there twice"
                assert LONG_MARK in text, f"seed {SEED}: {token[1]} stands there twice, unmarked"
                found["repeated"] += 1
            else:
                seen.append(token[1])
        assert seen == chatter.tokens, f"seed {SEED}: lost or out of order"
        found["answered"] += len(seen)
    return found


def play(app: WeatherApp, home: Path, lab: LabServer, chats: int, messages: int, kills: int) -> Counter[str]:
    chatters = [Chatter(app, number, messages) for number in range(chats)]
    with GatewayProcess(home, lab.base_url, platforms={app.name: app.section()}) as gateway:
        gateway.start()
        app.begin(SEED)
        for chatter in chatters:
            chatter.start()
        brew(gateway, app, chatters, kills)
        app.end()
        found = audit(chatters, app.takes_keys)
        app.judge(gateway.log)
    return found
