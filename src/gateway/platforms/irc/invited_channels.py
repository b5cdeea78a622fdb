"""The channels that people have asked us into, in a file of the account in the home: the settings do not name them, and
a restart must not leave them."""

import asyncio
import json
import logging
import os
from pathlib import Path

from gateway.platforms.irc.connection.irc_line import is_name
from hermes_constants.ordinary_files import open_private

_log = logging.getLogger(__name__)
MOST_CHANNELS = 100


class InvitedChannels:
    def __init__(self, home: Path, account: str) -> None:
        self._path = home / "platforms" / f"irc-{account}" / "invited.json"
        self._names: tuple[str, ...] = ()
        self._changed = asyncio.Event()

    def read(self) -> tuple[str, ...]:
        """Those that are kept; what we did not write is none. On a thread."""
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return ()
        names = found if isinstance(found, list) else []
        self._names = tuple(name for name in names if isinstance(name, str) and is_name(name))[:MOST_CHANNELS]
        return self._names

    def note(self, names: tuple[str, ...]) -> None:
        """They are these now; they are kept soon."""
        newest = names[-MOST_CHANNELS:]
        if newest != self._names:
            self._names = newest
            self._changed.set()

    async def keep_on(self) -> None:
        """Keep each change, for ever."""
        while True:
            await self._changed.wait()
            await self.keep_now()

    async def keep_now(self) -> None:
        if self._changed.is_set():
            self._changed.clear()
            await asyncio.to_thread(self._write, self._names)

    def _write(self, names: tuple[str, ...]) -> None:
        """A whole new file in the place of the old one."""
        new = self._path.with_name(f".{self._path.name}.new")
        try:
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            new.unlink(missing_ok=True)
            with open(new, "x", encoding="utf-8", opener=open_private) as file:
                json.dump(names, file)
            os.replace(new, self._path)
        except OSError as problem:
            _log.warning("The channels that we were invited to cannot be kept: %s", problem)
