"""The chat's end of the local socket: connects, follows one conversation, and comes back when the connection breaks."""

import logging
import os
import queue
import socket
import struct
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

from gateway.platforms.local.listening import peer_uid
from hermes_base import local_wire as wire
from hermes_base.chat import Closed, Event, Idle, Notice
from hermes_base.errors import HermesError
from hermes_base.inbound import FileRef
from hermes_cli.chat.local_follow import Follower, FollowUp
from hermes_cli.chat.terminal_words import read_command

log = logging.getLogger(__name__)

HELLO_SECONDS = 20.0  # for the gateway to answer a hello
REPLY_SECONDS = 6.0  # for it to answer a stop
_WRITE_SECONDS = 30
_UNREACHED = "The gateway is not there now: {what} did not reach it."


class Gone(HermesError):
    """The connection broke or the other side does not answer."""


class LocalConnection:
    """Lines to and from the gateway of a home."""

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", _WRITE_SECONDS, 0))
        self._reader = sock.makefile("rb")
        self._writing = threading.Lock()

    def send(self, message: wire.FromClient) -> None:
        try:
            with self._writing:
                self._sock.sendall(wire.encode(message))
        except OSError as error:
            raise Gone("The gateway has closed the connection.") from error

    def read(self, seconds: float | None = None) -> wire.FromGateway:
        """The next line; Gone when there is none, or none in time."""
        try:
            self._sock.settimeout(seconds)
            line = self._reader.readline(wire.MAX_LINE + 1)
        except OSError as error:
            raise Gone("The gateway does not answer.") from error
        if not line.endswith(b"\n"):
            raise Gone("The gateway has closed the connection.")
        return wire.decode_from_gateway(line)

    def close(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads
        self._sock.close()


def connect(home: Path) -> LocalConnection | None:
    """A connection to the gateway of this home; None: nobody listens."""
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(str(wire.socket_path(home)))
        uid = peer_uid(sock)
    except OSError as error:
        sock.close()
        log.debug("nobody listens: %s", error)
        return None
    if uid != os.getuid():
        sock.close()
        raise HermesError(
            f"The socket {wire.socket_path(home)} is served by another user.",
            kept="Nothing was sent.",
            fix="Remove the file.",
        )
    return LocalConnection(sock)


def call(connection: LocalConnection, name: str, args: dict[str, Any], seconds: float | None = None) -> dict[str, Any]:
    """What the owner of the home makes of a call; HermesError with its words when it refuses."""
    wanted = uuid.uuid4().hex
    connection.send(wire.Call(wanted, name, args))
    while True:
        line = connection.read(seconds)
        if isinstance(line, wire.Told) and line.id == wanted:
            if line.ok:
                return dict(line.result)
            raise HermesError(line.error)
        if isinstance(line, wire.Trouble):
            raise HermesError(line.text)


def call_owner(home: Path, name: str, args: dict[str, Any], seconds: float) -> dict[str, Any] | None:
    """As `call`, over a connection of its own; None: nobody listens."""
    connection = connect(home)
    if connection is None:
        return None
    with closing(connection):
        return call(connection, name, args, seconds)


#: Finds a connection, however long it takes: gets a way to tell the person, and a way to ask whether to give up.
Reach = Callable[[Callable[[Event], None], Callable[[], bool]], LocalConnection]


class LocalClient:
    """Implements `ChatHost` over the local socket."""

    def __init__(self, hello: wire.Hello, reach: Reach, leave: Callable[[], None] = lambda: None) -> None:
        self._reach = reach
        self._leave = leave  # called once, at the end
        self._follower = Follower(hello)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._lock = threading.RLock()  # guards what follows; never held while events are read
        self._connection: LocalConnection | None = None
        self._replies: dict[str, queue.SimpleQueue[wire.Stopped | wire.Answered | None]] = {}
        self._closed = False
        self.banner: tuple[str, ...] = ()
        self.hint = ""

    @property
    def conversation(self) -> str:
        return self._follower.conversation

    def open(self) -> None:
        """Find the gateway and the conversation; HermesError says what is in the way."""
        connection = self._reach(self._events.put, lambda: self._closed)
        try:
            welcome = self._greet(connection)
            self.banner, self.hint = welcome.banner, welcome.hint
        except BaseException:
            connection.close()
            raise
        threading.Thread(target=self._read_on, name="chat-reader", daemon=True).start()

    # --- ChatHost

    def submit(self, text: str, files: tuple[FileRef, ...] = ()) -> None:
        command = read_command(text)
        if command is not None and command.name == "quit":
            self._events.put(Closed())
            return
        with self._lock:
            say = self._follower.say(text, files)
            try:
                self._send(say)  # while nobody is there it waits: whoever comes next is told
            except wire.WireProblem as problem:
                self._perform(self._follower.take(wire.NotStored(say.id, str(problem))))  # it could not leave

    def events(self) -> Iterator[Event]:
        while True:
            event = self._events.get()
            yield event
            if isinstance(event, Closed):
                return

    def stop(self) -> bool:
        reply = self._ask(wire.Stop(uuid.uuid4().hex), "the stop")
        if isinstance(reply, wire.Stopped) and not reply.ok and reply.reason:
            self._events.put(Notice(reply.reason, "warning"))
        return reply is not None and reply.ok

    def answer(self, question_id: str, text: str) -> bool:
        reply = self._ask(wire.GiveAnswer(question_id, text, uuid.uuid4().hex), "the answer")
        return reply is not None and reply.ok

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
            self._send(wire.Bye())
            if self._connection is not None:
                self._connection.close()
        self._leave()
        self._events.put(Closed())

    # --- lines out

    def _send(self, message: wire.FromClient) -> bool:
        """False when it did not leave: the reader finds out about the connection itself."""
        with self._lock:
            if self._connection is None:
                return False
            try:
                self._connection.send(message)
            except Gone:
                self._connection.close()  # half a line may have left
                return False
            return True

    def _ask(self, message: wire.Stop | wire.GiveAnswer, what: str) -> wire.Stopped | wire.Answered | None:
        """Send and wait for the reply; None, and a word to the person, when there is none (B8)."""
        box: queue.SimpleQueue[wire.Stopped | wire.Answered | None] = queue.SimpleQueue()
        self._replies[message.id] = box
        reply = None
        if self._send(message):
            with suppress(queue.Empty):
                reply = box.get(timeout=REPLY_SECONDS)
        del self._replies[message.id]
        if reply is None and not self._closed:
            self._events.put(Notice(_UNREACHED.format(what=what), "warning"))
        return reply

    # --- lines in

    def _read_on(self) -> None:
        """The thread that reads, and finds the gateway again when it is gone."""
        try:
            while not self._closed:
                self._read_connection()
                if not self._closed:
                    connection = self._reach(self._events.put, lambda: self._closed)
                    try:
                        self._greet(connection)
                    except Gone:
                        connection.close()  # it died again; the next round finds another
        except HermesError as problem:
            self._end(Notice(str(problem), "error"))
        except Exception as problem:  # the top of a thread
            log.exception("the chat lost its gateway")
            self._end(Notice(f"Something went wrong inside hermes ({type(problem).__name__}: {problem}).", "error"))

    def _read_connection(self) -> None:
        connection = self._connection
        if connection is None:
            return
        try:
            while True:
                try:
                    self._take(connection.read())
                except wire.WireProblem as problem:
                    log.warning("a line of the gateway is left out: %s", problem)  # a newer gateway may say more
        except (Gone, ValueError):  # ValueError: it was closed under the reader
            connection.close()
        with self._lock:
            self._connection = None
        for box in list(self._replies.values()):
            box.put(None)

    def _greet(self, connection: LocalConnection) -> wire.Welcome:
        """Say hello and take the welcome; what was not stored goes out again with it."""
        connection.send(self._follower.hello())
        while not isinstance(line := connection.read(HELLO_SECONDS), wire.Welcome):
            if isinstance(line, wire.Trouble):
                raise HermesError(line.text)
            if isinstance(line, wire.Closing):
                raise Gone(line.reason)
        with self._lock:
            self._connection = connection
            self._take(line)
        return line

    def _take(self, line: wire.FromGateway) -> None:
        if isinstance(line, wire.Stopped | wire.Answered):
            box = self._replies.get(line.id)
            if box is not None:
                box.put(line)
            return
        with self._lock:
            self._perform(self._follower.take(line))

    def _perform(self, taken: FollowUp) -> None:
        for event in taken.events:
            self._events.put(event)
        for reply in taken.replies:
            self._send(reply)

    def _end(self, last: Event) -> None:
        if not self._closed:
            for event in (last, Idle(), Closed()):
                self._events.put(event)
