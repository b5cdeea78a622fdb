"""How a row is written down and read back, what a session's list entry shows of it, new ids."""

import hashlib
import json
import os
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from hermes_base.errors import AtWork, Fenced, StoreFailure
from hermes_base.text.wrappers import bare_words
from hermes_base.turn.journal import COMPACTED, LOST, MADE, PART_PLACES, Row, UsageRow, shown_text
from hermes_state.store import USAGE_GROUPS, NewSession, UsageSum
from hermes_state.texts import clean, shorten

HEAD = "head"
MESSAGE = "message"
_PARTS = {place: part for part, place in PART_PLACES.items()}
#: Columns of the ledger.
_TOKENS = ("input_tokens", "cache_read_tokens", "cache_write_tokens", "output_tokens", "reasoning_tokens")
_NUMBERS = (*_TOKENS, "cost", "saved")


@dataclass(frozen=True, slots=True)
class WrittenRow:
    """A row with how it is kept: its message as JSON."""

    row: Row
    body: str
    shown: str | None
    sent: tuple[tuple[str, bytes, bytes], ...]  # dialect, digest, bytes


@dataclass(frozen=True, slots=True)
class Summary:
    """What the list of sessions shows of a transcript: visible user and assistant rows with text, first user text."""

    messages: int = 0
    preview: str = ""


def write_row(row: Row) -> WrittenRow:
    """The row as it is kept; StoreFailure when it cannot be read back."""
    keep = row.message.get("keep") if row.kind == HEAD else 0
    if not isinstance(keep, int) or keep < 0:
        raise StoreFailure(f"A row that takes back needs the number of rows to keep, not {keep!r}.")
    return WrittenRow(
        row=row,
        body=write_json(row.message),
        shown=None if row.shown is None else clean(row.shown),
        sent=tuple((dialect, digest(body), bytes(body)) for dialect, body in row.sent.items()),
    )


def write_json(message: Mapping[str, Any]) -> str:
    try:
        body = json.dumps(message, ensure_ascii=False, separators=(",", ":"), default=_open_mapping)
        if not body.isascii() and _has_surrogates(body):
            return json.dumps(message, separators=(",", ":"), default=_open_mapping)
        return body
    except (TypeError, ValueError, RecursionError) as error:
        raise StoreFailure(f"A message cannot be stored as JSON: {error}.", kept="Nothing was written.") from error


def read_text(row: Row) -> str:
    """The text that search finds; of a row whose content is lost only what was shown."""
    if row.kind in (HEAD, MADE) or (row.kind == LOST and row.shown is None):
        return ""
    return row.shown if row.shown is not None else clean(shown_text(row))


def summarize(rows: Iterable[Row], known: Summary | None = None) -> Summary:
    """The list entry of a transcript, folded from the rows that stand; `known` is that of those before them."""
    messages, preview = (known.messages, known.preview) if known else (0, "")
    for row in rows:
        role = row.message.get("role")
        if role in ("user", "assistant"):
            text = shown_text(row)
            messages += bool(text.strip())
            if not preview and role == "user" and not row.message.get(COMPACTED):
                preview = shorten(bare_words(text))
    return Summary(messages, preview)


def complete_session(new: NewSession, session: str, task: str) -> NewSession:
    """What a session starts with, whole and storable: its id and task given."""
    return NewSession(
        conversation=clean(new.conversation),
        id=session,
        parent=new.parent,
        task=clean(new.task) or task or session,
        platform=clean(new.platform),
        model=clean(new.model),
        title=clean(new.title),
    )


def split_sent(
    kept: Iterable[tuple[int, str, bytes]],
) -> tuple[dict[tuple[str, str], bytes], dict[int, dict[str, bytes]]]:
    """What was sent, parted into frozen parts (by part and dialect) and rows (by position, then dialect)."""
    frozen: dict[tuple[str, str], bytes] = {}
    of_rows: dict[int, dict[str, bytes]] = {}
    for place, dialect, body in kept:
        if place in _PARTS:
            frozen[_PARTS[place], dialect] = body
        else:
            of_rows.setdefault(place, {})[dialect] = body
    return frozen, of_rows


def write_usage(call: UsageRow) -> dict[str, Any]:
    """The call as columns of the ledger."""
    texts = {"provider": clean(call.provider), "model": clean(call.model), "kind": clean(call.kind)}
    numbers = {name: getattr(call, name) for name in _NUMBERS}
    return {**numbers, **texts, "settled": int(call.settled), "turn": clean(call.turn) or None}


