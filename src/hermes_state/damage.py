"""What becomes of a stored row that cannot be read: where it is noticed, what takes its place, what people are told.

Every stored text is read by `decode`, which knows the row. What it cannot read is a `DamagedRow`; the file of the store
then sets the row aside (`damage_sql`) and goes on. Pure, but for that error.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile
from types import MappingProxyType
from typing import Any, TypeVar

import msgspec

from hermes_base.conversation_key import parse_key
from hermes_base.errors import HermesError, StoreFailure
from hermes_base.inbound import Address
from hermes_base.turn.journal import LOST, open_calls

T = TypeVar("T")
Key = tuple[str | int | bytes, ...]

LOST_TEXT = "[This message could not be read from the store any more.]"

#: Tables whose rows are read by `decode`, with the name that people know their rows by.
TABLES: Mapping[str, str] = MappingProxyType(
    {
        "inbox": "message that came in",
        "outbox": "answer",
        "message": "row of a transcript",
        "turn_step": "step of a turn",
        "control": "word to a running turn",
        "question": "question",
        "conversation": "set of choices of a conversation",
        "person": "person",
        "blob": "encoded form of a message",
    }
)

#: What the person of the conversation is told, by table; of the others only the operator is told.
WORDS: Mapping[str, str] = MappingProxyType(
    {
        "inbox": "A message of yours was stored and cannot be read any more. It was not answered. "
        "What was said before is kept. Please say it again.",
        "outbox": "An answer to you was stored and cannot be read any more. What was said before is kept. "
        "Please ask again if you still need it.",
        "message": "A part of this conversation was stored and cannot be read any more. All else is kept, and the "
        "conversation goes on without that part. Say again what matters of it.",
        "turn_step": "A note on a tool that ran for you cannot be read any more. What was said is kept. "
        "Check what the tool did before it is run again.",
        "question": "A question to you was stored and cannot be read any more. It counts as not answered.",
        "conversation": "What was chosen for this conversation (model, effort, folder) cannot be read any more. "
        "What was said is kept. The defaults hold; choose again.",
    }
)


class DamagedRow(StoreFailure):
    """A stored row that cannot be read: its table, its key there, and the bytes that stand in it."""

    def __init__(self, table: str, key: Key, raw: bytes, problem: str) -> None:
        super().__init__(
            f"A stored {TABLES[table]} ({name_key(key)}) cannot be read: {problem}.",
            kept="All else in the store is as it was.",
            fix="Try again: a running Hermes sets such a row aside and goes on without it. `hermes doctor` names it.",
        )
        self.table, self.key, self.raw, self.problem = table, key, raw, problem


@dataclass(frozen=True, slots=True)
class Damaged:
    """A row that was set aside."""

    table: str
    key: str
    conversation: str
    problem: str
    found: float


def decode(table: str, key: Key, raw: bytes, make: Callable[[Any], T]) -> T:
    """What the stored JSON says, as `make` reads it; DamagedRow when it says nothing that can be read."""
    try:
        return make(msgspec.json.decode(raw))
    except (msgspec.DecodeError, TypeError, KeyError, RecursionError):
        pass  # it is damaged, or has what other readers refuse: half a pair of surrogates, numbers without end
    return read_text(table, key, raw, lambda text: make(json.loads(text)))


def read_text(table: str, key: Key, raw: bytes, make: Callable[[str], T]) -> T:
    """The same for what is not JSON to the store."""
    try:
        return make(raw.decode())
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise DamagedRow(table, key, raw, _describe(error)) from error


def as_object(value: Any) -> dict[str, Any]:
    """A JSON object, for `decode`."""
    if not isinstance(value, dict):
        raise TypeError("no object")
    return value


def as_head(value: Any) -> dict[str, Any]:
    """The row that takes back: it says how many rows stand."""
    if not isinstance(as_object(value)["keep"], int):
        raise TypeError("no number of rows")
    return as_object(value)


def as_texts(value: Any) -> tuple[str, ...]:
    """A list of texts, for `decode`."""
    if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
        raise TypeError("no list of texts")
    return tuple(value)


def name_key(key: Key) -> str:
    return ", ".join(part.hex() if isinstance(part, bytes) else str(part) for part in key)


def _describe(error: Exception) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"byte {error.start} is no text"
    if isinstance(error, json.JSONDecodeError):
        return f"{error.msg.lower()} at sign {error.pos}"
    return f"its form is wrong ({type(error).__name__})"


def describe_damage(rows: int) -> str:
    """What was set aside, in a sentence; empty: nothing."""
    if not rows:
        return ""
    one = rows == 1
    what = "1 stored row could not be read and was" if one else f"{rows} stored rows could not be read and were"
    return f"{what} set aside. `hermes doctor` names {'it' if one else 'them'}."


def find_address(conversation: str, account: str, chat: str = "") -> Address | None:
    """Where a conversation is answered, told from its key and our account's name; None: nobody is there."""
    platform, _, name = account.partition(":")
    if not name:
        return None
    try:
        key = parse_key(conversation)
    except HermesError:
        key = None
    if key is not None and key.platform == platform:
        where = key.chat if name == platform else key.chat.removeprefix(f"{name}/")
        own = Address(platform, name, where, key.kind, key.thread or "")
        if chat in ("", own.chat_key):
            return own
    return Address(platform, name, chat) if chat else None  # a terminal that looks into another's conversation


def make_marker(before: Sequence[Mapping[str, Any]], after: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """What the model reads in the place of a lost message, so that each call keeps its result and the other way round.

    `before` and `after` are its neighbours in the transcript, as far as they can be read.
    """
    results = takewhile(lambda message: message.get("role") == "tool", after)
    behind = [str(message.get("tool_call_id")) for message in results]  # the calls whose results stand first
    missing = [call for call in open_calls(before) if call not in behind]
    if missing:
        return {"role": "tool", "tool_call_id": missing[0], "content": LOST_TEXT}
    if behind:
        calls = [{"id": call, "type": "function", "function": {"name": LOST, "arguments": "{}"}} for call in behind]
        return {"role": "assistant", "content": LOST_TEXT, "tool_calls": calls}
    asked = bool(before) and before[-1].get("role") in ("user", "tool")
    return {"role": "assistant" if asked else "user", "content": LOST_TEXT}
