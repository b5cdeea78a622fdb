"""WhatsApp for the suite that every platform passes: the adapter, and the lab's server as the other side of it. Its
requests come through a real web server with nothing but the hooks."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from platform_suite import (
    BRIEF_PENALTY,
    CLOSED_AFTER,
    CLOSED_BEFORE,
    NOT_STORED,
    PENALTY,
    REFUSED,
    Rig,
)
from pretending import HeardCore
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config

from gateway.http.hook_routes import HookRoutes
from gateway.http.server import QuietServer, bind
from gateway.platforms import platform_list
from gateway.platforms.face import Adapter
from hermes_base.inbound import Address, Inbound
from hermes_lab.chats import faults
from hermes_lab.chats.faults import ChatFault
from hermes_lab.chats.whatsapp.whatsapp_lab import WhatsAppLab

VERIFY = "a-word-of-our-own"
#: What a trouble is to the lab's server.
_FAULTS: Mapping[str, ChatFault] = {
    CLOSED_BEFORE: ChatFault(faults.CUT_BEFORE, "send"),
    CLOSED_AFTER: ChatFault(faults.CUT_AFTER, "send"),
    REFUSED: ChatFault(faults.ERROR, "send", status=400, text="nobody takes this"),
}
_PENALTIES = {PENALTY: 30.0, BRIEF_PENALTY: 2.0}


class WhatsAppRig(Rig):
    def __init__(self, lab: WhatsAppLab, home: Path) -> None:
        self.lab = lab
        self.home = home
        self.person = lab.add_person("Ann")
        self.settings = make_settings(lab)
        self.secrets = (lab.token, lab.app_secret, VERIFY)
        self.core = HeardCore()
        self.address = Address("whatsapp", "number", self.person)
        self.url = ""
        self._use(self.make_adapter(self.settings))

    def _use(self, adapter: Adapter) -> None:
        self.adapter = adapter
        self.hooks = HookRoutes([adapter])

    def make_adapter(self, settings: Mapping[str, Any]) -> Adapter:
        return platform_list.make_adapter(platform_list.find_spec("whatsapp"), "number", settings, self.home)

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.hooks(scope, receive, send)

    async def connect(self) -> None:
        await self.adapter.connect(self.core)
        assert await asyncio.to_thread(self.lab.set_hook, self.url, VERIFY) == 200

    async def restart(self) -> bool:
        await self.adapter.disconnect()
        self.lab.redeliver(3)
        self._use(self.make_adapter(self.settings))
        await self.connect()
        return True

    async def say(self, text: str) -> None:
        self.lab.say(self.person, text)

    async def say_as_namesake(self, text: str) -> bool:
        self.lab.say(self.lab.add_person("Ann"), text)
        return True

    async def say_file(self, name: str, data: bytes) -> bool:
        self.lab.send(self.person, "document", data, name)
        return True

    async def press(self, label: str) -> bool:
        self.lab.press(self.person, label)
        return True

    async def repeat(self) -> None:
        self.lab.redeliver()

    async def repeat_backwards(self, count: int) -> bool:
        self.lab.redeliver(count, backwards=True)
        return True

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        return self.lab.seen(self.person)

    def trouble(self, name: str) -> bool:
        if name in _PENALTIES:
            self.lab.punish(_PENALTIES[name], self.person)
        elif name == NOT_STORED:
            self.core.failures = 1
        elif name in _FAULTS:
            self.lab.plan([replace(_FAULTS[name], chat=self.person)])
        else:
            return False
        return True

    def misconfigured(self) -> Adapter:
        return self.make_adapter({**self.settings, "token": "EAAwrong"})

    def complaints(self) -> list[str]:
        return [complaint["kind"] for complaint in self.lab.complaints]

    def count_calls(self) -> int:
        return len(self.lab.calls("send", self.person))

    def count_listeners(self) -> int:
        return self.lab.under_way


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
