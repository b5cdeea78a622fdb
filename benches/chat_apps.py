"""A chat app under load: 200 people write to a bot at once, and the model thinks for a second."""

import contextlib
import json
import statistics
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

from benches.gateway_load import gateway, resident_mb
from benches.measure import Figure, cpu_ms
from benches.web_load import NOBODY, STARTS, serve
from gateway.core.text.render import render_parts
from gateway.platforms.telegram import SPEC
from hermes_base.inbound import Address, Outgoing
from hermes_lab.chats.discord.discord_lab import DiscordLab
from hermes_lab.chats.slack.slack_lab import SlackLab
from hermes_lab.chats.telegram.telegram_lab import TelegramLab, TelegramRemote

HERMES = str(Path(sys.executable).with_name("hermes"))
CHATS = 200
PATIENCE = 120.0
IDENTIFY_SECONDS = 6.0  # Discord takes no other session of a bot in this time
DENSE = ("Some **bold** words, `code` and [a link](https://a.org).\n\n- one\n- two\n\n" * 60)[:4000]


@contextlib.contextmanager
def telegram() -> Iterator[TelegramRemote]:
    """The lab's Telegram as a process of its own, so that its work is not counted as ours."""
    child = subprocess.Popen([HERMES, "lab", "telegram", "--port", "0"], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout is not None
        lines = [child.stdout.readline() for _ in range(2)]
        address = next(word for word in lines[0].split() if word.startswith("http")).removesuffix("/bot")
        yield TelegramRemote(address, lines[1].split()[1])
    finally:
        child.terminate()
        child.wait()


def measure_chat_apps(base_url: str, folder: Path) -> list[Figure]:
    """How fast the model is asked, what is sent, and what it costs."""
    with telegram() as lab:
        people = [lab.add_person(f"Person {number}") for number in range(CHATS)]
        section = {"enabled": True, "token": lab.token, "base_url": lab.base_url, "allow": people}
        with gateway(folder / "telegram", base_url, platforms={"telegram": section}) as child:
            lab.say(people[0], "[[say warm]]")
            _wait_for(lambda: any("warm" in text for text in lab.seen(people[0])))
            asked = read_load(base_url)["model_calls"]
            began = time.monotonic()
            for person in people:
                lab.say(person, f"[[stall 1]] [[say answer {person}]]")
            _wait_for(lambda: read_load(base_url)["model_calls"] - asked >= CHATS)
            seconds = time.monotonic() - began
            _wait_for(lambda: all(f"answer {person}" in lab.seen(person) for person in people))
            memory, complaints = resident_mb(child.pid), len(lab.complaints)
    rendered = Outgoing(Address("telegram", "bench", "1"), DENSE)
    return [
        Figure("200 chats on Telegram, 1 s of thought: all asked after", seconds, "s", 3.0),
        Figure("200 chats on Telegram: what its server complains of", complaints, "", 0),
        Figure("200 chats on Telegram: memory of the gateway", memory, "MB", 150),
        Figure(
            "4 KB of dense markdown for Telegram, CPU", cpu_ms(lambda: render_parts(rendered, SPEC, 1), 20), "ms", 50
        ),
    ]


def measure_three_apps(folder: Path) -> list[Figure]:
    """From the command until three apps are connected and `/ready` says so."""
    with TelegramLab() as telegram, DiscordLab() as discord, SlackLab() as slack:
        platforms = {
            "telegram": {"enabled": True, "token": telegram.token, "base_url": telegram.base_url},
            "discord": {"enabled": True, "token": discord.token, "base_url": discord.base_url},
            "slack": {"enabled": True, "token": slack.token, "app_token": slack.app_token, "base_url": slack.base_url},
        }
        starts = []
        for number in range(STARTS):
            discord.advance(IDENTIFY_SECONDS)
            with serve(folder / f"three-{number}", NOBODY, platforms=platforms) as served:
                starts.append(served.since_start)
    return [Figure("from the command to /ready with three chat apps on", statistics.median(starts), "s", 1.5)]


def read_load(base_url: str) -> dict[str, int]:
    with urllib.request.urlopen(f"{base_url.removesuffix('/v1')}/lab/load") as told:
        found: dict[str, int] = json.loads(told.read())
        return found


def _wait_for(condition: object) -> None:
    assert callable(condition)
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "it never came"
        time.sleep(0.02)
