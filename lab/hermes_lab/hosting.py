"""Runs an application on a loopback socket until it is told to stop: what all servers of the lab stand on."""

import asyncio
import ipaddress
import signal
import socket
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future

import uvicorn
from starlette.types import ASGIApp
from uvicorn.server import ServerState

from hermes_lab.connection import LabProtocol
from hermes_lab.values import LabProblem

_BACKLOG = 2048
_KEEP_ALIVE = 600  # seconds; a short one would race with clients that reuse an idle connection

#: Called on the server's loop: when it listens, and before its connections are closed.
Announce = Callable[[], None]
Leave = Callable[[], Awaitable[None]]


class LoopThread:
    """An application served on a thread with an event loop of its own."""

    def __init__(self, app: ASGIApp, host: str, port: int, name: str, leave: Leave | None = None) -> None:
        self._app = app
        self._leave = leave
        listener = open_listener(host, port)
        self.address = describe_address(listener)  # without a path, like http://127.0.0.1:4711
        ready: Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = Future()
        self._thread = threading.Thread(target=self._run, args=(listener, ready), name=name, daemon=True)
        self._thread.start()
        self.loop, self._stopping = ready.result()

    def stop(self) -> None:
        """Close every connection and end the thread, whatever the clients are doing."""
        if not self.loop.is_closed():
            self.loop.call_soon_threadsafe(self._stopping.set)
        self._thread.join()

    def _run(self, listener: socket.socket, ready: "Future[tuple[asyncio.AbstractEventLoop, asyncio.Event]]") -> None:
        async def run() -> None:
            stop = asyncio.Event()
            found = (asyncio.get_running_loop(), stop)
            await serve_until(stop, self._app, listener, lambda: ready.set_result(found), self._leave)

        try:
            asyncio.run(run())
        finally:
            if not ready.done():
                ready.set_exception(RuntimeError("The lab server did not start."))


def serve_in_foreground(app: ASGIApp, listener: socket.socket, ready_text: str, leave: Leave | None = None) -> None:
    """Serve until SIGINT or SIGTERM; prints a text when ready."""

    async def run() -> None:
        stop = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stop.set)
        await serve_until(stop, app, listener, lambda: print(ready_text, flush=True), leave)

    asyncio.run(run())


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


async def serve_until(
    stop: asyncio.Event, app: ASGIApp, listener: socket.socket, announce: Announce, leave: Leave | None = None
) -> None:
    """Serve until `stop` is set, then close everything at once.

    uvicorn's own server looks for its end every 0.1 s and waits for open answers; with its protocol alone, a test
    pays for neither.
    """
    config = uvicorn.Config(
        app,
        http="h11",
        ws="websockets-sansio",
        ws_ping_interval=None,  # the app's own heartbeat is the only one
        ws_per_message_deflate=False,
        lifespan="off",
        log_config=None,
        access_log=False,
        timeout_keep_alive=_KEEP_ALIVE,
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
        if leave is not None:
            await leave()
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
