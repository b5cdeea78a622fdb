"""IRC by the suite that every platform passes, with InspIRCd and Atheme as the other side."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from irc_peer import IrcProxy, shared_peer
from irc_rig import IrcRig
from platform_suite import PlatformSuite, Rig


class TestIrc(PlatformSuite):
    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        @asynccontextmanager
        async def open_rig() -> AsyncIterator[Rig]:
            peer = shared_peer()
            with IrcProxy(peer.port) as proxy:
                rig = IrcRig(peer, proxy, tmp_path)
                yield rig
                await rig.adapter.disconnect()
                peer.wait_bot_gone(rig.ann)

        return open_rig()
