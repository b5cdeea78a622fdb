"""WhatsApp by the suite that every platform passes, with the lab's server as the other side."""

from contextlib import AbstractAsyncContextManager
from pathlib import Path

from platform_suite import PlatformSuite, Rig
from whatsapp_rig import open_whatsapp_rig


class TestWhatsApp(PlatformSuite):
    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        return open_whatsapp_rig(tmp_path)
