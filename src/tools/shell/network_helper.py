"""The helper for the network of commands: a process that runs the proxy for all of them (G8).

It takes orders on the socket that it was started with, one a message: whose command it is, which private addresses it
may call, where to note what it was refused, and a line to the porter of that command, who sends the socket of the one
port in the command's network. When that line ends, nothing is left of the command, and the port is closed with all that
goes through it. When Hermes is gone, so is the helper.
"""

import asyncio
import json
import logging
import os
import socket
import sys
from dataclasses import dataclass, field
from weakref import WeakValueDictionary

from hermes_net.address_rules import read_rules
from hermes_net.filter_proxy import FilterProxy, make_room
from hermes_net.proxy_accounts import ConnectionShare, ProxyAccount

log = logging.getLogger(__name__)

ORDER_BYTES = 1024 * 1024
WORD_BYTES = 4096
MOST_NOTED, NOTED_CHARS = 20, 500


@dataclass(slots=True)
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


class NetworkHelper:
    def __init__(self) -> None:
        self._proxy = FilterProxy()
        self._shares: WeakValueDictionary[str, ConnectionShare] = WeakValueDictionary()  # one for each task
        self._commands: set[asyncio.Task[None]] = set()

    async def serve(self, orders: socket.socket) -> None:
        while True:
            text, lines = await receive(orders, ORDER_BYTES)
            if not text:
                break
            serving = asyncio.ensure_future(self._serve_command(json.loads(text), lines[0]))
            self._commands.add(serving)
            serving.add_done_callback(self._commands.discard)
        for serving in tuple(self._commands):
            serving.cancel()
        await asyncio.gather(*self._commands, return_exceptions=True)
        await self._proxy.stop()

    async def _serve_command(self, order: dict[str, object], line: socket.socket) -> None:
        """For as long as anything of the command is left."""
        task, private = str(order["task"]), order["private"]
        assert isinstance(private, list)
        share = self._shares.setdefault(task, ConnectionShare())
        account = ProxyAccount(read_rules(private), share, ProxyRefusals(str(order["notes"])).add)
        with line:
            _, listeners = await receive(line, WORD_BYTES)
            if not listeners:
                return  # its network leads nowhere
            server = await self._proxy.listen_for(account, listeners[0])
            try:
                while (await receive(line, WORD_BYTES))[0]:
                    pass
            finally:
                server.close()
                self._proxy.drop_account(account)


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
