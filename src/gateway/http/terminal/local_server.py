"""Serves the socket of the home: the terminals' calls, on the gateway's own event loop."""

import asyncio
import logging
import os
import time
from typing import cast

from starlette.exceptions import HTTPException
from starlette.routing import Router
from starlette.types import Receive, Scope, Send
from uvicorn.config import Config
from uvicorn.server import ServerState

from gateway.http.answers import answer_failure
from gateway.http.connections import IDLE_SECONDS, PatientProtocol
from gateway.http.page.routes_chat import ChatRoutes
from gateway.http.terminal import listening
from gateway.http.terminal.terminal_side import TerminalSide
from gateway.platforms.hub import StreamEnded
from gateway.platforms.local.adapter import LocalAdapter
from hermes_base.errors import HermesError
from hermes_base.local_wire import socket_path

log = logging.getLogger(__name__)

_LOOK_SECONDS = 30.0  # between two looks at the socket's file
_CLOSE_SECONDS = 0.5  # for clients to read the last events
#: To a terminal of an older version, in its own words: it spoke in lines of JSON.
OLDER = (
    b'{"type":"error","text":"This terminal is older than the gateway that it talks to. What you said before is kept. '
    b'Leave it and start hermes anew."}\n'
)


class OwnerProtocol(PatientProtocol):
    """A connection of the owner of the home; of nobody else."""

    _speaks_http = False

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        if listening.peer_uid(transport.get_extra_info("socket")) != os.getuid():
            log.warning("A process of another user was turned away from the socket.")
            transport.abort()

    def data_received(self, data: bytes) -> None:
        if self.transport.is_closing():
            return
        if not self._speaks_http and data.startswith(b"{"):  # no request begins like this
            self.transport.write(OLDER)
            self.transport.close()
        else:
            self._speaks_http = True
            super().data_received(data)


class LocalServer:
    """The socket of a home, from `open` to `close`."""

    def __init__(self, adapter: LocalAdapter) -> None:
        self._adapter = adapter
        self._path = socket_path(adapter.home)
        side = TerminalSide(adapter)
        self._router = Router([*ChatRoutes(side).list(), *side.list()], redirect_slashes=False)
        self._config = Config(
            self._serve,
            http=OwnerProtocol,
            ws="none",
            lifespan="off",
            interface="asgi3",
            log_config=None,
            log_level="error",
            access_log=False,
            proxy_headers=False,  # nobody but the connection itself says who is at its other end
            server_header=False,
            date_header=False,
            timeout_keep_alive=IDLE_SECONDS,
        )
        self._config.load()
        self._state = ServerState()
        self._server: asyncio.Server | None = None
        self._file: tuple[int, int] | None = None

    async def open(self) -> None:
        """Listen; ConfigProblem when the place is not one to listen at."""
        await self._listen()
        self._looking = asyncio.get_running_loop().create_task(self._look_after_file())

    async def _listen(self) -> None:
        sock = listening.listen(self._path)
        self._file = listening.identify(self._path)
        self._server = await asyncio.get_running_loop().create_server(self._make_protocol, sock=sock)
        self._adapter.last_seen = time.time()

    def _make_protocol(self) -> OwnerProtocol:
        return OwnerProtocol(config=self._config, server_state=self._state, app_state={})

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["app"] = self  # has the router raise what it does not find
        try:
            await self._router(scope, receive, send)
        except HTTPException as error:
            await answer_failure(error)(scope, receive, send)

    async def _look_after_file(self) -> None:
        """The socket is alive while its file is there; one that was swept away is made anew."""
        while True:
            await asyncio.sleep(_LOOK_SECONDS)
            try:
                if listening.identify(self._path) != self._file:
                    log.warning("The socket %s was gone and is made anew.", self._path)
                    cast(asyncio.Server, self._server).close()
                    await self._listen()
            except (HermesError, OSError):
                log.warning("The socket %s cannot be made anew.", self._path, exc_info=True)
            else:
                self._adapter.last_seen = time.time()

    async def close(self) -> None:
        """Tell whoever watches, let the last events be read, leave nothing behind."""
        if self._server is None:
            return
        self._looking.cancel()
        self._server.close()
        self._server = None
        if listening.identify(self._path) == self._file:
            self._path.unlink(missing_ok=True)
        self._adapter.hub.show_all(StreamEnded())
        for connection in list(self._state.connections):
            connection.shutdown()
        if self._state.tasks:
            await asyncio.wait(set(self._state.tasks), timeout=_CLOSE_SECONDS)
        for connection in list(self._state.connections):
            connection.transport.abort()
        left = {self._looking, *self._state.tasks}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
