"""The HTTP server of a gateway: the page, the API and the hooks on one port, on the gateway's own event loop."""

import asyncio
import contextlib
import errno
import logging
import resource
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from starlette.routing import Router
from uvicorn.config import Config
from uvicorn.server import Server

from gateway.http import access, guard
from gateway.http.api.routes import make_routes
from gateway.http.connections import IDLE_SECONDS, MOST_OPEN, PatientProtocol
from gateway.http.gate import Gate, GateRules
from gateway.http.hook_routes import HookRoutes
from gateway.http.page.files import FileShelf
from gateway.http.page.page_side import PageSide
from gateway.http.page.parts import Parts
from gateway.http.page.routes_admin import AdminRoutes
from gateway.http.page.routes_chat import ChatRoutes
from gateway.http.page.routes_files import FileRoutes
from gateway.http.page.routes_threads import ThreadRoutes
from gateway.http.pages import PageRoutes
from gateway.http.terminal.local_server import stop_listening
from gateway.platforms.api.adapter import ApiAdapter
from gateway.platforms.face import Adapter
from gateway.platforms.hub import Hub, StreamEnded
from gateway.platforms.web.adapter import WebAdapter
from gateway.service.queries.all_queries import Queries
from gateway.service.queries.sign_in_queries import SignInQueries
from hermes_base.errors import ConfigProblem
from hermes_base.query_values import Caller

log = logging.getLogger(__name__)

FIRST_PORT = 8642
NEXT_PORTS = 20
DRAIN_SECONDS = 2
CLOSE_SECONDS = 4.0
ACCEPTED_AT_ONCE = 100  # connections that one look at the socket takes; without free descriptors, as many errors
FILES_WANTED = 8_192  # open files: connections, and what turns need
FILES_KEPT = 500  # of them for everything but connections


@dataclass(frozen=True, slots=True)
class ServerSettings:
    """Where the page is served, and under which conditions."""

    home: Path
    host: str
    port: int | None  # None: the usual one or the next that is free; 0: any
    names: tuple[str, ...]
    password: str
    upload_bytes: Callable[[], int]


class QuietServer(Server):
    """uvicorn's server as a part of another program: no signals, no ticking ten times a second."""

    def __init__(self, config: Config) -> None:
        super().__init__(config)
        self.listening = asyncio.Event()
        self.ending = asyncio.Event()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def main_loop(self) -> None:
        while not self.ending.is_set():
            await self.on_tick(0)  # sets the date of answers
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(1.0):
                    await self.ending.wait()


class HttpServer:
    """A server that listens; made by `open_server`."""

    def __init__(
        self, server: QuietServer, task: "asyncio.Task[None]", hubs: Sequence[Hub], plain_address: str, token: str
    ) -> None:
        self._server = server
        self._task = task
        self._hubs = hubs
        self.plain_address = plain_address
        self.address = f"{plain_address}?token={token}" if token else plain_address

    async def close(self) -> None:
        """Tell whoever watches, let answers end for a moment, then cut what is left."""
        for listener in self._server.servers:
            await stop_listening(listener)
        self._server.ending.set()
        for hub in self._hubs:
            hub.show_all(StreamEnded())
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                await asyncio.shield(self._task)
        for connection in list(self._server.server_state.connections):
            connection.transport.abort()
        await asyncio.wait({self._task}, timeout=1.0)
        self._task.cancel()


async def open_server(
    queries: Queries, web: WebAdapter, api: ApiAdapter, settings: ServerSettings, adapters: Sequence[Adapter] = ()
) -> HttpServer:
    """Listen; ConfigProblem when the place is not one to listen at. `adapters`: those that services may ask."""
    sock = await bind(settings.host, settings.port)
    try:
        host, port = sock.getsockname()[:2]
        rules = _make_rules(settings, guard.is_loopback(host), await queries.sign_ins.find_shared_name())
        shelf = FileShelf(settings.home, settings.upload_bytes, queries.files)
        parts = Parts(settings.home, queries, web, shelf, Caller())
        routes = [
            *PageRoutes().list(),
            *ChatRoutes(PageSide(parts)).list(),
            *ThreadRoutes(parts).list(),
            *AdminRoutes(parts).list(),
            *FileRoutes(parts).list(),
            *make_routes(queries, api, rules.holds_token),
        ]
        server = _make_server(rules, queries.sign_ins, Router(routes, redirect_slashes=False), HookRoutes(adapters))
        task = await _start(server, sock)
    except BaseException:
        sock.close()
        raise
    token = await asyncio.to_thread(rules.tokens.read)
    address = f"http://{name_host(settings.host, host)}:{port}/"
    return HttpServer(server, task, (web.hub, api.hub), address, token if rules.on_loopback else "")


