"""A gateway as a process that can be killed and started again, and somebody at its socket who does not mind."""

import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from store_places import read_rows, write_rows
from warm_python import WarmProcess

from hermes_base import local_wire as wire
from hermes_base.inbound import Outgoing
from hermes_base.store_place import find_place
from hermes_cli.chat.local_client import Gone, LocalConnection, NotDone, connect

HERMES = str(Path(sys.executable).with_name("hermes"))
DYING = str(Path(__file__).with_name("dying_gateway.py"))
PATIENCE = 120.0
_AGAIN_SECONDS = 0.02


class GatewayProcess:
    """`hermes gateway run` in one home, one life after the other."""

    def __init__(self, home: Path, base_url: str, **settings: Any) -> None:
        home.mkdir(parents=True, exist_ok=True)
        config = {"model": {"base_url": base_url, "default": "lab"}, "approvals": {"mode": "auto"}, **settings}
        (home / "config.yaml").write_text(json.dumps(config))
        self.home = home
        self.program = [HERMES, "gateway", "run", "--anyway"]
        self.lives = 0
        self.build: Path | None = None  # the packages of another version, which its next lives run
        self._log = home / "lives.log"
        self._child: WarmProcess | subprocess.Popen[str] | None = None

    @property
    def pid(self) -> int:
        assert self._child is not None
        return self._child.pid

    @property
    def log(self) -> str:
        """What all lives wrote to their standard error."""
        return self._log.read_text(errors="replace") if self._log.exists() else ""

    def start(self, *, wait: bool = True, dies_after: tuple[int, str] | None = None) -> None:
        """Begin another life; returns when it listens, unless told not to wait. `dies_after`: so many commits after it
        has accepted a message with this word it is killed."""
        self.lives += 1
        dying = [DYING, *map(str, dies_after)] if dies_after else None
        with self._log.open("a") as log:
            print(f"--- life {self.lives}", file=log, flush=True)
            if self.build is None:
                self._child = WarmProcess(dying or self.program, stderr=log.fileno(), env=self.environment)
            else:
                code = {**self.environment, "PYTHONPATH": str(self.build)}
                pipe, told = subprocess.PIPE, log.fileno()
                self._child = subprocess.Popen(self.program, stdout=pipe, stderr=told, env=code, text=True)
        if wait:
            self.wait_ready()

    @property
    def environment(self) -> dict[str, str]:
        return {**os.environ, "HERMES_HOME": str(self.home)}

    def wait_ready(self) -> None:
        assert self._child is not None
        assert self._child.stdout is not None
        said = next((line for line in self._child.stdout if "Hermes runs" in line), "")
        assert said, f"the gateway did not start\n{self.log[-3000:]}"

    @property
    def is_dead(self) -> bool:
        return self._child is None or self._child.poll() is not None

    def kill(self) -> None:
        self._end(self._child.kill if self._child else lambda: None)

    def terminate(self) -> int:
        """Ask it to end, and wait; its exit code."""
        return self._end(self._child.terminate if self._child else lambda: None)

    def _end(self, tell: Any) -> int:
        child, self._child = self._child, None
        if child is None:
            return 0
        with child:
            tell()
            return child.wait(PATIENCE)

    def __enter__(self) -> "GatewayProcess":
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()


@dataclass(frozen=True, slots=True)
class Shown:
    """A delivered row as the person saw it."""

    row: int
    outgoing: Outgoing


@dataclass(slots=True)
class Said:
    id: str
    text: str
    seq: int | None = None
    refused: str = ""


@dataclass(slots=True)
class _State:
    said: list[Said] = field(default_factory=list)
    dealt: set[int] = field(default_factory=set)
    shown: list[Shown] = field(default_factory=list)
    repeats: int = 0
    row: int = 0


