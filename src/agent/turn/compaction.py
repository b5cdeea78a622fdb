"""A conversation that is too long, made shorter: the engine is asked, what it gives back is checked, and the new
session is written in one step. What is still too long is cut, the least needed first, until it fits.

The old session stays whole in the store; rows that the engine kept go over with the bytes they were sent as. Every cut
names the row of the session that is kept whole, and people are shown the whole text.
"""

import inspect
import itertools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.context_compressor import SUMMARY_MARK, is_request, is_summary
from agent.context_engine import accepted_arguments
from agent.formats.repair import clean_message, repair_messages
from agent.formats.reply import OWN_DATA, without_own_data
from agent.turn.conversation import Conversation, PrefixBreak
from agent.turn.ports import Ports
from hermes_base.chat import Notice
from hermes_base.errors import STOPS
from hermes_base.turn.journal import COMPACTED, MADE, Row, copy_messages, head_row, rough_bytes, shown_text, text_of

log = logging.getLogger(__name__)

REASON = "compression"
BYTES_A_TOKEN = 4
CUT_REQUEST = (
    "Your last messages are longer than the model's window holds. It gets their beginning and their end; they are kept "
    "whole."
)
ON_THE_WAY = -1  # an engine's last_prompt_tokens right after a compaction: the real count is still to come


