"""Reads letters from one folder and writes answers into another. A letter leaves `in` only when it is stored."""

import asyncio
import contextlib
import logging
import re
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gateway.platforms.face import BaseAdapter, Core, Part, Refused
from gateway.platforms.letterbox import SPEC
from hermes_base.errors import DeliveryFailure
from hermes_base.inbound import Address, Inbound

LOOK_SECONDS = 0.5
QUIET_SECONDS = 1.0  # a letter is whole when nobody has written to it for so long
_log = logging.getLogger(__name__)


class LetterboxAdapter(BaseAdapter):
    spec = SPEC

    def __init__(self, account: str, settings: Mapping[str, Any], home: Path) -> None:
        super().__init__(account, settings, home)
        box = Path(settings.get("folder") or home / "letterbox")
        self._in, self._out = box / "in", box / "out"
        self._reading: asyncio.Task[None] | None = None

    async def connect(self, core: Core) -> None:
        for folder in (self._in, self._out):
            folder.mkdir(parents=True, exist_ok=True)
        self.last_seen = time.time()
        self._reading = asyncio.create_task(self._read(core))

    async def disconnect(self) -> None:
        reading, self._reading = self._reading, None
        if reading is not None:
            reading.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await reading

    async def send(self, part: Part) -> str:
        name = re.sub(r"\W", "-", part.key) or str(time.time_ns())
        path = self._out / f"{name}.txt"
        try:
            await asyncio.to_thread(path.write_text, f"To: {part.address.chat}\n\n{part.text}\n")
        except OSError as error:
            raise DeliveryFailure(f"The letter could not be written: {error}.") from error
        return path.name

    async def _read(self, core: Core) -> None:
        while True:
            self.last_seen = time.time()
            for path in await asyncio.to_thread(lambda: sorted(self._in.glob("*.txt"))):
                try:
                    text, written = await asyncio.to_thread(
                        lambda path=path: (path.read_text(), path.stat().st_mtime_ns)
                    )
                except (OSError, UnicodeDecodeError) as error:
                    _log.error("The letter %s could not be read: %s. It is put aside.", path, error)
                    await asyncio.to_thread(path.rename, path.with_suffix(".unread"))
                    continue
                try:
                    await self._take(core, path, text, written)
                except Exception:  # noqa: BLE001 - what the core could not store is tried again
                    _log.exception("The letter %s could not be stored. It stays where it is.", path)
            await asyncio.sleep(LOOK_SECONDS)

    async def _take(self, core: Core, path: Path, text: str, written: int) -> None:
        """`NAME.txt` is a letter of NAME; the time of the file makes the next one of the same name another."""
        if time.time_ns() - written < QUIET_SECONDS * 1e9:
            return  # it may still be written
        address = Address(self.spec.name, self.account, path.stem)
        taken = await core.take(Inbound(address, str(written), path.stem, text, mentioned=True))
        if isinstance(taken, Refused):
            if taken.closing:
                return  # the next start finds it
            await self.send(Part(address, taken.reason))
        await asyncio.to_thread(path.unlink)
