"""Lets go of what is over, in memory: the twin of `retention_sqlite`."""

from collections.abc import Iterator

from hermes_state.memory.memory_state import Kept, MemoryState
from hermes_state.people_store import OPEN


def sweep(state: MemoryState, before: float, limit: int) -> int:
    """Delete at most `limit` rows that were over before then; how many went."""
    tables, gone = state.turns, 0
    for drop in (_drop_messages, _drop_controls, _drop_questions, _drop_answers):
        gone += drop(state, before, limit - gone)
    tables.inbox = {name: rows for name, rows in tables.inbox.items() if rows}
    return gone


def find_stale(state: MemoryState, before: float, now: float) -> Iterator[str]:
    """Those with messages first, the oldest first."""
    found = [kept for kept in state.sessions.values() if is_stale(state, kept, before, now)]
    found.sort(key=lambda kept: (not kept.info.messages, kept.info.updated, kept.info.id))
    return (kept.info.id for kept in found)


def is_stale(state: MemoryState, kept: Kept, before: float, now: float) -> bool:
    """Nobody touched it or its chain, nothing waits in its conversation, and no living process has it."""
    info = kept.info
    row = state.turns.conversations.get(info.conversation)
    if row is not None and row.pending:
        return False
    is_current = state.current.get(info.conversation) == info.id
    if is_current and row is not None and state.turns.is_alive(row.owner, now):
        return False
    return all(other.info.updated < before for other in state.sessions.values() if other.info.task == info.task)


def _drop_messages(state: MemoryState, before: float, limit: int) -> int:
    rows = [(name, row) for name, kept in state.turns.inbox.items() for row in kept.values() if row.done_at is not None]
    old = [(row.done_at, name, row) for name, row in rows if row.done_at is not None and row.done_at < before]
    for _, name, row in sorted(old, key=lambda item: item[0])[:limit]:
        del state.turns.inbox[name][row.seq]
        del state.turns.seen[row.account, row.ext_id]
    return min(len(old), limit)


def _drop_controls(state: MemoryState, before: float, limit: int) -> int:
    old = [row for row in state.turns.controls if row.taken_at is not None and row.taken_at < before][:limit]
    state.turns.controls = [row for row in state.turns.controls if row not in old]
    return len(old)


def _drop_questions(state: MemoryState, before: float, limit: int) -> int:
    closed = [question for question in state.questions.values() if question.state != OPEN]
    old = [question.id for question in closed if max(question.created, question.expires) < before][:limit]
    for question in old:
        del state.questions[question]
    return len(old)


def _drop_answers(state: MemoryState, before: float, limit: int) -> int:
    entries = state.turns.outbox.items()
    ended = [(entry.ended, row) for row, entry in entries if entry.ended is not None and entry.ended < before]
    for _, row in sorted(ended)[:limit]:
        conversation = state.turns.get_conversation(state.turns.outbox.pop(row).row.conversation)
        conversation.last_row = max(conversation.last_row, row)
    return min(len(ended), limit)
