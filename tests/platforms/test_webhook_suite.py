"""Webhooks, by the suite that every platform passes: real servers on both sides."""

import asyncio
import itertools
import json
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path

import httpx2
from hook_service import CLOSED_AFTER, CLOSED_BEFORE, PENALTY, REFUSED, SECRET, TOKEN, ReplyBox, sign
from platform_suite import BRIEF_PENALTY, NOT_STORED, PlatformSuite, Rig
from pretending import HeardCore
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config

from gateway.http.hook_routes import HookRoutes
from gateway.http.server import QuietServer, bind
from gateway.platforms import platform_list
from gateway.platforms.face import Adapter
from hermes_base.inbound import Address, Inbound

_names = itertools.count()


class HookRig(Rig):
    secrets = (SECRET, TOKEN, "shorty-7")

    def __init__(self, home: Path, box: ReplyBox) -> None:
        self.home = home
        self.box = box
        self.address = Address("webhook", "alarm", "main")
        self.core = HeardCore()
        self.http = httpx2.AsyncClient()
        self._said: list[tuple[bytes, str]] = []
        self._make()

    def _make(self) -> None:
        self.adapter = self._make_adapter(SECRET)
        self.hooks = HookRoutes([self.adapter])

    def _make_adapter(self, secret: str) -> Adapter:
        given = {"secret": secret, "reply_url": self.box.url, "network.private": ["127.0.0.1"]}
        return platform_list.make_adapter(platform_list.find_spec("webhook"), "alarm", given, self.home)

    async def serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self.hooks(scope, receive, send)

    async def connect(self) -> None:
        await self.adapter.connect(self.core)

    async def say(self, text: str) -> None:
        number = next(_names)  # in the body, too: the same words may be meant twice in one second
        self._said.append((json.dumps({"text": text, "number": number}).encode(), f"n{number}"))
        await self.repeat()

    async def repeat(self) -> None:
        await self._send(*self._said[-1])

    async def repeat_backwards(self, count: int) -> bool:
        for body, key in reversed(self._said[-count:]):
            await self._send(body, key)
        return True

    async def restart(self) -> bool:
        """What was not confirmed comes again, to the next process."""
        await self.adapter.disconnect()
        self._make()
        await self.connect()
        await self.repeat()
        return True

    def misconfigured(self) -> Adapter:
        return self._make_adapter("shorty-7")

    async def _send(self, body: bytes, key: str) -> None:
        """As services do: signed anew, until it is taken."""
        status = 0
        while status != 200:
            headers = {"Idempotency-Key": key, **sign(body)}
            status = (await self.http.post("/hooks/webhook/alarm", content=body, headers=headers)).status_code
            assert status in (200, 503)

    def heard(self) -> list[Inbound]:
        return self.core.taken

    async def seen(self) -> list[str]:
        return self.box.texts()

    def complaints(self) -> list[str]:
        return self.box.faults

    def count_calls(self) -> int:
        return len(self.box.calls)

    def trouble(self, name: str) -> bool:
        if name == NOT_STORED:
            self.core.failures = 2
            return True
        made = {BRIEF_PENALTY: PENALTY}.get(name, name)
        can = made in (PENALTY, REFUSED, CLOSED_BEFORE, CLOSED_AFTER)
        self.box.troubles += [made] if can else []
        return can


class TestWebhook(PlatformSuite):
    def open_rig(self, tmp_path: Path) -> AbstractAsyncContextManager[Rig]:
        @asynccontextmanager
        async def rig() -> AsyncIterator[Rig]:
            made = HookRig(tmp_path, ReplyBox())
            sock = await bind("127.0.0.1", 0)
            server = QuietServer(
                Config(made.serve, interface="asgi3", lifespan="off", ws="none", log_config=None, access_log=False)
            )
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
