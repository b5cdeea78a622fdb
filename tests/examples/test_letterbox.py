"""The example of a platform, by the suite that every platform passes."""

import asyncio
import itertools
import os
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import pytest
from platform_suite import NOT_STORED, PlatformSuite, Rig
from pretending import HeardCore
from waiting import until

from gateway import platforms
from gateway.platforms import platform_list
from hermes_base.inbound import Address, Inbound

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.fixture(autouse=True)
def _found(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Its folder stands among the platforms."""
    monkeypatch.setattr(platforms, "__path__", [*platforms.__path__, str(EXAMPLES / "platforms")])
    yield
    platform_list._known.pop("letterbox", None)


class LetterboxRig(Rig):
    def __init__(self, home: Path) -> None:
        self.adapter = platform_list.make_adapter(platform_list.find_spec("letterbox"), "letterbox", {}, home)
        self.address = Address("letterbox", "letterbox", "ann")
        self.core = HeardCore()
        self.box = home / "letterbox"
        self._times = itertools.count(int(time.time()) - 1000)

    async def connect(self) -> None:
        await self.adapter.connect(self.core)

    async def say(self, text: str) -> None:
        self._last = text, next(self._times)
        await self.repeat()

    async def repeat(self) -> None:
        await until(lambda: not self._letter.exists())  # the one before was taken
        text, written = self._last
        draft = self.box / "draft"
        draft.write_text(text)
        os.utime(draft, (written, written))
        draft.rename(self._letter)

    def trouble(self, name: str) -> bool:
        self.core.failures = int(name == NOT_STORED)
        return name == NOT_STORED

    @property
    def _letter(self) -> Path:
        return self.box / "in" / "ann.txt"

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        letters = sorted((self.box / "out").iterdir(), key=lambda path: path.stat().st_mtime_ns)
        return [path.read_text().partition("\n\n")[2].removesuffix("\n") for path in letters]


@asynccontextmanager
async def open_rig(home: Path) -> AsyncIterator[LetterboxRig]:
    rig = LetterboxRig(home)
    try:
        yield rig
    finally:
        await rig.disconnect()


class TestLetterbox(PlatformSuite):
    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        return open_rig(tmp_path)


def test_a_letter_that_cannot_be_read_is_put_aside_and_one_that_is_written_is_waited_for(tmp_path: Path) -> None:
    async def steps() -> None:
        async with open_rig(tmp_path) as rig:
            await rig.connect()
            (rig.box / "in" / "bad.txt").write_bytes(b"\xff\xfe\xff")
            young = rig.box / "in" / "young.txt"
            young.write_text("")
            os.utime(young, (time.time() + 60, time.time() + 60))  # somebody writes to it all the time
            await until(lambda: (rig.box / "in" / "bad.unread").exists())
            await rig.say("hello")
            await until(lambda: [each.text for each in rig.heard()] == ["hello"])
            assert young.exists()

    asyncio.run(steps())
