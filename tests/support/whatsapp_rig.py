"""WhatsApp for the suite that every platform passes: the adapter, and the lab's server as the other side of it. Its
requests come through a real web server with nothing but the hooks."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from lab_rig import LabRig
from platform_suite import CLOSED_AFTER, CLOSED_BEFORE, REFUSED
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config

from gateway.http.hook_routes import HookRoutes
from gateway.http.server import QuietServer, bind
from gateway.platforms.face import Adapter
from hermes_lab.chats import faults
from hermes_lab.chats.faults import ChatFault
from hermes_lab.chats.whatsapp.whatsapp_lab import WhatsAppLab

VERIFY = "a-word-of-our-own"
#: What a trouble is to the lab's server.
_FAULTS: Mapping[str, tuple[ChatFault, ...]] = {
    CLOSED_BEFORE: (ChatFault(faults.CUT_BEFORE, "send"),),
    CLOSED_AFTER: (ChatFault(faults.CUT_AFTER, "send"),),
    REFUSED: (ChatFault(faults.ERROR, "send", status=400, text="nobody takes this"),),
}


class WhatsAppRig(LabRig):
    platform = "whatsapp"
    account = "number"
    faults = _FAULTS

    def __init__(self, lab: WhatsAppLab, home: Path) -> None:
        self.person = lab.add_person("Ann")
        self.url = ""
        self._adapters: list[Adapter] = []
        self._routes = HookRoutes(self._adapters)  # one for all requests, or nothing would bound them
        super().__init__(lab, home, self.person, make_settings(lab), (lab.token, lab.app_secret, VERIFY))

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        self._adapters[:] = [self.adapter]
        await self._routes(scope, receive, send)

    async def connect(self) -> None:
        await super().connect()
        assert await asyncio.to_thread(self.lab.set_hook, self.url, VERIFY) == 200

    async def restart(self) -> bool:
        await self.adapter.disconnect()
        self.lab.redeliver(3)
        self.adapter = self.make_adapter(self.settings)
        await self.connect()
        return True

    async def say(self, text: str) -> None:
        self.lab.say(self.person, text)

    async def say_file(self, name: str, data: bytes) -> bool:
        self.lab.send(self.person, "document", data, name)
        return True

    async def press(self, label: str) -> bool:
        self.lab.press(self.person, label)
        return True

    def cut(self) -> bool:
        return False

    def misconfigured(self) -> Adapter:
        return self.make_adapter({**self.settings, "token": "EAAwrong"})

    def count_calls(self) -> int:
        return len(self.lab.calls("send", self.person))


def make_settings(lab: WhatsAppLab) -> dict[str, Any]:
    return {
        "phone_number_id": lab.number,
        "token": lab.token,
        "app_secret": lab.app_secret,
        "verify_token": VERIFY,
        "base_url": lab.address,
    }


@asynccontextmanager
async def open_whatsapp_rig(home: Path) -> AsyncIterator[WhatsAppRig]:
    async with WhatsAppLab(hook_pause=0.05) as lab:
        rig = WhatsAppRig(lab, home)
        sock = await bind("127.0.0.1", 0)
        config = Config(rig.serve, interface="asgi3", lifespan="off", ws="none", log_config=None, access_log=False)
        server = QuietServer(config)
        serving = asyncio.create_task(server.serve(sockets=[sock]))
        await server.listening.wait()
        rig.url = f"http://127.0.0.1:{sock.getsockname()[1]}/hooks/whatsapp/number"
        try:
            yield rig
        finally:
            await asyncio.to_thread(lab.stop)  # nobody calls any more
            server.ending.set()
            await serving
