"""Hermes's side of the network of commands: starts the helper that runs the proxy when the first command needs it,
makes a network for each task, and tells the helper of both.

The commands of a task share a network in which there is nothing but one port, and behind that the proxy. What does not
use the proxy reaches nothing but servers that commands of the same task have started.
"""

import atexit
import json
import logging
import os
import socket
import sys
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from hermes_base.errors import ToolFailure
from hermes_net.address_rules import AddressRules, find_fault, read_numeric, read_rules
from tools.shell.keeper import LIFELINE, NETWORK, PROXY_PORT
from tools.shell.sandbox import make_network
from tools.shell.spawning import Order, Running, keeper

log = logging.getLogger(__name__)

HELPER = "tools.shell.network_helper"
SEND_SECONDS = 10.0
NOTES_BYTES = 32 * 1024
MOST_IDLE = 16  # networks in which nothing runs that are kept for the next command of their task
PROXY = f"http://127.0.0.1:{PROXY_PORT}"
#: Names by which programs look for a proxy; small letters and capitals are both in use.
PROXY_NAMES = ("http_proxy", "https_proxy", "ftp_proxy", "all_proxy")
#: By which a command finds servers of its task: names, and the addresses that they stand for.
ITSELF = {"localhost": "127.0.0.1", "127.0.0.1": "127.0.0.1", "::1": "::1"}


def make_proxy_environment(private: Iterable[str]) -> dict[str, str]:
    """The variables that lead programs to the proxy. Loopback is the task's own, where servers that it starts
    listen; only if the settings let it reach the machine's, that is what is meant."""
    rules = read_rules(private)
    own = ",".join(name for name, address in ITSELF.items() if not _may_call(name, address, rules))
    names = {**dict.fromkeys(PROXY_NAMES, PROXY), "no_proxy": own}
    return {**names, **{name.upper(): value for name, value in names.items()}, "NODE_USE_ENV_PROXY": "1"}


def _may_call(name: str, address: str, rules: AddressRules) -> bool:
    numeric = read_numeric(address)
    return numeric is not None and not find_fault(name, numeric, rules)


@dataclass(frozen=True, slots=True)
class CommandLeave:
    """What a command may do in the network of its task, and where to note what it was refused."""

    task: str
    private: tuple[str, ...]
    notes: str


@dataclass(slots=True)
class TaskNetwork:
    """The network of a task's commands. It is there as long as we hold it, or anything runs in it."""

    number: int  # by which the helper knows it
    space: int
    users: list[Running] = field(default_factory=list)

    def is_idle(self) -> bool:
        self.users = [running for running in self.users if not running.ended.is_set()]
        return not self.users


class NetworkClient:
    """One helper at a time, started when it is needed; it ends with Hermes, or with the keeper."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: Running | None = None
        self._orders: socket.socket | None = None
        self._networks: dict[str, TaskNetwork] = {}  # by task, the one that was used last at the end
        self._numbers = count(1)

    @property
    def pid(self) -> int | None:
        """Of the process that answers for the helper; None: there is none."""
        running = self._running
        return running.pid if running is not None and not running.ended.is_set() else None

    def start(self, order: Order, leave: CommandLeave, *, with_stdin: bool = False) -> Running:
        """Start a command in the network of its task; the first one makes it."""
        try:
            with self._lock:
                return self._start_inside(order, leave, with_stdin)
        except OSError as problem:
            raise ToolFailure(f"The network of commands cannot be used: {problem}; nothing was run.") from problem

    def forget(self, task: str) -> None:
        """Let go of the network of a task; it is gone when nothing runs in it any more."""
        with self._lock:
            self._drop(task)

    def close(self) -> None:
        with self._lock:
            self._let_go()

    def _start_inside(self, order: Order, leave: CommandLeave, with_stdin: bool) -> Running:
        theirs, lifeline = socket.socketpair()
        with theirs, lifeline:
            try:
                network = self._admit(leave, theirs)
            except OSError as problem:  # and with it the port in each network: new ones are made
                log.warning("the proxy for commands is gone (%s); starting it again", problem)
                self._let_go()
                network = self._admit(leave, theirs)
            given = {NETWORK: network.space, LIFELINE: lifeline.fileno()}
            running = keeper.start(order, with_stdin=with_stdin, given=given)
        network.users.append(running)
        return running

    def _admit(self, leave: CommandLeave, lifeline: socket.socket) -> TaskNetwork:
        """The network of the task, in which the helper serves whoever has the other end."""
        if self._orders is None:
            self._orders = self._start()
        network = self._networks.pop(leave.task, None) or self._make(leave.task, self._orders)
        self._networks[leave.task] = network
        order = {"do": "admit", "network": network.number, "private": leave.private, "notes": leave.notes}
        _send(self._orders, order, lifeline.fileno())
        return network

    def _make(self, task: str, orders: socket.socket) -> TaskNetwork:
        idle = [each for each, network in reversed(self._networks.items()) if network.is_idle()]
        for each in idle[MOST_IDLE:]:
            self._drop(each)
        number = next(self._numbers)
        try:
            network = make_network()
        except OSError as problem:  # which is not the helper's fault: other tasks keep theirs
            raise ToolFailure(f"No network could be made for commands: {problem}; nothing was run.") from problem
        with network as made:
            _send(orders, {"do": "open", "network": number, "task": task}, made.listener.fileno())
            return TaskNetwork(number, os.dup(made.space))

    def _drop(self, task: str) -> None:
        """The helper serves what still runs in it."""
        network = self._networks.pop(task, None)
        if network is None:
            return
        os.close(network.space)
        if self._orders is not None:
            try:
                _send(self._orders, {"do": "forget", "network": network.number})
            except OSError as problem:
                log.debug("the proxy for commands is gone: %s", problem)

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
        while self._networks:
            os.close(self._networks.popitem()[1].space)
        if orders is not None:
            orders.close()
        if running is not None:
            running.end(0)


def _send(orders: socket.socket, order: Mapping[str, object], *fds: int) -> None:
    socket.send_fds(orders, [json.dumps(order).encode()], fds)


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
