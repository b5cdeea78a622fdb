"""The local platform, by the suite that every platform passes."""

import asyncio
import uuid
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from platform_suite import CLOSED_AFTER, CLOSED_BEFORE, PlatformSuite, Rig
from pretending import HeardCore

from gateway.http.terminal.local_server import LocalServer
from gateway.platforms import platform_list
from gateway.platforms.face import Part
from gateway.platforms.hub import Posted
from gateway.platforms.local.adapter import LocalAdapter
from gateway.platforms.local.house import OpenedConversation, SeenMessage
from hermes_base import local_wire as wire
from hermes_base.chat import FileSent, Question, TurnEnded
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import SENDING, SENT, Address, FileRef, Inbound, OutboxRow
from hermes_cli.chat.local_client import Gone, LocalConnection, connect
from hermes_cli.chat.local_follow import Follower

KEY = "agent:main:local:dm:talk"


class ListeningHouse(HeardCore):
    """Answers as `LocalDoor` does: keeps what it hears, and has the rows that were sent."""

    version = "test"

    def __init__(self) -> None:
        super().__init__()
        self.rows: dict[int, OutboxRow] = {}

    async def open(self, hello: wire.Hello) -> OpenedConversation:
        return OpenedConversation(hello.conversation)

    async def question(self, conversation: str) -> Question | None:
        return None

    async def stop(self, conversation: str, by: str) -> tuple[bool, str]:
        return False, ""

    async def answer(self, question: str, text: str, by: str) -> bool:
        return False

    async def perform(self, name: str, args: Mapping[str, Any]) -> Mapping[str, Any]:
        return {}

    async def outbox_since(self, conversation: str, row: int, limit: int) -> Sequence[OutboxRow]:
        return [self.rows[id] for id in sorted(self.rows) if id > row][:limit]

    async def unseen_rows(self, address: Address) -> Sequence[OutboxRow]:
        return [row for row in self.rows.values() if row.state == SENDING]

    def confirm(self, address: Address, rows: Sequence[int]) -> None:
        self.rows |= {row: replace(self.rows[row], state=SENT) for row in rows}

    async def inbox_since(self, conversation: str, seq: int, limit: int) -> Sequence[tuple[int, Inbound]]:
        return []

    async def latest(self, conversation: str) -> tuple[int, int]:
        return max(self.rows, default=0), 0

    async def open_seqs(self, conversation: str) -> Sequence[int]:
        return []

    async def find(self, inbound: Inbound) -> SeenMessage | None:
        return None


class StoringAdapter(LocalAdapter):
    """Sends as delivery does for those who read the store: the row is put there, whoever looks is told, and one of them
    confirms it."""

    async def send(self, part: Part) -> str:
        assert isinstance(self.core, ListeningHouse)
        assert part.outgoing is not None
        self.core.rows[part.row] = OutboxRow(
            part.row, KEY, 0, 0, part.outgoing, SENDING, 1, 0, (), unsure=False, created=0.0
        )
        while self.core.rows[part.row].state == SENDING:
            if not self.hub.is_watched(part.address.chat):
                raise DeliveryFailure("Nobody looks.")
            self.hub.show(part.address.chat, Posted(late=True))
            await asyncio.sleep(0.01)
        return str(part.row)

    async def send_file(self, part: Part, file: FileRef) -> str:
        return await self.send(part)


class LocalRig(Rig):
    def __init__(self, home: Path) -> None:
        made = platform_list.make_adapter(platform_list.find_spec("local"), "local", {}, home)
        assert isinstance(made, LocalAdapter)
        self.adapter = StoringAdapter("local", {}, home)
        self.address = Address("local", "local", "talk")
        self.core = ListeningHouse()
        self.shown: list[str] = []
        self._trouble = ""
        self._name = uuid.uuid4().hex
        self._reading: asyncio.Task[None] | None = None
        self._said = ""
        self._count = 0

    async def connect(self) -> None:
        await self.adapter.connect(self.core)
        self._server = LocalServer(self.adapter)
        await self._server.open()
        self._stream = self._connect()
        self._follower = Follower(wire.Hello(self._name, KEY))
        await asyncio.to_thread(self._stream.follow, KEY, None)
        self._follower.take(await asyncio.to_thread(self._stream.read))  # type: ignore[arg-type]
        self._reading = asyncio.create_task(self._read())

    def _connect(self) -> LocalConnection:
        made = connect(self.adapter.home)
        assert made is not None
        return made

    async def disconnect(self) -> None:
        await self.adapter.disconnect()
        if self._reading is not None:
            await self._server.close()
            await self._reading
            self._stream.close()

    async def say(self, text: str) -> None:
        self._count += 1
        self._said = text
        await self.repeat()

    async def repeat(self) -> None:
        said = wire.Say(f"{self._name}-{self._count}", self._said)
        await self._post("/web/say", {**asdict(said), "conversation": KEY})

    async def _post(self, path: str, body: Mapping[str, Any]) -> None:
        await asyncio.to_thread(self._stream.post, path, body)

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        return self.shown

    def trouble(self, name: str) -> bool:
        self._trouble = name
        return name in (CLOSED_BEFORE, CLOSED_AFTER)

    async def _read(self) -> None:
        """A client as the terminal is one, until the adapter leaves or the trouble comes."""
        with suppress(Gone):
            while True:
                told = await asyncio.to_thread(self._stream.read)
                if isinstance(told, wire.Deliver) and self._trouble == CLOSED_BEFORE:
                    break
                taken = self._follower.take(told) if told is not None else None
                if taken is None:
                    continue
                self.shown += [event.answer for event in taken.events if isinstance(event, TurnEnded)]
                self.shown += [event.name for event in taken.events if isinstance(event, FileSent)]
                if isinstance(told, wire.Deliver) and self._trouble == CLOSED_AFTER:
                    break
                if taken.shown:
                    await self._post("/web/got", {"conversation": KEY, "rows": taken.shown})
        self._stream.close()


class TestLocal(PlatformSuite):
    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        @asynccontextmanager
        async def rig() -> AsyncIterator[Rig]:
            yield LocalRig(tmp_path)

        return rig()
