"""Brings what happens to the webhook of the app: signed, again and again until it is taken, with the same bytes."""

import asyncio
import hashlib
import hmac
import json
import re
import ssl
from collections import deque
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any
from urllib.parse import quote, urlsplit

from hermes_lab.chats.record import ChatClock

LONGEST_PAUSE, CALL_SECONDS = 60.0, 30.0
CHALLENGE = "1158201444"


@dataclass(slots=True)
class HookCallAttempt:
    """One delivery, for the record."""

    lane: str
    at: float
    status: int  # 0: nobody answered


@dataclass(slots=True)
class HookCaller:
    clock: ChatClock
    account: str  # the id of the business account
    secret: str  # of the app
    first_pause: float = 1.0
    url: str = ""
    attempts: deque[HookCallAttempt] = field(default_factory=lambda: deque(maxlen=100_000))
    said: list[bytes] = field(default_factory=list)  # what people said, as it was brought
    _lanes: dict[str, deque[bytes]] = field(default_factory=dict)
    _running: dict[str, asyncio.Task[None]] = field(default_factory=dict)
    _gathered: list[dict[str, Any]] | None = None

    async def set_up(self, url: str, verify_token: str) -> int:
        """As the owner of an app names an address: it has to know the token. What it answered; 0: nothing."""
        query = f"hub.mode=subscribe&hub.challenge={CHALLENGE}&hub.verify_token={quote(verify_token)}"
        status, body = await self._ask("GET", f"{url}?{query}", b"", {})
        if status == 200 and body == CHALLENGE.encode():
            self.url = url
            for lane in self._lanes:
                self._begin(lane)
        return status if body == CHALLENGE.encode() or status != 200 else -1

    def bring(self, lane: str, change: dict[str, Any]) -> None:
        """Something happened; what happens in one lane comes in order."""
        if self._gathered is not None:
            self._gathered.append(change)
            return
        body = self.write([change])
        if "messages" in change.get("value", {}):
            self.said.append(body)
        self._put(lane, body)

    def write(self, changes: Sequence[dict[str, Any]]) -> bytes:
        """As it stands on the wire: other signs than ASCII are escaped, and so are slashes."""
        entry = [{"id": self.account, "changes": [change]} for change in changes]
        whole = {"object": "whatsapp_business_account", "entry": entry}
        return json.dumps(whole, separators=(",", ":")).replace("/", "\\/").encode()

    def gather(self) -> None:
        """From now on nothing is brought."""
        self._gathered = []

    def bring_gathered(self, backwards: bool = False) -> int:
        """All of it in one request; how much it was."""
        gathered, self._gathered = self._gathered or [], None
        if gathered:
            body = self.write(list(reversed(gathered)) if backwards else gathered)
            self.said.append(body)
            self._put("gathered", body)
        return len(gathered)

    def again(self, count: int, backwards: bool) -> int:
        bodies = self.said[-count:]
        for body in reversed(bodies) if backwards else bodies:
            self._put("again", body)
        return len(bodies)

    def count_pending(self) -> int:
        return sum(map(len, self._lanes.values()))

    def describe_attempts(self) -> list[dict[str, Any]]:
        return [asdict(attempt) for attempt in self.attempts]

    async def stop(self) -> None:
        running, self._running = list(self._running.values()), {}
        for task in running:
            task.cancel()
        await asyncio.gather(*running, return_exceptions=True)

    def _put(self, lane: str, body: bytes) -> None:
        self._lanes.setdefault(lane, deque()).append(body)
        self._begin(lane)

    def _begin(self, lane: str) -> None:
        if self.url and (lane not in self._running or self._running[lane].done()):
            self._running[lane] = asyncio.create_task(self._run(lane))

    async def _run(self, lane: str) -> None:
        waiting, pause = self._lanes[lane], self.first_pause
        while waiting:
            status = await self.post(waiting[0])
            self.attempts.append(HookCallAttempt(lane, self.clock.now(), status))
            if status == 200:
                waiting.popleft()
                pause = self.first_pause
                continue
            await asyncio.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE)

    async def post(self, body: bytes, signature: str | None = None) -> int:
        """One request; its status, 0 when nobody answered. `signature`: another than the right one; empty: none."""
        right = "sha256=" + hmac.new(self.secret.encode(), body, hashlib.sha256).hexdigest()
        sign = right if signature is None else signature
        headers = {"Content-Type": "application/json", **({"X-Hub-Signature-256": sign} if sign else {})}
        return (await self._ask("POST", self.url, body, headers))[0]

    async def _ask(self, method: str, url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
        try:
            async with asyncio.timeout(CALL_SECONDS):
                return await call_once(method, url, body, headers)
        except (OSError, TimeoutError, ValueError, EOFError):
            return 0, b""


async def call_once(method: str, url: str, body: bytes, headers: dict[str, str]) -> tuple[int, bytes]:
    """A request by hand: one on one connection."""
    parts = urlsplit(url)
    secure = ssl.create_default_context() if parts.scheme == "https" else None
    target = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    told = {"Host": parts.netloc, "Content-Length": str(len(body)), "Connection": "close", **headers}
    lines = [f"{method} {target} HTTP/1.1", *(f"{name}: {value}" for name, value in told.items()), "", ""]
    reader, writer = await asyncio.open_connection(parts.hostname, parts.port or (443 if secure else 80), ssl=secure)
    try:
        writer.write("\r\n".join(lines).encode("latin-1") + body)
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1")
        length = re.search(r"(?im)^content-length:\s*(\d+)\s*$", head)
        answer = await reader.readexactly(int(length[1])) if length else await reader.read()
        return int(head.split(" ")[1]), answer
    finally:
        writer.close()
