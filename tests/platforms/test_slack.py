"""Slack by the suite that every platform passes, with the lab's server as the other side."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from platform_suite import PlatformSuite, Rig
from slack_rig import SlackRig

from hermes_lab.chats.slack.slack_lab import SlackLab


class TestSlack(PlatformSuite):
    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        @asynccontextmanager
        async def rig() -> AsyncIterator[Rig]:
            async with SlackLab(pauses=(0.0, 1.0, 30.0)) as lab:
                yield SlackRig(lab, tmp_path)

        return rig()