def estimated_tokens(engine: Any, conversation: Conversation, new_text: str, frozen_bytes: int) -> int:
    """The last real count plus what came since (E4); before there is one, a rough count of everything."""
    last = int(getattr(engine, "last_prompt_tokens", 0) or 0)
    if last > 0:
        return last + (conversation.grown_bytes + len(new_text.encode("utf-8", "replace"))) // BYTES_A_TOKEN
    if last == ON_THE_WAY and not conversation.grown_bytes:
        return 0
    return (conversation.estimate_bytes() + frozen_bytes + len(new_text)) // BYTES_A_TOKEN


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a compaction is asked for."""

    tokens: int = 0
    forced: bool = False
    focus: str | None = None
    room: int = 0  # bytes that the messages may take afterwards; 0: whatever the engine makes of them


def compact(ports: Ports, conversation: Conversation, wanted: Wanted) -> Conversation | None:
    """The shorter conversation, stored; None when nothing was changed."""
    messages = copy_messages(conversation.messages)
    rows = _ask_engine(ports, ports.engine, conversation, wanted)
    spare = ports.make_spare_engine() if rows is None else None
    if spare is not None:  # an engine that fails is somebody else's code, and ours stands in (E3)
        rows = _ask_engine(ports, spare, conversation, wanted)
    if rows is None:
        rows = list(conversation.rows)
    if wanted.room:  # what was kept can still be more than the window holds
        room = wanted.room
        if wanted.forced and _are_same(rows, conversation.rows):  # a repair that changes nothing repairs nothing (E10)
            room = min(room, conversation.estimate_bytes() // 2)
        fitted = shorten_rows(rows, room, conversation.session)
        if cuts_request(rows, fitted):
            ports.tell_once("request", CUT_REQUEST)
        rows = fitted
    if _are_same(rows, conversation.rows):
        return None
    return _store(ports, conversation, _keep_marks(drop_signatures(rows, conversation.rows), conversation), messages)


def _ask_engine(ports: Ports, engine: Any, conversation: Conversation, wanted: Wanted) -> list[Row] | None:
    """The rows after it; None when it failed, or left out what the person asked last (E7)."""
    live, kept = conversation.messages, copy_messages(conversation.messages)
    offered = {"current_tokens": wanted.tokens, "focus_topic": wanted.focus, "force": wanted.forced}
    remembered = ports.brief_summary(kept) if ports.brief_summary is not None else ""
    if remembered:
        offered["memory_context"] = ports.redact(remembered)
    try:
        shorter = engine.compress(list(live), **accepted_arguments(engine.compress, offered))
        _tell_failed_summary(ports, engine)
        if getattr(engine, "_last_compress_aborted", False) or not shorter or shorter == kept:
            return list(conversation.rows)
        cleaned = [clean_message(message, ports.redact) for message in repair_messages(shorter)]
        rows = rows_as_sent(cleaned, conversation.rows)
    except STOPS:
        raise
    except BaseException as problem:
        log.exception("the context engine %s failed in compress", read_engine_name(engine))
        _tell_refusal(ports, f"failed ({type(problem).__name__}: {problem})")
        return None
    finally:
        for message, before in zip(live, kept, strict=False):
            if message != before:  # an engine may edit what it was given, not what was sent
                message.clear()
                message.update(before)
    newest = find_newest_request(conversation.rows)
    said = [text_of(row.message) for row in rows if row.message.get("role") == "user"]
    if not said or (newest is not None and text_of(conversation.rows[newest].message) not in said):
        log.warning("the context engine's result lacks the newest request and was refused")
        _tell_refusal(ports, "left out what was asked last")
        return None
    return rows


def _tell_refusal(ports: Ports, what: str) -> None:
    text = f"The context engine {what}. Nothing was dropped; the built-in one makes the conversation shorter instead."
    ports.tell_once("engine", text)


def _are_same(rows: Sequence[Row], others: Sequence[Row]) -> bool:
    return len(rows) == len(others) and all(row is other for row, other in zip(rows, others, strict=True))


def _tell_failed_summary(ports: Ports, engine: Any) -> None:
    """A summary that fails may fail at every step; the person reads of it once, until one succeeds (E3)."""
    problem = getattr(engine, "_last_summary_error", None)
    if problem:
        text = f"The conversation could not be summarised; nothing was dropped. {problem}"
        ports.tell_once("summary", f"{text} Old results of tools are sent shortened, and are kept whole.")
    else:
        ports.tell_again("summary")


def rows_as_sent(messages: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> list[Row]:
    """Messages that stood before keep their stored row, with its bytes; the others are new."""
    known: dict[str, list[Row]] = {}
    for row in rows:
        known.setdefault(_key(row.message), []).append(row)
    found: list[Row] = []
    for message in messages:
        same = known.get(_key(message))
        # What an engine puts in the user's place was said by nobody: no undo takes it back for a question.
        made = {COMPACTED: True} if message["role"] == "user" else {}
        found.append(same.pop(0) if same else Row({**message, **made}))
    return found


def drop_signatures(rows: Sequence[Row], before: Sequence[Row]) -> list[Row]:
    """What a provider signed does not hold behind a message that was changed, except in the calls under way."""
    under_way = max((place for place, row in enumerate(rows) if row.message["role"] == "user"), default=0)
    found: list[Row] = []
    changed = False
    for place, row in enumerate(rows):
        changed = changed or place >= len(before) or row is not before[place]
        signed = OWN_DATA in row.message
        found.append(Row(without_own_data(row.message), row.shown) if changed and signed and place < under_way else row)
    return found


def _keep_marks(rows: list[Row], old: Conversation) -> list[Row]:
    """What stands for foreign text is foreign text: the first new row carries the marks of those that went (G9)."""
    lost = old.marks.missing_in(row.message for row in rows)
    if not lost:
        return rows
    stood = set(map(id, old.rows))
    place = next((place for place, row in enumerate(rows) if id(row) not in stood), 0)
    marked = {name: [*rows[place].message.get(name, ()), *values] for name, values in lost.items()}
    return [*rows[:place], replace(rows[place], message={**rows[place].message, **marked}), *rows[place + 1 :]]


def _key(message: Mapping[str, Any]) -> str:
    return json.dumps(message, sort_keys=True, ensure_ascii=False, default=str)


def _store(ports: Ports, old: Conversation, rows: list[Row], messages: list[dict[str, Any]]) -> Conversation:
    if ports.compress_in_place:
        ports.journal.append([head_row(0, made=len(rows)), *(replace(row, kind=MADE) for row in rows)])
    else:
        ports.journal.rotate(REASON, rows)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] is pair[1], zip(old.rows, rows, strict=False)))
    ports.journal.broke(REASON, same)
    new = Conversation(ports.journal.reload(), PrefixBreak(REASON, same))
    new.call_ids |= old.call_ids  # the turn under way may have kept a step of a call that went
    guarded(_set_counters, ports.engine)
    ports.on_rotated(old.session, new.session, messages)
    shortened = "Long texts of the conversation were shortened to make room; they are kept whole."
    compacted = f"The conversation was compacted from {len(old)} to {len(new)} messages."
    ports.emit(Notice(compacted if len(new) < len(old) else shortened))
    return new


def _set_counters(engine: Any) -> None:
    engine.last_prompt_tokens = ON_THE_WAY
    engine.last_completion_tokens = 0
    engine.awaiting_real_usage_after_compression = True


def guarded(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a method of somebody's engine; its failure is logged and never reaches the turn."""
    try:
        return call(*args, **kwargs)
    except STOPS:
        raise
    except BaseException:
        owner = getattr(inspect.unwrap(call), "__self__", None)
        name = "" if owner is None else f" {read_engine_name(owner)}"
        log.exception("the context engine%s failed in %s", name, getattr(call, "__name__", call))
        return None


def read_engine_name(engine: Any) -> str:
    try:
        return str(engine.name)
    except Exception as problem:  # noqa: BLE001 - it is somebody else's, and fails in everything
        log.debug("the engine does not say its name: %s", problem)
        return type(engine).__name__


# --- cutting texts; pure


