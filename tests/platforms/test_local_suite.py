"""The local platform, with and without keys, by the suite that every platform passes."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

from platform_suite import CLOSED_AFTER, CLOSED_BEFORE, PlatformSuite, Rig
from pretending import HeardCore

from gateway.platforms import platform_list
from gateway.platforms.local.adapter import LocalAdapter
from gateway.platforms.local.house import OpenedConversation, SeenMessage, StoredRow
from hermes_base import local_wire as wire
from hermes_base.chat import FileSent, TurnEnded
from hermes_base.inbound import Address, Inbound
from hermes_cli.chat.local_follow import Follower

KEY = "agent:main:local:dm:talk"


class ListeningHouse(HeardCore):
    """Implements `LocalHouse`: keeps what it hears, and has nothing to say."""

    version = "test"

    async def open(self, hello: wire.Hello) -> OpenedConversation:
        return OpenedConversation(hello.conversation)

    async def stop(self, conversation: str, by: str) -> tuple[bool, str]:
        return False, ""

    async def answer(self, question: str, text: str, by: str) -> bool:
        return False

    async def perform(self, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    async def outbox_since(self, conversation: str, row: int) -> Sequence[StoredRow]:
        return []

    async def inbox_since(self, conversation: str, seq: int) -> Sequence[tuple[int, Inbound]]:
        return []

    async def latest(self, conversation: str) -> tuple[int, int]:
        return 0, 0

    async def open_seqs(self, conversation: str) -> Sequence[int]:
        return []

    async def find(self, inbound: Inbound) -> SeenMessage | None:
        return None


class LocalRig(Rig):
    def __init__(self, home: Path, settings: Mapping[str, Any]) -> None:
        adapter = platform_list.make_adapter(platform_list.find_spec("local"), "local", settings, home)
        assert isinstance(adapter, LocalAdapter)
        self.adapter = adapter
        self.address = Address("local", "local", "talk")
        self.core = ListeningHouse()
        self.shown: list[str] = []
        self._trouble = ""
        self._reading: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        await self.adapter.connect(self.core)
        reader, self._writer = await asyncio.open_unix_connection(str(self.adapter.path), limit=wire.MAX_LINE)
        self._follower = Follower(wire.Hello(uuid.uuid4().hex, conversation=KEY))
        self._send(self._follower.hello())
        welcomed = asyncio.Event()
        self._reading = asyncio.create_task(self._read(reader, welcomed))
        await welcomed.wait()

    async def disconnect(self) -> None:
        await self.adapter.disconnect()
        if self._reading is not None:
            await self._reading
            self._writer.close()

    async def say(self, text: str) -> None:
        self._said = self._follower.say(text)
        self._send(self._said)

    async def repeat(self) -> None:
        self._send(self._said)

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        return self.shown

    def trouble(self, name: str) -> bool:
        self._trouble = name
        return name in (CLOSED_BEFORE, CLOSED_AFTER)

    def _send(self, message: wire.FromClient) -> None:
        self._writer.write(wire.encode(message))

    async def _read(self, reader: asyncio.StreamReader, welcomed: asyncio.Event) -> None:
        """A client as the terminal is one, until the adapter leaves or the trouble comes."""
        async for line in reader:
            message = wire.decode_from_gateway(line)
            if isinstance(message, wire.Deliver) and self._trouble == CLOSED_BEFORE:
                break
            taken = self._follower.take(message)
            welcomed.set()
            self.shown += [event.answer for event in taken.events if isinstance(event, TurnEnded)]
            self.shown += [event.name for event in taken.events if isinstance(event, FileSent)]
            if isinstance(message, wire.Deliver) and self._trouble == CLOSED_AFTER:
                break
            for reply in taken.replies:
                self._send(reply)
        self._writer.close()


class Shape(PlatformSuite):
    settings: Mapping[str, Any] = {}

    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        @asynccontextmanager
        async def rig() -> AsyncIterator[Rig]:
            yield LocalRig(tmp_path, self.settings)

        return rig()


class TestKeyed(Shape):
    pass


class TestPlain(Shape):
    settings = {"idempotent": False}