def add_sums(one: UsageSum, other: UsageSum) -> UsageSum:
    return UsageSum(*(getattr(one, part.name) + getattr(other, part.name) for part in fields(UsageSum)))


def find_flags(group: str) -> tuple[bool, ...]:
    """Which of day, provider, model and turn the group is made of; StoreFailure when there is no such group."""
    names = USAGE_GROUPS.get(group)
    if names is None:
        raise StoreFailure(f"The ledger has no groups by {group!r}.", fix=f"Choose one of: {', '.join(USAGE_GROUPS)}.")
    return tuple(name in names for name in ("day", "provider", "model", "turn"))


def pick_keys(flags: Sequence[bool], values: Sequence[str]) -> tuple[str, ...]:
    """Those of day, provider, model and turn that make up the group."""
    return tuple(value for flag, value in zip(flags, values, strict=True) if flag)


def check_reason(reason: str) -> str:
    """The reason of a break as it is kept; StoreFailure when it says nothing."""
    said = clean(reason).strip()
    if said.lower() in ("", "unknown"):
        raise StoreFailure("A break of the prefix needs a reason.", kept="Nothing was written.")
    return said


def digest(body: bytes) -> bytes:
    return hashlib.sha256(body).digest()


def make_session_id(now: float | None = None) -> str:
    """A new id that sorts by the second of its making; None: by this machine's clock."""
    return time.strftime("%Y%m%d_%H%M%S", time.gmtime(now)) + "_" + secrets.token_hex(3)


def make_writer_id() -> str:
    """An id for one writer of this process."""
    return f"{os.getpid()}-{secrets.token_hex(4)}"


def check_place(place: int, version: int, session: str) -> None:
    """StoreFailure unless something can have been sent at `place` of a transcript of `version` rows."""
    if place not in _PARTS and not 0 <= place < version:
        raise StoreFailure(f"Session {session} has no row {place} to keep an encoded form for.")


def written_meanwhile(session: str) -> Fenced:
    return moved_on(f"Someone else wrote to session {session} meanwhile.")


def check_base(session: str, version: int, base: int, successor: str | None) -> None:
    """Fenced when the transcript is not where the writer left it."""
    if successor is not None:
        raise moved_on(f"Session {session} was closed meanwhile and goes on as {successor}.")
    if version != base:
        what = f"Session {session} has {version} rows and the writer expected {base}: someone else wrote to it."
        raise moved_on(what)


def check_open(session: str, ended: float | None, reason: str | None) -> None:
    """Fenced when the session has ended, so that nothing may take its place."""
    if ended is not None:
        raise moved_on(f"Session {session} was ended meanwhile ({reason}).")


def moved_on(what: str) -> Fenced:
    return Fenced(what, kept="Nothing of this write was stored.", fix="Load the conversation again.")


def missing(session: str) -> StoreFailure:
    return StoreFailure(f"There is no session {session} in the store.", fix="Look it up in the list of sessions.")


def taken(session: str) -> StoreFailure:
    return StoreFailure(f"There is a session {session} already.", kept="It is as it was.", fix="Choose another id.")


def foreign(session: str, conversation: str) -> StoreFailure:
    return StoreFailure(
        f"Session {session} does not belong to conversation {conversation}.", fix="Resume it in its own conversation."
    )


def at_work(conversation: str) -> AtWork:
    return AtWork(
        f"Conversation {conversation} is in the middle of a turn.",
        kept="It goes on where it was.",
        fix="Wait for its answer, or stop it (/stop).",
    )


def no_index() -> StoreFailure:
    return StoreFailure("The search index was dropped.", kept="All messages are there.", fix="Rebuild the index.")


def _open_mapping(value: Any) -> Any:
    """Mappings of other types than dict, which the JSON writer does not know."""
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(f"{type(value).__name__} is no JSON value")


def _has_surrogates(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return True
    return False


def read_place(part: str) -> int:
    """Where a part or a row is kept, by its name or position."""
    place = PART_PLACES.get(part)
    if place is not None:
        return place
    if not part.isdecimal():
        raise StoreFailure(f"There is no part called {part!r}: it is `tools`, `system` or the position of a row.")
    return int(part)
