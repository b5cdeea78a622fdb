"""What the settings of an account say, checked. Pure."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeGuard

from hermes_base.errors import ConfigProblem
from hermes_constants.ordinary_files import expand_home

SETUP = "Run `hermes setup signal`."
MOST_PATH = 107  # bytes; the kernel takes no more
_NUMBER = re.compile(r"\+[0-9]{5,15}")
_ID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_PLACE = re.compile(r"(?:\[([0-9A-Fa-f:.]+)\]|([^\s/:\[\]]+)):([0-9]{1,5})")
_MACHINE = re.compile(r"localhost|127(?:\.[0-9]{1,3}){3}|::1")


@dataclass(frozen=True, slots=True)
class SignalSettings:
    number: str  # of our own account; or its id
    path: str = ""  # of the daemon's socket
    host: str = ""
    port: int = 0

    @property
    def place(self) -> str:
        return self.path or (f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}")

    @property
    def is_near(self) -> bool:
        """Whether what is said to the daemon stays on this machine."""
        return bool(self.path or _MACHINE.fullmatch(self.host))


def is_account_id(text: object) -> TypeGuard[str]:
    """Whether this names somebody for ever (G2): a number may be somebody else's next year."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def is_account(text: str) -> bool:
    """Whether this can name an account of a daemon."""
    return is_account_id(text) or _NUMBER.fullmatch(text) is not None


def read_settings(settings: Mapping[str, Any]) -> SignalSettings:
    """The settings; ConfigProblem for what will not do."""
    given = settings.get("number") or ""
    number = f"+{given}" if isinstance(given, int) else str(given).strip()  # YAML takes a number for one
    if not number:
        raise ConfigProblem("Signal has no number.", fix=SETUP)
    if not is_account(number):
        raise ConfigProblem(
            f"platforms.signal.number is '{number}'.",
            fix='Write it with the country\'s code and in quotes: "+4915112345678".',
        )
    place = str(settings.get("daemon") or "").strip()
    if place.startswith(("/", "~")):
        path = expand_home(place)
        if len(path.encode()) > MOST_PATH:
            raise ConfigProblem(
                f"The path of the daemon's socket has more than {MOST_PATH} bytes, which no socket can have.",
                fix="Let the daemon listen in a folder with a shorter path.",
            )
        return SignalSettings(number, path=path)
    found = _PLACE.fullmatch(place)
    if not found or not 0 < int(found[3]) < 65536:
        raise ConfigProblem(
            f"platforms.signal.daemon is '{place}'." if place else "Signal has no daemon.",
            fix=f"It is the path of the socket of signal-cli's daemon, or its host:port. {SETUP}",
        )
    return SignalSettings(number, host=found[1] or found[2], port=int(found[3]))
