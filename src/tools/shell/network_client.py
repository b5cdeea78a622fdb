"""Hermes's side of the network of commands: starts the helper that runs the proxy when the first command needs it, and
tells it of each command.

A command has a network of its own in which there is nothing but one port, and behind that the proxy. What does not use
the proxy reaches nothing.
"""

import atexit
import json
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterable, Mapping
from pathlib import Path

from hermes_base.errors import ToolFailure
from hermes_net.address_rules import AddressRules, find_fault, read_numeric, read_rules
from tools.shell.keeper import PROXY_PORT
from tools.shell.spawning import Order, Running, keeper

log = logging.getLogger(__name__)

HELPER = "tools.shell.network_helper"
SEND_SECONDS = 10.0
NOTES_BYTES = 32 * 1024
PROXY = f"http://127.0.0.1:{PROXY_PORT}"
#: Names by which programs look for a proxy; small letters and capitals are both in use.
PROXY_NAMES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")
#: By which a command finds itself: names, and the addresses that they stand for.
ITSELF = {"localhost": "127.0.0.1", "127.0.0.1": "127.0.0.1", "::1": "::1"}


def make_proxy_environment(private: Iterable[str]) -> dict[str, str]:
    """The variables that lead programs to the proxy. Loopback is the command's own, where servers that it starts
    listen; only if the settings let it reach the machine's, that is what is meant."""
    rules = read_rules(private)
    own = ",".join(name for name, address in ITSELF.items() if not _may_call(name, address, rules))
    names = {**dict.fromkeys(PROXY_NAMES, PROXY), "no_proxy": own}
    return {**names, **{name.upper(): value for name, value in names.items()}, "NODE_USE_ENV_PROXY": "1"}


def _may_call(name: str, address: str, rules: AddressRules) -> bool:
    numeric = read_numeric(address)
    return numeric is not None and not find_fault(name, numeric, rules)


class NetworkClient:
    """One helper at a time, started when it is needed; it ends with Hermes, or with the keeper."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Running | None = None
        self._orders: socket.socket | None = None

    @property
    def pid(self) -> int | None:
        """Of the process that answers for the helper; None: there is none."""
        running = self._running
        return running.pid if running is not None and not running.ended.is_set() else None

    def admit(self, task: str, private: Iterable[str], notes: str) -> socket.socket:
        """The line for the porter of a command; the proxy serves that command when the port has come through it."""
        ours, porters = socket.socketpair()
        order = json.dumps({"task": task, "private": list(private), "notes": notes}).encode()
        try:
            with ours, self._lock:
                self._send(order, ours)
        except OSError as problem:
            porters.close()
            raise ToolFailure(f"The proxy for commands takes no orders: {problem}; nothing was run.") from problem
        except ToolFailure:
            porters.close()
            raise
        return porters

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def _send(self, order: bytes, line: socket.socket) -> None:
        if self._orders is not None:
            try:
                socket.send_fds(self._orders, [order], [line.fileno()])
            except OSError as problem:
                log.warning("the proxy for commands is gone (%s); starting it again", problem)
                self._let_go()
            else:
                return
        self._orders = self._start()
        socket.send_fds(self._orders, [order], [line.fileno()])

    def _start(self) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.settimeout(SEND_SECONDS)
        modules = os.pathsep.join(os.path.abspath(entry) for entry in sys.path if entry)
        env: Mapping[str, str] = {"PATH": os.defpath, "PYTHONPATH": modules, "PYTHONUTF8": "1"}
        try:
            with theirs:
                running = keeper.start(Order([sys.executable, "-P", "-m", HELPER], "/", env), line=theirs)
        except ToolFailure:
            ours.close()
            raise
        running.finish()
        running.spool.close()
        self._running = running
        atexit.register(self.close)
        return ours

    def _let_go(self) -> None:
        atexit.unregister(self.close)
        running, orders = self._running, self._orders
        self._running = self._orders = None
        if orders is not None:
            orders.close()
        if running is not None:
            running.end(0)


def take_refusals(notes: str) -> list[str]:
    """What the proxy refused a command, and why; the notes are gone then."""
    path = Path(notes)
    try:
        with path.open("rb") as file:
            text = file.read(NOTES_BYTES).decode("utf-8", "replace")
        path.unlink()
    except OSError:
        return []  # nothing was refused
    return text.splitlines()


network_client = NetworkClient()
