"""IRC for the suite that every platform passes: the adapter, and a real network as the other side of it."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from irc_peer import BOT, PASSWORD, IrcPeer, IrcProxy
from platform_suite import (
    BAD_MARKUP,
    BRIEF_PENALTY,
    CLOSED_AFTER,
    CLOSED_BEFORE,
    NOT_STORED,
    PENALTY,
    REFUSED,
    Rig,
)
from pretending import HeardCore
from waiting import until

from gateway.platforms import platform_list
from gateway.platforms.face import Adapter
from hermes_base.inbound import Address, Inbound

#: What servers say that we have at hand only on wires of our own.
_ANSWERS: Mapping[str, str] = {
    PENALTY: ":irc.test 439 hermes {target} :Message target change too fast. Please wait 30 seconds and try again.",
    BRIEF_PENALTY: ":irc.test 439 hermes {target} :Message target change too fast. Please wait 2 seconds.",
    REFUSED: ":irc.test 417 hermes :Input line was too long",
    BAD_MARKUP: ":irc.test 404 hermes {target} :Can't send colors",
}


class IrcRig(Rig):
    sample = "one line, ünï 🙂"  # nobody can say two in one message
    secrets = (PASSWORD,)

    def __init__(self, peer: IrcPeer, proxy: IrcProxy, home: Path, settings: Mapping[str, Any] | None = None) -> None:
        self.peer = peer
        self.proxy = proxy
        self.home = home
        self.ann = peer.person("Ann", "ann")
        self.settings = {"server": f"127.0.0.1:{proxy.port}", "tls": False, "nick": BOT, "password": PASSWORD}
        self.settings |= {"line_seconds": 1.0}  # what the network here allows
        self.settings |= settings or {}
        self.adapter = self.make_adapter(self.settings)
        self.address = Address("irc", "irc", "ann")
        self.core = HeardCore()
        self._welcomes = 0  # so many connections were let in when the bot is there again

    def make_adapter(self, settings: Mapping[str, Any]) -> Adapter:
        return platform_list.make_adapter(platform_list.find_spec("irc"), "irc", settings, self.home)

    async def connect(self) -> None:
        await self.adapter.connect(self.core)

    async def restart(self) -> bool:
        await self.adapter.disconnect()
        self.adapter = self.make_adapter(self.settings)
        await self.connect()
        return await self.repeat_backwards(3)

    async def say(self, text: str) -> None:
        """As somebody does who looks whether the bot is there: to an empty chair nobody speaks."""
        await until(lambda: self.proxy.welcomed >= self._welcomes, 60)
        await self._say_as(self.ann, text)

    async def _say_as(self, person: Any, text: str) -> None:
        echoed = len(person.said(to=BOT, by=person.nick))
        person.send(f"PRIVMSG {BOT} :{text}")
        await until(lambda: len(person.said(to=BOT, by=person.nick)) > echoed)

    async def say_as_namesake(self, text: str) -> bool:
        self.ann.rename("Ann-was-here")
        await self._say_as(self.peer.person("Ann", "bob"), text)
        return True

    async def repeat(self) -> None:
        """No server does it; one that keeps a history might."""
        self.proxy.tell(self.proxy.heard[-1])

    async def repeat_backwards(self, count: int) -> bool:
        for line in reversed(self.proxy.heard[-count:]):
            self.proxy.tell(line)
        return True

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        return self.ann.said()

    def trouble(self, name: str) -> bool:
        if name in _ANSWERS:
            self.proxy.answers.append(_ANSWERS[name])
        elif name == NOT_STORED:
            self.core.failures = 1
        elif name in (CLOSED_BEFORE, CLOSED_AFTER):
            self.proxy.cut_before, self.proxy.cut_after = name == CLOSED_BEFORE, name == CLOSED_AFTER
            self._welcomes = self.proxy.welcomed + 1
        else:
            return False
        return True

    def cut(self) -> bool:
        self._welcomes = self.proxy.welcomed + 1
        self.proxy.cut()
        return True

    def misconfigured(self) -> Adapter:
        return self.make_adapter({**self.settings, "login": "nobody-here"})
