"""The helper for the network of commands: a process that runs the proxy for all of them (G8).

It takes orders on the socket that it was started with, one a message: to open a network, with its task and a socket for
the one port in it; to admit a command there, with the private addresses that the task may call now, a file for what is
refused meanwhile, and a line that ends when nothing is left of the command; to forget a network. When it was forgotten
and its last command has ended, the port is closed with all that goes through it. When Hermes is gone, so is the helper.
"""

import asyncio
import json
import logging
import os
import socket
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any
from weakref import WeakValueDictionary

from hermes_net.address_rules import read_rules
from hermes_net.filter_proxy import FilterProxy, make_room
from hermes_net.proxy_accounts import ConnectionShare, ProxyAccount

log = logging.getLogger(__name__)

ORDER_BYTES = 1024 * 1024
WORD_BYTES = 4096
MOST_NOTED, NOTED_CHARS = 20, 500


@dataclass(slots=True, eq=False)
class ProxyRefusals:
    """What a command was refused, each once, in a file that Hermes reads when the command has ended."""

    path: str
    known: set[str] = field(default_factory=set)

    def add(self, why: str) -> None:
        why = " ".join(why.split())[:NOTED_CHARS]
        if why in self.known or len(self.known) >= MOST_NOTED:
            return
        self.known.add(why)
        try:
            with open(self.path, "a", encoding="utf-8") as file:
                file.write(f"{why}\n")
        except OSError as problem:  # its task has been forgotten, and nobody will ask
            log.debug("a refusal could not be noted: %s", problem)


class ServedNetwork:
    """The network of a task, and the commands in it. Whichever of them was refused something, all that run just then
    are told: they come through the same port."""

    def __init__(self, share: ConnectionShare) -> None:
        self.account = ProxyAccount(read_rules([]), share, self.note)
        self.server: asyncio.Server | None = None
        self.running: list[ProxyRefusals] = []
        self.forgotten = False

    def note(self, why: str) -> None:
        for refusals in self.running:
            refusals.add(why)


class NetworkHelper:
    def __init__(self) -> None:
        self._proxy = FilterProxy()
        self._shares: WeakValueDictionary[str, ConnectionShare] = WeakValueDictionary()  # one for each task
        self._networks: dict[int, ServedNetwork] = {}
        self._commands: set[asyncio.Task[None]] = set()

    async def serve(self, orders: socket.socket) -> None:
        deeds: Mapping[str, Callable[..., Awaitable[None]]]
        deeds = {"open": self._open, "admit": self._admit, "forget": self._forget}
        while True:
            text, sockets = await receive(orders, ORDER_BYTES)
            if not text:
                break
            order = json.loads(text)
            await deeds[order["do"]](order, *sockets)
        for command in tuple(self._commands):
            command.cancel()
        await asyncio.gather(*self._commands, return_exceptions=True)
        await self._proxy.stop()

    async def _open(self, order: Mapping[str, Any], listener: socket.socket) -> None:
        network = ServedNetwork(self._shares.setdefault(order["task"], ConnectionShare()))
        self._networks[order["network"]] = network
        network.server = await self._proxy.listen_for(network.account, listener)

    async def _admit(self, order: Mapping[str, Any], line: socket.socket) -> None:
        network = self._networks[order["network"]]
        network.account.rules = read_rules(order["private"])
        refusals = ProxyRefusals(order["notes"])
        network.running.append(refusals)
        command = asyncio.ensure_future(self._wait_for_end(order["network"], refusals, line))
        self._commands.add(command)
        command.add_done_callback(self._commands.discard)

    async def _forget(self, order: Mapping[str, Any]) -> None:
        self._networks[order["network"]].forgotten = True
        self._close_unused(order["network"])

    async def _wait_for_end(self, number: int, refusals: ProxyRefusals, line: socket.socket) -> None:
        with line:
            try:
                while (await receive(line, WORD_BYTES))[0]:
                    pass
            finally:
                self._networks[number].running.remove(refusals)
                self._close_unused(number)

    def _close_unused(self, number: int) -> None:
        network = self._networks[number]
        if network.forgotten and not network.running:
            del self._networks[number]
            if network.server is not None:
                network.server.close()
            self._proxy.drop_account(network.account)


async def receive(line: socket.socket, most: int) -> tuple[bytes, list[socket.socket]]:
    """The next message with the sockets in it; an empty one is the end."""
    loop = asyncio.get_running_loop()
    while True:
        try:
            text, fds, _, _ = socket.recv_fds(line, most, 1)
        except BlockingIOError:
            ready = asyncio.Event()
            loop.add_reader(line, ready.set)
            try:
                await ready.wait()
            finally:
                loop.remove_reader(line)
            continue
        except OSError:
            return b"", []
        sockets = [socket.socket(fileno=fd) for fd in fds]
        for each in sockets:
            each.setblocking(False)
        return text, sockets


async def run(orders: socket.socket) -> None:
    make_room()
    orders.setblocking(False)
    await NetworkHelper().serve(orders)


def main() -> None:
    """The socket is our input; what libraries print goes nowhere."""
    orders = socket.socket(fileno=os.dup(0))
    empty = os.open(os.devnull, os.O_RDWR)
    for number in (0, 1, 2):
        os.dup2(empty, number)
    logging.disable()
    with orders:
        asyncio.run(run(orders))
    sys.stdout.flush()
    os._exit(0)  # a look-up that nobody waits for must not keep us


if __name__ == "__main__":
    main()
