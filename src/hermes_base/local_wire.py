"""What a terminal and the gateway tell each other over the socket of a home: the page's protocol, read into frozen
values. Also: where the socket is."""

import hashlib
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from hermes_base.chat import EVENT_NAMES, Event, Question, Said
from hermes_base.inbound import FileRef, Outgoing, read_outgoing

SOCKET_FILE = "hermes.sock"
MOST_BODY = 4 * 1024 * 1024  # bytes of one request
_LONGEST_PATH = 85  # bytes; systems take 103 to 107, and while it is made the socket has a longer name


def socket_path(home: Path) -> Path:
    """Where the gateway of this home listens: in the home, or in a short folder of the user's own if that is too long.

    Nothing but the home and the user decides, so that both sides find the same place whatever their environment is.
    """
    path = home.absolute() / SOCKET_FILE
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        return path
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:24]
    return Path(f"/tmp/hermes-{os.getuid()}") / f"{name}.sock"


# --- what a terminal says


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a client has seen a conversation."""

    outbox: int = 0  # the newest row of the outbox
    seq: int = 0  # the newest message


@dataclass(frozen=True, slots=True)
class Hello:
    """Opens a conversation: this one, the one of a session, the last one, or a new one."""

    client: str = ""  # stable id of the client: its messages are called `<client>-<number>`
    conversation: str = ""
    resume: str = ""  # a session's id, or the beginning of it
    continue_last: bool = False
    folder: str = ""
    model: str = ""
    provider: str = ""
    once: bool = False  # a new conversation is for one question
    after: Cursor | None = None  # of a client that comes back


@dataclass(frozen=True, slots=True)
class Say:
    id: str
    text: str
    files: tuple[FileRef, ...] = ()


# --- what the gateway says


@dataclass(frozen=True, slots=True)
class Stored:
    """The message is stored. `again`: it was before; then `done` and `outbox` say what became of it."""

    id: str
    seq: int | None
    again: bool = False
    done: bool = False
    outbox: int = 0


@dataclass(frozen=True, slots=True)
class NotStored:
    id: str
    reason: str


@dataclass(frozen=True, slots=True)
class Welcome:
    """Where the conversation stands; what was told of it before still holds."""

    conversation: str
    cursor: Cursor  # rows and messages up to here are told, or were there before the client came
    open: tuple[int, ...] = ()  # of those messages, the ones that are not dealt with yet
    reasoning: str = ""  # of the model call under way, as far as it has come
    text: str = ""
    question: Question | None = None  # that is open


@dataclass(frozen=True, slots=True)
class Happened:
    """A live event; `seq` and `id` are those of a message that somebody said."""

    event: Event
    seq: int = 0
    id: str = ""


@dataclass(frozen=True, slots=True)
class Deliver:
    """A row of the outbox; `waits`: until somebody has confirmed it."""

    row: int
    outgoing: Outgoing
    waits: bool = False


@dataclass(frozen=True, slots=True)
class DealtWith:
    """These messages are dealt with; what there is to say about them has come."""

    seqs: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MovedTo:
    """Whoever said this message goes on in another conversation as soon as the message is dealt with."""

    seq: int
    conversation: str


@dataclass(frozen=True, slots=True)
class Closing:
    reason: str


Told = Welcome | Happened | Deliver | DealtWith | MovedTo | Closing


def read_told(told: Mapping[str, Any]) -> Told | None:
    """An event of the stream; None for one that is not for terminals."""
    read, kind = _READERS.get(told["type"]), _KINDS.get(told["type"])
    if kind is not None:
        return Happened(kind(*(told[name] for name in kind.__match_args__)))
    return read(told) if read is not None else None


def _read_snapshot(told: Mapping[str, Any]) -> Welcome:
    question, under_way = told["question"], told["live"]["open"] if told["live"] else {}
    return Welcome(
        told["conversation"],
        Cursor(**told["cursor"]),
        tuple(one["seq"] for one in told["waiting"]),
        under_way.get("reasoning", ""),
        under_way.get("text", ""),
        Question(**{**question, "choices": tuple(question["choices"])}) if question else None,
    )


_KINDS: Mapping[str, Any] = MappingProxyType({name: kind for kind, name in EVENT_NAMES.items()})
_READERS: Mapping[str, Callable[[Mapping[str, Any]], Told]] = MappingProxyType(
    {
        "snapshot": _read_snapshot,
        "row": lambda told: Deliver(told["row"], read_outgoing(told["outgoing"]), told["waits"]),
        "settled": lambda told: DealtWith(tuple(told["seqs"])),
        "heard": lambda told: Happened(Said(told["text"], told["by"]), told["seq"], told["id"]),
        "moved": lambda told: MovedTo(told["seq"], told["conversation"]),
        "closing": lambda told: Closing(told.get("reason", "")),
    }
)
