"""The store in memory: the twin of `SqliteStore` for libraries and tests, with the same answers and no file."""

import math
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice

from hermes_base.journal import Row, Transcript, UsageRow, visible
from hermes_state import paging, records
from hermes_state.key_store import KeyStore
from hermes_state.memory import retention_memory
from hermes_state.memory.keys_memory import MemoryKeys
from hermes_state.memory.memory_state import MemoryRow, MemoryState, locked, read_message
from hermes_state.memory.people_memory import MemoryPeople
from hermes_state.memory.turns_memory import MemoryTurns
from hermes_state.people_store import PeopleStore
from hermes_state.store import (
    TITLE,
    TITLES_LOOKED_AT,
    BreakRow,
    NewSession,
    PagedRow,
    SearchHit,
    SessionInfo,
    UsageGroup,
    UsageSum,
)
from hermes_state.texts import clean, cut_excerpt, mark_title, match_query, match_title, split_query
from hermes_state.turns import TurnStore


class MemoryStore:
    """Implements `Store`."""

    def __init__(self, *, clock: Callable[[], float] = time.time) -> None:
        self._state = MemoryState(clock)
        self._clock = clock
        self.turns: TurnStore = MemoryTurns(self._state, clock)
        self.people: PeopleStore = MemoryPeople(self._state, clock)
        self.keys: KeyStore = MemoryKeys(self._state, clock)

    # --- sessions

    @locked
    def open_session(self, new: NewSession) -> SessionInfo:
        task = self._state.get(new.parent).info.task if new.parent else ""
        info = self._state.add_session(new, task).info
        self._state.current[info.conversation] = info.id
        return info

    @locked
    def current(self, conversation: str) -> SessionInfo | None:
        session = self._state.current.get(clean(conversation))
        return None if session is None else self._state.sessions[session].info

    @locked
    def session(self, session: str) -> SessionInfo | None:
        kept = self._state.sessions.get(session)
        return None if kept is None else kept.info

    @locked
    def last_of(self, task: str) -> SessionInfo | None:
        chain = [kept for kept in self._state.sessions.values() if kept.info.task == task]
        last = max(chain, key=lambda kept: (kept.info.updated, not kept.successor, kept.info.id), default=None)
        return None if last is None else last.info

    @locked
    def sessions(
        self,
        *,
        limit: int = 50,
        conversation: str | None = None,
        person: str | None = None,
        before: float | None = None,
    ) -> list[SessionInfo]:
        wanted, end = None if conversation is None else clean(conversation), math.inf if before is None else before
        infos = [
            kept.info
            for kept in self._state.sessions.values()
            if kept.info.messages and wanted in (None, kept.info.conversation) and person in (None, kept.info.person)
            if kept.info.updated < end
        ]
        return sorted(infos, key=lambda info: (info.updated, info.id), reverse=True)[:limit]

    @locked
    def begun_so(self, text: str, *, conversations: str, limit: int) -> list[SessionInfo]:
        infos = [self._state.sessions[session].info for session in self._state.current.values()]
        found = [
            info
            for info in infos
            if info.messages and info.preview.startswith(clean(text))
            if info.conversation.startswith(clean(conversations))
        ]
        return sorted(found, key=lambda info: (info.updated, info.id), reverse=True)[:limit]

    @locked
    def resume(self, conversation: str, session: str) -> SessionInfo:
        if self._state.get(session).info.conversation == clean(conversation):
            self._check_idle(clean(conversation))
        return self._state.go_on_in(session, clean(conversation))

    @locked
    def branch(
        self, session: str, *, before: int | None = None, conversation: str = "", current: bool = True
    ) -> SessionInfo:
        old = self._state.get(session)
        target = clean(conversation) or old.info.conversation
        if current:
            self._check_idle(target)
        copy = self._state.copy_session(old, before, target)
        return self._state.go_on_in(copy.info.id, target) if current else copy.info

    def _check_idle(self, conversation: str) -> None:
        if self.turns.open_seqs(conversation):
            raise records.at_work(conversation)

    @locked
    def end(self, session: str, reason: str) -> None:
        kept = self._state.get(session)
        self._state.close_session(kept, reason)
        self._state.move_current(kept.info, None)

    def _is_at_work(self, conversation: str) -> bool:
        """Whether a living process is in the middle of a turn."""
        tables = self._state.turns
        row, messages = tables.conversations.get(conversation), tables.inbox.get(conversation, {}).values()
        begun = any(message.begun is not None and message.done_epoch is None for message in messages)
        return begun and row is not None and tables.is_alive(row.owner, self._clock())

    @locked
    def set_title(self, session: str, title: str) -> None:
        kept = self._state.get(session)
        kept.info = replace(kept.info, title=clean(title))

    @locked
    def delete(self, session: str) -> bool:
        kept = self._state.sessions.get(session)
        if kept is None:
            return False
        conversation = kept.info.conversation
        if self._state.current.get(conversation) == session and self._is_at_work(conversation):
            raise records.at_work(conversation)
        del self._state.sessions[session]
        self._state.move_current(kept.info, None)
        self._state.drop_unused(set(kept.sent.values()))
        return True

    @locked
    def stale_sessions(self, before: float, limit: int) -> list[str]:
        return list(islice(retention_memory.find_stale(self._state, before, self._clock()), limit))

    @locked
    def delete_stale(self, session: str, before: float) -> bool:
        kept = self._state.sessions.get(session)
        if kept is None or not retention_memory.is_stale(self._state, kept, before, self._clock()):
            return False
        return self.delete(session)

    # --- transcripts

    @locked
    def load(self, session: str) -> Transcript:
        kept = self._state.get(session)
        frozen, _ = records.split_sent(self._state.list_sent(kept))
        return Transcript(
            session=session,
            conversation=kept.info.conversation,
            task=kept.info.task,
            version=kept.info.version,
            writer=kept.writer,
            frozen=frozen,
            rows=visible(self._state.read_rows(kept)),
        )

    @locked
    def history(self, session: str) -> Iterator[Row]:
        return iter(self._state.read_rows(self._state.get(session)))

    @locked
    def page(self, session: str, *, before: int | None = None, limit: int = 100) -> list[PagedRow]:
        messages = self._state.get(session).messages
        rows = [read_message(message) for message in messages]
        standing = [range(row.position, row.position + 1) for row in visible(rows)]
        picked = paging.pick_last(standing, before, limit)
        return [PagedRow(rows[run.start], messages[run.start].created) for run in picked]

    @locked
    def append(self, session: str, writer: str, base: int, rows: Sequence[Row], usage: Sequence[UsageRow] = ()) -> int:
        place = records.WriterPosition(session, clean(writer), base)
        return self._state.append_batch(records.write_batch(rows), place, usage)

    @locked
    def freeze(self, session: str, place: int, dialect: str, body: bytes) -> str:
        kept = self._state.get(session)
        records.check_place(place, kept.info.version, session)
        return self._state.keep_encoded(kept, place, dialect, body)

    @locked
    def rotate(self, session: str, writer: str, base: int, reason: str, rows: Sequence[Row]) -> SessionInfo:
        place = records.WriterPosition(session, clean(writer), base)
        return self._state.rotate_session(records.write_batch(rows), place, reason)

    # --- ledger

    @locked
    def charge(self, session: str, usage: Sequence[UsageRow]) -> None:
        kept = self._state.sessions.get(session)
        self._state.add_usage(session, "" if kept is None else kept.info.task, usage)

    @locked
    def usage(
        self, *, session: str | None = None, task: str | None = None, since: float = 0.0, person: str | None = None
    ) -> UsageSum:
        return _sum_calls(self._state.list_calls(session, task, since, person))

    @locked
    def usage_by(
        self,
        group: str,
        *,
        session: str | None = None,
        task: str | None = None,
        since: float = 0.0,
        person: str | None = None,
    ) -> list[UsageGroup]:
        flags = records.find_flags(group)
        groups: dict[tuple[str, ...], list[UsageRow]] = {}
        for call in sorted(self._state.list_calls(session, task, since, person), key=lambda call: call.created):
            groups.setdefault(records.pick_keys(flags, _name_groups(call)), []).append(call)
        return [UsageGroup(keys, _sum_calls(calls), calls[0].created) for keys, calls in groups.items()]

    @locked
    def note_break(self, session: str, reason: str, position: int) -> None:
        kept = self._state.sessions.get(session)
        row = BreakRow(session, records.check_reason(reason), position, time.time())
        self._state.breaks.append(("" if kept is None else kept.info.task, row))

    @locked
    def breaks(self, *, session: str | None = None, task: str | None = None, since: float = 0.0) -> list[BreakRow]:
        return [
            row
            for own, row in self._state.breaks
            if session in (None, row.session) and task in (None, own) and row.created >= since
        ]

    # --- search

    @locked
    def search(self, words: str, *, limit: int = 20, person: str | None = None) -> list[SearchHit]:
        if not self._state.searchable:
            raise records.no_index()
        runs = split_query(words)
        if not runs:
            return []
        found = [
            (message, kept.info.id)
            for kept in self._state.sessions.values()
            if person in (None, kept.info.person)
            for message in kept.messages
            if match_query(runs, message.row.text)
        ]
        found.sort(key=lambda pair: pair[0].order, reverse=True)
        titled = [
            SearchHit(info.id, -1, TITLE, mark_title(runs, info.title), info.updated)
            for info in self.sessions(limit=TITLES_LOOKED_AT, person=person)
            if info.title and match_title(runs, info.title)
        ]
        return [*titled, *(_make_hit(runs, message, session) for message, session in found)][:limit]

    @locked
    def drop_search(self) -> None:
        self._state.searchable = False

    @locked
    def rebuild_search(self) -> int:
        self._state.searchable = True
        return sum(bool(message.row.text) for kept in self._state.sessions.values() for message in kept.messages)

    def close(self) -> None:
        with self._state.lock:
            self._state.closed = True


def _sum_calls(calls: Sequence[UsageRow]) -> UsageSum:
    return UsageSum(
        calls=len(calls),
        input_tokens=sum(call.input_tokens for call in calls),
        cache_read_tokens=sum(call.cache_read_tokens for call in calls),
        cache_write_tokens=sum(call.cache_write_tokens for call in calls),
        output_tokens=sum(call.output_tokens for call in calls),
        reasoning_tokens=sum(call.reasoning_tokens for call in calls),
        cost=math.fsum(call.cost or 0.0 for call in calls),
        unpriced=sum(call.cost is None for call in calls),
        unsettled=sum(not call.settled for call in calls),
        saved=math.fsum(call.saved or 0.0 for call in calls),
    )


def _name_groups(call: UsageRow) -> tuple[str, str, str, str]:
    day = time.strftime("%Y-%m-%d", time.localtime(call.created))
    return day, clean(call.provider), clean(call.model), clean(call.turn)


def _make_hit(runs: list[list[str]], message: MemoryRow, session: str) -> SearchHit:
    role = str(read_message(message).message.get("role", ""))
    return SearchHit(session, message.position, role, cut_excerpt(runs, message.row.text), message.created)
