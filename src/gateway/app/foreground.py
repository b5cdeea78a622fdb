"""Runs the gateway of a home in the foreground of its own process, with the web page and the API beside it."""

import asyncio
import logging
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gateway.app.socket_door import open_socket
from gateway.http.access import word_address
from gateway.http.server import HttpServer, ServerSettings, open_server
from gateway.platforms.api.adapter import ApiAdapter
from gateway.platforms.web.adapter import WebAdapter
from gateway.service.gateway import Gateway
from gateway.service.stopping import CLEAN_UP_SECONDS, LENDING, LastResort
from hermes_base.errors import ConfigProblem, StoreAway
from hermes_base.store_place import find_place, is_address
from hermes_cli import config as cli_config
from hermes_state.home_lock import HomeLock
from hermes_state.sql.store_sql import Store
from hermes_state.transfer.loan import lend

log = logging.getLogger(__name__)

STORE_AGAIN_SECONDS = 1.0


def run_gateway(home: Path, note_ready: Callable[[], None] = lambda: None) -> int:
    """Own the home and serve until a signal or an operator ends it; HomeBusy when somebody else owns it. Whoever moves
    the store borrows it: then all begins anew, in this process."""
    with HomeLock(home), LastResort() as last_resort:
        wait_for_store(home, note_ready)
        while asyncio.run(_serve(home, note_ready, last_resort)) == LENDING:
            lend(home)
            wait_for_store(home, note_ready)
    return 0


def wait_for_store(home: Path, note_ready: Callable[[], None]) -> None:
    """A database that is not there yet is waited for: it may start after us, and to end each time would look like a
    crash. What somebody has to put right is raised."""
    told = ""
    while is_address(place := find_place(home)):
        try:
            Store(place).close()
            return
        except StoreAway as problem:
            if told != str(problem):
                log.error("%s The gateway waits for it, and takes no message until it is there.", problem)
            told = str(problem)
        note_ready()  # to be ended while it waits is no crash
        time.sleep(STORE_AGAIN_SECONDS)


async def _serve(home: Path, note_ready: Callable[[], None], last_resort: LastResort) -> str:
    """One life of the gateway; why it ended."""
    gateway = Gateway(home)
    loop, started = asyncio.get_running_loop(), asyncio.Event()

    async def stop(reason: str) -> None:  # what has half begun is brought up first, and then ended in order
        await started.wait()
        gateway.shut_down(reason)

    def obey(reason: str) -> None:  # on a thread of its own
        note_ready()  # told to end: that is no crash, however long the rest takes
        if loop.is_closed():  # the store is lent, and nothing is open
            os._exit(0)
        asyncio.run_coroutine_threadsafe(stop(reason), loop)

    last_resort.obey_signals(obey)
    await gateway.start()
    await open_socket(gateway)
    started.set()
    note_ready()
    server = await open_page(gateway)
    if server is not None:
        print(f"The page: {word_address(server.address)}", flush=True)
    print(f"Hermes runs, with its data in {home}. Ctrl-C stops it.", flush=True)
    await gateway.wait_closed()
    if gateway.stopped_for != LENDING:
        last_resort.end_within(CLEAN_UP_SECONDS, 0)
    return gateway.stopped_for


async def open_page(gateway: Gateway) -> HttpServer | None:
    """Serve the page and the API. What is wrong with their settings is told, and the chats go on without them."""
    section = cli_config.load_last_good().web
    if not section.enabled:
        return None
    web, api = _find(gateway, WebAdapter), _find(gateway, ApiAdapter)
    served = ServerSettings(
        home=gateway.home,
        host=section.host,
        port=section.port,
        names=section.names,
        password=cli_config.env_value("HERMES_WEB_PASSWORD"),
        upload_bytes=lambda: cli_config.load_last_good().web.upload_megabytes * 1024 * 1024,
    )
    try:
        server = await open_server(gateway.queries, web, api, served, gateway.adapters)
    except ConfigProblem as problem:
        log.error("The web page is not served: %s", problem)
        return None
    gateway.doors.closers.append(server.close)
    gateway.doors.address = server.plain_address
    return server


def _find(gateway: Gateway, kind: type[Any]) -> Any:
    return next(adapter for adapter in gateway.adapters if isinstance(adapter, kind))
