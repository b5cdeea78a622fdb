"""Webhooks, by the suite that every platform passes: real servers on both sides."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx2
from hook_service import CLOSED_AFTER, CLOSED_BEFORE, PENALTY, REFUSED, SECRET, ReplyBox, sign
from platform_suite import NOT_STORED, PlatformSuite, Rig
from pretending import HeardCore
from uvicorn.config import Config

from gateway.http.hook_routes import Hooks
from gateway.http.server import QuietServer, bind
from gateway.platforms import platform_list
from hermes_base.inbound import Address, Inbound

_names = itertools.count()


class HookRig(Rig):
    def __init__(self, home: Path, box: ReplyBox) -> None:
        given = {"secret": SECRET, "reply_url": box.url, "network.private": ["127.0.0.1"]}
        self.adapter = platform_list.make_adapter(platform_list.find_spec("webhook"), "alarm", given, home)
        self.address = Address("webhook", "alarm", "main")
        self.core = HeardCore()
        self.box = box
        self._last = b"", {}

    async def connect(self) -> None:
        await self.adapter.connect(self.core)

    async def say(self, text: str) -> None:
        body = json.dumps({"text": text}).encode()
        self._last = body, {"Idempotency-Key": f"n{next(_names)}"}
        await self.repeat()

    async def repeat(self) -> None:
        """As services do: signed anew, until it is taken."""
        body, headers = self._last
        status = 0
        while status != 200:
            answer = await self.http.post("/hooks/webhook/alarm", content=body, headers={**headers, **sign(body)})
            status = answer.status_code
            assert status in (200, 503)

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        assert self.box.faults == []
        return self.box.texts()

    def trouble(self, name: str) -> bool:
        if name == NOT_STORED:
            self.core.failures = 2
        else:
            self.box.troubles.append(name)
        return name in (NOT_STORED, PENALTY, REFUSED, CLOSED_BEFORE, CLOSED_AFTER)


class TestWebhook(PlatformSuite):
    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        @asynccontextmanager
        async def rig() -> AsyncIterator[Rig]:
            made = HookRig(tmp_path, ReplyBox())
            sock = await bind("127.0.0.1", 0)
            app = Hooks([made.adapter])
            server = QuietServer(Config(app, lifespan="off", ws="none", log_config=None, access_log=False))
            serving = asyncio.create_task(server.serve(sockets=[sock]))
            await server.listening.wait()
            address = f"http://127.0.0.1:{sock.getsockname()[1]}"
            try:
                async with httpx2.AsyncClient(base_url=address, timeout=30) as made.http:
                    yield made
            finally:
                server.ending.set()
                await serving
                await asyncio.to_thread(made.box.close)

        return rig()
