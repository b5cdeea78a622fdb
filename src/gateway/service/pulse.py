"""The pulse of a gateway: says again and again that this process lives, and knows when it does not.

A heartbeat is a write to the store, made on a thread of its own. Without one the node is dead after its lease, and its
conversations are free for others. The pulse itself never ends before the process does: an event loop that stood still
gives no heartbeat, and when it moves again this process joins as a new node.
"""

import asyncio
import contextlib
import logging
import math
import socket
import threading
import time
from collections.abc import Callable
from pathlib import Path

from gateway.core import feature_gate
from gateway.core.meters import Meters
from gateway.turns.sender import DISK_FULL_NOW, LEAST_FREE_BYTES, measure_free
from hermes_base.errors import StoreFailure
from hermes_constants import VERSION
from hermes_state import home_lock
from hermes_state.sql.turns_sql import TurnStore
from hermes_state.turns import BEAT_SECONDS, LEASE_SECONDS, NodeAbout, NodeInfo

log = logging.getLogger(__name__)

TICK_SECONDS = 0.5  # between two looks at how late the event loop is
STUCK_SECONDS = 60.0  # an event loop that has not moved for so long is dead, and so is the node
FRESH_SECONDS = 1.0  # who asks is told what a heartbeat of this age says
ANSWER_SECONDS = 2.0  # and waits no longer than this for a newer one


class Pulse:
    """Of one process. `take_node` is called on the event loop with the node's id, whenever there is a new one."""

    def __init__(
        self,
        home: Path,
        turns: TurnStore,
        meters: Meters,
        take_node: Callable[[str], None],
        describe: Callable[[], NodeAbout | None],
    ) -> None:
        """`describe` says what this process can do."""
        self._home = home
        self._describe = describe
        self._turns = turns
        self._meters = meters
        self._take_node = take_node
        self._node = ""
        self._joined = 0.0  # when it became one
        self._ticked = time.monotonic()  # when the event loop was last seen to move
        self._beaten = -math.inf  # when the last heartbeat that was taken began
        self._problem = ""  # what was wrong with the last one
        self._withheld = frozenset(feature_gate.SINCE)  # what not all gateways know, by the last heartbeat
        self._is_stuck = False
        self._made = asyncio.Event()  # the heartbeat that comes next
        self._wanted = threading.Event()
        self._leaving = threading.Event()

    def join(self) -> str:
        """Become a node; the store is called here."""
        address = f"{socket.gethostname()}:{self._home}"
        if self._turns.is_shared and not self._node:
            self._end_former()
        began = time.monotonic()
        info = NodeInfo(VERSION, alone=not self._turns.is_shared, address=address, about=self._describe())
        self._node, self._joined = self._turns.join(info, self._node), began
        if self._turns.is_shared:
            home_lock.note_node(self._home, self._node)
        return self._node

    def _end_former(self) -> None:
        """Whoever had this home before is dead: nobody has to wait until its lease is over."""
        dead = home_lock.find_dead_node(self._home)
        if dead and self._turns.leave(dead):
            log.warning("the gateway before this one ended without a word; what it worked on goes on now")

    def lives_until(self) -> float:
        """When others may take this process for dead, if no heartbeat comes before (of the clock that is never set)."""
        if not self._turns.is_shared:
            return math.inf
        return max(self._beaten, self._joined) + LEASE_SECONDS

    def has(self, feature: str) -> bool:
        """Whether every gateway on this store knows this feature, as far as is known: a heartbeat ago, all that lived
        did. Asks nobody."""
        return feature not in self._withheld and time.monotonic() < self.lives_until()

    def start(self) -> None:
        """On the event loop."""
        self._loop = asyncio.get_running_loop()
        self._ticking = self._loop.create_task(self._tick())
        threading.Thread(target=self._beat_on, name="heartbeat", daemon=True).start()

    def stop(self) -> None:
        """No heartbeat is begun any more."""
        self._leaving.set()
        self._wanted.set()
        self._ticking.cancel()

    async def check(self) -> str:
        """Why this process is not alive as others see it; empty: a heartbeat was taken just now. Waits for one if need
        be, but not for long."""
        since = time.monotonic() - FRESH_SECONDS
        self._wanted.set()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(ANSWER_SECONDS):
                while self._beaten < since:
                    await self._made.wait()
        if self._beaten >= since:
            return self._problem
        return self._problem or f"The store has not answered for {time.monotonic() - self._beaten:.0f} s."

    def _tell_waiting(self) -> None:
        self._made.set()
        self._made = asyncio.Event()

    async def _tick(self) -> None:
        """H9: how much later than asked for the event loop comes back."""
        while True:
            self._ticked = began = time.monotonic()
            await asyncio.sleep(TICK_SECONDS)
            self._meters.loop_lag.note(time.monotonic() - began - TICK_SECONDS)

    # --- on the thread of the heartbeat

    def _beat_on(self) -> None:
        while not self._leaving.is_set():
            try:
                self._beat()
            except (StoreFailure, OSError) as problem:
                log.warning("no heartbeat: %s", problem)
                self._problem = str(problem)
            except Exception:  # the top of a thread that must not end
                log.exception("a heartbeat failed; the next one is made")
                self._problem = "The heartbeat failed; the log says why."
            with contextlib.suppress(RuntimeError):  # the event loop has ended: nobody waits there
                self._loop.call_soon_threadsafe(self._tell_waiting)
            self._wanted.wait(BEAT_SECONDS)
            self._wanted.clear()

    def _beat(self) -> None:
        """One heartbeat, unless the event loop stands still: others may have the conversations then."""
        began = time.monotonic()
        if began - self._ticked > STUCK_SECONDS:
            if not self._is_stuck:
                log.critical("the event loop is stuck: this process gives its conversations up until it moves again")
            self._is_stuck, self._problem = True, "The event loop stood still."
            return
        self._is_stuck = False
        full = "" if measure_free(self._home) >= LEAST_FREE_BYTES else DISK_FULL_NOW
        if self._turns.heartbeat(self._node):
            self._problem, self._beaten = full, began
            if feature_gate.SINCE:
                self._look_at_versions()
        elif not self._leaving.is_set():
            # The machine slept, the event loop stood still, or the store was held for too long.
            log.warning("this process was taken for dead; it joins anew")
            self._problem = "This process was taken for dead, and joins anew."
            self._loop.call_soon_threadsafe(self._take_node, self.join())
            self._wanted.set()  # the new node's first heartbeat

    def _look_at_versions(self) -> None:
        """I5: what somebody beside us does not know is not used by anybody."""
        before, self._withheld = self._withheld, feature_gate.find_withheld(self._turns.versions())
        if begun := before - self._withheld:
            log.info("every gateway on this store knows it, so it is used: %s", ", ".join(sorted(begun)))
        if ended := self._withheld - before:
            log.warning("an older gateway has joined, so this is not used any more: %s", ", ".join(sorted(ended)))