def _make_rules(settings: ServerSettings, on_loopback: bool, shared: str) -> GateRules:
    """Decided by where the socket stands, whatever its name is; no switch turns it off (G11). `shared`: the name of a
    store that several gateways have."""
    password = settings.password if settings.password.strip() else ""
    if not on_loopback and not password:
        raise ConfigProblem(
            f"The web page may not listen on {settings.host or 'every address'} without a password.",
            kept="It is not served.",
            fix="Set HERMES_WEB_PASSWORD in the .env of the home, or take web.host out of the settings.",
        )
    names = frozenset(name.lower().rstrip(".") for name in (*settings.names, settings.host) if name)
    cookie = access.name_cookie(settings.home, shared)
    return GateRules(settings.home, password, names, on_loopback, access.TokenFile(settings.home), cookie)


def _make_server(rules: GateRules, sign_ins: SignInQueries, router: Router, hooks: HookRoutes) -> QuietServer:
    most = min(MOST_OPEN, _allow_files() - FILES_KEPT)

    def is_crowded() -> bool:
        return len(server.server_state.connections) > most

    config = Config(
        Gate(rules, sign_ins, router, hooks, is_crowded),
        http=PatientProtocol,
        ws="none",
        lifespan="off",
        interface="asgi3",
        log_config=None,
        log_level="error",  # what strangers send is no news; addresses with tokens are never logged
        access_log=False,
        proxy_headers=False,  # nobody but the peer itself says who the peer is
        server_header=False,
        backlog=ACCEPTED_AT_ONCE,
        timeout_keep_alive=IDLE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    server = QuietServer(config)
    return server


async def _start(server: QuietServer, sock: socket.socket) -> "asyncio.Task[None]":
    task = asyncio.get_running_loop().create_task(server.serve(sockets=[sock]))
    listening = asyncio.ensure_future(server.listening.wait())
    await asyncio.wait({task, listening}, return_when=asyncio.FIRST_COMPLETED)
    listening.cancel()
    if task.done():
        task.result()
    return task


# --- the socket


async def bind(host: str, port: int | None) -> socket.socket:
    """A socket at the wanted port, or at the first of the usual ones that is free, or at any."""
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(host or None, 0, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except OSError as problem:
        raise ConfigProblem(
            f"The web page cannot listen on {host!r}: there is no such address.",
            kept="It is not served.",
            fix="Put web.host right in the settings.",
        ) from problem
    family, address = min((family, where[0]) for family, *_, where in found)  # IPv4 first, where a name has both
    wanted = [port] if port is not None else [*range(FIRST_PORT, FIRST_PORT + NEXT_PORTS + 1), 0]
    for number in wanted:
        try:
            return _bind(family, str(address), number)
        except OSError as problem:
            if problem.errno != errno.EADDRINUSE or number == wanted[-1]:
                raise _explain(host, number, problem) from problem
    raise AssertionError("the last port is the last try")


def _bind(family: int, address: str, port: int) -> socket.socket:
    # Named, since asyncio sends small answers at once only where it knows that this is TCP.
    sock = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    try:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind((address, port))
        sock.listen()  # two sockets may be bound to one port, but only one listens
    except OSError:
        sock.close()
        raise
    return sock


def _explain(host: str, port: int, problem: OSError) -> ConfigProblem:
    if problem.errno == errno.EADDRINUSE:
        what = f"The web page cannot listen on port {port}: another program does."
    else:
        what = f"The web page cannot listen on {host}, port {port}: {problem.strerror}."
    fix = "Set another web.port, or none at all: then the next free one is taken."
    return ConfigProblem(what, kept="It is not served.", fix=fix)


def name_host(wanted: str, bound: str) -> str:
    """How a browser on this machine names the place where the server listens."""
    address = guard.read_address(bound)
    if address is not None and address.is_unspecified:
        return "127.0.0.1" if address.version == 4 else "[::1]"
    if guard.read_address(wanted) is None and wanted:
        return wanted
    return f"[{bound}]" if address is not None and address.version == 6 else bound


def _allow_files() -> int:
    """Have the system allow as many open files as connections need; how many it allows."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = FILES_WANTED if hard == resource.RLIM_INFINITY else min(FILES_WANTED, hard)
    if soft == resource.RLIM_INFINITY or soft >= wanted:
        return FILES_WANTED
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    except (OSError, ValueError) as problem:
        log.warning("only %d files may be open: %s", soft, problem)
        return soft
    return wanted