class Person:
    """Somebody in one conversation. Comes back whenever the gateway does, says again what was not stored, under the
    same id, and knows by its key what was seen before."""

    def __init__(self, home: Path, name: str, *, folder: str = "", slowness: float = 0.0) -> None:
        self.name = name
        self.conversation = f"agent:main:local:dm:{name}"
        self._home = home
        self._folder = folder
        self._slowness = slowness  # seconds between seeing a message and saying so
        self._state = _State()
        self._lock = threading.Condition()
        self._stream: LocalConnection | None = None
        self._woken: queue.SimpleQueue[bool] = queue.SimpleQueue()  # there may be something to say; False: nothing ever
        self._refused: set[str] = set()  # by this gateway: the next one is asked again
        self._leaving = threading.Event()
        self._threads = [threading.Thread(target=work, daemon=True) for work in (self._live, self._say_on)]
        for thread in self._threads:
            thread.start()

    @property
    def texts(self) -> list[str]:
        with self._lock:
            return [said.text for said in self._state.said]

    @property
    def shown(self) -> list[Shown]:
        with self._lock:
            return list(self._state.shown)

    @property
    def repeats(self) -> int:
        return self._state.repeats

    def say(self, text: str) -> Said:
        with self._lock:
            said = Said(str(len(self._state.said) + 1), text)
            self._state.said.append(said)
        self._woken.put(True)
        return said

    def wait_dealt(self, *said: Said, seconds: float = PATIENCE) -> None:
        """Until these messages are dealt with."""
        with self._lock:
            done = self._lock.wait_for(lambda: all(each.seq in self._state.dealt for each in said), seconds)
            assert done, f"{self.name}: not dealt with in {seconds:.0f} s: {[(one.seq, one.text) for one in said]}"

    def is_dealt(self, said: Said) -> bool:
        with self._lock:
            return said.seq in self._state.dealt

    def wait_stored(self, said: Said, seconds: float = PATIENCE) -> None:
        with self._lock:
            assert self._lock.wait_for(lambda: said.seq is not None, seconds), f"not stored: {said.text}"

    def wait_refused(self, said: Said, seconds: float = PATIENCE) -> str:
        """Until the message was refused; why."""
        with self._lock:
            assert self._lock.wait_for(lambda: said.refused, seconds), f"not refused: {said.text}"
            return said.refused

    def wait_shown(self, text: str, seconds: float = PATIENCE) -> Shown:
        """Until something with this text in it was shown."""

        def find() -> Shown | None:
            return next((one for one in self._state.shown if text in one.outgoing.text), None)

        with self._lock:
            found = self._lock.wait_for(find, seconds)
            assert found, f"{self.name} was never told {text!r}: {[one.outgoing.text for one in self._state.shown]}"
            return found

    def ask(self, text: str, seconds: float = PATIENCE) -> None:
        self.wait_dealt(self.say(text), seconds=seconds)

    def close(self) -> None:
        self._leaving.set()
        self._woken.put(False)
        with self._lock:
            stream = self._stream
        if stream is not None:
            stream.close()
        for thread in self._threads:
            thread.join(PATIENCE)

    # --- the connection

    def _live(self) -> None:
        while not self._leaving.is_set():
            with _ignoring_loss():
                connection = connect(self._home)
                if connection is not None:
                    with closing(connection):
                        self._talk(connection)
            with self._lock:
                self._stream = None
            time.sleep(_AGAIN_SECONDS)

    def _talk(self, connection: LocalConnection) -> None:
        with self._lock:
            self._stream = connection
            if self._leaving.is_set():
                return
        connection.follow(self.conversation, wire.Cursor(self._state.row, len(self._state.said)))
        while True:
            told = connection.read()
            with self._lock:
                self._take(told)
                self._lock.notify_all()
            if isinstance(told, wire.Deliver) and told.waits:
                self._leaving.wait(self._slowness)
                connection.post("/web/got", {"conversation": self.conversation, "rows": [told.row]}, PATIENCE)

    def _take(self, told: wire.Told | None) -> None:
        state = self._state
        match told:
            case wire.Welcome():
                known = {said.seq for said in state.said if said.seq is not None and said.seq <= told.cursor.seq}
                state.dealt |= known.difference(told.open)
                self._refused.clear()
                self._woken.put(True)
            case wire.DealtWith():
                state.dealt.update(told.seqs)
            case wire.Deliver():
                self._show(told)

    def _show(self, told: wire.Deliver) -> None:
        state = self._state
        if any(one.row == told.row for one in state.shown):
            state.repeats += 1
            return
        state.row = max(state.row, told.row)
        state.shown.append(Shown(told.row, told.outgoing))

    def _say_on(self) -> None:
        """In order: what does not arrive is said again before anything else, as soon as it is welcome again."""
        while self._woken.get():
            while (said := self._find_next()) is not None and (stream := self._stream) is not None:
                if not self._say(said, stream):
                    break

    def _find_next(self) -> Said | None:
        with self._lock:
            return next((said for said in self._state.said if said.seq is None and said.id not in self._refused), None)

    def _say(self, said: Said, stream: LocalConnection) -> bool:
        """Whether it arrived."""
        body = {"conversation": self.conversation, "id": f"{self.name}-{said.id}", "folder": self._folder}
        try:
            told = stream.post("/web/say", {**body, "text": said.text})
        except NotDone as problem:
            with self._lock:
                said.refused = str(problem)
                self._refused.add(said.id)
                self._lock.notify_all()
        except (Gone, OSError):
            stream.close()
            return False
        else:
            with self._lock:
                self._note_stored(said, told)
                self._lock.notify_all()
        return True

    def _note_stored(self, said: Said, told: dict[str, Any]) -> None:
        if told:
            assert said.seq in (None, told["seq"]), "a message has two places"
            said.seq = told["seq"]
            if told.get("done"):
                self._state.dealt.add(told["seq"])


@contextmanager
def _ignoring_loss() -> Iterator[None]:
    """A connection may be gone at any moment here."""
    try:
        yield
    except (Gone, OSError):
        pass


def read_store(home: Path, query: str, *values: Any) -> list[Any]:
    """Look into the store of a gateway that may be running."""
    return read_rows(find_place(home), query, *values)


def write_store(home: Path, query: str, *values: Any) -> None:
    """Change the store of a gateway that does not run."""
    write_rows(find_place(home), query, *values)


def wait_quiet(home: Path, people: Sequence[Person], seconds: float = PATIENCE) -> None:
    """Until every message is dealt with, and everything that was said has arrived."""
    end = time.monotonic() + seconds
    while True:
        left = read_store(
            home,
            "select (select count(*) from inbox where done_epoch is null), "
            "(select count(*) from outbox where ended is null)",
        )[0]
        unstored = [text for person in people for text in _unstored(person)]
        if left == (0, 0) and not unstored:
            return
        assert time.monotonic() < end, f"open messages and answers: {left}; not stored: {unstored}"
        time.sleep(0.05)


def _unstored(person: Person) -> list[str]:
    with person._lock:
        return [said.text for said in person._state.said if said.seq is None]
