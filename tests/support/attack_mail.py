"""Mail to a gateway that is attacked: real servers on both sides, people who write, and others who pretend to."""

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from email.message import EmailMessage
from typing import Any

from attack_world import PATIENCE, AttackWorld
from mail_peer import AUTHSERV_ID, PASSWORD, MailHouse
from mail_rig import write_mail

OWNER_ADDRESS, MEMBER_ADDRESS = "olga@friends.test", "ann@friends.test"
OTHER_ADDRESS = "zoe@friends.test"  # whose conversations never hold anything bad
BOX = "hermes@home.test"


@dataclass
class MailDesk:
    house: MailHouse
    written: list[EmailMessage] = field(default_factory=list)

    def section(self) -> Mapping[str, Any]:
        return {
            "enabled": True,
            "address": self.house.make_box(BOX),
            "password": PASSWORD,
            "imap": f"imap://127.0.0.1:{self.house.imap}",
            "smtp": f"smtp://127.0.0.1:{self.house.smtp}",
            "authserv_id": AUTHSERV_ID,
            "ca_file": self.house.ca_file,
            "owner": OWNER_ADDRESS,
            "allow": [MEMBER_ADDRESS, OTHER_ADDRESS],
        }

    def mailed(self) -> list[bytes]:
        """All that was sent, by whomever it was to be read."""
        return [mail.as_bytes() for mails in list(self.house.sent.values()) for mail in mails]

    def post(self, sender: str, text: str, name: str = "", **fields: str) -> EmailMessage:
        mail = write_mail(f"{name or 'Somebody'} <{sender}>", BOX, text, **fields)
        self.send(sender, mail)
        return mail

    def send(self, sender: str, mail: EmailMessage) -> None:
        self.house.post(sender, BOX, mail.as_bytes())

    def settle(self, world: AttackWorld, sender: str, mail: EmailMessage) -> None:
        """Until it is answered and nothing is under way; whatever is asked meanwhile is refused."""
        gateway, end = world.house.gateway, time.monotonic() + PATIENCE
        while not self._is_answered(sender, mail) or gateway.turns.depth() != (0, 0) or gateway.lanes.at_work:
            assert time.monotonic() < end, "the mail is not answered"
            world.refuse_all()
            time.sleep(0.01)

    def _is_answered(self, sender: str, mail: EmailMessage) -> bool:
        return any(one["In-Reply-To"] == mail["Message-ID"] for one in self.house.read_sent(sender))
