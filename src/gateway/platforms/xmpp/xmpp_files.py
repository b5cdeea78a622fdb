"""What an account keeps in the home beside the store: how far it has listened in each archive, the rooms that it was
invited to, and what makes its ids its own. Only the owner of the home may read it. Whoever is on the event loop calls
these on a thread."""

import json
import os
import secrets
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from hermes_constants.ordinary_files import open_private

Invitation = tuple[str, str, float]  # who invites, the password, and when


@dataclass(slots=True)
class XmppKept:
    jid: str
    salt: str = field(default_factory=lambda: secrets.token_hex(16))
    places: dict[str, list[Any]] = field(default_factory=dict)  # by archive: the last id that is settled, and its time
    rooms: dict[str, str] = field(default_factory=dict)  # joined by invitation: the password, or nothing
    tried: dict[str, list[str]] = field(default_factory=dict)  # by room without an archive: what we said there last
    occupants: dict[str, dict[str, str]] = field(default_factory=dict)  # by room, and the id it gave somebody: who
    invited: dict[str, Invitation] = field(default_factory=dict)  # by room


class XmppFiles:
    def __init__(self, home: Path, account: str) -> None:
        self._folder = home / "platforms" / f"xmpp-{account}"
        self._path = self._folder / "listened.json"

    def read(self, jid: str) -> XmppKept:
        """From the beginning where it was another account, or nothing is kept."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            known = {one.name for one in fields(XmppKept)}
            found["invited"] = _read_invitations(found.get("invited"))
            kept = XmppKept(**{name: value for name, value in found.items() if name in known})
            if kept.jid == jid and _is_whole(kept):
                return kept
        except (OSError, ValueError, TypeError, AttributeError):
            pass
        return XmppKept(jid)

    def write(self, kept: dict[str, Any]) -> None:
        """A whole new file in the place of the old one."""
        text = json.dumps(kept)
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        new = self._path.with_name(f".{self._path.name}.new")
        new.unlink(missing_ok=True)
        with open(new, "x", encoding="utf-8", opener=open_private) as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(new, self._path)


def copy_kept(kept: XmppKept) -> dict[str, Any]:
    """As it is now: it goes on changing while it is written."""
    return asdict(kept)


def _read_invitations(value: Any) -> dict[str, Invitation]:
    """Those that are whole."""
    items = value.items() if isinstance(value, dict) else ()
    every = {room: one for room, one in items if isinstance(one, list) and len(one) == 3}
    return {room: (str(person), str(password), float(at)) for room, (person, password, at) in every.items()}


def _is_whole(kept: XmppKept) -> bool:
    every = (kept.places, kept.rooms, kept.invited, kept.tried, kept.occupants, *kept.occupants.values())
    return all(isinstance(one, dict) for one in every) and all(
        isinstance(place, list) and len(place) == 2 and isinstance(place[1], int | float)
        for place in kept.places.values()
    )
