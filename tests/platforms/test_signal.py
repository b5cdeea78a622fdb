"""Signal by the suite that every platform passes, with the lab's daemon as the other side: by its UNIX socket, and by
TCP with a daemon that has one account, writes in small pieces and answers in any order."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from platform_suite import PlatformSuite, Rig
from signal_rig import open_signal_rig


class TestSignal(PlatformSuite):
    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        @asynccontextmanager
        async def rig() -> AsyncIterator[Rig]:
            with open_signal_rig(tmp_path) as made:
                yield made

        return rig()


class TestSignalOverTcp(PlatformSuite):
    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        @asynccontextmanager
        async def rig() -> AsyncIterator[Rig]:
            with open_signal_rig(tmp_path, tcp=True, several=False, step=11, late=0.02) as made:
                yield made

        return rig()
