"""Telegram by the suite that every platform passes, with the lab's server as the other side."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from platform_suite import PlatformSuite, Rig
from telegram_rig import TelegramRig

from hermes_lab.chats.telegram.telegram_lab import TelegramLab


class TestTelegram(PlatformSuite):
    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        @asynccontextmanager
        async def rig() -> AsyncIterator[Rig]:
            async with TelegramLab() as lab:
                yield TelegramRig(lab, tmp_path)

        return rig()
