"""Matrix for the suite that every platform passes: the adapter, a proxy, and a real Synapse behind it."""

import asyncio
import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from matrix_peer import PASSWORD, MatrixPerson, MatrixServer
from matrix_proxy import ANSWER, CUT_AFTER, CUT_BEFORE, LIMITED, SEND, TYPING, MatrixProxy, ProxyFault
from platform_suite import (
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
from waiting import until

from gateway.platforms import platform_list
from gateway.platforms.face import Adapter
from gateway.platforms.matrix.wire import name_direct
from hermes_base.inbound import Address, Inbound


def _limit(seconds: float, **more: Any) -> ProxyFault:
    return ProxyFault(ANSWER, status=429, body={**LIMITED, "retry_after_ms": int(seconds * 1000)}, **more)


#: What a trouble is to the proxy.
_FAULTS: Mapping[str, tuple[ProxyFault, ...]] = {
    CLOSED_BEFORE: (ProxyFault(CUT_BEFORE),),
    CLOSED_AFTER: (ProxyFault(CUT_AFTER),),
    REFUSED: (ProxyFault(ANSWER, status=400, body={"errcode": "M_UNKNOWN", "error": "Nobody takes this."}),),
    PENALTY: (_limit(30.0),),
    BRIEF_PENALTY: (_limit(2.0),),
    STORM: (
        _limit(1.0),
        ProxyFault(CUT_AFTER, skip=1),
        ProxyFault(CUT_BEFORE, skip=2),
        ProxyFault(ANSWER, skip=3, status=502, body="<html>bad gateway</html>"),
        _limit(1.0, skip=4),
    ),
}


class MatrixRig(Rig):
    def __init__(self, server: MatrixServer, proxy: MatrixProxy, home: Path) -> None:
        self.server, self.proxy, self.home = server, proxy, home
        self.bot = server.add_person()
        self.person = find_ann(server)
        self.settings = {"homeserver": proxy.address, "user": self.bot.id, "password": PASSWORD}
        self.secrets: tuple[str, ...] = (PASSWORD,)
        self.adapter = self.make_adapter(self.settings)
        self.room = self.person.make_room(self.bot.id)
        self.bot.join(self.room)
        self.address = Address("matrix", "bot", name_direct(self.room, self.person.id))
        self.core = HeardCore()
        self._said, self._before = "", ""
        self._files = home / "platforms" / "matrix-bot"

    def make_adapter(self, settings: Mapping[str, Any]) -> Adapter:
        return platform_list.make_adapter(platform_list.find_spec("matrix"), "bot", settings, self.home)

    async def connect(self) -> None:
        await self.adapter.connect(self.core)
        self.adapter.spec = replace(self.adapter.spec, edit_seconds=0.5)  # a test does not wait for what it can spare
        token = json.loads((self._files / "session.json").read_text())["token"]
        self.secrets = (PASSWORD, token)
        await until((self._files / "listened.json").exists)

    async def restart(self) -> bool:
        await self._go_back()
        return True

    async def _go_back(self) -> None:
        """The adapter listens once more from before the last message, as if it had died before it kept its place."""
        await self.adapter.disconnect()
        path = self._files / "listened.json"
        path.write_text(json.dumps({**json.loads(path.read_text()), "since": self._before}))
        self.adapter = self.make_adapter(self.settings)
        await self.connect()

    async def say(self, text: str) -> None:
        self._before = (await asyncio.to_thread(self.bot.sync))["next_batch"]
        self._said = await asyncio.to_thread(self.person.say, self.room, text)

    async def say_as_namesake(self, text: str) -> bool:
        other = self.server.add_person("Ann")
        self.person.invite(self.room, other.id)
        other.join(self.room)
        other.say(self.room, text)
        return True

    async def say_file(self, name: str, data: bytes) -> bool:
        self.person.send_file(self.room, name, data)
        return True

    async def edit_said(self, text: str) -> bool:
        self.person.edit(self.room, self._said, text)
        return True

    async def repeat(self) -> None:
        await self._go_back()

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        shown = await asyncio.to_thread(self.person.messages, self.room, self.bot.id)
        return [one["file"] or one["text"] for one in shown]

    def trouble(self, name: str) -> bool:
        if name == NOT_STORED:
            self.core.failures = 1
            return True
        self.proxy.plan([replace(fault) for fault in _FAULTS.get(name, ())])
        return name in _FAULTS

    def cut(self) -> bool:
        self.proxy.cut()
        return True

    def misconfigured(self) -> Adapter:
        wrong = {**self.settings, "password": f"{PASSWORD} and more"}
        return platform_list.make_adapter(platform_list.find_spec("matrix"), "wrong", wrong, self.home)

    def count_calls(self) -> int:
        return len(self.proxy.calls(SEND))

    def count_listeners(self) -> int:
        return self.proxy.count_under_way()

    def count_typing(self) -> int:
        return len(self.proxy.calls(TYPING))


@functools.cache
def find_ann(server: MatrixServer) -> MatrixPerson:
    """The same person for all rigs: only rooms and accounts of ours are made anew."""
    return server.add_person("Ann")
