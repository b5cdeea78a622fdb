"""What a rig over a server of the lab does the same way for every app; and a door for services that make requests."""

import asyncio
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from platform_suite import BRIEF_PENALTY, NOT_STORED, PENALTY, Rig
from pretending import HeardCore

from gateway.platforms import platform_list
from gateway.platforms.face import Adapter, HookAnswer, HookRequest
from hermes_base.inbound import Address, Inbound
from hermes_lab.chats.faults import ChatFault

_PENALTIES = {PENALTY: 30.0, BRIEF_PENALTY: 2.0}


class LabRig(Rig):
    """Somebody writes to an account in `chat`, which the lab calls by this name."""

    platform: ClassVar[str]
    account: ClassVar[str] = "bot"
    faults: ClassVar[Mapping[str, Sequence[ChatFault]]]  # by trouble: what it is to the lab's server

    def __init__(self, lab: Any, home: Path, chat: Any, settings: Mapping[str, Any], secrets: Sequence[str]) -> None:
        self.lab = lab
        self.home = home
        self.chat = chat
        self.settings = settings
        self.secrets = tuple(secrets)
        self.adapter = self.make_adapter(settings)
        self.address = Address(self.platform, self.account, str(chat))
        self.core = HeardCore()

    def make_adapter(self, settings: Mapping[str, Any]) -> Adapter:
        return platform_list.make_adapter(platform_list.find_spec(self.platform), self.account, settings, self.home)

    async def connect(self) -> None:
        await self.adapter.connect(self.core)

    async def restart(self) -> bool:
        await self.adapter.disconnect()
        self.adapter = self.make_adapter(self.settings)
        await self.connect()
        self.lab.redeliver(3)
        return True

    async def repeat(self) -> None:
        self.lab.redeliver()

    async def repeat_backwards(self, count: int) -> bool:
        self.lab.redeliver(count, backwards=True)
        return True

    async def say_as_namesake(self, text: str) -> bool:
        self.lab.say(self.lab.add_person("Ann"), text)
        return True

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        seen: list[str] = self.lab.seen(self.chat)
        return seen

    def trouble(self, name: str) -> bool:
        if name in _PENALTIES:
            self.lab.punish(_PENALTIES[name], self.chat)
        elif name == NOT_STORED:
            self.core.failures = 1
        elif name in self.faults:
            self.lab.plan([replace(fault, chat=str(self.chat)) for fault in self.faults[name]])
        else:
            return False  # nothing of the kind can happen there
        return True

    def cut(self) -> bool:
        self.lab.cut()
        return True

    def complaints(self) -> list[str]:
        return [complaint["kind"] for complaint in self.lab.complaints]

    def count_listeners(self) -> int | None:
        count: int = self.lab.under_way
        return count


class HookDoor:
    """In place of the gateway's door stands a listener that hands each request over."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}"

    @asynccontextmanager
    async def open(self, rig: Rig) -> AsyncIterator[None]:
        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            await self._answer(rig, reader, writer)

        server = await asyncio.start_server(answer, sock=self._socket)
        try:
            yield
        finally:
            server.close()
            await server.wait_closed()

    async def _answer(self, rig: Rig, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One request on one connection, as the lab makes them."""
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
            method, path, _ = head[0].split(" ")
            pairs = (line.partition(":") for line in head[1:] if line)
            headers = {name.strip().lower(): value.strip() for name, _, value in pairs}
            body = await reader.readexactly(int(headers.get("content-length", "0")))
            asked = HookRequest(method, "", headers, {}, body)
            given = await rig.adapter.receive_hook(asked) if path == self._path else HookAnswer(404)
            told = given.body.encode()
            writer.write(f"HTTP/1.1 {given.status} x\r\nContent-Length: {len(told)}\r\n\r\n".encode() + told)
            await writer.drain()
        except (OSError, EOFError):
            pass  # the other side has left
        finally:
            writer.close()
