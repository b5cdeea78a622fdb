"""The adapter around a plugin's, by the suite that every platform passes."""

import base64
import shutil
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from platform_suite import BRIEF_PENALTY, CLOSED_BEFORE, PENALTY, REFUSED, PlatformSuite, Rig
from pretending import HeardCore
from script_loading import load_file
from waiting import until

from gateway.platforms import platform_list
from gateway.platforms.face import Adapter
from gateway.platforms.plugin_bridge import bridge_adapter, send_results
from hermes_base.inbound import Address, Inbound
from hermes_cli import plugins
from hermes_cli.config import lent_env

EXAMPLE = Path(__file__).parents[2] / "examples" / "plugins" / "chatroom"


@pytest.fixture(autouse=True)
def _installed(home: Path, configure: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    shutil.copytree(EXAMPLE, home / "plugins" / "chatroom", ignore=shutil.ignore_patterns("__pycache__"))
    configure(plugins={"enabled": ["chatroom"]})
    plugins.discover_plugins()
    monkeypatch.setattr(bridge_adapter, "FIRST_PAUSE", 0.05)
    monkeypatch.setattr(bridge_adapter, "PULSE_SECONDS", 0.2)
    monkeypatch.setattr(send_results, "PATIENCE", 0.1)
    yield
    lent_env.lend({})


class ChatroomRig(Rig):
    def __init__(self, home: Path) -> None:
        self.server = load_file(EXAMPLE / "server.py").ChatServer()
        self.home = home
        self.adapter = self.make()
        self.address = Address("chatroom", "chatroom", "ann")
        self.core = HeardCore()
        self._said: list[tuple[str, dict[str, Any]]] = []

    def make(self) -> Adapter:
        given = {"address": self.server.address}
        return platform_list.make_adapter(platform_list.find_spec("chatroom"), "chatroom", given, self.home)

    async def connect(self) -> None:
        await self.adapter.connect(self.core)

    async def say(self, text: str, **more: Any) -> None:
        user, name = str(more.pop("user", "ann")), "Ann"
        told = {"user": user, "text": text, "chat": "ann" if user == "ann" else user, "name": name, **more}
        id = self.server.say(**told)
        self._said.append((id, told))
        await until(lambda: id in self.server.confirmed)

    async def repeat(self) -> None:
        await self._bring(*self._said[-1])

    async def repeat_backwards(self, count: int) -> bool:
        for id, told in reversed(self._said[-count:]):
            await self._bring(id, told)
        return True

    async def _bring(self, id: str, told: dict[str, Any]) -> None:
        before = self.server.confirmed.count(id)
        self.server.say(**told, id=id)
        await until(lambda: self.server.confirmed.count(id) > before)

    async def restart(self) -> bool:
        await self.adapter.disconnect()
        self.adapter = self.make()
        await self.connect()
        for id, told in self._said[-3:]:
            await self._bring(id, told)
        return True

    async def say_as_namesake(self, text: str) -> bool:
        await self.say(text, user="another-ann")
        return True

    async def say_file(self, name: str, data: bytes) -> bool:
        kind = "image/png" if name.endswith(".png") else "application/octet-stream"
        await self.say("", files=[{"name": name, "type": kind, "data": base64.b64encode(data).decode()}])
        return True

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        shown = [one for one in self.server.messages if one["chat"] == "ann"]
        return [one["name"] if one["op"] == "file" else one["text"] for one in shown]

    def count_calls(self) -> int:
        return sum(1 + len(one["edits"]) for one in self.server.messages)

    def count_typing(self) -> int | None:
        return int(self.server.typing)

    def trouble(self, name: str) -> bool:
        words = {REFUSED: "not in this room", PENALTY: "busy", BRIEF_PENALTY: "busy", CLOSED_BEFORE: ""}
        if name not in words:
            return False
        left = iter([words[name]])

        def refuse(order: dict[str, Any]) -> str | None:
            why = next(left, None) if order["op"] in ("send", "edit", "file") else None
            if why == "":
                raise ConnectionAbortedError("the line is cut")
            return why

        self.server.refuse = refuse
        return True


@asynccontextmanager
async def open_rig(home: Path) -> AsyncIterator[ChatroomRig]:
    rig = ChatroomRig(home)
    try:
        yield rig
    finally:
        await rig.disconnect()
        rig.server.close()


class TestChatroom(PlatformSuite):
    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        return open_rig(tmp_path)
