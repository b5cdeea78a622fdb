"""Discord by the suite that every platform passes, with the lab's server as the other side."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from discord_rig import DiscordRig
from platform_suite import PlatformSuite, Rig

from hermes_lab.chats.discord.discord_lab import DiscordLab


class TestDiscord(PlatformSuite):
    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        @asynccontextmanager
        async def rig() -> AsyncIterator[Rig]:
            async with DiscordLab() as lab:
                yield DiscordRig(lab, tmp_path)

        return rig()
