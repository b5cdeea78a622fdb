"""Runs the lab: in a background thread for tests (`LabServer`) or in the foreground for a command (`serve`)."""

import asyncio
import ipaddress
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn
from uvicorn.server import ServerState

from hermes_lab.app import LabApp, Settings
from hermes_lab.bill import Row, Sums
from hermes_lab.cache import DOCUMENTED_MINIMUM
from hermes_lab.connection import LabProtocol
from hermes_lab.limits import Window
from hermes_lab.plan import PlanInput, load_plan
from hermes_lab.recorder import Recorded
from hermes_lab.values import LabProblem

_BACKLOG = 2048
_KEEP_ALIVE = 600  # seconds; a short one would race with clients that reuse an idle connection


def serve(
    host: str = "127.0.0.1",
    port: int = 0,
    plan_file: str | Path | None = None,
    record_file: str | Path | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; prints one line with the address when ready."""
    steps = load_plan(plan_file) if plan_file is not None else ()
    listener = open_listener(host, port)
    app = LabApp(steps, record_file)
    ready_line = f"hermes lab: {describe_address(listener)}/v1 (Ctrl-C ends it)"
    try:
        asyncio.run(_serve_in_foreground(app, listener, ready_line))
    finally:
        app.recorder.close()


async def _serve_in_foreground(app: LabApp, listener: socket.socket, ready_line: str) -> None:
    stop = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, stop.set)
    await _run(app, listener, stop, lambda: print(ready_line, flush=True))


class LabServer:
    """The server as a context manager, on a free loopback port and a thread of its own.

    Leaving it closes every connection and ends the thread, whatever the clients are doing.
    """

    def __init__(
        self,
        plan: PlanInput = (),
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        record_file: str | Path | None = None,
        window: Window = None,
        cache_minimum: int | None = DOCUMENTED_MINIMUM,
    ) -> None:
        self._app = LabApp(plan, record_file, Settings(window, cache_minimum))
        self._host = host
        self._port = port
        self._thread: threading.Thread | None = None
        self._stop: Callable[[], None] = lambda: None
        self.address = ""  # without a path, like http://127.0.0.1:4711

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def start(self) -> None:
        listener = open_listener(self._host, self._port)
        self.address = describe_address(listener)
        ready: Future[Callable[[], None]] = Future()
        self._thread = threading.Thread(target=self._run_thread, args=(listener, ready), name="hermes-lab", daemon=True)
        self._thread.start()
        self._stop = ready.result()

    def stop(self) -> None:
        if self._thread is None:
            return
        self._stop()
        self._thread.join()
        self._thread = None
        self._app.recorder.close()

    def _run_thread(self, listener: socket.socket, ready: "Future[Callable[[], None]]") -> None:
        async def run() -> None:
            stop = asyncio.Event()
            loop = asyncio.get_running_loop()
            await _run(self._app, listener, stop, lambda: ready.set_result(_make_stopper(loop, stop)))

        try:
            asyncio.run(run())
        finally:
            if not ready.done():
                ready.set_exception(RuntimeError("The lab server did not start."))

    @property
    def base_url(self) -> str:
        """What an OpenAI client takes as `base_url`; an Anthropic client takes `address`."""
        return f"{self.address}/v1"

    @property
    def port(self) -> int:
        return int(self.address.rpartition(":")[2])

    @property
    def requests(self) -> tuple[Recorded, ...]:
        """The requests to /v1/ so far, oldest first."""
        return self._app.recorder.list_requests()

    @property
    def in_flight(self) -> int:
        """Requests that are being answered now."""
        return self._app.in_flight

    @property
    def steps_left(self) -> int:
        return self._app.plan.count_left()

    @property
    def bill(self) -> dict[str, Sums]:
        """What each account (its API key) was charged."""
        return self._app.bill.list_sums()

    @property
    def bill_rows(self) -> tuple[Row, ...]:
        """The charged calls one by one, oldest first."""
        return self._app.bill.list_rows()

    def clear_bill(self) -> None:
        self._app.bill.clear()

    @property
    def now(self) -> float:
        """Seconds on the clock by which cached prefixes expire; it stands still until `advance`."""
        return self._app.clock.now

    def advance(self, seconds: float) -> None:
        self._app.clock.advance(seconds)

    def set_plan(self, steps: PlanInput) -> None:
        self._app.plan.replace(steps)

    def clear_requests(self) -> None:
        self._app.recorder.clear()


def _make_stopper(loop: asyncio.AbstractEventLoop, stop: asyncio.Event) -> Callable[[], None]:
    return lambda: _call_in(loop, stop.set)


def _call_in(loop: asyncio.AbstractEventLoop, action: Callable[[], None]) -> None:
    if not loop.is_closed():
        loop.call_soon_threadsafe(action)


def open_listener(host: str, port: int) -> socket.socket:
    """A socket that listens on a loopback address; port 0 takes a free one."""
    address = _resolve_loopback(host)
    if not 0 <= port <= 65_535:
        raise LabProblem(f"{port} is no port.", fix="Use a number from 0 to 65535; 0 takes a free one.")
    family = socket.AF_INET6 if address.version == 6 else socket.AF_INET
    # With the protocol named, asyncio sets TCP_NODELAY; without, each short answer waits 40 ms for an ACK.
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((str(address), port))
        listener.listen(_BACKLOG)
    except OSError as error:
        listener.close()
        fix = "Choose another port, or 0 for a free one."
        raise LabProblem(f"The lab cannot listen on {host} port {port}: {error.strerror}.", fix=fix) from error
    return listener


def _resolve_loopback(host: str) -> ipaddress.IPv4Address | ipaddress.IPv6Address:
    try:
        address = ipaddress.ip_address("127.0.0.1" if host == "localhost" else host)
    except ValueError as error:
        raise _refuse_host(host) from error
    if not address.is_loopback:
        raise _refuse_host(host)
    return address


def _refuse_host(host: str) -> LabProblem:
    what = f"The lab server listens on this machine only; {host} is not a loopback address."
    return LabProblem(what, fix="Use 127.0.0.1, ::1 or localhost.")


def describe_address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


async def _run(app: LabApp, listener: socket.socket, stop: asyncio.Event, announce: Callable[[], None]) -> None:
    """Serve until `stop` is set, then close everything at once.

    uvicorn's own server looks for its end every 0.1 s and waits for open answers; with its protocol alone, a test
    pays for neither.
    """
    config = uvicorn.Config(
        app, http="h11", ws="none", lifespan="off", log_config=None, access_log=False, timeout_keep_alive=_KEEP_ALIVE
    )
    config.load()
    state = ServerState()
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: LabProtocol(config, state, {}), sock=listener, backlog=_BACKLOG)
    announce()
    try:
        await stop.wait()
    finally:
        loop.remove_reader(listener)  # first: who is being let in while a server closes is forgotten unclosed
        await _close_connections(state)
        server.close()
        await server.wait_closed()


async def _close_connections(state: ServerState) -> None:
    """Abort what is open; an answer under way sees its client leave and ends by itself.

    What is left on the loop are these answers, and clients that are just being let in."""
    while state.connections or asyncio.all_tasks() - {asyncio.current_task()}:
        for connection in list(state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
