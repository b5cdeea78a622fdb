"""Telegram for the suite that every platform passes: the adapter, and the lab's server as the other side of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from platform_suite import CLOSED_AFTER, CLOSED_BEFORE, NOT_STORED, PENALTY, REFUSED, Rig
from pretending import HeardCore

from gateway.platforms import platform_list
from hermes_base.inbound import Address, Inbound
from hermes_lab.chats.faults import CUT_AFTER, CUT_BEFORE
from hermes_lab.chats.telegram.telegram_lab import TelegramLab

#: What a trouble is to the lab's server. REFUSED: whatever the adapter sends, nobody takes it.
_FAULTS = {CLOSED_BEFORE: CUT_BEFORE, CLOSED_AFTER: CUT_AFTER}


class TelegramRig(Rig):
    def __init__(self, lab: TelegramLab, home: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.lab = lab
        self.home = home
        self.person = lab.add_person("Ann", "ann")
        self.settings = {"token": lab.token, "base_url": lab.base_url, **(settings or {})}
        self.adapter = platform_list.make_adapter(platform_list.find_spec("telegram"), "bot", self.settings, home)
        self.address = Address("telegram", "bot", str(self.person))
        self.core = HeardCore()

    async def connect(self) -> None:
        await self.adapter.connect(self.core)

    async def say(self, text: str) -> None:
        self.lab.say(self.person, text)

    async def repeat(self) -> None:
        self.lab.redeliver()

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        return self.lab.seen(self.person)

    def trouble(self, name: str) -> bool:
        if name == PENALTY:
            self.lab.punish(30, self.person)
        elif name == NOT_STORED:
            self.core.failures = 1
        elif name == REFUSED:
            self.lab.plan([{"kind": "error", "method": "send*", "status": 400}])
        else:
            self.lab.plan([{"kind": _FAULTS[name], "method": "send*"}])
        return True
