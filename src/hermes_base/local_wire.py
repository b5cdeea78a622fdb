"""The lines that a client and the gateway exchange on the local socket: one frozen value for each, written as one JSON
object on one line and read back with a sentence for whatever is wrong. Also: where the socket is."""

import hashlib
import json
import os
from collections.abc import Callable, Mapping
from dataclasses import MISSING, Field, dataclass, field, fields, is_dataclass
from functools import cache
from pathlib import Path
from types import MappingProxyType, NoneType
from typing import Any, get_args, get_origin

from hermes_base import chat
from hermes_base.chat import Event
from hermes_base.errors import HermesError
from hermes_base.inbound import FileRef, Outgoing
from hermes_base.text.whole_text import clean_text, encode_text

SOCKET_FILE = "hermes.sock"
MAX_LINE = 4 * 1024 * 1024  # bytes, with the line's end
_LONGEST_PATH = 85  # bytes; systems take 103 to 107, and while it is made the socket has a longer name
_LARGEST = 2**63  # what a store can count to
_WIRE = "wire"  # metadata: a field's name on the wire, when Python has taken the word


class WireProblem(HermesError):
    """A line that is none of ours; the sentence says what is wrong with it."""


def socket_path(home: Path) -> Path:
    """Where the gateway of this home listens: in the home, or in a short folder of the user's own if that is too long.

    Nothing but the home and the user decides, so that both sides find the same place whatever their environment is.
    """
    path = home.absolute() / SOCKET_FILE
    if len(os.fsencode(path)) <= _LONGEST_PATH:
        return path
    name = hashlib.sha256(os.fsencode(path)).hexdigest()[:24]
    return Path(f"/tmp/hermes-{os.getuid()}") / f"{name}.sock"


