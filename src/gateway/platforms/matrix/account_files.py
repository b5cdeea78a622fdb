"""What an account keeps in the home beside the store: its session, and how far it has listened. Only the owner of the
home may read it. Whoever is on the event loop calls these on a thread."""

import json
import os
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, TypeVar

from hermes_constants.ordinary_files import open_private

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class MatrixLogin:
    """A session on a homeserver. Transactions hold for its device, so it is kept as long as it lasts."""

    address: str
    user: str
    device: str
    token: str
    secret_mark: str  # of the password or token that it was made with; another one makes another session
    salt: str  # goes into the names of transactions


@dataclass(frozen=True, slots=True)
class ListenedTo:
    """How far an account has listened: all that came before `since` is stored, but for the gaps."""

    user: str
    since: str = ""
    invited: dict[str, list[str]] = field(default_factory=dict)  # by room: who invites, and their name
    told: list[str] = field(default_factory=list)  # encrypted rooms that know that we cannot read them
    unread: list[dict[str, Any]] = field(default_factory=list)  # encrypted events whose key is not here yet
    gaps: dict[str, list[str]] = field(default_factory=dict)  # by room: its own `since`, and messages known before it


class AccountFiles:
    def __init__(self, home: Path, account: str) -> None:
        self.folder = home / "platforms" / f"matrix-{account}"
        self._login = self.folder / "session.json"
        self._heard = self.folder / "listened.json"

    @property
    def keys(self) -> Path:
        """The folder for keys of encrypted rooms."""
        return self.folder / "keys"

    def make(self) -> None:
        self.keys.mkdir(mode=0o700, parents=True, exist_ok=True)

    def read_login(self) -> MatrixLogin | None:
        return _read(self._login, MatrixLogin)

    def keep_login(self, login: MatrixLogin) -> None:
        self.make()
        _write(self._login, asdict(login))

    def read_heard(self, user: str) -> ListenedTo:
        """From the beginning where it was another account, or nothing is kept."""
        found = _read(self._heard, ListenedTo)
        return found if found is not None and found.user == user else ListenedTo(user)

    def keep_heard(self, heard: ListenedTo) -> None:
        _write(self._heard, asdict(heard))


def _read(path: Path, form: type[T]) -> T | None:
    """What a file holds; None: there is none, or it is not what we wrote."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        known = {one.name for one in fields(form)}  # type: ignore[arg-type]
        return form(**{name: value for name, value in found.items() if name in known})
    except (OSError, ValueError, TypeError, AttributeError):
        return None


def _write(path: Path, values: dict[str, Any]) -> None:
    """A whole new file in the place of the old one."""
    new = path.with_name(f".{path.name}.new")
    new.unlink(missing_ok=True)
    with open(new, "x", encoding="utf-8", opener=open_private) as file:
        json.dump(values, file)
        file.flush()
        os.fsync(file.fileno())
    os.replace(new, path)
