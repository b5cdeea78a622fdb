"""Brings updates to the address that a bot has named: each chat in its order, again and again until it is taken."""

import asyncio
import json
import logging
import ssl
from collections import deque
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import urlsplit

from hermes_lab.chats.telegram.api_values import ApiError, Parameters
from hermes_lab.chats.telegram.bot_methods import read_secret, read_webhook_url
from hermes_lab.chats.telegram.updates import BotUpdate, UpdateQueue

_log = logging.getLogger(__name__)
LONGEST_PAUSE, LONGEST_ASKED_PAUSE, CALL_SECONDS = 60.0, 3600.0, 60.0
#: A method in the answer of a webhook: its parameters, and what it is called.
Inline = Callable[[Mapping[str, Any]], Awaitable[None]]


@dataclass(slots=True)
class HookAttempt:
    """One delivery, for the record."""

    update: int
    chat: int
    at: float
    status: int  # 0: nobody answered


@dataclass(slots=True)
class Webhook:
    queue: UpdateQueue
    inline: Inline
    loopback: bool = True  # an address on this machine may be without TLS
    first_pause: float = 1.0
    secret: str = ""
    most_connections: int = 40
    last_error: str = ""
    last_error_date: int = 0
    set_at: float = -10.0
    attempts: deque[HookAttempt] = field(default_factory=lambda: deque(maxlen=100_000))
    _running: asyncio.Task[None] | None = None

    async def set_up(self, parameters: Parameters) -> bool:
        now = self.queue.clock.now()
        if not parameters.text("url"):
            return await self.delete(parameters)
        url, secret = read_webhook_url(parameters, self.loopback), read_secret(parameters)
        if now - self.set_at < 1.0:
            raise ApiError(429, "Too Many Requests: retry after 1", "", {"retry_after": 1})
        self.set_at = now
        self.queue.set_allowed(parameters.json("allowed_updates", list, "allowed_updates"))
        self.most_connections = min(max(parameters.number("max_connections", 40), 1), 100)
        await self._drop(parameters)
        self.queue.webhook, self.secret = url, secret
        self.queue.end_poll(ApiError(409, "Conflict: terminated by setWebhook request"))
        self.last_error, self.last_error_date = "", 0
        self._running = asyncio.create_task(self._run(url))
        return True

    async def delete(self, parameters: Parameters) -> bool:
        await self._drop(parameters)
        self.queue.webhook = ""
        return True

    async def _drop(self, parameters: Parameters) -> None:
        await self.stop()
        if parameters.flag("drop_pending_updates"):
            self.queue.waiting.clear()

    def describe(self) -> dict[str, Any]:
        found: dict[str, Any] = {
            "url": self.queue.webhook,
            "has_custom_certificate": False,
            "pending_update_count": len(self.queue.waiting),
        }
        if self.queue.webhook:
            found["max_connections"] = self.most_connections
        if self.queue.allowed:
            found["allowed_updates"] = list(self.queue.allowed)
        if self.last_error:
            found |= {"last_error_date": self.last_error_date, "last_error_message": self.last_error}
        return found

    async def stop(self) -> None:
        running, self._running = self._running, None
        if running is not None:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    async def _run(self, url: str) -> None:
        """One task for each chat with something to bring."""
        lanes: dict[int, asyncio.Task[None]] = {}
        places = asyncio.Semaphore(self.most_connections)
        try:
            while True:
                self.queue.arrived.clear()
                for chat in {update.chat for update in self.queue.waiting}:
                    if chat not in lanes or lanes[chat].done():
                        lanes[chat] = asyncio.create_task(self._bring_chat(url, chat, places))
                await self.queue.arrived.wait()
        finally:
            for lane in lanes.values():
                lane.cancel()
            await asyncio.gather(*lanes.values(), return_exceptions=True)

    async def _bring_chat(self, url: str, chat: int, places: asyncio.Semaphore) -> None:
        pause = self.first_pause
        while (update := self._next(chat)) is not None:
            async with places:
                status, headers, body = await self._bring(url, update)
            if 200 <= status < 300:
                pause = self.first_pause
                self.queue.waiting = deque(u for u in self.queue.waiting if u is not update)
                await self._answer_inline(body)
                continue
            asked = headers.get("retry-after", "")
            await asyncio.sleep(min(float(asked), LONGEST_ASKED_PAUSE) if asked.isdecimal() else pause)
            pause = min(pause * 2, LONGEST_PAUSE)
        self.queue.arrived.set()  # what came meanwhile begins another lane

    def _next(self, chat: int) -> BotUpdate | None:
        self.queue.forget_old()
        return next((update for update in self.queue.waiting if update.chat == chat), None)

    async def _bring(self, url: str, update: BotUpdate) -> tuple[int, Mapping[str, str], bytes]:
        """Status (0: nobody answered), headers and body."""
        status, headers, body = 0, dict[str, str](), b""
        try:
            async with asyncio.timeout(CALL_SECONDS):
                status, headers, body = await post_json(url, update.describe(), self.secret)
            problem = "" if 200 <= status < 300 else f"Wrong response from the webhook: {status}"
        except (OSError, TimeoutError, ValueError, EOFError) as error:
            problem = f"Connection failed: {type(error).__name__}"
        self.attempts.append(HookAttempt(update.id, update.chat, self.queue.clock.now(), status))
        if problem:
            self.last_error, self.last_error_date = problem, int(self.queue.clock.date())
        return status, headers, body

    async def _answer_inline(self, body: bytes) -> None:
        try:
            asked = json.loads(body)
        except ValueError:
            return
        if isinstance(asked, dict) and isinstance(asked.get("method"), str):
            await self.inline(asked)


async def post_json(url: str, value: Any, secret: str) -> tuple[int, dict[str, str], bytes]:
    """A POST by hand: one request on one connection."""
    parts = urlsplit(url)
    secure = ssl.create_default_context() if parts.scheme == "https" else None
    port = parts.port or (443 if secure else 80)
    body = json.dumps(value, ensure_ascii=False).encode()
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    lines = [
        f"POST {target} HTTP/1.1",
        f"Host: {parts.netloc}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
        "Connection: close",
        *([f"X-Telegram-Bot-Api-Secret-Token: {secret}"] if secret else []),
    ]
    reader, writer = await asyncio.open_connection(parts.hostname, port, ssl=secure)
    try:
        writer.write("\r\n".join([*lines, "", ""]).encode("latin-1") + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        status = int(head[0].split(" ")[1])
        headers = {name.strip().lower(): text.strip() for name, _, text in (row.partition(":") for row in head[1:])}
        length = headers.get("content-length", "")
        answer = await reader.readexactly(int(length)) if length.isdecimal() else await reader.read()
        return status, headers, answer
    finally:
        writer.close()
