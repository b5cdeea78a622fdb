"""Every chat app at once, each with its server, in one gateway: nothing is lost or doubled, and it stays small."""

import os
import random
import re
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest
from app_people import (
    AppPeople,
    DiscordPeople,
    IrcPeople,
    MailPeople,
    MatrixPeople,
    SignalPeople,
    SlackPeople,
    TelegramPeople,
    WebhookPeople,
    WhatsAppPeople,
    XmppPeople,
)
from gateway_process import GatewayProcess
from irc_peer import shared_peer
from mail_peer import MailHouse
from matrix_peer import start_server
from web_house import find_free_port
from xmpp_peer import start_server as start_xmpp

from gateway.core.drafts import UNFINISHED
from gateway.platforms.platform_list import find_spec
from gateway.service.admin.platform_setup import probe_platform
from hermes_base.errors import ConfigProblem
from hermes_lab.chats.discord.discord_lab import DiscordLab
from hermes_lab.chats.signal.signal_lab import SignalLab
from hermes_lab.chats.slack.slack_lab import SlackLab
from hermes_lab.chats.slack.slack_world import BOT_USER
from hermes_lab.chats.telegram.telegram_lab import TelegramLab
from hermes_lab.chats.whatsapp.whatsapp_lab import WhatsAppLab
from hermes_lab.server import LabServer

PATIENCE = 120.0
APPS, PEOPLE = 10, 2  # so many in each
SOAK_SECONDS = float(os.environ.get("HERMES_SOAK_SECONDS", "600"))
IDLE_SECONDS = 60.0
MOST_MEGABYTES = 250.0
MOST_IDLE_SHARE = 0.01  # of a core


@contextmanager
def open_apps() -> Iterator[list[AppPeople]]:
    with ExitStack() as stack:
        hooks = WebhookPeople()
        stack.callback(hooks.leave)
        peer = shared_peer()
        stack.callback(peer.everybody_leaves)
        yield [
            hooks,
            TelegramPeople(stack.enter_context(TelegramLab())),
            DiscordPeople(stack.enter_context(DiscordLab())),
            SlackPeople(stack.enter_context(SlackLab())),
            WhatsAppPeople(stack.enter_context(WhatsAppLab(hook_pause=0.2))),
            SignalPeople(stack.enter_context(SignalLab())),
            MatrixPeople(start_server()),
            MailPeople(stack.enter_context(MailHouse())),
            IrcPeople(peer),
            XmppPeople(start_xmpp()),
        ]


def find_own_id(app: AppPeople, told: str) -> str:
    """The id of the bot itself, from its settings, or from what its probe has told."""
    if isinstance(app, TelegramPeople):
        return app.lab.token.partition(":")[0]
    if isinstance(app, SlackPeople):
        return BOT_USER
    patterns = {"discord": r"client_id=([0-9]+)", "signal": r"\(([0-9a-f-]{36})\)", "whatsapp": r"\+([0-9]+)"}
    found = re.search(patterns.get(app.name, r"It is (\S+?);? "), told)
    assert found is not None, told
    return found[1]


def test_no_app_takes_the_bot_for_its_owner(home: Path) -> None:
    """G1, H5: whoever gives the bot's own id at the set-up would wait for ever; it is said, and nothing is kept."""
    assert not home.exists()
    with open_apps() as apps:
        for app in apps[1:]:  # programs have no owner
            spec, given = find_spec(app.name), {**app.settings(), "account": app.name}
            told = probe_platform(spec, {**given, "owner": app.add_person("Ann")})
            own = find_own_id(app, told.told)
            with pytest.raises(ConfigProblem, match="the account of Hermes itself, and cannot be its owner"):
                probe_platform(spec, {**given, "owner": own})


class Talker:
    """Somebody who asks now and then, and looks whether each answer came, once and in its turn."""

    def __init__(self, app: AppPeople, number: int) -> None:
        self.app = app
        self.name = f"{app.name}-{number}"
        self.person = app.come(f"Person {number}")
        self.asked: list[str] = []
        self.lost = ""
        self._die = random.Random(self.name)
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._talk, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def end(self) -> None:
        self._ending.set()
        self._thread.join(PATIENCE * 2)

    def answers(self) -> list[str]:
        shown = (text.strip() for text in self.app.seen(self.person) if not text.endswith(UNFINISHED))
        return [text for text in shown if text.startswith("answer")]

    def _talk(self) -> None:
        while not self._ending.is_set():
            token = f"{self.name}.{len(self.asked)}"
            self.asked.append(f"answer {token} end")
            self.app.say(self.person, f"{token} [[chunks 4]] [[say {self.asked[-1]}]]")
            end = time.monotonic() + PATIENCE
            while self.asked[-1] not in self.answers():
                if time.monotonic() > end:
                    self.lost = token
                    return
                time.sleep(0.2)
            self._ending.wait(self._die.uniform(0.5, 5.0))


def read_megabytes(pid: int) -> float:
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 1e6


def read_seconds(pid: int) -> float:
    """CPU time, of the program and of the system for it."""
    words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(words[11]) + int(words[12])) / os.sysconf("SC_CLK_TCK")


def talk(home: Path, lab: LabServer, seconds: float) -> tuple[int, float, float]:
    """Everybody talks for this time; how many answers there were, the most megabytes, and the share of a core while
    nobody says anything."""
    port = find_free_port()
    with open_apps() as apps:
        talkers = [Talker(app, number) for app in apps for number in range(PEOPLE)]
        with GatewayProcess(
            home,
            lab.base_url,
            platforms={app.name: app.section() for app in apps},
            web={"port": port},
            network={"private": ["127.0.0.1"]},
        ) as gateway:
            gateway.start()
            for app in apps:
                app.meet(port)
            for talker in talkers:
                talker.start()
            most, end = 0.0, time.monotonic() + seconds
            while time.monotonic() < end:
                time.sleep(1.0)
                most = max(most, read_megabytes(gateway.pid))
            for talker in talkers:
                talker.end()
            idle = _measure_idle(gateway.pid) if seconds >= IDLE_SECONDS else 0.0
            for talker in talkers:
                assert not talker.lost, f"{talker.lost} was never answered\n{gateway.log[-3000:]}"
                assert talker.answers() == talker.asked, talker.name
            assert gateway.terminate() == 0
    return sum(len(talker.asked) for talker in talkers), most, idle


def _measure_idle(pid: int) -> float:
    time.sleep(10.0)  # what the last answers left to do
    before, began = read_seconds(pid), time.monotonic()
    time.sleep(IDLE_SECONDS)
    return (read_seconds(pid) - before) / (time.monotonic() - began)


@pytest.mark.peers
@pytest.mark.timeout(600)
def test_all_apps_at_once(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, I3: everybody is answered, once and in order."""
    answered, _, _ = talk(home, lab, seconds=10.0)
    assert answered >= PEOPLE * APPS


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_all_apps_at_once_for_ten_minutes(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, I3: nothing is lost, memory stays small, and who says nothing costs nothing."""
    answered, megabytes, idle = talk(home, lab, SOAK_SECONDS)
    print(f"\n{answered} answers, at most {megabytes:.0f} MB, {idle:.2%} of a core while nobody spoke")
    assert megabytes < MOST_MEGABYTES
    assert idle < MOST_IDLE_SHARE
