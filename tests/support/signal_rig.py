"""Signal for the suite that every platform passes: the adapter, and the lab's daemon as the other side of it."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

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

from gateway.platforms import platform_list
from gateway.platforms.face import Adapter
from hermes_base.inbound import Address, Inbound
from hermes_lab.chats import faults
from hermes_lab.chats.faults import ChatFault
from hermes_lab.chats.signal.signal_lab import SignalLab

#: What a trouble is to the lab's daemon.
_FAULTS: Mapping[str, tuple[ChatFault, ...]] = {
    CLOSED_BEFORE: (ChatFault(faults.CUT_BEFORE, "send"),),
    CLOSED_AFTER: (ChatFault(faults.CUT_AFTER, "send"),),
    REFUSED: (ChatFault(faults.ERROR, "send", status=-1, text="nobody takes this"),),
    # An edit that is cut off ends the edits of its draft, which then stays above the answer: a test of its own.
    STORM: (
        ChatFault(faults.TOO_MANY, "send", seconds=1.0),
        ChatFault(faults.PAGE, "send", skip=1),
        ChatFault(faults.TOO_MANY, "send", skip=1, seconds=1.0, whole_account=True),
        ChatFault(faults.LATE, "send", skip=1, seconds=0.5),
    ),
}
_PENALTIES = {PENALTY: 30.0, BRIEF_PENALTY: 2.0}


class SignalRig(Rig):
    def __init__(self, lab: SignalLab, home: Path, settings: Mapping[str, Any]) -> None:
        self.lab = lab
        self.home = home
        self.person = lab.add_person("Ann")
        self.settings = settings
        self.adapter = self.make_adapter(settings)
        self.address = Address("signal", "bot", self.person)
        self.core = HeardCore()
        self._said = 0

    def make_adapter(self, settings: Mapping[str, Any]) -> Adapter:
        return platform_list.make_adapter(platform_list.find_spec("signal"), "bot", settings, self.home)

    async def connect(self) -> None:
        await self.adapter.connect(self.core)

    async def restart(self) -> bool:
        await self.adapter.disconnect()
        self.lab.redeliver(3)
        self.adapter = self.make_adapter(self.settings)
        await self.connect()
        return True

    async def say(self, text: str) -> None:
        self._said = self.lab.say(self.person, text)

    async def say_as_namesake(self, text: str) -> bool:
        self.lab.say(self.lab.add_person("Ann"), text)
        return True

    async def say_file(self, name: str, data: bytes) -> bool:
        self.lab.send(self.person, data, name)
        return True

    async def edit_said(self, text: str) -> bool:
        self.lab.edit(self.person, self._said, text)
        return True

    async def repeat(self) -> None:
        self.lab.redeliver()

    async def repeat_backwards(self, count: int) -> bool:
        self.lab.redeliver(count, backwards=True)
        return True

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        return self.lab.seen(self.person)

    def trouble(self, name: str) -> bool:
        if name in _PENALTIES:
            self.lab.punish(_PENALTIES[name], self.person)
        elif name == NOT_STORED:
            self.core.failures = 1
        elif name in _FAULTS:
            self.lab.plan([replace(fault, chat=self.person) for fault in _FAULTS[name]])
        else:
            return False
        return True

    def cut(self) -> bool:
        self.lab.cut()
        return True

    def misconfigured(self) -> Adapter:
        return self.make_adapter({**self.settings, "number": "+4915500000000"})

    def complaints(self) -> list[str]:
        return [complaint["kind"] for complaint in self.lab.complaints]

    def count_calls(self) -> int:
        return len(self.lab.calls("send", self.person))

    def count_listeners(self) -> int:
        return self.lab.under_way

    def count_typing(self) -> int:
        return self.lab.typing(self.person)


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder for a socket, whose whole path may have a hundred signs."""
    with tempfile.TemporaryDirectory(prefix="hs-") as folder:
        yield Path(folder)


def make_settings(lab: SignalLab, path: Path | None = None) -> dict[str, Any]:
    """By the UNIX socket at this path; without one by TCP."""
    return {"daemon": str(path) if path else f"127.0.0.1:{lab.tcp_port}", "number": lab.number}


@contextmanager
def open_signal_rig(home: Path, *, tcp: bool = False, **changes: Any) -> Iterator[SignalRig]:
    """`changes`: how the daemon is."""
    with short_folder() as folder:
        path = folder / "socket"
        with SignalLab(path) as lab:
            if changes:
                lab.set_up(**changes)
            yield SignalRig(lab, home, make_settings(lab, None if tcp else path))
