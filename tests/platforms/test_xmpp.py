"""XMPP by the suite that every platform passes, with a real Prosody as the other side."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from platform_suite import PlatformSuite, Rig
from xmpp_peer import XmppProxy, start_server
from xmpp_rig import XmppRig


class TestXmpp(PlatformSuite):
    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        @asynccontextmanager
        async def rig() -> AsyncIterator[Rig]:
            server = start_server()
            with XmppProxy(server.port) as proxy:
                yield XmppRig(server, proxy, tmp_path)

        return rig()
