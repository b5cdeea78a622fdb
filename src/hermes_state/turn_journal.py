"""The journal of a conversation that is owned by a claim: every write is fenced, and the last one of a turn is THE
transaction (last rows, messages done, answers in the outbox, usage)."""

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hermes_base.errors import Fenced
from hermes_base.inbound import Outgoing
from hermes_base.journal import Row, Step, TurnEnd, UsageRow
from hermes_state.records import digest, read_place
from hermes_state.sql.store_sql import Store
from hermes_state.sql.turns_sql import TurnStore
from hermes_state.store import NewSession, SessionInfo
from hermes_state.store_journal import StoreJournal
from hermes_state.turns import BegunTurn, Claim, Written


@dataclass(slots=True)
class _Bound:
    """The turn that the journal writes for."""

    claim: Claim
    turn: BegunTurn
    answer: Callable[[TurnEnd], Sequence[Outgoing]]
    taken: set[int] = field(default_factory=set)
    steps: int = 0
    frozen: list[tuple[int, str, bytes]] = field(default_factory=list)  # kept with the rows that come next
    tell_taken: Callable[[tuple[int, ...]], None] = lambda _: None  # which messages were stored with rows of it


class TurnJournal(StoreJournal):
    """Implements `Journal` for one conversation; `bind` gives it the turn that comes next.

    Once `suspend` was called, no further write is begun for the turn: the store then looks as if the process had died,
    and whoever comes next goes on from there. A write under way at that moment may still arrive, as it may when a
    process dies; who has to know waits for it with `settle`.
    """

    def __init__(self, store: Store, turns: TurnStore, place: NewSession) -> None:
        super().__init__(lambda: store, place.conversation, platform=place.platform, model=place.model)
        self._turns = turns
        self._place = place
        self._lock = threading.Lock()  # held across a write: for the turn's threads, never for the event loop
        self._bound: _Bound | None = None
        self.closed: tuple[int, ...] = ()  # the messages that the last turn has dealt with

    def bind(self, claim: Claim, turn: BegunTurn, answer: Callable[[TurnEnd], Sequence[Outgoing]]) -> None:
        """Write for this turn from now on; `answer` makes what is said of its end."""
        with self._lock:
            self._bound = _Bound(claim, turn, answer, set(turn.taken))
            self.closed = ()

    def tell_taken_to(self, hear: Callable[[tuple[int, ...]], None]) -> None:
        """Whoever wants to know which messages the turn has taken in, each time when they are stored."""
        self._get_bound().tell_taken = hear

    def suspend(self) -> None:
        """Refuse every further write for the turn. Never waits, so it may be called on the event loop."""
        self._bound = None

    def settle(self) -> None:
        """Wait until no write is under way; not on the event loop."""
        with self._lock:
            pass

    @property
    def place(self) -> tuple[str, int]:
        """Session and version after the last write."""
        return self._session, self._version

    def freeze(self, part: str, dialect: str, body: bytes) -> str:
        """Kept with the rows that come next: what is encoded for a turn is stored at once with its first row."""
        with self._lock:
            self._get_bound().frozen.append((read_place(part), dialect, body))
        return digest(body).hex()

    def append(self, rows: Sequence[Row], usage: Sequence[UsageRow] = ()) -> int:
        session = self._begun()
        with self._lock:
            bound = self._get_bound()
            written = self._write(session, bound, rows)
            self._version = self._turns.append(bound.claim, bound.turn.seq, written, usage)
            bound.frozen.clear()
            taken = tuple(seq for row in rows for seq in row.inbox)
            bound.taken.update(taken)
        if taken:
            bound.tell_taken(taken)
        return self._version

    def finish(self, rows: Sequence[Row], usage: Sequence[UsageRow], end: TurnEnd) -> int:
        """Close the turn's own message and those that were put into it; what was not taken in stays open."""
        session = self._begun()
        answers = self._get_bound().answer(end)  # values only: nothing is waited for before the transaction
        with self._lock:
            bound = self._get_bound()
            seqs = sorted({bound.turn.seq, *bound.taken})
            written = self._write(session, bound, rows)
            version = self._turns.complete(bound.claim, seqs, written, answers, usage)
            self._version = self._version + len(rows) if version is None else version
            self._bound, self.closed = None, tuple(seqs)
            return self._version

    def rotate(self, reason: str, rows: Sequence[Row]) -> str:
        session = self._begun()
        with self._lock:
            bound = self._get_bound()
            written = self._write(session, bound, rows)
            child = self._turns.rotate(bound.claim, bound.turn.seq, written, reason)
            bound.frozen.clear()
            self._session, self._version = child.id, child.version
            return child.id

    def step(self, kind: str, body: Mapping[str, Any]) -> None:
        with self._lock:
            bound = self._get_bound()
            bound.steps += 1
            n = bound.turn.attempt * 10_000 + bound.steps  # an earlier attempt's steps stay as they are
            self._turns.step(bound.claim, bound.turn.seq, n, kind, body)

    def steps(self) -> Sequence[Step]:
        bound = self._get_bound()
        return self._turns.steps(bound.claim.conversation, bound.turn.seq)

    def _write(self, session: str, bound: _Bound, rows: Sequence[Row]) -> Written:
        return Written(session, self._writer, self._version, rows, tuple(bound.frozen))

    def _get_bound(self) -> _Bound:
        bound = self._bound  # looked at once: `suspend` may come between two looks
        if bound is None:
            raise Fenced("This turn is over: nothing more is written for it.", kept="What it had written is kept.")
        return bound

    def _open_session(self) -> SessionInfo:
        return self._get_store().open_session(self._place)
