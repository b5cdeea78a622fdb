"""The writer of one conversation's transcript: it knows how far it has come, so its own writes never surprise it.

Nothing is opened or created before the first use.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hermes_base.journal import Row, Step, Transcript, TurnEnd, UsageRow
from hermes_state.records import make_writer_id, read_place
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession, SessionInfo


class StoreJournal:
    """Implements `Journal` on a store; used by one turn at a time.

    With `session`, the journal writes that one, which is opened under this id if there is none; otherwise the
    conversation's current session, found anew by each `load`. `rotate` moves it to the child.
    """

    def __init__(
        self,
        open_store: Callable[[], Store],
        conversation: str,
        *,
        session: str = "",
        platform: str = "local",
        model: str = "",
        writer: str = "",
    ) -> None:
        self._open_store = open_store
        self._conversation = conversation
        self._named = session
        self._platform = platform
        self._model = model
        self._writer = writer or make_writer_id()
        self._store: Store | None = None
        self._session = ""
        self._version = 0

    def load(self) -> Transcript:
        """The transcript as stored; opens the session if the conversation has none."""
        session = self._look_up() or self._open_session()
        return self._read(session.id)

    def reload(self) -> Transcript:
        """The session at work as stored now, and no other, wherever the conversation goes on meanwhile."""
        return self._read(self._begun())

    def standing(self) -> tuple[str, int]:
        """Session and version as stored now, ("", 0) without one; the journal itself moves by `load` only."""
        found = self._look_up()
        return ("", 0) if found is None else (found.id, found.version)

    def freeze(self, part: str, dialect: str, body: bytes) -> str:
        """Keep what a part or a row's position was encoded to; returns its content hash."""
        return self._get_store().freeze(self._begun(), read_place(part), dialect, body)

    def append(self, rows: Sequence[Row], usage: Sequence[UsageRow] = ()) -> int:
        """Commit rows and usage together; Fenced if someone else wrote since the last call."""
        session = self._begun()
        self._version = self._get_store().append(session, self._writer, self._version, rows, usage)
        return self._version

    def finish(self, rows: Sequence[Row], usage: Sequence[UsageRow], end: TurnEnd) -> int:
        """Commit the last rows; the answer itself is one of them, and nothing else marks the turn here."""
        return self.append(rows, usage)

    def rotate(self, reason: str, rows: Sequence[Row]) -> str:
        """Close the session, open its child with `rows` and go on there; returns the child's id."""
        child = self._get_store().rotate(self._begun(), self._writer, self._version, reason, rows)
        self._session, self._version = child.id, child.version
        self._named = child.id if self._named else ""
        return child.id

    def charge(self, usage: Sequence[UsageRow]) -> None:
        """Put auxiliary calls into the ledger."""
        self._get_store().charge(self._begun(), usage)

    def broke(self, reason: str, position: int) -> None:
        """Record that the prefix moved."""
        self._get_store().note_break(self._begun(), reason, position)

    def step(self, kind: str, body: Mapping[str, Any]) -> None:
        """Nobody goes on with a turn of this journal, so there is nothing to keep."""

    def steps(self) -> Sequence[Step]:
        return ()

    def _read(self, session: str) -> Transcript:
        transcript = self._get_store().load(session)
        self._session, self._version = transcript.session, transcript.version
        return transcript

    def _get_store(self) -> Store:
        if self._store is None:
            self._store = self._open_store()
        return self._store

    def _begun(self) -> str:
        """The session at work; a first write without a load starts with one."""
        return self._session or self.load().session

    def _look_up(self) -> SessionInfo | None:
        store = self._get_store()
        return store.session(self._named) if self._named else store.current(self._conversation)

    def _open_session(self) -> SessionInfo:
        new = NewSession(self._conversation, id=self._named, platform=self._platform, model=self._model)
        return self._get_store().open_session(new)
