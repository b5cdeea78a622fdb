"""The same call for code that runs on a thread and waits: a stop of the turn ends the wait at once.

The call has a thread and an event loop of its own, so it also works where the caller's thread keeps a loop turning.
Names are looked up on threads that nobody has to wait for: the system's resolver may take its time.
"""

import asyncio
import importlib
import socket
import threading
from collections.abc import Awaitable, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from ipaddress import ip_address

from hermes_base.turn.cancel import CancelToken
from hermes_net.address_rules import AddressRules, IpAddress
from hermes_net.call_values import AnsweredCall, HttpCall, Resolve


def call_and_wait(
    call: HttpCall, rules: AddressRules, cancel: CancelToken, resolve: Resolve | None = None
) -> AnsweredCall:
    """Make the call and wait for it; Interrupted as soon as the turn is told to stop, the call is cut then."""
    cancel.check()
    done: Future[AnsweredCall] = Future()
    stop = _Stop(done)
    threading.Thread(
        target=_run, args=(call, rules, resolve or look_up_apart, stop, done), name="web-call", daemon=True
    ).start()
    forget = cancel.on_cancel(stop.set)
    try:
        return done.result()
    except (CancelledError, asyncio.CancelledError):
        cancel.check()
        raise
    finally:
        forget()


class _Stop:
    """Cuts the task of a call, whether it has begun or not, and frees who waits for it."""

    def __init__(self, done: "Future[AnsweredCall]") -> None:
        self._done = done
        self._lock = threading.Lock()
        self._is_set = False
        self._begun: tuple[asyncio.AbstractEventLoop, asyncio.Task[AnsweredCall]] | None = None

    def begin(self, task: "asyncio.Task[AnsweredCall]") -> None:
        with self._lock:
            self._begun = asyncio.get_running_loop(), task
            if self._is_set:
                task.cancel()

    def set(self) -> None:
        self._done.cancel()
        with self._lock:
            self._is_set = True
            if self._begun is not None:
                loop, task = self._begun
                with suppress(RuntimeError):  # it has ended meanwhile
                    loop.call_soon_threadsafe(task.cancel)


def _run(call: HttpCall, rules: AddressRules, resolve: Resolve, stop: _Stop, done: "Future[AnsweredCall]") -> None:
    async def perform() -> AnsweredCall:
        task = asyncio.ensure_future(_begin(call, rules, resolve))
        stop.begin(task)
        return await task

    try:
        answer = asyncio.run(perform())
    except BaseException as problem:  # noqa: BLE001 - handed to whoever waits; nobody else has a use for it
        with suppress(Exception):  # nobody waits any more
            done.set_exception(problem)
    else:
        with suppress(Exception):
            done.set_result(answer)


def _begin(call: HttpCall, rules: AddressRules, resolve: Resolve) -> Awaitable[AnsweredCall]:
    """Late: the HTTP client takes a tenth of a second to load, and most processes never call anybody this way."""
    checked = importlib.import_module("hermes_net.checked_http")
    begun: Awaitable[AnsweredCall] = checked.call_checked(call, rules, resolve)
    return begun


async def look_up_apart(host: str, port: int) -> Sequence[IpAddress]:
    """The addresses of a host, by the system's resolver, on a thread that is left behind when nobody waits."""
    loop = asyncio.get_running_loop()
    found: asyncio.Future[Sequence[IpAddress]] = loop.create_future()

    def settle(addresses: Sequence[IpAddress] | None, problem: OSError | None) -> None:
        if found.done():
            return
        if problem is not None:
            found.set_exception(problem)
        else:
            found.set_result(addresses or ())

    def ask() -> None:
        addresses: Sequence[IpAddress] | None = None
        problem: OSError | None = None
        try:
            answers = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            addresses = list(dict.fromkeys(ip_address(str(where[0])) for *_, where in answers))
        except OSError as error:
            problem = error
        except ValueError as error:  # a name that cannot be written in the form of DNS
            problem = OSError(str(error))
        with suppress(RuntimeError):  # the loop has ended: nobody waits
            loop.call_soon_threadsafe(settle, addresses, problem)

    threading.Thread(target=ask, name="web-name", daemon=True).start()
    return await found
