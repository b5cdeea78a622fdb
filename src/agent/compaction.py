"""Compaction as the turn performs it: ask the engine, check what it gives back, write the new session in one step.

The old session stays whole in the store; rows that the engine kept go over with the bytes they were sent as.
"""

import copy
import itertools
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from agent.cleaning import clean_message
from agent.context_engine import accepted_arguments
from agent.conversation import Conversation
from agent.ports import Ports
from agent.prefix import PrefixBreak
from agent.repair import repair_messages
from agent.reply import OWN_DATA, without_own_data
from hermes_base.chat import LastingNotice, Notice
from hermes_base.journal import Row, head_row

log = logging.getLogger(__name__)

REASON = "compression"
BYTES_A_TOKEN = 4
ON_THE_WAY = -1  # an engine's last_prompt_tokens right after a compaction: the real count is still to come


def estimated_tokens(engine: Any, conversation: Conversation, new_text: str, frozen_bytes: int) -> int:
    """The last real count plus what came since (E4); before there is one, a rough count of everything."""
    last = int(getattr(engine, "last_prompt_tokens", 0) or 0)
    if last > 0:
        return last + (conversation.grown_bytes + len(new_text.encode("utf-8", "replace"))) // BYTES_A_TOKEN
    if last == ON_THE_WAY and not conversation.grown_bytes:
        return 0
    return (conversation.estimate_bytes() + frozen_bytes + len(new_text)) // BYTES_A_TOKEN


def compact(
    ports: Ports, conversation: Conversation, *, tokens: int, force: bool = False, focus: str | None = None
) -> Conversation | None:
    """The shorter conversation, stored; None when nothing was changed."""
    before = conversation.messages
    guard = copy.deepcopy(before)
    offered = {"current_tokens": tokens, "focus_topic": focus, "force": force}
    shorter = ports.engine.compress(list(before), **accepted_arguments(ports.engine.compress, offered))
    if before != guard:
        for live, kept in zip(before, guard, strict=False):
            live.clear()
            live.update(kept)
    _tell_failure_once(ports)
    if getattr(ports.engine, "_last_compress_aborted", False):
        return None
    if not shorter or shorter == guard:
        return None
    cleaned = [clean_message(message, ports.redact) for message in repair_messages(shorter)]
    rows = rows_as_sent(cleaned, conversation.rows)
    if not any(row.message.get("role") == "user" for row in rows):
        log.warning("the context engine's result has no user message and was refused")
        return None
    return _store(ports, conversation, _keep_marks(rows, conversation), guard)


def _tell_failure_once(ports: Ports) -> None:
    """A summary that fails may fail at every step; the person reads of it once, until one succeeds (E3)."""
    problem = getattr(ports.engine, "_last_summary_error", None)
    if problem and not getattr(ports.engine, "_summary_failure_told", False):
        text = f"The conversation could not be summarised; nothing was dropped. {problem}"
        ports.emit(LastingNotice(text, "warning"))
    ports.engine._summary_failure_told = bool(problem)


def rows_as_sent(messages: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> list[Row]:
    """Messages that stood before keep their stored row, with its bytes; the others are new.

    What a provider signed does not hold behind a message that was changed, except in the loop of calls under way.
    """
    known: dict[str, list[Row]] = {}
    for row in rows:
        known.setdefault(_key(row.message), []).append(row)
    under_way = max((place for place, message in enumerate(messages) if message["role"] == "user"), default=0)
    found: list[Row] = []
    changed = False
    for place, message in enumerate(messages):
        same = known.get(_key(message))
        row = same.pop(0) if same else Row(dict(message))
        changed = changed or place >= len(rows) or row is not rows[place]
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
        ports.journal.append([head_row(0), *rows])
    else:
        ports.journal.rotate(REASON, rows)
    same = sum(1 for _ in itertools.takewhile(lambda pair: pair[0] is pair[1], zip(old.rows, rows, strict=False)))
    ports.journal.broke(REASON, same)
    new = Conversation(ports.journal.load(), PrefixBreak(REASON, same))
    _set_counters(ports.engine)
    ports.on_rotated(old.session, new.session, messages)
    ports.emit(Notice(f"The conversation was compacted from {len(old)} to {len(new)} messages."))
    return new


def _set_counters(engine: Any) -> None:
    engine.last_prompt_tokens = ON_THE_WAY
    engine.last_completion_tokens = 0
    engine.awaiting_real_usage_after_compression = True


def guarded(call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
    """Call a method of somebody's engine; its failure is logged and never reaches the turn."""
    try:
        return call(*args, **kwargs)
    except Exception:
        log.exception("the context engine failed in %s", getattr(call, "__name__", call))
        return None
