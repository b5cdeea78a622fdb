"""Serves the socket of the home: the terminals' calls, on the gateway's own event loop."""

import asyncio
import logging
import os
import time
from typing import cast

from starlette.exceptions import HTTPException
from starlette.routing import Router
from starlette.types import Receive, Scope, Send

from gateway.http.answers import answer_failure
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
_CLOSE_SECONDS = 0.5  # for clients to read the last events


class LocalServer:
    """The socket of a home, from `open` to `close`."""

    def __init__(self, adapter: LocalAdapter) -> None:
        self._adapter = adapter
        self._path = socket_path(adapter.home)
        side = TerminalSide(adapter)
        self._router = Router([*ChatRoutes(side).list(), *side.list()], redirect_slashes=False)
        self._connections: set[asyncio.Task[None]] = set()
        self._server: asyncio.Server | None = None
        self._file: tuple[int, int] | None = None

    async def open(self) -> None:
        """Listen; ConfigProblem when the place is not one to listen at."""
        await self._listen()
        self._looking = asyncio.get_running_loop().create_task(self._look_after_file())

    async def _listen(self) -> None:
        sock = listening.listen(self._path)
        self._file = listening.identify(self._path)
        self._server = await asyncio.start_unix_server(self._serve, sock=sock)
        self._adapter.last_seen = time.time()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection of the owner of the home; of nobody else."""
        if listening.peer_uid(writer.get_extra_info("socket")) != os.getuid():
            log.warning("A process of another user was turned away from the socket.")
            writer.transport.abort()
            return
        task = cast("asyncio.Task[None]", asyncio.current_task())
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        await OwnerConnection(self._answer, reader, writer).serve()

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
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
        if self._connections:
            await asyncio.wait(set(self._connections), timeout=_CLOSE_SECONDS)
        left = {self._looking, *self._connections}
        for task in left:
            task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
