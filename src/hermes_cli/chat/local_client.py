"""The chat's end of the socket: HTTP to the gateway of a home, one stream that is followed, and a way back to it when
it breaks."""

import http.client
import json
import logging
import os
import queue
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from gateway.http.terminal.listening import peer_uid
from hermes_base import local_wire as wire
from hermes_base.chat import Closed, Event, Idle, Notice
from hermes_base.errors import HermesError
from hermes_base.inbound import FileRef
from hermes_base.text.whole_text import encode_text
from hermes_cli.chat.local_follow import Follower
from hermes_cli.chat.terminal_words import read_command

log = logging.getLogger(__name__)

HELLO_SECONDS = 20.0  # for the gateway to open a conversation
REPLY_SECONDS = 6.0  # for it to answer a stop
_LEAVE_SECONDS = 2.0  # for what was shown to be confirmed
_READ_AT_ONCE = 256 * 1024
_UNREACHED = "The gateway is not there now: {what} did not reach it."
_CLOSED = "The gateway has closed the connection."
_OTHER_VERSION = "The gateway of this home is of another version of hermes."


class Gone(HermesError):
    """The connection broke or the other side does not answer."""


class NotDone(HermesError):
    """The gateway refused a call; `code` says in a word why."""

    def __init__(self, what: str, code: str) -> None:
        super().__init__(what)
        self.code = code


class LocalConnection:
    """A connection to the gateway of a home: for one request after the other, or for a stream that is followed."""

    def __init__(self, home: Path, sock: socket.socket) -> None:
        self._home = home
        self._sock = sock
        self._reading = threading.Lock()
        self._rest = b""
        self._answer: http.client.HTTPResponse | None = None

    def ask(
        self, method: str, path: str, body: Mapping[str, Any] | None = None, seconds: float | None = None
    ) -> http.client.HTTPResponse:
        """The answer, as soon as its head is there; Gone, or NotDone with the words of the gateway."""
        self._sock.settimeout(seconds)
        sender = http.client.HTTPConnection("hermes")
        sender.sock = self._sock
        try:
            given = None if body is None else encode_text(json.dumps(body, ensure_ascii=False))
            with suppress(BrokenPipeError, ConnectionResetError):  # it may have said why before it closed
                sender.request(method, path, given, {"content-type": "application/json"} if given else {})
            answer = self._answer = sender.getresponse()
            if answer.status < http.client.BAD_REQUEST:
                return answer
            error = json.loads(answer.read())["error"]
        except http.client.BadStatusLine as problem:
            if isinstance(problem, http.client.RemoteDisconnected):
                raise Gone(_CLOSED) from problem
            raise HermesError(_OTHER_VERSION, fix="End it where it runs, and start it anew.") from problem
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise Gone("The gateway does not answer.") from problem
        raise NotDone(str(error["message"]), str(error["code"]))

    def post(self, path: str, body: Mapping[str, Any], seconds: float | None = None) -> dict[str, Any]:
        """What came of a call, on a connection of its own."""
        other = self.twin()
        if other is None:
            raise Gone(_CLOSED)
        with closing(other):
            return other.call(path, body, seconds)

    def call(self, path: str, body: Mapping[str, Any], seconds: float | None = None) -> dict[str, Any]:
        """What came of a call, on this connection."""
        answer = self.ask("POST", path, body, seconds)
        try:
            told: dict[str, Any] = json.loads(answer.read())
        except (OSError, http.client.HTTPException, ValueError) as problem:
            raise Gone(_CLOSED) from problem
        return told

    def twin(self) -> "LocalConnection | None":
        """Another connection to the same place; None: nobody listens there any more."""
        return connect(self._home)

    def follow(self, conversation: str, after: wire.Cursor | None) -> None:
        """Begin to read what happens there."""
        wanted = {"conversation": conversation, "after": f"{after.outbox}-{after.seq}" if after else ""}
        self.ask("GET", f"/web/live?{urlencode(wanted)}", seconds=HELLO_SECONDS)

    def read(self, seconds: float | None = None) -> wire.Told | None:
        """The next that is told, of what we know; Gone when there is no more."""
        while b"\n\n" not in self._rest:
            try:
                self._sock.settimeout(seconds)
                with self._reading:
                    piece = self._answer.read1(_READ_AT_ONCE) if self._answer is not None else b""
            except (OSError, http.client.HTTPException, ValueError) as problem:  # ValueError: it was closed meanwhile
                raise Gone(_CLOSED) from problem
            if not piece:
                raise Gone(_CLOSED)
            self._rest += piece
        event, _, self._rest = self._rest.partition(b"\n\n")
        return wire.read_told(json.loads(event[len(b"data: ") :])) if event.startswith(b"data: ") else None

    def close(self) -> None:
        with suppress(OSError):
            self._sock.shutdown(socket.SHUT_RDWR)  # wakes a thread that reads
        with self._reading:
            self._sock.close()
            if self._answer is not None:
                self._answer.close()


