"""A session in memory: its messages, and the bytes each was sent as, one list for each dialect.

A message is encoded once for a dialect and kept; a request is the join of what is kept. Nothing here is rendered
again while the conversation goes on.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermes_base.journal import Journal, Row, Transcript, placed

Encode = Callable[[Mapping[str, Any]], bytes]


@dataclass(frozen=True, slots=True)
class PrefixBreak:
    """The request does not start with the bytes of the last one: why, and from which message on."""

    reason: str
    position: int


class Conversation:
    """Messages are live dicts: plugins may edit them in place, which `refresh` turns into a named prefix break."""

    def __init__(self, transcript: Transcript) -> None:
        self.session = transcript.session
        self.task = transcript.task
        self.conversation = transcript.conversation
        self.version = transcript.version
        self.messages: list[dict[str, Any]] = []
        self.frozen = dict(transcript.frozen)
        self._rows: list[Row] = []
        self._sent: dict[str, list[bytes]] = {}
        for row in transcript.rows:
            self._take(row)

    def __len__(self) -> int:
        return len(self.messages)

    @property
    def rows(self) -> Sequence[Row]:
        return self._rows

    def stands_at(self, standing: tuple[str, int]) -> bool:
        return (self.session, self.version) == standing

    def note(self, rows: Sequence[Row], version: int) -> None:
        """Take rows that the journal has stored."""
        for row in placed(rows, version - len(rows)):
            self._take(row)
        self.version = version

    def forget_after(self, keep: int, version: int) -> None:
        """An undo was stored."""
        del self.messages[keep:], self._rows[keep:]
        for fragments in self._sent.values():
            del fragments[keep:]
        self.version = version

    def fragments(self, dialect: str, encode: Encode, journal: Journal) -> list[bytes]:
        """The bytes of every message in this dialect; what it never sent is encoded now and kept."""
        sent = self._sent.setdefault(dialect, [])
        for place in range(len(sent), len(self.messages)):
            row = self._rows[place]
            body = row.sent.get(dialect)
            if body is None:
                body = encode(self.messages[place])
                journal.freeze(str(row.position), dialect, body)
            sent.append(body)
        return sent

    def refresh(self, dialect: str, encode: Encode) -> int | None:
        """Encode again what a plugin edited in place; the first place that changed. Costs a walk over the history."""
        sent = self._sent.get(dialect, [])
        first = None
        for place, kept in enumerate(sent):
            body = encode(self.messages[place])
            if body != kept:
                sent[place] = body
                first = place if first is None else first
        return first

    def _take(self, row: Row) -> None:
        self._rows.append(row)
        self.messages.append(dict(row.message))
        for dialect, sent in self._sent.items():
            # Only a list that is complete so far may grow; a dialect that was left behind catches up in `fragments`.
            if dialect in row.sent and len(sent) == len(self.messages) - 1:
                sent.append(row.sent[dialect])
