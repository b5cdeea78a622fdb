"""Stands before a homeserver: counts what is asked, and cuts, holds up or answers itself what it is told to."""

import asyncio
import fnmatch
import random
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from aiohttp import ClientSession, ClientTimeout, web
from yarl import URL

CUT_BEFORE, CUT_AFTER, ANSWER, LATE = "cut before", "cut after", "answer", "late"
SEND, SYNC, TYPING, RECEIPT, UPLOAD = "*/send/*", "*/sync", "*/typing/*", "*/receipt/*", "*/upload"
LIMITED = {"errcode": "M_LIMIT_EXCEEDED", "error": "Too Many Requests"}
_PATIENCE = 20.0


@dataclass(slots=True)
class ProxyFault:
    """What happens to calls whose path fits. The client may make a call of its own again when a connection breaks: a
    cut holds for the path that it first met, and the next fault for the next."""

    kind: str
    path: str = SEND
    times: int = 1  # 0: without end
    skip: int = 0  # so many go through before
    chance: float = 1.0
    seconds: float = 0.0
    status: int = 500
    body: Mapping[str, Any] | str = field(default_factory=dict)
    met: str = ""


@dataclass(frozen=True, slots=True)
class ProxyCall:
    method: str
    path: str
    status: int


class MatrixProxy:
    """On a thread of its own, so that a gateway in another process finds it, too."""

    def __init__(self, target: str, seed: int = 0) -> None:
        self._target = target
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._die = random.Random(seed)
        self._lock = threading.Lock()
        self._faults: list[ProxyFault] = []
        self._calls: list[ProxyCall] = []
        self._under_way: dict[int, tuple[str, web.Request]] = {}
        self.address = ""

    def __enter__(self) -> "MatrixProxy":
        self._thread.start()
        self._run(self._open())
        return self

    def __exit__(self, *_: object) -> None:
        self._run(self._close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_PATIENCE)
        self._loop.close()

    def _run(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_PATIENCE)

    # --- what tests ask

    def plan(self, faults: Sequence[ProxyFault]) -> None:
        with self._lock:
            self._faults = list(faults)

    def calls(self, path: str = "*") -> list[ProxyCall]:
        """What was answered, by us or by the homeserver; cut calls have the status 0."""
        with self._lock:
            return [call for call in self._calls if fnmatch.fnmatch(call.path, path)]

    def count_under_way(self, path: str = SYNC) -> int:
        with self._lock:
            return sum(fnmatch.fnmatch(asked, path) for asked, _ in self._under_way.values())

    def cut(self) -> None:
        """Every connection breaks."""

        async def cut_all() -> None:
            for _, request in list(self._under_way.values()):
                if request.transport is not None:
                    request.transport.abort()

        self._run(cut_all())

    # --- the proxy

    async def _open(self) -> None:
        self._session = ClientSession(timeout=ClientTimeout(total=120), auto_decompress=False)
        app = web.Application(client_max_size=1 << 30)
        app.router.add_route("*", "/{rest:.*}", self._pass)
        self._runner = web.AppRunner(app, access_log=None, handler_cancellation=True, shutdown_timeout=0.1)
        await self._runner.setup()
        site = web.TCPSite(self._runner, "127.0.0.1", 0)
        await site.start()
        port = self._runner.addresses[0][1]
        self.address = f"http://127.0.0.1:{port}"

    async def _close(self) -> None:
        await self._runner.cleanup()
        await self._session.close()

    def _find_fault(self, path: str) -> ProxyFault | None:
        with self._lock:
            for fault in self._faults:
                if not fnmatch.fnmatch(path, fault.path):
                    continue
                if fault.met:
                    if fault.met == path:
                        return fault
                    continue
                if fault.skip:
                    fault.skip -= 1
                    continue
                if self._die.random() >= fault.chance:
                    continue
                if fault.times:
                    fault.times -= 1
                    if not fault.times:
                        if fault.kind in (CUT_BEFORE, CUT_AFTER):
                            fault.met = path
                        else:
                            self._faults.remove(fault)
                return fault
        return None

    async def _pass(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        with self._lock:
            self._under_way[id(request)] = (path, request)
        status = 0
        try:
            fault = self._find_fault(path)
            if fault is not None and fault.kind == LATE:
                await asyncio.sleep(fault.seconds)
            elif fault is not None and fault.kind == ANSWER:
                status = fault.status
                body, kind = fault.body, "application/json"
                if isinstance(body, str):
                    return web.Response(text=body, status=status, content_type="text/html")
                return web.json_response(body, status=status, content_type=kind)
            elif fault is not None and fault.kind == CUT_BEFORE:
                return self._cut(request)
            answer = await self._forward(request)
            if fault is not None and fault.kind == CUT_AFTER:
                return self._cut(request)
            status = answer.status
            return answer
        finally:
            with self._lock:
                self._under_way.pop(id(request), None)
                self._calls.append(ProxyCall(request.method, path, status))

    async def _forward(self, request: web.Request) -> web.Response:
        dropped = {"host", "content-length", "transfer-encoding", "connection"}
        headers = {name: value for name, value in request.headers.items() if name.lower() not in dropped}
        data = await request.read()
        url = f"{self._target}{request.rel_url}"
        async with self._session.request(request.method, _as_is(url), headers=headers, data=data or None) as found:
            body = await found.read()
            told = {name: value for name, value in found.headers.items() if name.lower() not in dropped}
            return web.Response(body=body, status=found.status, headers=told)

    def _cut(self, request: web.Request) -> web.Response:
        if request.transport is not None:
            request.transport.abort()
        return web.Response(status=599)


def _as_is(url: str) -> URL:
    return URL(url, encoded=True)
