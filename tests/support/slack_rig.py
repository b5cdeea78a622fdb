"""Slack for the suite that every platform passes: the adapter, and the lab's server as the other side of it."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from platform_suite import (
    BAD_MARKUP,
    BRIEF_PENALTY,
    CLOSED_AFTER,
    CLOSED_BEFORE,
    NOT_STORED,
    PENALTY,
    REFUSED,
    STORM,
    Rig,
)
from pretending import HeardCore

from gateway.platforms import platform_list
from gateway.platforms.face import Adapter, HookAnswer, HookRequest
from hermes_base.inbound import Address, Inbound
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
_PENALTIES = {PENALTY: 30.0, BRIEF_PENALTY: 2.0}


class SlackRig(Rig):
    def __init__(self, lab: SlackLab, home: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.lab = lab
        self.home = home
        self.person = lab.add_person("Ann")
        self.channel = lab.dm(self.person)
        self.settings = {
            "token": lab.token,
            "app_token": lab.app_token,
            "base_url": lab.base_url,
            **(settings or {}),
        }
        self.secrets = (lab.token, lab.app_token, lab.signing_secret)
        self.adapter = self.make_adapter(self.settings)
        self.address = Address("slack", "bot", self.channel)
        self.core = HeardCore()
        self._said = ""

    def make_adapter(self, settings: Mapping[str, Any]) -> Adapter:
        return platform_list.make_adapter(platform_list.find_spec("slack"), "bot", settings, self.home)

    async def connect(self) -> None:
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
        self.lab.send(self.person, name, data)
        return True

    async def edit_said(self, text: str) -> bool:
        self.lab.edit(self.person, self._said, text)
        return True

    async def press(self, label: str) -> bool:
        self.lab.press(self.person, self.lab.messages(self.channel)[-1]["ts"], label)
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
        else:
            self.lab.plan([replace(fault, chat=self.channel) for fault in _FAULTS[name]])
        return True

    def cut(self) -> bool:
        self.lab.cut()
        return True

    def misconfigured(self) -> Adapter:
        return self.make_adapter({**self.settings, "token": self.lab.token + "x"})

    def complaints(self) -> list[str]:
        return [complaint["kind"] for complaint in self.lab.complaints]

    def count_calls(self) -> int:
        return sum(call["method"] in (POST, UPDATE) for call in self.lab.calls(chat=self.channel))

    def count_listeners(self) -> int:
        return self.lab.sockets


class SlackHookRig(SlackRig):
    """The same by signed requests. In place of the gateway's door stands a listener that hands each request over."""

    def __init__(self, lab: SlackLab, home: Path, door: socket.socket) -> None:
        super().__init__(lab, home, {"mode": "http", "signing_secret": lab.signing_secret, "app_token": ""})
        self._path = "/hooks/slack/bot"
        lab.set_hook(f"http://127.0.0.1:{door.getsockname()[1]}{self._path}")

    def cut(self) -> bool:
        return False

    def count_listeners(self) -> None:  # type: ignore[override]
        return None

    async def answer(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request on one connection, as the lab makes them."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ")
            pairs = (line.partition(":") for line in head[1:] if line)
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            asked = HookRequest(method, "", headers, {}, body)
            given = await self.adapter.receive_hook(asked) if path == self._path else HookAnswer(404)
            told = given.body.encode()
            writer.write(f"HTTP/1.1 {given.status} x\r\nContent-Length: {len(told)}\r\n\r\n".encode() + told)
            await writer.drain()
        except (OSError, EOFError):
            pass  # the other side has left
        finally:
            writer.close()


@asynccontextmanager
async def open_hook_rig(home: Path) -> AsyncIterator[SlackHookRig]:
    door = socket.create_server(("127.0.0.1", 0))
    async with SlackLab(pauses=(0.05, 0.3, 1.0)) as lab:
        rig = SlackHookRig(lab, home, door)
        server = await asyncio.start_server(rig.answer, sock=door)
        try:
            yield rig
        finally:
            server.close()
            await server.wait_closed()
