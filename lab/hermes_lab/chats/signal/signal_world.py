"""A Signal behind the daemon: who is there, what stands in each chat, and what waits for the daemon to fetch it."""

import base64
import hashlib
import uuid
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from hermes_lab.chats.record import ChatClock
from hermes_lab.values import LabProblem

MOST_EDITS, EDIT_SECONDS = 10, 24 * 3600


@dataclass(slots=True)
class SignalMessage:
    """A message of either side, as people see it now."""

    timestamp: int  # of the message itself
    author: str
    text: str
    styles: list[str] = field(default_factory=list)
    file: str = ""
    data: bytes = b""
    quote: int = 0  # the timestamp of what it replies to
    edits: list[int] = field(default_factory=list)  # their timestamps
    read: bool = False  # of a person: we have sent a receipt
    missed: list[str] = field(default_factory=list)  # people in the group who did not get it

    @property
    def latest(self) -> int:
        return self.edits[-1] if self.edits else self.timestamp

    def describe(self, ours: bool) -> dict[str, Any]:
        return {
            "timestamp": self.timestamp,
            "author": self.author,
            "ours": ours,
            "text": self.text,
            "styles": list(self.styles),
            "file": self.file,
            "data": base64.b64encode(self.data).decode(),
            "quote": self.quote,
            "edits": len(self.edits),
            "read": self.read,
            "missed": list(self.missed),
        }


@dataclass(slots=True)
class SignalPerson:
    id: str
    number: str | None
    name: str
    is_gone: bool = False  # not registered any more
    is_distrusted: bool = False  # their safety number has changed, and nobody has trusted it
    is_cut_off: bool = False  # the network fails for them


@dataclass(slots=True)
class SignalGroup:
    id: str
    name: str
    members: list[str]
    is_left: bool = False  # we are not in it any more
    is_for_admins: bool = False


class SignalWorld:
    """One account of ours, and everybody else."""

    def __init__(self, clock: ChatClock, number: str) -> None:
        self.clock = clock
        self.number = number
        self.own = _make_id(f"own {number}")
        self.people: dict[str, SignalPerson] = {}
        self.groups: dict[str, SignalGroup] = {}
        self.chats: dict[str, list[SignalMessage]] = {}
        self.queue: deque[dict[str, Any]] = deque()  # envelopes that wait at Signal's server
        self.brought: list[dict[str, Any]] = []  # envelopes of people's messages, oldest first
        self.files: dict[str, tuple[str, bytes]] = {}  # at the daemon, by id: the chat and the bytes
        self.typing: dict[str, int] = {}
        self._last = 0

    def make_time(self) -> int:
        """Milliseconds; no two are the same."""
        self._last = max(self._last + 1, int(self.clock.date() * 1000))
        return self._last

    def add_person(self, name: str, number: str | None = "") -> str:
        """An empty number: one of their own; None: they hide it."""
        id = _make_id(f"{name} {len(self.people)}")
        given = f"+4915110{len(self.people):06d}" if number == "" else number
        self.people[id] = SignalPerson(id, given, name)
        return id

    def add_group(self, name: str, members: list[str]) -> str:
        id = base64.b64encode(hashlib.sha256(f"{name} {len(self.groups)}".encode()).digest()).decode()
        self.groups[id] = SignalGroup(id, name, list(members))
        return id

    def find_person(self, id: str) -> SignalPerson:
        if id not in self.people:
            raise LabProblem(f"There is nobody with the id {id}.")
        return self.people[id]

    def find_group(self, id: str) -> SignalGroup:
        if id not in self.groups:
            raise LabProblem(f"There is no group {id}.")
        return self.groups[id]

    def add_message(self, chat: str, message: SignalMessage) -> None:
        self.chats.setdefault(chat, []).append(message)

    def find_sent(self, chat: str, timestamp: int) -> SignalMessage | None:
        """The message of either side that was sent, or edited, then."""
        every = self.chats.get(chat, [])
        return next((one for one in every if timestamp in (one.timestamp, *one.edits)), None)

    def list_seen(self, chat: str) -> Iterator[str]:
        """The texts of ours that stand in the chat; of a file its name."""
        for one in self.chats.get(chat, []):
            if one.author == self.own:
                yield one.file or one.text

    def bring(self, envelope: dict[str, Any], again: bool = True) -> None:
        """Signal's server has something for our account."""
        self.queue.append(envelope)
        if again:
            self.brought.append(envelope)


def _make_id(text: str) -> str:
    return str(uuid.uuid5(uuid.NAMESPACE_URL, f"lab {text}"))
