"""XMPP for the suite that every platform passes: the adapter, a wire, and a real Prosody behind it."""

import asyncio
import functools
import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from platform_suite import CLOSED_AFTER, CLOSED_BEFORE, NOT_STORED, PENALTY, REFUSED, STORM, Rig
from pretending import HeardCore
from waiting import until
from xmpp_peer import CUT_AFTER, CUT_BEFORE, PASSWORD, XmppPerson, XmppProxy, XmppServer

from gateway.platforms import platform_list
from gateway.platforms.face import Adapter
from hermes_base.inbound import Address, Inbound

_PLANS: Mapping[str, list[str]] = {
    CLOSED_BEFORE: [CUT_BEFORE],
    CLOSED_AFTER: [CUT_AFTER],
    STORM: ["", CUT_AFTER, "", CUT_BEFORE, CUT_AFTER],
}
_REFUSALS = {REFUSED: ("modify", "policy-violation"), PENALTY: ("wait", "policy-violation")}


class XmppRig(Rig):
    secrets = (PASSWORD,)

    def __init__(
        self, server: XmppServer, proxy: XmppProxy, home: Path, settings: Mapping[str, Any] | None = None
    ) -> None:
        self.server, self.proxy, self.home = server, proxy, home
        self.bot = server.add_account("hermes")
        self.person = find_ann(server)
        self.settings: dict[str, Any] = {
            "jid": self.bot,
            "password": PASSWORD,
            "server": f"127.0.0.1:{proxy.port}",
            "tls": False,
            **(settings or {}),
        }
        self.adapter = self.make_adapter(self.settings)
        self.address = Address("xmpp", "bot", self.person.jid)
        self.core = HeardCore()
        self._said, self._place = "", {}  # type: ignore[var-annotated]
        self._file = home / "platforms" / "xmpp-bot" / "listened.json"

    def make_adapter(self, settings: Mapping[str, Any]) -> Adapter:
        return platform_list.make_adapter(platform_list.find_spec("xmpp"), "bot", settings, self.home)

    async def connect(self) -> None:
        await self.adapter.connect(self.core)
        self.adapter.spec = replace(self.adapter.spec, edit_seconds=0.5)  # a test does not wait for what it can spare
        await until(self._file.exists)

    async def restart(self) -> bool:
        await self._go_back()
        return True

    async def _go_back(self) -> None:
        """The adapter listens once more from before the last message, as if it had died before it kept its place."""
        await self.adapter.disconnect()
        kept = json.loads(self._file.read_text())
        self._file.write_text(json.dumps({**kept, "places": self._place}))
        self.adapter = self.make_adapter(self.settings)
        await self.connect()

    async def say(self, text: str) -> None:
        if self._file.exists():
            await self._settle()
            self._place = json.loads(self._file.read_text())["places"]
        self._said = await asyncio.to_thread(self.person.say, self.bot, text)

    async def _settle(self) -> None:
        """What was said before has been kept by now, if anybody listens."""
        if self.proxy.count_open() and self.core.taken and not self.core.failures:
            # Only the newest one has its place in the file, and which that is may change while one waits.
            await until(lambda: self.core.taken[-1].message in self._file.read_text() or not self.proxy.count_open())

    async def say_as_namesake(self, text: str) -> bool:
        return False  # the name is the address

    async def say_file(self, name: str, data: bytes) -> bool:
        await asyncio.to_thread(self.person.send_file, self.bot, name, data)
        return True

    async def edit_said(self, text: str) -> bool:
        await asyncio.to_thread(self.person.correct, self.bot, self._said, text)
        return True

    async def repeat(self) -> None:
        await self._go_back()

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        return self.person.texts(self.bot)

    def trouble(self, name: str) -> bool:
        if name == NOT_STORED:
            self.core.failures = 1
        elif name in _REFUSALS:
            self.person.refuse_next(self.bot, *_REFUSALS[name])
        elif name in _PLANS:
            self.proxy.plan = [*_PLANS[name]]
        else:
            return False
        return True

    def cut(self) -> bool:
        self.proxy.cut()
        return True

    def misconfigured(self) -> Adapter:
        wrong = {**self.settings, "password": "another-secret"}
        return platform_list.make_adapter(platform_list.find_spec("xmpp"), "wrong", wrong, self.home)

    def count_calls(self) -> int:
        return len(self.proxy.sent)

    def count_listeners(self) -> int:
        return self.proxy.count_open()


@functools.cache
def find_ann(server: XmppServer) -> XmppPerson:
    """The same person for all rigs: only accounts of ours are made anew."""
    return server.add_person("ann")
