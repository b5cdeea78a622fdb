"""What a turn writes: rows of a transcript, usage of model calls, and the protocol of the one writer.

A transcript is append-only. Its version is the number of rows ever written to it, so the row appended at
version v has position v. A row of kind `head` takes back what came after the first `keep` visible rows;
nothing is deleted (`visible` folds it).
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Protocol

import msgspec

TOOLS, SYSTEM = "tools", "system"
#: Fields of a message that are sent to nobody: it stands for what an engine took out; it was put into a running turn;
#: it stands in the place of an answer that never came; it is an answer that stopped before its end (why); pictures that
#: came with it and that a provider refused.
COMPACTED, STEERED, EXCUSE, ENDED_EARLY, LEFT_OUT = "compacted", "steered", "excuse", "ended_early", "left_out"
#: Why an answer stopped before its end.
CUT, FILTERED = "cut", "filtered"
#: What the person is told beside such an answer.
EARLY_ENDS: Mapping[str, str] = MappingProxyType(
    {
        CUT: "The answer was cut at the model's output limit.",
        FILTERED: "The provider stopped the answer: the model refused, or a filter did.",
    }
)
MADE = "made"  # the kind of a row that the model gets in the place of what was said; no search finds it
LOST = "lost"  # the kind of a row or a step whose content could not be read from the store any more
#: Places of the frozen parts beside the messages, which count from 0.
PART_PLACES: Mapping[str, int] = MappingProxyType({TOOLS: -2, SYSTEM: -1})


@dataclass(frozen=True, slots=True)
class Row:
    """One message: neutral as sent, as shown to people, and encoded for each dialect that has sent it."""

    message: Mapping[str, Any]
    shown: str | None = None  # None: people see the message's own text
    sent: Mapping[str, bytes] = field(default_factory=dict)  # dialect -> bytes on the wire
    kind: str = "message"  # or "head", "made" or "lost"
    position: int = -1  # given by the store
    inbox: tuple[int, ...] = ()  # the accepted messages that it holds; they are marked as taken with it


@dataclass(frozen=True, slots=True)
class Step:
    """What a turn did that is no message: a tool started, a tool ended, a marker."""

    n: int
    kind: str
    body: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class TurnEnd:
    """How a turn ended, for the person."""

    text: str  # the answer, or what there is of it, or the sentence that says why there is none
    completed: bool = True
    interrupted: bool = False
    reason: str = ""  # of an interrupted turn: who or what stopped it; of a completed one: one of EARLY_ENDS, or none
    failed: bool = False  # the text is not the model's
    origins: tuple[str, ...] = ()  # foreign text that was in sight of the turn


@dataclass(frozen=True, slots=True)
class UsageRow:
    """One model call in the ledger: disjoint token buckets (reasoning is a part of output)."""

    provider: str
    model: str
    kind: str = "turn"  # turn, compression, title, …
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None  # dollars; None: no price known
    settled: bool = True  # False: cut before its usage arrived
    created: float = 0.0  # given by the store
    turn: str = ""  # id of the turn that made the call; empty: none did
    saved: float | None = None  # dollars that the cache saved; None: no price known


@dataclass(frozen=True, slots=True)
class Transcript:
    """A session as stored: what was sent, byte for byte, and where it stands."""

    session: str
    conversation: str
    task: str  # id of the first session of the chain; owner of shells and processes
    version: int
    writer: str  # who wrote the last row
    frozen: Mapping[tuple[str, str], bytes]  # (part, dialect) -> bytes, for tools and system
    rows: tuple[Row, ...]  # the visible ones


class Journal(Protocol):
    """The only writer of a transcript; synchronous, called from the turn's thread; raises StoreFailure or Fenced."""

    def load(self) -> Transcript:
        """The transcript as stored; opens the session at first use."""

    def reload(self) -> Transcript:
        """The session at work as stored now, and no other, wherever the conversation goes on meanwhile."""

    def standing(self) -> tuple[str, int]:
        """Session and version as stored now, ("", 0) without one: is what the caller holds still true?"""

    def freeze(self, part: str, dialect: str, body: bytes) -> str:
        """Keep what `part` ("tools", "system" or a row's position) was encoded to; returns its content hash."""

    def append(self, rows: Sequence[Row], usage: Sequence[UsageRow] = ()) -> int:
        """Commit finished rows and their calls' usage together; returns the new version."""

    def finish(self, rows: Sequence[Row], usage: Sequence[UsageRow], end: TurnEnd) -> int:
        """Commit the last rows of a turn together with whatever marks the turn as done."""

    def rotate(self, reason: str, rows: Sequence[Row]) -> str:
        """Close the session and open its child, which starts with `rows`, in one transaction; returns the child."""

    def charge(self, usage: Sequence[UsageRow]) -> None:
        """Put auxiliary calls into the ledger."""

    def broke(self, reason: str, position: int) -> None:
        """Record that the prefix moved: why, and from which message on."""

    def step(self, kind: str, body: Mapping[str, Any]) -> None:
        """Keep what the turn did that is no message, for whoever goes on with it after a crash."""

    def steps(self) -> Sequence[Step]:
        """What a predecessor had done in this turn; empty for a fresh one."""


