"""A gateway on a thread of the terminal that hosts it; `gateway.app.foreground` runs one in its own process."""

import asyncio
import logging
import threading
from pathlib import Path

from gateway.app.socket_door import open_socket
from gateway.service.gateway import Gateway
from hermes_base.errors import HermesError
from hermes_cli.config.logs import keep_log
from hermes_state.home_lock import HomeLock

log = logging.getLogger(__name__)

START_SECONDS = 30.0
STOP_SECONDS = 20.0


class GatewayThread:
    """A gateway on a thread of its own, for a terminal. The lock is the caller's, and stays so."""

    def __init__(self, home: Path, lock: HomeLock) -> None:
        self._home = home
        self._lock = lock
        self._ready = threading.Event()
        self._gateway: Gateway | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._problem: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="gateway", daemon=True)

    def start(self) -> None:
        """Returns when it listens; raises why it cannot."""
        self._thread.start()
        if not self._ready.wait(START_SECONDS):
            raise HermesError("The gateway did not start in time.", fix="Look into the log, then start hermes again.")
        if self._problem is not None:
            raise self._problem

    def stop(self) -> None:
        """Let turns end or cut them, then wait until the store is closed."""
        if self._loop is not None and self._gateway is not None and self._thread.is_alive():
            self._loop.call_soon_threadsafe(self._gateway.shut_down, "the terminal that hosted it was closed")
        self._thread.join(STOP_SECONDS)
        if self._thread.is_alive():
            raise HermesError("The gateway did not end in time.", kept="What was said is kept.")

    def _run(self) -> None:
        try:
            with keep_log(self._home, brief=True):
                asyncio.run(self._serve())
        except BaseException as problem:
            self._problem = problem
            if self._ready.is_set():
                log.critical("the gateway broke", exc_info=problem)
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._gateway = Gateway(self._home, guest=True)
        await self._gateway.start()
        await open_socket(self._gateway)
        self._ready.set()
        await self._gateway.wait_closed()
