"""Slack for the suite that every platform passes: the adapter, and the lab's server as the other side of it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lab_rig import HookDoor, LabRig
from platform_suite import BAD_MARKUP, CLOSED_AFTER, CLOSED_BEFORE, REFUSED, STORM

from gateway.platforms.face import Adapter
from hermes_lab.chats import faults
from hermes_lab.chats.faults import ChatFault
from hermes_lab.chats.slack.slack_lab import SlackLab

POST, UPDATE = "chat.postMessage", "chat.update"
#: What a trouble is to the lab's server.
_FAULTS: Mapping[str, tuple[ChatFault, ...]] = {
    CLOSED_BEFORE: (ChatFault(faults.CUT_BEFORE, POST),),
    CLOSED_AFTER: (ChatFault(faults.CUT_AFTER, POST),),
    REFUSED: (ChatFault(faults.ERROR, POST, status=200, text="as_user_not_supported"),),
    BAD_MARKUP: (ChatFault(faults.ERROR, POST, status=200, text="invalid_blocks"),),
    STORM: (
        ChatFault(faults.TOO_MANY, POST, seconds=1.0),
        ChatFault(faults.TOO_MANY, UPDATE, skip=1, seconds=1.0),
        ChatFault(faults.CUT_AFTER, UPDATE, skip=1),
        ChatFault(faults.CUT_BEFORE, UPDATE, skip=2),
        ChatFault(faults.PAGE, UPDATE, skip=3),
        ChatFault(faults.TOO_MANY, UPDATE, skip=4, seconds=1.0, whole_account=True),
    ),
}


class SlackRig(LabRig):
    platform = "slack"
    faults = _FAULTS

    def __init__(self, lab: SlackLab, home: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.person = lab.add_person("Ann")
        self.channel = lab.dm(self.person)
        given = {"token": lab.token, "app_token": lab.app_token, "base_url": lab.base_url, **(settings or {})}
        super().__init__(lab, home, self.channel, given, (lab.token, lab.app_token, lab.signing_secret))
        self._said = ""

    async def say(self, text: str) -> None:
        self._said = self.lab.say(self.person, text)

    async def say_file(self, name: str, data: bytes) -> bool:
        self.lab.send(self.person, name, data)
        return True

    async def edit_said(self, text: str) -> bool:
        self.lab.edit(self.person, self._said, text)
        return True

    async def press(self, label: str) -> bool:
        self.lab.press(self.person, self.lab.messages(self.channel)[-1]["ts"], label)
        return True

    def misconfigured(self) -> Adapter:
        return self.make_adapter({**self.settings, "token": self.lab.token + "x"})

    def count_calls(self) -> int:
        return sum(call["method"] in (POST, UPDATE) for call in self.lab.calls(chat=self.channel))

    def count_listeners(self) -> int | None:
        count: int = self.lab.sockets
        return count


class SlackHookRig(SlackRig):
    """The same by signed requests."""

    def __init__(self, lab: SlackLab, home: Path, url: str) -> None:
        super().__init__(lab, home, {"mode": "http", "signing_secret": lab.signing_secret, "app_token": ""})
        lab.set_hook(url)

    def cut(self) -> bool:
        return False

    def count_listeners(self) -> int | None:
        return None


@asynccontextmanager
async def open_hook_rig(home: Path) -> AsyncIterator[SlackHookRig]:
    path = "/hooks/slack/bot"
    door = HookDoor(path)
    async with SlackLab(pauses=(0.05, 0.3, 1.0)) as lab:
        rig = SlackHookRig(lab, home, f"{door.url}{path}")
        async with door.open(rig):
            yield rig