# --- what a client says


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a client has seen a conversation."""

    outbox: int = 0  # the newest row of the outbox
    seq: int = 0  # the newest message


@dataclass(frozen=True, slots=True)
class Hello:
    """Opens a conversation: this one, the one of a session, the last one, or a new one."""

    client: str  # stable id of the client; with a message's id it names the message for ever
    conversation: str = ""
    resume: str = ""  # a session's id, or the beginning of it
    continue_last: bool = field(default=False, metadata={_WIRE: "continue"})
    folder: str = ""
    model: str = ""
    provider: str = ""
    after: Cursor | None = None  # of a client that comes back
    once: bool = False  # a new conversation is for one question
    keys: bool = True  # False: it does not know repetitions by their key


@dataclass(frozen=True, slots=True)
class Say:
    id: str
    text: str
    files: tuple[FileRef, ...] = ()


@dataclass(frozen=True, slots=True)
class Stop:
    id: str = ""


@dataclass(frozen=True, slots=True)
class GiveAnswer:
    question: str
    text: str
    id: str = ""


@dataclass(frozen=True, slots=True)
class Got:
    """The delivered row has arrived."""

    row: int


@dataclass(frozen=True, slots=True)
class Call:
    """Something that only the owner of the home may do; needs no hello."""

    id: str
    name: str
    args: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Bye:
    pass


# --- what the gateway says


@dataclass(frozen=True, slots=True)
class Welcome:
    conversation: str
    version: str
    banner: tuple[str, ...] = ()
    cursor: Cursor = Cursor()  # where the conversation stands
    open: tuple[int, ...] = ()  # messages that are not dealt with yet
    hint: str = ""  # a line that stays in sight; empty: none


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
class Happened:
    """A live event; `seq` is the place of a message that somebody else said."""

    event: Event
    seq: int = 0


@dataclass(frozen=True, slots=True)
class DeliverPart:
    """The next part of a text that is too long for one line; the `deliver` of the same row brings the last part."""

    row: int
    text: str


@dataclass(frozen=True, slots=True)
class Deliver:
    """A stored message for the conversation; confirmed by `got`."""

    row: int
    outgoing: Outgoing
    key: str = ""  # drop what you have seen with this row; empty: show it
    again: bool = False  # it may have come before


@dataclass(frozen=True, slots=True)
class DealtWith:
    """These messages are dealt with, once the rows up to `outbox` have come."""

    seqs: tuple[int, ...]
    outbox: int = 0


@dataclass(frozen=True, slots=True)
class Stopped:
    ok: bool
    reason: str = ""
    id: str = ""


@dataclass(frozen=True, slots=True)
class Answered:
    ok: bool
    id: str = ""


@dataclass(frozen=True, slots=True)
class Told:
    """What came of a call."""

    id: str
    ok: bool
    result: Mapping[str, Any] = field(default_factory=dict)
    error: str = ""


@dataclass(frozen=True, slots=True)
class Trouble:
    """The last line could not be used; the sentence says why."""

    text: str


@dataclass(frozen=True, slots=True)
class MovedTo:
    """From here on the client is in another conversation; what it said in the old one is dealt with."""

    conversation: str
    cursor: Cursor = Cursor()


@dataclass(frozen=True, slots=True)
class Closing:
    reason: str


FromClient = Hello | Say | Stop | GiveAnswer | Got | Call | Bye
FromGateway = (
    Welcome
    | Stored
    | NotStored
    | Happened
    | DeliverPart
    | Deliver
    | DealtWith
    | Stopped
    | Answered
    | Told
    | Trouble
    | MovedTo
    | Closing
)

#: The word for `type` on the wire.
FROM_CLIENT: Mapping[str, type] = MappingProxyType(
    {"hello": Hello, "say": Say, "stop": Stop, "answer": GiveAnswer, "got": Got, "call": Call, "bye": Bye}
)
FROM_GATEWAY: Mapping[str, type] = MappingProxyType(
    {
        "welcome": Welcome,
        "stored": Stored,
        "refused": NotStored,
        "event": Happened,
        "part": DeliverPart,
        "deliver": Deliver,
        "dealt": DealtWith,
        "stopped": Stopped,
        "answered": Answered,
        "told": Told,
        "error": Trouble,
        "moved": MovedTo,
        "closing": Closing,
    }
)
#: The word for `kind` within an event.
EVENTS: Mapping[str, type] = MappingProxyType(
    {
        "text": chat.TextDelta,
        "reasoning": chat.ReasoningDelta,
        "text_ended": chat.TextEnded,
        "tool_started": chat.ToolStarted,
        "tool_ended": chat.ToolEnded,
        "notice": chat.Notice,
        "asked": chat.Asked,
        "said": chat.Said,
        "file": chat.FileSent,
        "turn_ended": chat.TurnEnded,
        "idle": chat.Idle,
        "closed": chat.Closed,
    }
)
_TYPE_OF = {made: word for table in (FROM_CLIENT, FROM_GATEWAY) for word, made in table.items()}
_KIND_OF = {made: word for word, made in EVENTS.items()}


# --- writing


def encode(message: FromClient | FromGateway) -> bytes:
    """The message as one line; WireProblem when it is longer than a line may be."""
    plain = {"type": _TYPE_OF[type(message)], **_write_fields(message)}
    line = encode_text(json.dumps(plain, ensure_ascii=False, separators=(",", ":"))) + b"\n"
    if len(line) > MAX_LINE:
        raise WireProblem(f"The message is {len(line):,} bytes long; {MAX_LINE:,} is the limit of a line.")
    return line


def _write_fields(value: Any) -> dict[str, Any]:
    """Every field, so that whoever reads a line sees what there is."""
    places = _fields(value.__class__)
    return {place.metadata.get(_WIRE, place.name): _write(getattr(value, place.name)) for place in places}


def _write(value: Any) -> Any:
    if type(value) in _KIND_OF:
        return {"kind": _KIND_OF[type(value)], **_write_fields(value)}
    if is_dataclass(value):
        return _write_fields(value)
    if isinstance(value, tuple):
        return [_write(item) for item in value]
    return dict(value) if isinstance(value, Mapping) else value


@cache
def _fields(made: Any) -> tuple[Field[Any], ...]:
    return fields(made)


# --- reading


def decode_from_client(line: bytes) -> FromClient:
    """What a client said; WireProblem when it makes no sense."""
    message: FromClient = _decode(line, FROM_CLIENT)
    return message


def decode_from_gateway(line: bytes) -> FromGateway:
    """What the gateway said; WireProblem when it makes no sense."""
    message: FromGateway = _decode(line, FROM_GATEWAY)
    return message


def _decode(line: bytes, table: Mapping[str, type]) -> Any:
    try:
        plain = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise WireProblem(f"The line is not JSON: {error}.") from error
    if not isinstance(plain, dict):
        raise WireProblem("A line holds one JSON object.")
    made: Any = table.get(str(plain.get("type")))
    if made is None:
        raise WireProblem(f"There is no message of type {str(plain.get('type'))[:40]!r}. Known: {', '.join(table)}.")
    return _reader(made)(plain, str(plain["type"]))


#: Reads a value of one type; told the name of its place, for the sentence.
_Reader = Callable[[Any, str], Any]


@cache
def _reader(hint: Any) -> _Reader:
    if hint in _SIMPLE:
        return _SIMPLE[hint]
    if hint is Event:
        return _read_event
    if get_origin(hint) is tuple:
        return _read_list(_reader(get_args(hint)[0]))
    if NoneType in get_args(hint):
        read_given = _reader(next(one for one in get_args(hint) if one is not NoneType))
        return lambda value, place: None if value is None else read_given(value, place)
    return _read_object(hint)


def _read_text(value: Any, place: str) -> str:
    if not isinstance(value, str):
        raise _say_wrong(place, "a text")
    return clean_text(value)


def _read_number(value: Any, place: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or abs(value) >= _LARGEST:
        raise _say_wrong(place, "a whole number")
    return value


def _read_fraction(value: Any, place: str) -> float:
    if not isinstance(value, int | float) or isinstance(value, bool):
        raise _say_wrong(place, "a number")
    return float(value)


def _read_flag(value: Any, place: str) -> bool:
    if not isinstance(value, bool):
        raise _say_wrong(place, "true or false")
    return value


def _read_mapping(value: Any, place: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _say_wrong(place, "an object")
    return value


def _read_event(value: Any, place: str) -> Any:
    made = EVENTS.get(str(_read_mapping(value, place).get("kind")))
    if made is None:
        raise WireProblem(f"There is no event of kind {str(value.get('kind'))[:40]!r}.")
    return _reader(made)(value, place)


def _read_list(read_item: _Reader) -> _Reader:
    def read(value: Any, place: str) -> tuple[Any, ...]:
        if not isinstance(value, list):
            raise _say_wrong(place, "a list")
        return tuple(read_item(item, place) for item in value)

    return read


def _read_object(made: Any) -> _Reader:
    """Reads a dataclass; what it does not know is left out, so that a newer side may say more."""
    hints: dict[str, Any] = {place.name: place.type for place in fields(made)}
    known = [(place.metadata.get(_WIRE, place.name), place, _reader(hints[place.name])) for place in fields(made)]

    def read(value: Any, where: str) -> Any:
        given = _read_mapping(value, where)
        values: dict[str, Any] = {}
        for name, place, read_field in known:
            if name in given:
                values[place.name] = read_field(given[name], f"{where}.{name}")
            elif place.default is MISSING and place.default_factory is MISSING:
                raise WireProblem(f"{where}.{name} is missing.")
        return made(**values)

    return read


def _say_wrong(place: str, wanted: str) -> WireProblem:
    return WireProblem(f"{place} is not {wanted}.")


_SIMPLE: Mapping[Any, _Reader] = {
    str: _read_text,
    int: _read_number,
    float: _read_fraction,
    bool: _read_flag,
    Mapping[str, Any]: _read_mapping,
}
