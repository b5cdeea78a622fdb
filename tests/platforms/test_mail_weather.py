"""E-mail in bad weather: refusals, cuts, mails that come twice, and a gateway that is killed. Nothing is lost, nothing
comes out of order, and what may have arrived twice says so."""

import os
import random
import re
import threading
import time
from pathlib import Path

import pytest
from gateway_process import GatewayProcess
from mail_peer import AUTHSERV_ID, CUT_AFTER, CUT_BEFORE, PASSWORD, MailHouse, SmtpFault, read_text
from mail_rig import write_mail

from gateway.core.render import LONG_MARK
from hermes_lab.server import LabServer

SEED = int(os.environ.get("HERMES_WEATHER_SEED", "0")) or int.from_bytes(os.urandom(3), "big")
PATIENCE = 300.0
BOX = "hermes@home.test"
WEATHER = (
    SmtpFault("451 4.7.1 Try again in 1 seconds"),
    SmtpFault("451 4.3.0 Try again in 1 seconds", at_data=True),
    SmtpFault(cut=CUT_BEFORE),
    SmtpFault(cut=CUT_AFTER),
)


class Writer:
    """A person who writes mails in one thread, each when the one before was answered; some arrive twice."""

    def __init__(self, house: MailHouse, number: int, mails: int) -> None:
        self.house = house
        self.address = f"writer{number}@friends.test"
        self.tokens = [f"k{number}.{index}" for index in range(mails)]
        self.lost = ""
        self._die = random.Random(SEED + number)
        self._thread = threading.Thread(target=self._write_all, daemon=True)

    def start(self) -> None:
        self._thread.start()

    @property
    def is_done(self) -> bool:
        return not self._thread.is_alive()

    def answers(self) -> list[str]:
        return [text for text in map(read_text, self.house.read_sent(self.address)) if "answer" in text]

    def _write_all(self) -> None:
        for token in self.tokens:
            root = f"<root-{self.address}>"
            mail = write_mail(self.address, BOX, f"{token} [[say answer {token} end]]", References=root)
            for _ in range(self._die.choice((1, 1, 2))):
                self.house.post(self.address, BOX, mail.as_bytes())
            end = time.monotonic() + PATIENCE
            while not any(f"answer {token} end" in text for text in self.answers()):
                if time.monotonic() > end:
                    self.lost = token
                    return
                time.sleep(0.1)


def brew(gateway: GatewayProcess, house: MailHouse, writers: list[Writer], kills: int) -> None:
    """Bad weather until everybody has been answered, with so many kills spread over it."""
    die, total = random.Random(SEED), sum(len(writer.tokens) for writer in writers)
    answered_at = sorted(die.sample(range(1, total - 1), kills))
    while not all(writer.is_done for writer in writers):
        if answered_at and sum(len(writer.answers()) for writer in writers) >= answered_at[0]:
            del answered_at[0]
            gateway.kill()
            gateway.start()
        if die.random() < 0.2 and not house.faults:
            house.faults.append(die.choice(WEATHER))
        time.sleep(0.2)
    assert not answered_at, "not all kills came"


def audit(writers: list[Writer]) -> int:
    """Nothing lost, nothing out of order, every repetition marked; how many there were."""
    repeated = 0
    for writer in writers:
        assert not writer.lost, f"seed {SEED}: {writer.lost} was never answered"
        seen: list[str] = []
        for text in writer.answers():
            token = re.search(r"answer (k[\d.]+) end", text)
            assert token, f"seed {SEED}: {text!r}"
            if token[1] in seen:
                assert LONG_MARK in text, f"seed {SEED}: {token[1]} came twice, unmarked"
                repeated += 1
            else:
                seen.append(token[1])
        assert seen == writer.tokens, f"seed {SEED}: lost or out of order"
    return repeated


def play(home: Path, lab: LabServer, people: int, mails: int, kills: int) -> None:
    with MailHouse() as house:
        house.make_box(BOX)
        writers = [Writer(house, number, mails) for number in range(people)]
        section = {
            "enabled": True,
            "address": BOX,
            "password": PASSWORD,
            "imap": f"imap://127.0.0.1:{house.imap}",
            "smtp": f"smtp://127.0.0.1:{house.smtp}",
            "authserv_id": AUTHSERV_ID,
            "ca_file": house.ca_file,
            "allow": [writer.address for writer in writers],
        }
        with GatewayProcess(home, lab.base_url, platforms={"mail": section}) as gateway:
            gateway.start()
            for writer in writers:
                writer.start()
            brew(gateway, house, writers, kills)
            print(f"\nseed {SEED}: {audit(writers)} came twice, marked")
            assert PASSWORD not in gateway.log, "G6: the password is in the log"
            # Each person has a penalty of their own, so mail to another is no fault in that time.
            assert [kind for kind in house.complaints if kind != "penalty"] == [], f"seed {SEED}"


@pytest.mark.peers
@pytest.mark.timeout(240)
def test_a_few_people_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: two people, and the gateway is killed once."""
    play(home, lab, people=2, mails=3, kills=1)


@pytest.mark.soak
def test_many_mails_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: 200 mails of ten people, and five kills."""
    play(home, lab, people=10, mails=20, kills=5)
