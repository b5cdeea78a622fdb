"""Telegram for the suite that every platform passes: the adapter, and the lab's server as the other side of it."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lab_rig import HookDoor, LabRig
from platform_suite import BAD_MARKUP, CLOSED_AFTER, CLOSED_BEFORE, REFUSED, STORM

from gateway.platforms.face import Adapter
from hermes_lab.chats import faults
from hermes_lab.chats.faults import ChatFault
from hermes_lab.chats.telegram.telegram_lab import TelegramLab

#: What a trouble is to the lab's server.
_FAULTS: Mapping[str, tuple[ChatFault, ...]] = {
    CLOSED_BEFORE: (ChatFault(faults.CUT_BEFORE, "send*"),),
    CLOSED_AFTER: (ChatFault(faults.CUT_AFTER, "send*"),),
    REFUSED: (ChatFault(faults.ERROR, "send*", status=400, text="Bad Request: nobody takes this"),),
    BAD_MARKUP: (
        ChatFault(
            faults.ERROR,
            "send*",
            status=400,
            text='Bad Request: can\'t parse entities: Unsupported start tag "x" at byte offset 0',
        ),
    ),
    STORM: (
        ChatFault(faults.TOO_MANY, "sendMessage", seconds=1.0),
        ChatFault(faults.TOO_MANY, "edit*", skip=1, seconds=1.0),
        ChatFault(faults.CUT_AFTER, "edit*", skip=1),
        ChatFault(faults.CUT_BEFORE, "edit*", skip=2),
        ChatFault(faults.PAGE, "edit*", skip=3),
        ChatFault(faults.TOO_MANY, "edit*", skip=4, seconds=1.0, whole_account=True),
    ),
}


class TelegramRig(LabRig):
    platform = "telegram"
    faults = _FAULTS

    def __init__(self, lab: TelegramLab, home: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.person = lab.add_person("Ann", "ann")
        given = {"token": lab.token, "base_url": lab.base_url, **(settings or {})}
        super().__init__(lab, home, self.person, given, (lab.token, lab.token.partition(":")[2]))
        self._said = 0

    async def restart(self) -> bool:
        await self.adapter.disconnect()
        self.lab.redeliver(3, same_ids=True)
        self.adapter = self.make_adapter(self.settings)
        await self.connect()
        return True

    async def say(self, text: str) -> None:
        self._said = self.lab.say(self.person, text)

    async def say_file(self, name: str, data: bytes) -> bool:
        self.lab.send(self.person, "document", data, name)
        return True

    async def edit_said(self, text: str) -> bool:
        self.lab.edit(self.person, self._said, text)
        return True

    async def press(self, label: str) -> bool:
        self.lab.press(self.person, self.lab.messages(self.person)[-1]["message_id"], label)
        return True

    def misconfigured(self) -> Adapter:
        number, _, secret = self.lab.token.partition(":")
        return self.make_adapter({**self.settings, "token": f"{int(number) + 1000}:{secret}"})

    def count_calls(self) -> int:
        calls = self.lab.calls(chat=self.person)
        return sum(call["method"].startswith(("send", "edit")) and call["method"] != "sendChatAction" for call in calls)

    def count_typing(self) -> int:
        return len(self.lab.actions(self.person))


class TelegramHookRig(TelegramRig):
    """The same by a webhook."""

    def __init__(self, lab: TelegramLab, home: Path, url: str) -> None:
        super().__init__(lab, home, {"mode": "webhook", "public_url": url})

    async def connect(self) -> None:
        self.lab.advance(2)  # a webhook is set at most once a second
        await super().connect()

    async def repeat(self) -> None:
        self.lab.redeliver(same_ids=True)

    async def repeat_backwards(self, count: int) -> bool:
        self.lab.redeliver(count, same_ids=True, backwards=True)
        return True

    def cut(self) -> bool:
        return False


@asynccontextmanager
async def open_hook_rig(home: Path) -> AsyncIterator[TelegramHookRig]:
    door = HookDoor("/hooks/telegram/bot")
    async with TelegramLab(hook_pause=0.05) as lab:
        rig = TelegramHookRig(lab, home, door.url)
        async with door.open(rig):
            yield rig
