"""Discord for the suite that every platform passes: the adapter, and the lab's server as the other side of it."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from platform_suite import BRIEF_PENALTY, CLOSED_AFTER, CLOSED_BEFORE, NOT_STORED, PENALTY, REFUSED, STORM, Rig
from pretending import HeardCore

from gateway.platforms import platform_list
from gateway.platforms.face import Adapter
from hermes_base.inbound import Address, Inbound
from hermes_lab.chats import faults
from hermes_lab.chats.discord.discord_lab import DiscordLab
from hermes_lab.chats.faults import ChatFault

#: What a trouble is to the lab's server.
_FAULTS: Mapping[str, tuple[ChatFault, ...]] = {
    CLOSED_BEFORE: (ChatFault(faults.CUT_BEFORE, "createMessage"),),
    CLOSED_AFTER: (ChatFault(faults.CUT_AFTER, "createMessage"),),
    REFUSED: (ChatFault(faults.ERROR, "createMessage", status=400, text="Nobody takes this"),),
    STORM: (
        ChatFault(faults.TOO_MANY, "createMessage", seconds=1.0),
        ChatFault(faults.TOO_MANY, "editMessage", skip=1, seconds=1.0),
        ChatFault(faults.CUT_AFTER, "editMessage", skip=1),
        ChatFault(faults.CUT_BEFORE, "editMessage", skip=2),
        ChatFault(faults.PAGE, "editMessage", skip=3),
        ChatFault(faults.TOO_MANY, "editMessage", skip=4, seconds=1.0, whole_account=True),
    ),
}
_PENALTIES = {PENALTY: 30.0, BRIEF_PENALTY: 2.0}
IDENTIFY_SECONDS = 5.0  # a bot presents itself no more often


class DiscordRig(Rig):
    def __init__(self, lab: DiscordLab, home: Path) -> None:
        self.lab = lab
        self.home = home
        self.person = lab.add_person("Ann", "ann")
        self.channel = lab.dm(self.person)
        self.settings = {"token": lab.token, "base_url": lab.base_url}
        self.secrets = (lab.token, lab.token.rpartition(".")[2])
        self.adapter = self.make_adapter(self.settings)
        self.address = Address("discord", "bot", self.channel)
        self.core = HeardCore()
        self._said = ""

    def make_adapter(self, settings: Mapping[str, Any]) -> Adapter:
        return platform_list.make_adapter(platform_list.find_spec("discord"), "bot", settings, self.home)

    async def connect(self) -> None:
        self.lab.advance(IDENTIFY_SECONDS)
        await self.adapter.connect(self.core)

    async def restart(self) -> bool:
        await self.adapter.disconnect()
        self.adapter = self.make_adapter(self.settings)
        await self.connect()
        self.lab.redeliver(3)
        return True

    async def say(self, text: str) -> None:
        self._said = self.lab.say(self.person, text)

    async def say_as_namesake(self, text: str) -> bool:
        self.lab.say(self.lab.add_person("Ann"), text)
        return True

    async def say_file(self, name: str, data: bytes) -> bool:
        self.lab.send(self.person, {name: data})
        return True

    async def edit_said(self, text: str) -> bool:
        self.lab.edit(self._said, text, self.channel)
        return True

    async def press(self, label: str) -> bool:
        self.lab.press(self.person, self.lab.messages(self.channel)[-1]["id"], label)
        return True

    async def repeat(self) -> None:
        self.lab.redeliver()

    async def repeat_backwards(self, count: int) -> bool:
        self.lab.redeliver(count, backwards=True)
        return True

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        return self.lab.seen(self.channel)

    def trouble(self, name: str) -> bool:
        if name in _PENALTIES:
            self.lab.punish(_PENALTIES[name], self.channel)
        elif name == NOT_STORED:
            self.core.failures = 1
        elif name in _FAULTS:
            self.lab.plan([replace(fault, chat=self.channel) for fault in _FAULTS[name]])
        else:
            return False  # Discord takes any markup
        return True

    def cut(self) -> bool:
        self.lab.cut()
        return True

    def misconfigured(self) -> Adapter:
        head, _, secret = self.lab.token.rpartition(".")
        return self.make_adapter({**self.settings, "token": f"{head}x.{secret}"})

    def complaints(self) -> list[str]:
        return [complaint["kind"] for complaint in self.lab.complaints]

    def count_calls(self) -> int:
        calls = self.lab.calls(chat=self.channel)
        return sum(call["method"] in ("createMessage", "editMessage") for call in calls)

    def count_listeners(self) -> int:
        return self.lab.under_way

    def count_typing(self) -> int:
        return self.lab.typing(self.channel)