KEPT_REQUESTS = 3
LEAST_KEPT = 400  # characters of a text that is cut
#: In which order texts are cut. The rank of a row is the first of these that holds for it.
OLD_RESULT, RESULT, ANSWER, OLD_REQUEST, REQUEST = range(5)


def fit_text(text: str, limit: int, where: str) -> str:
    """The text, or two thirds of the room for its beginning and a third for its end; the same input, the same cut."""
    size = len(text.encode("utf-8", "replace"))
    if size <= limit:
        return text
    # How many characters fit into so many bytes, roughly: scripts differ by a factor of four.
    room = max(LEAST_KEPT, int(limit * (len(text) / size)))
    head, tail = room * 2 // 3, room // 3
    left_out = len(text) - head - tail
    return f"{text[:head]}\n[… {left_out:,} characters are left out here; the whole is kept: {where} …]\n{text[-tail:]}"


def shorten_rows(rows: Sequence[Row], room: int, session: str) -> list[Row]:
    """Rows that take at most `room` bytes together, as far as there are texts to cut and older rows to leave out.

    The newest request and the round that works on it stay; `session` is where all of them are kept whole.
    """
    shorter, size = list(rows), _size_of(rows)
    requests = [place for place, row in enumerate(rows) if _is_request(row)]
    newest = requests[-1] if requests else len(rows)
    by_role = {"tool": (OLD_RESULT, RESULT), "assistant": (ANSWER, ANSWER)}
    ranks = [
        by_role.get(row.message["role"], (OLD_REQUEST, OLD_REQUEST))[place > newest] for place, row in enumerate(rows)
    ]
    for place in requests[-KEPT_REQUESTS:]:
        ranks[place] = REQUEST
    for rank in range(REQUEST + 1):
        limit = room // 2
        while size > room and limit >= LEAST_KEPT // 2:
            shorter = [
                _cut(row, max(LEAST_KEPT, limit), session) if ranks[place] <= rank else row
                for place, row in enumerate(rows)
            ]
            size, limit = _size_of(shorter), limit // 2
    return shorter if size <= room else _leave_out_oldest(shorter, room, session)


def find_newest_request(rows: Sequence[Row]) -> int | None:
    """The place of what a person said last."""
    return next((place for place in reversed(range(len(rows))) if _is_request(rows[place])), None)


def cuts_request(before: Sequence[Row], after: Sequence[Row]) -> bool:
    """Whether one of the last messages of a person is not sent as it was."""
    kept = {text_of(row.message) for row in after}
    said = [text_of(row.message) for row in before if _is_request(row)]
    return any(text not in kept for text in said[-KEPT_REQUESTS:])


def _is_request(row: Row) -> bool:
    return row.shown != "" and is_request(row.message)


def _size_of(rows: Sequence[Row]) -> int:
    return sum(rough_bytes(row.message) for row in rows)


def _cut(row: Row, limit: int, session: str) -> Row:
    """The row with its text cut; the same row when there is nothing to cut."""
    where = f"{session}, message {row.position}" if row.position >= 0 else session
    content = row.message.get("content")
    cut: Any = content
    if isinstance(content, str):
        cut = fit_text(content, limit, where)
    elif isinstance(content, list):
        cut = [
            {**part, "text": fit_text(part["text"], limit, where)}
            if isinstance(part, Mapping) and isinstance(part.get("text"), str)
            else part
            for part in content
        ]
    if cut == content:
        return row
    return Row({**without_own_data(row.message), "content": cut}, shown_text(row), inbox=row.inbox)


def _leave_out_oldest(rows: Sequence[Row], room: int, session: str) -> list[Row]:
    """Without the oldest messages, calls together with their results, and with a word in their place."""
    stays = {find_newest_request(rows), len(rows) - 1}
    size = _size_of(rows) + rough_bytes(_tell_gap(len(rows), session).message)
    gone: set[int] = set()
    starts = [place for place, row in enumerate(rows) if row.message["role"] != "tool" or place == 0]
    for group in map(range, starts, [*starts[1:], len(rows)]):
        if size <= room:
            break
        if stays.isdisjoint(group) and not is_summary(rows[group[0]].message):
            size -= _size_of(rows[group.start : group.stop])
            gone.update(group)
    left = [row for place, row in enumerate(rows) if place not in gone]
    if not gone:
        return left
    first = next((place for place, row in enumerate(left) if not is_summary(row.message)), len(left))
    return [*left[:first], _tell_gap(len(gone), session), *left[first:]]


def _tell_gap(count: int, session: str) -> Row:
    text = f"{SUMMARY_MARK}\n\n{count} earlier messages are left out here; they are kept whole: {session}."
    return Row({"role": "user", "content": text}, "")
