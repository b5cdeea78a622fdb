"""Serves the socket of the home: the terminals' calls, on the gateway's own event loop."""

import asyncio
import logging
import time
from collections.abc import Sequence
from typing import cast

from starlette.routing import Route

from gateway.http.page.routes_chat import ChatRoutes
from gateway.http.terminal import listening
from gateway.http.terminal.owner_connection import OwnerConnection
from gateway.http.terminal.terminal_side import TerminalSide
from gateway.platforms.hub import StreamEnded
from gateway.platforms.local.adapter import LocalAdapter
from hermes_base.errors import HermesError
from hermes_base.local_wire import socket_path

log = logging.getLogger(__name__)

_LOOK_SECONDS = 30.0  # between two looks at the socket's file
_ACCEPT_STEPS = 4  # of the event loop, from a connection that was accepted to one that is known
_CLOSE_SECONDS = 0.5  # for clients to read the last events


class LocalServer:
    """The socket of a home, from `open` to `close`."""

    def __init__(self, adapter: LocalAdapter) -> None:
        self._adapter = adapter
        self._path = socket_path(adapter.home)
        side = TerminalSide(adapter)
        routes = cast("Sequence[Route]", (*ChatRoutes(side).list(), *side.list()))
        self._calls = {(method, route.path): route.endpoint for route in routes for method in route.methods or ()}
        self._connections: set[OwnerConnection] = set()
        self._server: asyncio.Server | None = None
        self._closing = False
        self._file: tuple[int, int] | None = None

    async def open(self) -> None:
        """Listen; ConfigProblem when the place is not one to listen at."""
        await self._listen()
        self._looking = asyncio.get_running_loop().create_task(self._look_after_file())

    async def _listen(self) -> None:
        sock = listening.listen(self._path)
        self._file = listening.identify(self._path)
        self._server = await asyncio.get_running_loop().create_unix_server(
            lambda: OwnerConnection(self._calls, self._connections, closing=self._closing), sock=sock
        )
        self._adapter.last_seen = time.time()

    async def _look_after_file(self) -> None:
        """The socket is alive while its file is there; one that was swept away is made anew."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                if listening.identify(self._path) != self._file:
                    log.warning("The socket %s was gone and is made anew.", self._path)
                    await stop_listening(cast(asyncio.Server, self._server))
                    await self._listen()
            except (HermesError, OSError):
                log.warning("The socket %s cannot be made anew.", self._path, exc_info=True)
            else:
                self._adapter.last_seen = time.time()

    async def close(self) -> None:
        """Tell whoever watches, let the last events be read, leave nothing behind."""
        if self._server is None:
            return
        self._closing = True
        self._looking.cancel()
        await stop_listening(self._server)
        self._server = None
        if listening.identify(self._path) == self._file:
            self._path.unlink(missing_ok=True)
        self._adapter.hub.show_all(StreamEnded())
        for connection in list(self._connections):
            connection.finish()
        await self._wait_closed()
        for connection in list(self._connections):
            connection.abort()
        await self._wait_closed()
        await asyncio.gather(self._looking, return_exceptions=True)

    async def _wait_closed(self) -> None:
        left = {connection.closed for connection in self._connections}
        if left:
            await asyncio.wait(left, timeout=_CLOSE_SECONDS)


async def stop_listening(server: asyncio.Server) -> None:
    """A connection that is being accepted while its server closes would be dropped and left open by asyncio: so first
    no other one is accepted, then those are let in, and then the server closes."""
    for sock in server.sockets:
        asyncio.get_running_loop().remove_reader(sock.fileno())
    for _ in range(_ACCEPT_STEPS):
        await asyncio.sleep(0)
    server.close()
