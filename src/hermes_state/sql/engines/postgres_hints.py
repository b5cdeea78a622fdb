"""Hints through PostgreSQL: NOTIFY and LISTEN on one direct connection, which a thread of its own keeps open."""

import hashlib
import logging
import os
import secrets
import select
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Collection, Mapping
from functools import lru_cache
from typing import Any, TypeAlias

import psycopg
from psycopg import Notify, sql

from hermes_base.errors import StoreFailure
from hermes_state.sql.engines.hints import LONGEST_HINT, Heard

log = logging.getLogger(__name__)

HintConnection: TypeAlias = "psycopg.Connection[tuple[Any, ...]]"
MOST_WAITING = 10_000  # hints that could not be sent yet; the oldest are given up
FIRST_PAUSE, LONGEST_PAUSE = 0.25, 5.0  # between two tries to connect
ECHO_SECONDS = 5.0  # a hint to oneself, sent through another connection, is here by then
CHECK_SECONDS = 60.0  # between two such hints
DEAF = (
    "Hints between gateways do not come through (a connection pooler in transaction mode?): "
    "what others have for this one is found by looking, once a second."
)
UNREACHED = "The database cannot be reached for hints: {error}"


@lru_cache(maxsize=10_000)
def name_channel(topic: str) -> str:
    """Topics may be long, channels may not."""
    return "hermes_" + hashlib.blake2s(topic.encode("utf-8", "replace"), digest_size=16).hexdigest()


class PostgresHints:
    """Implements `HintLine`. `heard` is called on the thread of the line. `send_elsewhere` sends a notification
    (channel and text) through another connection: that it arrives says that this one hears."""

    def __init__(
        self,
        connect: Callable[[], HintConnection],
        heard: Heard,
        send_elsewhere: Callable[[str, str], object],
    ) -> None:
        self.problem = ""
        self._connect = connect
        self._heard = heard
        self._send_elsewhere = send_elsewhere
        self._lock = threading.Lock()
        self._waiting: OrderedDict[tuple[str, str], None] = OrderedDict()  # to be told; of one that waits there is one
        self._wanted: Mapping[str, str] = {}  # channel -> topic
        self._heard_now: frozenset[str] = frozenset()  # channels of this connection
        self._echo = "echo " + secrets.token_hex(8)
        self._echoed = threading.Event()
        self._own_pid = 0  # of the connection: what it told itself is no hint
        self._is_deaf = False
        self._closing = threading.Event()
        self._woken, self._wake = os.pipe()
        os.set_blocking(self._wake, False)
        self._thread = threading.Thread(target=self._work, name="hints", daemon=True)
        self._thread.start()

    # --- any thread

    def tell(self, topic: str, text: str = "") -> None:
        if len(text.encode("utf-8", "replace")) > LONGEST_HINT:
            log.debug("a hint to %s is too long and is not sent", topic)
            return
        with self._lock:
            self._waiting[name_channel(topic), text] = None
            while len(self._waiting) > MOST_WAITING:
                self._waiting.popitem(last=False)
        self._poke()

    def listen(self, topics: Collection[str]) -> None:
        with self._lock:
            self._wanted = {name_channel(topic): topic for topic in topics}
        self._poke()

    def close(self) -> None:
        self._closing.set()
        self._poke()
        self._thread.join(2.0)

    def _poke(self) -> None:
        try:
            os.write(self._wake, b"x")
        except BlockingIOError:
            pass  # it is told already

    # --- the thread of the line

    def _work(self) -> None:
        pause = FIRST_PAUSE
        while not self._closing.is_set():
            try:
                with self._connect() as connection:
                    pause = FIRST_PAUSE
                    self._serve(connection)
            except (psycopg.Error, OSError, StoreFailure) as error:
                if not self.problem:
                    log.warning("%s", UNREACHED.format(error=error))
                self.problem = UNREACHED.format(error=error)
            except Exception:  # the top of a thread that must not end
                log.exception("hints failed; the line is opened again")
            self._closing.wait(pause)
            pause = min(LONGEST_PAUSE, 2 * pause)

    def _serve(self, connection: HintConnection) -> None:
        connection.autocommit = True
        connection.add_notify_handler(self._take)
        self._own_pid = connection.info.backend_pid
        self._heard_now, next_check, deadline = frozenset(), 0.0, 0.0
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        while not self._closing.is_set():
            self._follow(connection)
            self._send(connection)
            self._read(connection)
            now = time.monotonic()
            if now >= next_check:
                self._echoed.clear()
                self._send_elsewhere(name_channel(self._echo), "")
                next_check, deadline = now + CHECK_SECONDS, now + ECHO_SECONDS
            if deadline and (self._echoed.is_set() or now >= deadline):
                self._note_echo(self._echoed.is_set())
                deadline = 0.0
            pause = max(0.0, min(next_check, deadline or next_check) - now)
            for ready, _ in poll.poll(pause * 1000):
                if ready == self._woken:
                    os.read(self._woken, 65_536)
                else:
                    self._read(connection)

    def _follow(self, connection: HintConnection) -> None:
        """Listen to what is wanted now."""
        wanted = {*self._wanted, name_channel(self._echo)}
        if wanted == self._heard_now:
            return
        with connection.pipeline():
            for word, channels in (("listen", wanted - self._heard_now), ("unlisten", self._heard_now - wanted)):
                for channel in channels:
                    connection.execute(sql.SQL(word + " {}").format(sql.Identifier(channel)))
        self._heard_now = frozenset(wanted)

    def _send(self, connection: HintConnection) -> None:
        with self._lock:
            waiting, self._waiting = list(self._waiting), OrderedDict()
        if waiting:
            with connection.pipeline():
                for hint in waiting:
                    connection.execute("select pg_notify(%s, %s)", hint)

    def _read(self, connection: HintConnection) -> None:
        connection.pgconn.consume_input()
        while (found := connection.pgconn.notifies()) is not None:
            channel, text = found.relname.decode(), found.extra.decode("utf-8", "replace")
            self._take(Notify(channel, text, found.be_pid))

    def _take(self, found: Notify) -> None:
        if found.channel == name_channel(self._echo):
            self._echoed.set()
            return
        topic = self._wanted.get(found.channel)
        if topic is None or found.pid == self._own_pid:
            return
        try:
            self._heard(topic, found.payload)
        except Exception:  # the boundary to whoever listens
            log.exception("a hint to %s could not be taken", topic)

    def _note_echo(self, came: bool) -> None:
        if not came and not self._is_deaf:
            log.warning("%s", DEAF)
        self._is_deaf = not came
        self.problem = "" if came else DEAF
