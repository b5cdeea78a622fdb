"""Run as a program: `hermes gateway run` in which something stands still while a file of that name is in a folder.

The files: `loop` (the event loop), `store` (every statement of the store), `hook` (a plugin's look at a message with
"slow" in it), `disconnect-hangs` and `disconnect-raises` (the end of a platform). Its clocks are quick.
"""

import asyncio
import sqlite3
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

from gateway.platforms.hub import HubAdapter
from gateway.service import gateway as service
from gateway.service import pulse, stopping
from gateway.service.gateway import Gateway
from hermes_cli.main import main
from hermes_cli.plugins import get_plugin_manager
from hermes_state.sql import ownership
from hermes_state.sql.engines import sqlite

LOOK_SECONDS = 0.02
QUICK = ((pulse, "BEAT_SECONDS", 0.2), (pulse, "STUCK_SECONDS", 1.0), (pulse, "ANSWER_SECONDS", 1.0))
QUICK = (*QUICK, (ownership, "LEASE_SECONDS", 1.5), (stopping, "LONGEST_STOP", 6.0))


class Gates:
    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def is_closed(self, name: str) -> bool:
        return (self._folder / name).exists()

    def pass_through(self, name: str) -> None:
        """Stand still while the gate is closed."""
        while self.is_closed(name):
            (self._folder / f"{name}.reached").touch()
            time.sleep(LOOK_SECONDS)


def hold_store(gates: Gates) -> None:
    class Held(sqlite3.Connection):
        def execute(self, *args: Any) -> sqlite3.Cursor:
            gates.pass_through("store")
            return super().execute(*args)

    class HeldSqlite:
        """The module as the store sees it."""

        connect = staticmethod(partial(sqlite3.connect, factory=Held))

        def __getattr__(self, name: str) -> Any:
            return getattr(sqlite3, name)

    sqlite.sqlite3 = HeldSqlite()  # type: ignore[assignment]


def hold_loop(gates: Gates) -> None:
    start = Gateway.start

    async def look_on() -> None:
        while True:
            gates.pass_through("loop")
            await asyncio.sleep(LOOK_SECONDS)

    async def start_and_look(gateway: Gateway) -> None:
        await start(gateway)
        gateway.spawn(look_on())

    Gateway.start = start_and_look  # type: ignore[method-assign]


def hold_hook(gates: Gates) -> None:
    def look_at_message(event: Any, **_: Any) -> None:
        if "slow" in event.text:
            gates.pass_through("hook")

    get_plugin_manager()._hooks["pre_gateway_dispatch"] = [look_at_message]


def hold_disconnect(gates: Gates) -> None:
    disconnect = HubAdapter.disconnect

    async def disconnect_badly(adapter: HubAdapter) -> None:
        if gates.is_closed("disconnect-raises"):
            raise OSError("the network is gone")
        while gates.is_closed("disconnect-hangs"):
            try:
                await asyncio.sleep(60)
            except asyncio.CancelledError:
                continue  # it does not listen, either
        await disconnect(adapter)

    HubAdapter.disconnect = disconnect_badly  # type: ignore[method-assign]


if __name__ == "__main__":
    for module, name, value in QUICK:
        setattr(module, name, value)
    service.GRACE_SECONDS = float(sys.argv[2])
    for hold in (hold_store, hold_loop, hold_hook, hold_disconnect):
        hold(Gates(Path(sys.argv[1])))
    sys.exit(main(["gateway", "run", "--anyway"]))
