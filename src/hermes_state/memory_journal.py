"""The transcript of one agent in memory, for programs that use `AIAgent` as a library: nothing is written to disk."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from hermes_base.turn.journal import PART_PLACES, Row, Step, Transcript, TurnEnd, UsageRow, copy_rows, placed, visible
from hermes_state.records import make_session_id, make_writer_id, read_place

_PARTS = {place: part for part, place in PART_PLACES.items()}


class MemoryJournal:
    """Implements `Journal` for its only user, so nobody else can have written meanwhile. Rows are copied on their way
    in: whoever goes on with a message of theirs changes nothing here."""

    def __init__(self, conversation: str = "", session: str = "") -> None:
        self._conversation = conversation
        self._session = session or make_session_id()
        self._task = self._session
        self._writer = make_writer_id()
        self._opened = False
        self._rows: list[Row] = []
        self._sent: dict[int, dict[str, bytes]] = {}  # place -> dialect -> bytes
        self.usage: list[UsageRow] = []

    def load(self) -> Transcript:
        """The transcript as it stands."""
        self._opened = True
        rows = [replace(row, sent={**row.sent, **self._sent.get(row.position, {})}) for row in visible(self._rows)]
        frozen = {
            (part, dialect): body
            for place, part in _PARTS.items()
            for dialect, body in self._sent.get(place, {}).items()
        }
        writer = self._writer if self._rows else ""
        return Transcript(
            self._session,
            self._conversation,
            self._task,
            len(self._rows),
            writer,
            frozen,
            tuple(copy_rows(rows)),
        )

    def reload(self) -> Transcript:
        """The same: there is no other session."""
        return self.load()

    def standing(self) -> tuple[str, int]:
        """Session and version, ("", 0) before the first use."""
        return (self._session, len(self._rows)) if self._opened else ("", 0)

    def freeze(self, part: str, dialect: str, body: bytes) -> str:
        """Keep what a part or a row's position was encoded to; returns its content hash."""
        self._sent.setdefault(read_place(part), {})[dialect] = body
        return hashlib.sha256(body).hexdigest()

    def append(self, rows: Sequence[Row], usage: Sequence[UsageRow] = ()) -> int:
        """Keep rows and usage; returns the new version."""
        self._opened = True
        self._rows += copy_rows(placed(rows, len(self._rows)))
        self.charge(usage)
        return len(self._rows)

    def finish(self, rows: Sequence[Row], usage: Sequence[UsageRow], end: TurnEnd) -> int:
        """Keep the last rows; the answer itself is one of them, and nothing else marks the turn here."""
        return self.append(rows, usage)

    def rotate(self, reason: str, rows: Sequence[Row]) -> str:
        """Go on in a new session that starts with `rows`; returns its id. The old one is over, and nobody can ask."""
        self._session = make_session_id()
        self._sent = {place: kept for place, kept in self._sent.items() if place < 0}
        self._rows.clear()
        self.append(rows)
        return self._session

    def charge(self, usage: Sequence[UsageRow]) -> None:
        """Keep what calls cost, for who asks this journal."""
        self.usage += usage

    def broke(self, reason: str, position: int) -> None:
        """Nobody reads that the prefix moved."""

    def step(self, kind: str, body: Mapping[str, Any]) -> None:
        """Nobody goes on with a turn of this journal, so there is nothing to keep."""

    def steps(self) -> Sequence[Step]:
        return ()
