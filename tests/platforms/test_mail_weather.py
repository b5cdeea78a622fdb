"""E-mail in bad weather: refusals, cuts, mails that come twice, and a gateway that is killed. Nothing is lost, nothing
comes out of order, and what may have arrived twice says so."""

import random
from pathlib import Path

import pytest
from app_people import BOX, MailPeople
from mail_peer import CUT_AFTER, CUT_BEFORE, PASSWORD, MailHouse, SmtpFault
from mail_rig import write_mail
from weather import SEED, WeatherApp, play

from hermes_lab.server import LabServer

WEATHER = (
    SmtpFault("451 4.7.1 Try again in 1 seconds"),
    SmtpFault("451 4.3.0 Try again in 1 seconds", at_data=True),
    SmtpFault(cut=CUT_BEFORE),
    SmtpFault(cut=CUT_AFTER),
)


class MailWeather(MailPeople, WeatherApp):
    takes_keys = False

    def __init__(self, house: MailHouse) -> None:
        super().__init__(house)
        self._die = random.Random(SEED)

    def say(self, person: str, text: str) -> None:
        """Some arrive twice."""
        mail = write_mail(person, BOX, text, References=f"<root-{person}>")
        for _ in range(self._die.choice((1, 1, 2))):
            self.house.post(person, BOX, mail.as_bytes())

    def begin(self, seed: int) -> None:
        """Faults come one by one."""

    def disturb(self, die: random.Random) -> None:
        if die.random() < 0.2 and not self.house.faults:
            self.house.faults.append(die.choice(WEATHER))

    def end(self) -> None:
        self.house.faults.clear()

    def judge(self, log: str) -> None:
        assert PASSWORD not in log, "G6: the password is in the log"
        # Each person has a penalty of their own, so mail to another is no fault in that time.
        assert [kind for kind in self.house.complaints if kind != "penalty"] == [], f"seed {SEED}"


@pytest.mark.peers
@pytest.mark.timeout(240)
def test_a_few_people_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: two people, and the gateway is killed once."""
    with MailHouse() as house:
        assert play(MailWeather(house), home, lab, chats=2, messages=3, kills=1)["answered"] == 6


@pytest.mark.soak
def test_many_mails_in_bad_weather(home: Path, lab: LabServer) -> None:
    """C1, C3, C7, C8, C9: 200 mails of ten people, and five kills."""
    with MailHouse() as house:
        found = play(MailWeather(house), home, lab, chats=10, messages=20, kills=5)
    print(f"\nseed {SEED}: {dict(found)}")
    assert found["answered"] == 200
