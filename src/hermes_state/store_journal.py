"""The writer of one conversation's transcript on a store: it knows how far it has come, so its own writes never
surprise it. Nothing is opened or created before the first use.

A library writes its rows as they come. The journal of a gateway is `owned`: it writes for the turn that it is bound to
and for nothing else, every write is fenced by the turn's claim, and the last one of a turn is THE transaction (last
rows, messages done, answers in the outbox, usage).
"""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from hermes_base.errors import Fenced
from hermes_base.inbound import Outgoing
from hermes_base.turn.journal import Row, Step, Transcript, TurnEnd, UsageRow
from hermes_state.records import digest, make_writer_id, read_place
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession, SessionInfo
from hermes_state.turns import BegunTurn, Claim, Written


@dataclass(slots=True)
class _Bound:
    """The turn that the journal writes for."""

    claim: Claim
    turn: BegunTurn
    answer: Callable[[TurnEnd], Sequence[Outgoing]]
    tell_taken: Callable[[tuple[int, ...]], None]  # which messages were stored with rows of it
    taken: set[int]
    keep_files: Callable[[], None] | None  # before what tools have done is stored: their files are kept first
    standing: tuple[str, int] | None  # where the store said, when it was bound, that the transcript stands; told once
    steps: int = 0
    frozen: list[tuple[int, str, bytes]] = field(default_factory=list)  # kept with the rows that come next


