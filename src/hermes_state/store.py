"""What the store can do, without any type or error of a database engine.

Two implementations pass one conformance suite: `SqliteStore` (what survives a restart) and `MemoryStore` (its twin
for libraries and tests). All calls are synchronous, may be made from any thread, and raise `StoreFailure` (locked,
full, damaged, newer) or `Fenced` (someone else wrote meanwhile); a call that raises has written nothing.

Words: a *conversation* is a chat and its key; a *session* is one transcript of it; at most one session of a
conversation is its current one. Sessions of a chain (compaction) share a *task*, the id of the first.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Protocol

from hermes_base.journal import Row, Transcript, UsageRow


@dataclass(frozen=True, slots=True)
class NewSession:
    """What a session starts with."""

    conversation: str
    id: str = ""  # empty: the store gives one
    parent: str | None = None
    task: str = ""  # empty: its own id, or its parent's task
    platform: str = "local"
    model: str = ""
    title: str = ""
    person: str = ""  # whose a conversation without a person becomes; empty: the owner's


@dataclass(frozen=True, slots=True)
class SessionInfo:
    id: str
    conversation: str
    task: str
    parent: str | None
    platform: str
    model: str
    title: str
    started: float
    updated: float
    ended: float | None
    end_reason: str | None
    version: int
    messages: int  # visible user and assistant rows with text
    preview: str  # the first visible user text, one line, cut
    person: str = ""  # whose the conversation is; empty: the owner's


@dataclass(frozen=True, slots=True)
class PagedRow:
    """A visible row of a transcript, without its encoded forms, and when it was written."""

    row: Row
    created: float


TITLE = "title"
TITLES_LOOKED_AT = 5_000  # of the newest sessions


@dataclass(frozen=True, slots=True)
class SearchHit:
    """A message found by search, or a session by its title."""

    session: str
    position: int  # of a title: -1
    role: str  # who said it; TITLE: it is the title
    excerpt: str  # the found words stand between « and »
    created: float


@dataclass(frozen=True, slots=True)
class UsageSum:
    calls: int = 0
    input_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0  # calls without a known price
    unsettled: int = 0  # calls cut before their usage arrived
    saved: float = 0.0  # dollars that the cache saved, as far as prices are known

    @property
    def prompt_tokens(self) -> int:
        return self.input_tokens + self.cache_read_tokens + self.cache_write_tokens

    @property
    def hit_rate(self) -> float | None:
        """The share of the prompt that was read from the cache; None without a prompt."""
        return self.cache_read_tokens / self.prompt_tokens if self.prompt_tokens else None


#: How the ledger can be grouped, and the names of the keys a group then has.
USAGE_GROUPS: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {"day": ("day",), "model": ("provider", "model"), "turn": ("turn",)}
)


@dataclass(frozen=True, slots=True)
class UsageGroup:
    """The calls that share their keys."""

    keys: tuple[str, ...]  # a local day as YYYY-MM-DD; provider and model; a turn's id, empty outside of turns
    sum: UsageSum
    first: float  # when the first of the calls was made


@dataclass(frozen=True, slots=True)
class BreakRow:
    """The prefix moved: why, and from which message on."""

    session: str
    reason: str
    position: int
    created: float


class Store(Protocol):
    # --- sessions
    def open_session(self, new: NewSession) -> SessionInfo:
        """Create a session and make it its conversation's current one (the former one keeps its state)."""
        ...

    def current(self, conversation: str) -> SessionInfo | None:
        """The session that the conversation goes on in; None before the first and after one was ended or deleted."""
        ...

    def session(self, session: str) -> SessionInfo | None: ...

    def last_of(self, task: str) -> SessionInfo | None:
        """The session of a chain that was touched last; None when all of them are deleted."""
        ...

    def sessions(
        self,
        *,
        limit: int = 50,
        conversation: str | None = None,
        person: str | None = None,
        before: float | None = None,
    ) -> list[SessionInfo]:
        """Newest activity first; sessions without a message are left out. With `person`, only what is theirs; with
        `before`, only those whose last activity is older."""
        ...

    def begun_so(self, text: str, *, conversations: str, limit: int) -> list[SessionInfo]:
        """The current sessions whose first text begins with `text`, on one line, of the conversations whose names begin
        with `conversations`; newest activity first."""
        ...

    def resume(self, conversation: str, session: str) -> SessionInfo:
        """Make an existing session its conversation's current one again and open it (clears its end). AtWork, and
        nothing is changed, while messages of the conversation are open: the turn that answers them belongs to the
        session that is current. StoreFailure when it belongs to another conversation."""
        ...

    def branch(
        self, session: str, *, before: int | None = None, conversation: str = "", current: bool = True
    ) -> SessionInfo:
        """A copy of a session, up to a position if one is given, with the bytes that were sent, in its conversation or
        in another; a task of its own. With `current` the conversation goes on in it, and AtWork is raised as by
        `resume`. One transaction: there is the whole copy, or none."""
        ...

    def end(self, session: str, reason: str) -> None:
        """Write the boundary with its reason; the first reason stays. The session is not current any more; rows of
        a turn that is still under way may follow."""
        ...

    def set_title(self, session: str, title: str) -> None: ...

    def delete(self, session: str) -> bool:
        """Remove a session with its rows, search entries and blobs nobody else uses; usage rows stay in the ledger.
        AtWork when it is current and a living process is in the middle of a turn of it."""
        ...

    def stale_sessions(self, before: float, limit: int) -> list[str]:
        """Sessions that nobody touched since then, nor a later one of their chain; none whose conversation has open
        messages, and no current one that a living process has. The oldest first, those without messages last."""
        ...

    def delete_stale(self, session: str, before: float) -> bool:
        """As `delete`, but only if it is stale even now."""
        ...

    # --- transcripts
    def load(self, session: str) -> Transcript:
        """The visible rows and frozen parts as sent; the version counts all rows."""
        ...

    def history(self, session: str) -> Iterator[Row]:
        """Every row ever written, taken-back ones and head rows included, in order."""
        ...

    def page(self, session: str, *, before: int | None = None, limit: int = 100) -> list[PagedRow]:
        """The last `limit` visible rows, or those before a position, in order and without what was sent; it costs what
        is on the page, however long the session is."""
        ...

    def append(self, session: str, writer: str, base: int, rows: Sequence[Row], usage: Sequence[UsageRow] = ()) -> int:
        """Commit rows and usage in one transaction if the version is still `base` and the session was not rotated,
        else Fenced; the new version."""
        ...

    def freeze(self, session: str, place: int, dialect: str, body: bytes) -> str:
        """Keep the encoded form of a part (-2 tools, -1 system) or of a row (its position); its content hash."""
        ...

    def rotate(self, session: str, writer: str, base: int, reason: str, rows: Sequence[Row]) -> SessionInfo:
        """End `session` with `reason` and open its child with `rows` (same conversation, task and frozen tools and
        system), current in its place, in one transaction; Fenced if someone else wrote to it or ended it."""
        ...

    # --- ledger
    def charge(self, session: str, usage: Sequence[UsageRow]) -> None:
        """Put calls into the ledger, also those of a session that was deleted meanwhile."""
        ...

    def usage(
        self, *, session: str | None = None, task: str | None = None, since: float = 0.0, person: str | None = None
    ) -> UsageSum:
        """The sum of the calls of a session, of a task (all sessions of a chain) or of all, from `since` on; with
        `person`, of their conversations only."""
        ...

    def usage_by(
        self,
        group: str,
        *,
        session: str | None = None,
        task: str | None = None,
        since: float = 0.0,
        person: str | None = None,
    ) -> list[UsageGroup]:
        """The same calls as `usage` sums, in groups by "day", "model" or "turn", the earliest first."""
        ...

    def note_break(self, session: str, reason: str, position: int) -> None:
        """Record that the prefix moved; StoreFailure without a reason. It stays when its session is deleted."""
        ...

    def breaks(self, *, session: str | None = None, task: str | None = None, since: float = 0.0) -> list[BreakRow]:
        """The breaks of a session, of a task or of all, from `since` on, the earliest first."""
        ...

    # --- search (derived data: may be dropped and rebuilt at any time)
    def search(self, words: str, *, limit: int = 20, person: str | None = None) -> list[SearchHit]:
        """The newest sessions in whose titles all words occur, then the newest messages in whose shown text they do,
        taken-back and compacted ones too. Case and accents do not count. A word may be the beginning of one that
        occurs, in a title any part. Of titles, those of the newest 5,000 sessions are looked at. Signs that are no
        words are left out. With `person`, only what is theirs. StoreFailure while there is no index."""
        ...

    def drop_search(self) -> None:
        """Give up the index; messages are kept, and searching fails until it is rebuilt."""
        ...

    def rebuild_search(self) -> int:
        """Index all messages anew, in small transactions so that writers go on; the number of messages indexed."""
        ...

    def close(self) -> None: ...
