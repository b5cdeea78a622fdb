"""Discord for the suite that every platform passes: the adapter, and the lab's server as the other side of it."""

from collections.abc import Mapping
from pathlib import Path

from lab_rig import LabRig
from platform_suite import CLOSED_AFTER, CLOSED_BEFORE, REFUSED, STORM

from gateway.platforms.face import Adapter
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
IDENTIFY_SECONDS = 5.0  # a bot presents itself no more often


class DiscordRig(LabRig):
    platform = "discord"
    faults = _FAULTS

    def __init__(self, lab: DiscordLab, home: Path) -> None:
        self.person = lab.add_person("Ann", "ann")
        self.channel = lab.dm(self.person)
        given = {"token": lab.token, "base_url": lab.base_url}
        super().__init__(lab, home, self.channel, given, (lab.token, lab.token.rpartition(".")[2]))
        self._said = ""

    async def connect(self) -> None:
        self.lab.advance(IDENTIFY_SECONDS)
        await super().connect()

    async def say(self, text: str) -> None:
        self._said = self.lab.say(self.person, text)

    async def say_file(self, name: str, data: bytes) -> bool:
        self.lab.send(self.person, {name: data})
        return True

    async def edit_said(self, text: str) -> bool:
        self.lab.edit(self._said, text, self.channel)
        return True

    async def press(self, label: str) -> bool:
        self.lab.press(self.person, self.lab.messages(self.channel)[-1]["id"], label)
        return True

    def misconfigured(self) -> Adapter:
        head, _, secret = self.lab.token.rpartition(".")
        return self.make_adapter({**self.settings, "token": f"{head}x.{secret}"})

    def count_calls(self) -> int:
        calls = self.lab.calls(chat=self.channel)
        return sum(call["method"] in ("createMessage", "editMessage") for call in calls)

    def count_typing(self) -> int:
        typing: int = self.lab.typing(self.channel)
        return typing
