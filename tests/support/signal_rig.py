"""Signal for the suite that every platform passes: the adapter, and the lab's daemon as the other side of it."""

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab_rig import LabRig
from platform_suite import CLOSED_AFTER, CLOSED_BEFORE, REFUSED, STORM

from gateway.platforms.face import Adapter
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


class SignalRig(LabRig):
    platform = "signal"
    faults = _FAULTS

    def __init__(self, lab: SignalLab, home: Path, settings: Mapping[str, Any]) -> None:
        self.person = lab.add_person("Ann")
        super().__init__(lab, home, self.person, settings, ())
        self._said = 0

    async def say(self, text: str) -> None:
        self._said = self.lab.say(self.person, text)

    async def say_file(self, name: str, data: bytes) -> bool:
        self.lab.send(self.person, data, name)
        return True

    async def edit_said(self, text: str) -> bool:
        self.lab.edit(self.person, self._said, text)
        return True

    def misconfigured(self) -> Adapter:
        return self.make_adapter({**self.settings, "number": "+4915500000000"})

    def count_calls(self) -> int:
        return len(self.lab.calls("send", self.person))

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