def connect(home: Path) -> LocalConnection | None:
    """A connection to the gateway of this home; None: nobody listens."""
    path = wire.socket_path(home)
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        sock.connect(str(path))
        uid = peer_uid(sock)
    except OSError as error:
        sock.close()
        log.debug("nobody listens: %s", error)
        return None
    if uid != os.getuid():
        sock.close()
        raise HermesError(
            f"The socket {path} is served by another user.", kept="Nothing was sent.", fix="Remove the file."
        )
    return LocalConnection(home, sock)


def call_owner(home: Path, name: str, args: dict[str, Any], seconds: float) -> dict[str, Any] | None:
    """What the owner of the home makes of a call; None: nobody listens. HermesError with its words when it refuses."""
    connection = connect(home)
    if connection is None:
        return None
    with closing(connection):
        return connection.call("/web/operate", {"name": name, "args": args}, seconds)


#: Finds a connection, however long it takes: gets a way to tell the person, and a way to ask whether to give up.
Reach = Callable[[Callable[[Event], None], Callable[[], bool]], LocalConnection]


class LocalClient:
    """Implements `ChatHost` over the socket. One thread reads the stream, another says what was typed."""

    def __init__(self, hello: wire.Hello, reach: Reach, leave: Callable[[], None] = lambda: None) -> None:
        self._hello = hello
        self._reach = reach
        self._leave = leave  # called once, at the end
        self._follower = Follower(hello)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._woken: queue.SimpleQueue[bool] = queue.SimpleQueue()  # there is something to say; False: nothing ever
        self._lock = threading.RLock()  # guards the follower; never held while the gateway is asked
        self._showing = threading.Lock()  # held while what was shown is confirmed
        self._connection: LocalConnection | None = None  # while we are welcome
        self._closed = False
        self.banner: tuple[str, ...] = ()
        self.hint = ""
        self.commands: tuple[tuple[str, str, str], ...] = ()  # of plugins

    @property
    def conversation(self) -> str:
        return self._follower.conversation

    def open(self) -> None:
        """Find the gateway and the conversation; HermesError says what is in the way."""
        connection = self._reach(self._events.put, lambda: self._closed)
        try:
            asked = {name: value for name, value in asdict(self._hello).items() if name != "after"}
            opened = connection.call("/web/open", asked, HELLO_SECONDS)
            self.banner, self.hint = tuple(opened["banner"]), opened["hint"]
            self.commands = tuple((str(name), str(args), str(summary)) for name, args, summary in opened["commands"])
            self._enter(connection, opened["conversation"])
        except BaseException:
            connection.close()
            raise
        for work, name in ((self._read_on, "chat-reader"), (self._say_on, "chat-sender")):
            threading.Thread(target=self._work, args=(work,), name=name, daemon=True).start()

    # --- ChatHost

    def submit(self, text: str, files: tuple[FileRef, ...] = ()) -> None:
        command = read_command(text)
        if command is not None and command.name == "quit":
            self._events.put(Closed())
            return
        with self._lock:
            self._follower.say(text, files)
        self._woken.put(True)

    def events(self) -> Iterator[Event]:
        while True:
            event = self._events.get()
            yield event
            if isinstance(event, Closed):
                return

    def stop(self) -> bool:
        return bool(self._ask("/web/stop", {"conversation": self.conversation}, "the stop").get("stopped"))

    def answer(self, question_id: str, text: str) -> bool:
        return bool(self._ask("/web/answer", {"question": question_id, "text": text}, "the answer").get("ok"))

    def _ask(self, path: str, body: Mapping[str, Any], what: str) -> dict[str, Any]:
        """What came of it; nothing, and a word to the person, when it did not reach anybody (B8)."""
        connection = self._connection
        try:
            if connection is None:
                raise Gone(_CLOSED)
            return connection.post(path, body, REPLY_SECONDS)
        except NotDone as problem:
            self._events.put(Notice(str(problem), "warning"))
        except Gone:
            if not self._closed:
                self._events.put(Notice(_UNREACHED.format(what=what), "warning"))
        return {}

    def close(self) -> None:
        with self._lock:
            if self._closed:
                return
            self._closed = True
        if self._showing.acquire(timeout=_LEAVE_SECONDS):
            self._showing.release()
        connection = self._connection
        if connection is not None:
            connection.close()
        self._woken.put(False)
        self._leave()
        self._events.put(Closed())

    # --- what we say

    def _say_on(self) -> None:
        """The thread that says what was typed, in order; while nobody is there it waits for whoever comes next."""
        while self._woken.get():
            while (next := self._find_next()) is not None:
                self._say(*next)

    def _find_next(self) -> tuple[LocalConnection, wire.Say, str] | None:
        with self._lock:
            connection, say = self._connection, self._follower.say_next()
            if connection is None or say is None or self._closed:
                return None
            return connection, say, self.conversation

    def _say(self, connection: LocalConnection, say: wire.Say, conversation: str) -> None:
        body = {**asdict(say), "conversation": conversation, "folder": self._hello.folder}
        try:
            told = connection.post("/web/say", body)
            again, done = bool(told.get("again")), bool(told.get("done"))
            self._take(wire.Stored(say.id, told["seq"], again, done, told.get("outbox", 0)))
        except NotDone as problem:
            if problem.code != "ask_again":
                self._take(wire.NotStored(say.id, str(problem)))
                return
            self._lose(connection)
        except Gone:
            self._lose(connection)

    def _lose(self, connection: LocalConnection) -> None:
        """The reader finds another, and what was not stored is said again there, before all else."""
        with self._lock:
            if self._connection is connection:
                self._connection = None
        connection.close()

    # --- what we are told

    def _work(self, work: Callable[[], None]) -> None:
        try:
            work()
        except HermesError as problem:
            self._end(Notice(str(problem), "error"))
        except Exception as problem:  # the top of a thread
            log.exception("the chat lost its gateway")
            self._end(Notice(f"Something went wrong inside hermes ({type(problem).__name__}: {problem}).", "error"))

    def _read_on(self) -> None:
        """The thread that reads, goes where the conversation leads, and finds the gateway again when it is gone."""
        while not self._closed:
            connection, conversation = self._connection, self.conversation
            try:
                while connection is not None and self.conversation == conversation:
                    self._take(connection.read())
            except Gone:
                log.debug("the stream has ended")
            moved = self.conversation != conversation
            if connection is not None:
                self._lose(connection)
            if not self._closed:
                self._come_back(connection.twin() if moved and connection is not None else None)
        if self._connection is not None:
            self._connection.close()  # it came about while the chat was closed

    def _come_back(self, connection: LocalConnection | None) -> None:
        connection = connection or self._reach(self._events.put, lambda: self._closed)
        try:
            self._enter(connection, self.conversation)
        except Gone:
            connection.close()  # it died again; the next round finds another

    def _enter(self, connection: LocalConnection, conversation: str) -> None:
        """Follow the conversation; what was not stored is said again as soon as we know where it stands."""
        with self._lock:
            self._follower.enter(conversation)
        connection.follow(conversation, self._follower.cursor)
        while not isinstance(told := connection.read(HELLO_SECONDS), wire.Welcome):
            if isinstance(told, wire.Closing):
                raise Gone(told.reason)
        self._take(told)
        with self._lock:
            self._connection = connection
        self._woken.put(True)

    def _take(self, told: wire.Told | wire.Stored | wire.NotStored | None) -> None:
        if told is None:
            return
        with self._showing:
            with self._lock:
                conversation, taken = self.conversation, self._follower.take(told)
                if self.conversation != conversation:
                    self._connection = None  # nothing is said in the new one before it is followed
                for event in taken.events:
                    self._events.put(event)
                connection = self._connection
            if taken.shown and connection is not None:
                with suppress(Gone, NotDone):  # it is asked for again
                    connection.post("/web/got", {"conversation": conversation, "rows": taken.shown}, REPLY_SECONDS)

    def _end(self, last: Event) -> None:
        if not self._closed:
            for event in (last, Idle(), Closed()):
                self._events.put(event)
