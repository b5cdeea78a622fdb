"""Joins the gateway that owns this home, or becomes it: whoever holds the home's lock hosts, the others join.

When a gateway goes away and is not started again soon, one of those that were joined takes the lock and hosts; the
others join that one.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from hermes_base.chat import Event, Notice
from hermes_base.errors import HermesError, HomeBusy
from hermes_base.local_wire import Hello
from hermes_cli.chat.local_client import Gone, LocalClient, LocalConnection, Reach, connect
from hermes_cli.config.folder import find_folder
from hermes_constants import get_hermes_home
from hermes_state.home_lock import HomeLock

if TYPE_CHECKING:
    from gateway.app.hosted import GatewayThread

log = logging.getLogger(__name__)

FIRST_SECONDS = 20.0  # a gateway that starts listens by then
RESTART_SECONDS = 3.0  # a gateway that went away may be started again in this time; then a terminal takes the home
_LOOK_SECONDS = 0.1
_TELL_SECONDS = 1.0  # of silence, before the person is told that we wait
HOSTS_NOW = "The gateway went away; this terminal hosts now."
JOINED_AGAIN = "The gateway went away and is back; the chat goes on."
WAITING = "The gateway went away; waiting for it. What you type is kept."


#: Makes the gateway of a home whose lock is held.
MakeHosted = Callable[[Path, HomeLock], "GatewayThread"]


def open_host(wanted: Hello) -> LocalClient:
    """Join or become the gateway, open the conversation that is wanted; HermesError says what is in the way."""
    hello = replace(wanted, client=uuid.uuid4().hex, folder=str(find_folder()))
    gateway = HomeGateway(get_hermes_home())
    client = LocalClient(hello, gateway.reach, gateway.leave)
    gateway.when_hosting = lambda: _let_plugins_speak(client)
    try:
        client.open()
    except BaseException:
        gateway.leave()
        raise
    return client


def make_hosted(home: Path, lock: HomeLock) -> "GatewayThread":
    # Loaded here and not above: who joins a running gateway needs no agent, and it takes most of the start.
    from gateway.app.hosted import GatewayThread  # noqa: PLC0415

    return GatewayThread(home, lock)


def _let_plugins_speak(client: LocalClient) -> None:
    # Loaded here and not above: plugins run where the gateway runs.
    from hermes_cli.plugins import get_plugin_manager  # noqa: PLC0415

    get_plugin_manager()._cli_ref = client  # lets plugins put a message into this chat


class HomeGateway:
    """The gateway of a home as this process has it: it is joined to it, or is it itself."""

    def __init__(self, home: Path, make: MakeHosted = make_hosted, patience: float = RESTART_SECONDS) -> None:
        self._home = home
        self._make = make
        self._patience = patience
        self._lock = HomeLock(home)
        self._hosted: GatewayThread | None = None
        self._changing = threading.Lock()  # taking the home and leaving it exclude each other
        self._left = False
        self._reached = False
        self.when_hosting: Callable[[], None] = lambda: None

    @property
    def hosts(self) -> bool:
        return self._hosted is not None

    def reach(self, tell: Callable[[Event], None], given_up: Callable[[], bool]) -> LocalConnection:
        """A connection to the home's gateway, which may be our own by then; waits for one that is about to come."""
        back, self._reached = self._reached, True
        return self._find(tell, given_up, back)

    def make_reach(self) -> Reach:
        """`reach` for one of several clients of this process: each comes for the first time once."""
        known = False

        def reach(tell: Callable[[Event], None], given_up: Callable[[], bool]) -> LocalConnection:
            nonlocal known
            back, known = known, True
            return self._find(tell, given_up, back)

        return reach

    def _find(self, tell: Callable[[Event], None], given_up: Callable[[], bool], back: bool) -> LocalConnection:
        begun, told = time.monotonic(), False
        while not given_up():
            connection = connect(self._home)
            if connection is not None:
                if back and not self.hosts:
                    tell(Notice(JOINED_AGAIN))
                return connection
            waited = time.monotonic() - begun
            if (not back or waited >= self._patience) and self._take_home(begun, patient=back):
                if back:
                    tell(Notice(HOSTS_NOW))
                continue
            if back and not told and waited > _TELL_SECONDS:
                told = True
                tell(Notice(WAITING, "warning"))
            time.sleep(_LOOK_SECONDS)
        raise Gone("The chat was closed.")

    def _take_home(self, begun: float, *, patient: bool) -> bool:
        """Become the gateway; False while another process has the home and may yet listen."""
        with self._changing:
            if self._left:
                return False
            if self._hosted is not None:
                if time.monotonic() - begun > FIRST_SECONDS:
                    what = "The gateway in this terminal has ended."
                    raise HermesError(what, kept="What was said is kept.", fix="Start hermes again.")
                return False
            try:
                self._lock.acquire()
            except HomeBusy:
                if not patient and time.monotonic() - begun > FIRST_SECONDS:
                    raise
                return False
            try:
                hosted = self._make(self._home, self._lock)
                hosted.start()
            except BaseException:
                self._lock.release()
                raise
            self._hosted = hosted
            self.when_hosting()
            return True

    def leave(self) -> None:
        """Stop hosting and give the home free: one of those that are joined may take it."""
        with self._changing:
            self._left = True
            hosted, self._hosted = self._hosted, None
            try:
                if hosted is not None:
                    hosted.stop()
            except HermesError:
                log.warning("the gateway did not end as it should", exc_info=True)
            finally:
                self._lock.release()
