"""What goes into the store and comes out of it about sessions, transcripts and the ledger: plain values.

Words: a *conversation* is a chat and its key; a *session* is one transcript of it; at most one session of a
conversation is its current one. Sessions of a chain (compaction) share a *task*, the id of the first.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from hermes_base.turn.journal import Row


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
    """A row of what was said in a session, without its encoded forms, and when it was written."""

    row: Row
    created: float
    turn: int = 0  # the first message of the turn that wrote it; 0: none did
    place: int = 0  # which row of that turn it is, counted from 1 over all attempts


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