class StoreJournal:
    """Implements `Journal` on a store; used by one turn at a time.

    If `new` has an id, the journal writes that session, which is opened under it if there is none; otherwise the
    conversation's current session, found anew by each `load`. `rotate` moves it to the child.

    Once `suspend` was called, no further write is begun for the turn: the store then looks as if the process had died,
    and whoever comes next goes on from there. A write under way at that moment may still arrive, as it may when a
    process dies; who has to know waits for it with `settle`.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        new: NewSession,
        *,
        writer: str = "",
        owned: bool = False,
        count_calls: Callable[[Sequence[UsageRow]], None] = lambda _: None,
        count_break: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._open_store = open_store
        self._new = new
        self._writer = writer or make_writer_id()
        self._owned = owned
        self._count_calls = count_calls  # of what was stored
        self._count_break = count_break
        self._session = ""
        self._version = 0
        self._lock = threading.Lock()  # held across a write: for the turn's threads, never for the event loop
        self._bound: _Bound | None = None
        self.closed: tuple[int, ...] = ()  # the messages that the last turn has dealt with

    # --- the turn that an owned journal writes for

    def bind(
        self,
        claim: Claim,
        turn: BegunTurn,
        answer: Callable[[TurnEnd], Sequence[Outgoing]],
        tell_taken: Callable[[tuple[int, ...]], None] = lambda _: None,
        standing: tuple[str, int] | None = None,
        keep_files: Callable[[], None] | None = None,
    ) -> None:
        """Write for this turn from now on. `answer` makes what is said of its end; `tell_taken` hears which messages
        it has taken in, each time when they are stored; `standing` is what the method of this name would find now.
        `keep_files` is called before the results of tools are stored: who finds one finds the tool's files, too."""
        with self._lock:
            self._bound = _Bound(claim, turn, answer, tell_taken, set(turn.taken), keep_files, standing)
            self.closed = ()

    def suspend(self) -> None:
        """Refuse every further write for the turn. Never waits, so it may be called on the event loop."""
        self._bound = None

    def settle(self) -> None:
        """Wait until no write is under way; not on the event loop."""
        with self._lock:
            pass

    def _get_bound(self) -> _Bound:
        bound = self._bound  # looked at once: `suspend` may come between two looks
        if bound is None:
            raise Fenced("This turn is over: nothing more is written for it.", kept="What it had written is kept.")
        return bound

    # --- reading

    @property
    def place(self) -> tuple[str, int]:
        """Session and version after the last write."""
        return self._session, self._version

    def load(self) -> Transcript:
        """The transcript as stored; opens the session if the conversation has none."""
        bound = self._bound
        if bound is not None:
            bound.standing = None  # it was told, or is not needed any more
        return self._read((self._look_up() or self._store.open_session(self._new)).id)

    def reload(self) -> Transcript:
        """The session at work as stored now, and no other, wherever the conversation goes on meanwhile."""
        return self._read(self._session or self.load().session)

    def standing(self) -> tuple[str, int]:
        """Session and version as stored now, ("", 0) without one; the journal itself moves by `load` only."""
        bound = self._bound
        if bound is not None and bound.standing is not None and not self._new.id:
            known, bound.standing = bound.standing, None
            return known
        found = self._look_up()
        return ("", 0) if found is None else (found.id, found.version)

    def steps(self) -> Sequence[Step]:
        """What a predecessor had done in the turn; nobody goes on with one of a library."""
        if not self._owned:
            return ()
        bound = self._get_bound()
        return self._store.turns.steps(bound.claim.conversation, bound.turn.seq)

    def _read(self, session: str) -> Transcript:
        transcript = self._store.load(session)
        self._session, self._version = transcript.session, transcript.version
        return transcript

    def _look_up(self) -> SessionInfo | None:
        named = self._new.id
        return self._store.session(named) if named else self._store.current(self._new.conversation)

    @cached_property
    def _store(self) -> Store:
        return self._open_store()

    # --- writing; a first write without a load begins with one

    def freeze(self, part: str, dialect: str, body: bytes) -> str:
        """Keep what a part or a row's position was encoded to; returns its content hash. In a turn it is kept with the
        rows that come next: what is encoded for a turn is stored at once with its first row."""
        if not self._owned:
            return self._store.freeze(self._session or self.load().session, read_place(part), dialect, body)
        with self._lock:
            self._get_bound().frozen.append((read_place(part), dialect, body))
        return digest(body).hex()

    def append(self, rows: Sequence[Row], usage: Sequence[UsageRow] = ()) -> int:
        """Commit rows and usage together; Fenced if someone else wrote since the last call."""
        session = self._session or self.load().session
        if not self._owned:
            self._version = self._store.append(session, self._writer, self._version, rows, usage)
            return self._version
        with self._lock:
            bound = self._get_bound()
            if bound.keep_files is not None and any(row.message.get("role") == "tool" for row in rows):
                bound.keep_files()
            written = Written(session, self._writer, self._version, rows, tuple(bound.frozen))
            self._version = self._store.turns.append(bound.claim, bound.turn.seq, written, usage)
            bound.frozen.clear()
            taken = tuple(seq for row in rows for seq in row.inbox)
            bound.taken.update(taken)
        self._count_calls(usage)
        if taken:
            bound.tell_taken(taken)
        return self._version

    def finish(self, rows: Sequence[Row], usage: Sequence[UsageRow], end: TurnEnd) -> int:
        """Close the turn's own message and those that were put into it; what was not taken in stays open. In a library
        the answer is one of the rows, and nothing else marks the turn."""
        if not self._owned:
            return self.append(rows, usage)
        session = self._session or self.load().session
        answers = self._get_bound().answer(end)  # values only: nothing is waited for before the transaction
        with self._lock:
            bound = self._get_bound()
            if bound.keep_files is not None:
                bound.keep_files()
            seqs = sorted({bound.turn.seq, *bound.taken})
            written = Written(session, self._writer, self._version, rows, tuple(bound.frozen))
            version = self._store.turns.complete(bound.claim, seqs, written, answers, usage)
            self._version = self._version + len(rows) if version is None else version
            self._bound, self.closed = None, tuple(seqs)
        self._count_calls(usage)
        return self._version

    def rotate(self, reason: str, rows: Sequence[Row]) -> str:
        """Close the session, open its child with `rows` and go on there; returns the child's id."""
        session = self._session or self.load().session
        if self._owned:
            with self._lock:
                bound = self._get_bound()
                written = Written(session, self._writer, self._version, rows, tuple(bound.frozen))
                child = self._store.turns.rotate(bound.claim, bound.turn.seq, written, reason)
                bound.frozen.clear()
        else:
            child = self._store.rotate(session, self._writer, self._version, reason, rows)
        self._session, self._version = child.id, child.version
        if self._new.id:
            self._new = replace(self._new, id=child.id)
        return child.id

    def charge(self, usage: Sequence[UsageRow]) -> None:
        """Put auxiliary calls into the ledger."""
        self._store.charge(self._session or self.load().session, usage)
        self._count_calls(usage)

    def broke(self, reason: str, position: int) -> None:
        """Record that the prefix moved."""
        self._store.note_break(self._session or self.load().session, reason, position)
        self._count_break(reason)

    def step(self, kind: str, body: Mapping[str, Any]) -> None:
        """Keep what the turn did that is no message; nobody goes on with a turn of a library."""
        if not self._owned:
            return
        with self._lock:
            bound = self._get_bound()
            bound.steps += 1
            n = bound.turn.attempt * 10_000 + bound.steps  # an earlier attempt's steps stay as they are
            self._store.turns.step(bound.claim, bound.turn.seq, n, kind, body)