def head_row(keep: int, made: int = 0) -> Row:
    """The row that takes back everything after the first `keep` visible rows. `made`: the model alone gets so many rows
    after it in the place of those; to people what was said stays."""
    return Row(message={"keep": keep, "made": made} if made else {"keep": keep}, kind="head")


def visible(rows: Iterable[Row]) -> tuple[Row, ...]:
    """The rows that stand, in order: each head row cuts what it took back."""
    standing: list[Row] = []
    for row in rows:
        if row.kind == "head":
            del standing[int(row.message["keep"]) :]
        else:
            standing.append(row)
    return tuple(standing)


def open_calls(messages: Sequence[Mapping[str, Any]]) -> list[str]:
    """The calls of the last round that have no result yet, in order."""
    results: set[str] = set()
    for message in reversed(messages):
        if message.get("role") != "tool":
            return [call["id"] for call in message.get("tool_calls") or () if call["id"] not in results]
        results.add(str(message.get("tool_call_id")))
    return []


def whole_rounds(rows: Sequence[Row], before: int | None) -> Sequence[Row]:
    """The rows before a position, or all, without a last round whose calls lack results: no model takes such a one."""
    kept = [row for row in rows if before is None or row.position < before]
    if open_calls([row.message for row in kept]):
        del kept[max(place for place, row in enumerate(kept) if row.message.get("role") != "tool") :]
    return kept


def placed(rows: Sequence[Row], first: int) -> tuple[Row, ...]:
    """The rows as they are once they are stored: with their positions, counted from `first`, and without the messages
    that were marked as taken with them, since a row may be written again by another turn."""
    return tuple([Row(row.message, row.shown, row.sent, row.kind, place) for place, row in enumerate(rows, first)])


def copy_messages(given: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """The messages with lists and mappings of their own, in one go: histories are long. Texts are shared."""
    try:
        copied: list[dict[str, Any]] = msgspec.to_builtins(given, builtin_types=(bytes, bytearray))
    except TypeError:  # objects of a caller's own, which stay as they are
        copied = [_copy(message) for message in given]
    return copied


def _copy(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {name: _copy(inner) for name, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value


def copy_rows(rows: Sequence[Row]) -> list[Row]:
    """The rows with messages of their own."""
    copied = zip(rows, copy_messages([row.message for row in rows]), strict=True)
    return [Row(message, row.shown, row.sent, row.kind, row.position, row.inbox) for row, message in copied]


def text_of(message: Mapping[str, Any]) -> str:
    """The plain text of a neutral message, whether its content is a string or a list of parts."""
    content = message.get("content")
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = (part.get("text", "") if isinstance(part, Mapping) else part for part in content)
        return "\n".join(text for text in texts if isinstance(text, str) and text)
    return ""


def shown_text(row: Row) -> str:
    """What people see of a row."""
    return row.shown if row.shown is not None else text_of(row.message)


def is_question(row: Row) -> bool:
    """Whether a person said it: a message in the user's place that people are shown, and no engine's words."""
    return row.message.get("role") == "user" and row.shown != "" and not row.message.get(COMPACTED)


def begins_exchange(row: Row) -> bool:
    """Whether a turn began with it; what was put into a turn under way belongs to the question before."""
    return is_question(row) and not row.message.get(STEERED)


def is_excuse(row: Row) -> bool:
    """Whether it stands in the place of an answer that never came: the model reads a short word of ours between
    brackets there, and people are shown what went wrong."""
    return bool(row.message.get(EXCUSE))


def read_early_end(row: Row) -> str:
    """Why an answer stopped before its end, in words for people; empty: it is whole, or it is no answer."""
    return EARLY_ENDS.get(str(row.message.get(ENDED_EARLY) or ""), "")


IMAGE_BYTES = 4_000  # about a thousand tokens, whatever the size of the file
_IMAGE_DATA = re.compile(r"data:image/[a-z+]+;base64,[A-Za-z0-9+/=]+")
_SIGNS = 4  # quotes, comma and colon of a value


def rough_bytes(message: Any) -> int:
    """About how much room a message, or a part of one, takes; an image its share of the window, not its bytes. It goes
    through long histories, so it calls nothing for each name."""
    size, inside = 0, [message]
    for value in inside:  # which grows
        size += _SIGNS
        if isinstance(value, str):
            if "data:image/" in value:
                value, images = _IMAGE_DATA.subn("", value)
                size += images * IMAGE_BYTES
            size += len(value)
        elif isinstance(value, dict | Mapping):
            size += sum(map(len, map(str, value)), _SIGNS * len(value))
            inside += value.values()
        elif isinstance(value, list | tuple):
            inside += value
        else:
            size += len(str(value))
    return size
