"""E-mail for the suite that every platform passes: the adapter, with real mail servers as the other side of it."""

import asyncio
import base64
import itertools
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from email.message import EmailMessage
from email.policy import SMTP
from pathlib import Path
from typing import Any

from mail_peer import (
    AUTHSERV_ID,
    CUT_AFTER,
    CUT_BEFORE,
    PASSWORD,
    LineProxy,
    MailHouse,
    SmtpFault,
    list_files,
    read_text,
)
from platform_suite import BRIEF_PENALTY, CLOSED_AFTER, CLOSED_BEFORE, NOT_STORED, PENALTY, REFUSED, Rig
from pretending import HeardCore

from gateway.platforms import platform_list
from gateway.platforms.face import Adapter
from gateway.platforms.mail.thread_book import name_thread
from hermes_base.inbound import Address, Inbound

_numbers = itertools.count(1)
_FAULTS: Mapping[str, SmtpFault] = {
    PENALTY: SmtpFault("451 4.7.1 Greylisted, try again in 30 seconds"),
    BRIEF_PENALTY: SmtpFault("451 4.7.1 Greylisted, try again in 2 seconds"),
    REFUSED: SmtpFault("550 5.1.1 There is no such user"),
    CLOSED_BEFORE: SmtpFault(cut=CUT_BEFORE),
    CLOSED_AFTER: SmtpFault(cut=CUT_AFTER),
}


def write_mail(sender: str, recipient: str, text: str, **fields: str) -> EmailMessage:
    """A mail as a person's program writes it; other fields by their names, with `_` for `-`."""
    mail = EmailMessage(policy=SMTP.clone(max_line_length=990))
    mail["From"], mail["To"] = sender, recipient
    mail["Message-ID"] = f"<m{next(_numbers)}@friends.test>"
    for name, value in fields.items():
        del mail[name.replace("_", "-")]
        mail[name.replace("_", "-")] = value
    mail.set_content(text)
    return mail


class MailRig(Rig):
    def __init__(
        self, house: MailHouse, home: Path, proxy: LineProxy, settings: Mapping[str, Any] | None = None
    ) -> None:
        number = next(_numbers)
        self.house = house
        self.home = home
        self.proxy = proxy
        self.box = house.make_box(f"hermes{number}@home.test")
        self.person = f"ann{number}@friends.test"
        self.root = f"root{number}@friends.test"
        self.settings = {
            "address": self.box,
            "password": PASSWORD,
            "imap": f"imap://127.0.0.1:{proxy.port}",
            "smtp": f"smtp://127.0.0.1:{house.smtp}",
            "authserv_id": AUTHSERV_ID,
            "ca_file": house.ca_file,
            **(settings or {}),
        }
        self.secrets = (PASSWORD, base64.b64encode(PASSWORD.encode()).decode(), "wrong-pass-word")
        self.adapter = self.make_adapter(self.settings)
        self.address = Address("mail", "bot", self.person, thread=name_thread(self.root))
        self.core = HeardCore()
        self._said: list[bytes] = []

    def make_adapter(self, settings: Mapping[str, Any]) -> Adapter:
        return platform_list.make_adapter(platform_list.find_spec("mail"), "bot", settings, self.home)

    async def connect(self) -> None:
        await self.adapter.connect(self.core)

    async def restart(self) -> bool:
        """What it read last was not noted."""
        await self.adapter.disconnect()
        path = self.home / "mail" / "bot.box" / "place.json"
        place = json.loads(path.read_text())
        path.write_text(json.dumps({**place, "uid": place["uid"] - 3}))
        self.adapter = self.make_adapter(self.settings)
        await self.connect()
        return True

    async def post(self, mail: EmailMessage, sender: str = "") -> None:
        self._said.append(mail.as_bytes())
        await asyncio.to_thread(self.house.post, sender or self.person, self.box, self._said[-1])

    async def say(self, text: str) -> None:
        await self.post(write_mail(f"Ann <{self.person}>", self.box, text, References=f"<{self.root}>"))

    async def say_as_namesake(self, text: str) -> bool:
        await self.post(write_mail(f"Ann <other-{self.person}>", self.box, text, References=f"<{self.root}>"))
        return True

    async def say_file(self, name: str, data: bytes) -> bool:
        mail = write_mail(f"Ann <{self.person}>", self.box, "", References=f"<{self.root}>")
        mail.add_attachment(data, "application", "octet-stream", filename=name)
        await self.post(mail)
        return True

    async def repeat(self) -> None:
        await asyncio.to_thread(self.house.post, self.person, self.box, self._said[-1])

    async def repeat_backwards(self, count: int) -> bool:
        for data in reversed(self._said[-count:]):
            await asyncio.to_thread(self.house.post, self.person, self.box, data)
        return True

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        mails = self.house.read_sent(self.person)
        return [name for mail in mails for name in [one for one, _ in list_files(mail)] or [read_text(mail)]]

    def trouble(self, name: str) -> bool:
        if name == NOT_STORED:
            self.core.failures = 1
        elif name in _FAULTS:
            self.house.faults.append(_FAULTS[name])
        else:
            return False
        return True

    def cut(self) -> bool:
        self.proxy.cut()
        return True

    def misconfigured(self) -> Adapter:
        return self.make_adapter({**self.settings, "password": "wrong-pass-word"})

    def complaints(self) -> list[str]:
        return self.house.complaints

    def count_calls(self) -> int:
        return len(self.house.read_sent(self.person))

    def count_listeners(self) -> int:
        return self.proxy.count


@asynccontextmanager
async def open_mail_rig(
    house: MailHouse, home: Path, settings: Mapping[str, Any] | None = None, hides: tuple[bytes, ...] = ()
) -> AsyncIterator[MailRig]:
    house.complaints.clear()
    house.faults.clear()
    house.penalty_until = 0.0
    async with LineProxy(house.imap, hides).serve() as proxy:
        rig = MailRig(house, home, proxy, settings)
        try:
            yield rig
        finally:
            await rig.adapter.disconnect()
