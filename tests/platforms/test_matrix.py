"""Matrix by the suite that every platform passes, with a real Synapse as the other side."""

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

from matrix_peer import start_server
from matrix_proxy import MatrixProxy
from matrix_rig import MatrixRig
from platform_suite import PlatformSuite, Rig


class TestMatrix(PlatformSuite):
    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        @asynccontextmanager
        async def rig() -> AsyncIterator[Rig]:
            server = start_server()
            with MatrixProxy(server.address) as proxy:
                yield MatrixRig(server, proxy, tmp_path)

        return rig()
