"""Compaction as the turn performs it: ask the engine, check what it gives back, write the new session in one step.

The old session stays whole in the store; rows that the engine kept go over with the bytes they were sent as.
"""

import copy
import json
import logging
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agent.context_engine import accepted_arguments
from agent.conversation import Conversation
from agent.model_metadata import estimate_tokens_rough
from agent.ports import Ports
from agent.repair import repair_messages
from hermes_base.chat import Notice
from hermes_base.journal import Row, head_row

log = logging.getLogger(__name__)

REASON = "compression"
ON_THE_WAY = -1  # an engine's last_prompt_tokens right after a compaction: the real count is still to come


def estimated_tokens(engine: Any, conversation: Conversation, new_text: str, frozen_bytes: int) -> int:
    """The last real count plus what came since; before there is one, a rough count of everything."""
    last = int(getattr(engine, "last_prompt_tokens", 0) or 0)
    if last == ON_THE_WAY:
        return 0
    if last > 0:
        return last + int(getattr(engine, "last_completion_tokens", 0) or 0) + estimate_tokens_rough(new_text)
    whole = sum(len(json.dumps(message, default=str)) for message in conversation.messages)
    return (whole + frozen_bytes + len(new_text)) // 4


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
    if getattr(ports.engine, "_last_compress_aborted", False):
        ports.emit(Notice("The conversation could not be summarised; nothing was dropped.", "warning"))
        return None
    if not shorter or shorter == guard:
        return None
    rows = rows_as_sent(repair_messages(shorter), conversation.rows)
    if not any(row.message.get("role") == "user" for row in rows):
        log.warning("the context engine's result has no user message and was refused")
        return None
    return _store(ports, conversation, rows, guard)


def rows_as_sent(messages: Sequence[Mapping[str, Any]], rows: Sequence[Row]) -> list[Row]:
    """Messages that stood before keep their stored row, with its bytes; the others are new."""
    known: dict[str, list[Row]] = {}
    for row in rows:
        known.setdefault(_key(row.message), []).append(row)
    found = []
    for message in messages:
        same = known.get(_key(message))
        found.append(same.pop(0) if same else Row(dict(message)))
    return found


def _key(message: Mapping[str, Any]) -> str:
    return json.dumps(message, sort_keys=True, ensure_ascii=False, default=str)


def _store(ports: Ports, old: Conversation, rows: list[Row], messages: list[dict[str, Any]]) -> Conversation:
    if ports.compress_in_place:
        ports.journal.append([head_row(0), *rows])
    else:
        ports.journal.rotate(REASON, rows)
    new = Conversation(ports.journal.load())
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
