"""Who works on a conversation, and how nothing is lost when they die: plain values and limits.

A process joins as a *node* and stays alive by heartbeat; a conversation belongs to the node that claimed it, under an
epoch that each claim raises. Every write of an owner names its claim and is refused (`Fenced`, nothing written) when
the conversation has another epoch or owner. The clock is the database's.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from hermes_base.turn.journal import Row
from hermes_state.people_store import HeardNote

BEAT_SECONDS = 1.5  # between two heartbeats of a node
LEASE_SECONDS = 6.0  # a node without a heartbeat for so long is dead
GRACE_SECONDS = 1.0  # work waits so long for the living node that had the conversation last
MAX_ATTEMPTS = 3  # a turn that was begun so often and never ended is given up
FRESH_SECONDS = 3600.0  # a turn that was begun longer ago is not gone on with


@dataclass(frozen=True, slots=True)
class NodeInfo:
    version: str
    alone: bool = False  # nobody else has the store: rows of other nodes are dead and are deleted
    capacity: int = 0
    address: str = ""  # its machine and its home, for people
    about: "NodeAbout | None" = None  # None: it can do everything, as far as is known


@dataclass(frozen=True, slots=True)
class NodeAbout:
    """What a node can do. Conversations are left to those that serve them best."""

    serves: int = 2  # how well it answers where nothing was chosen: the more the better
    providers: str = " "  # those whose key it has, a blank before and behind each
    facts: str = ""  # more on it, for the others


@dataclass(frozen=True, slots=True)
class Claim:
    conversation: str
    epoch: int
    node: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """An accepted message that is not dealt with yet."""

    seq: int
    body: Any  # as whoever asked for it reads it
    attempts: int  # how often a turn was begun for it
    taken: bool  # it stands in the transcript already
    accepted: float
    begun: float | None  # when a turn was first begun for it
    draft: str = ""  # the platform's id of what its chat was shown of the answer
    ahead: float = field(default=0.0, compare=False)  # seconds of the clock of `accepted` before this machine's


@dataclass(frozen=True, slots=True)
class MessageTimes:
    """By the store's clock, as all times there; by no other can they be told from those of rows."""

    accepted: float
    begun: float = 0.0  # when a turn was first begun for it; 0: none was


@dataclass(frozen=True, slots=True)
class BegunTurn:
    seq: int  # the smallest of its messages
    seqs: tuple[int, ...]
    attempt: int  # 1: the first
    taken: frozenset[int]  # those of its messages that stand in the transcript already
    given_up: str = ""  # "attempts" or "age": do not go on, close it with an excuse
    standing: tuple[str, int] | None = None  # the current session and its version, ("", 0) without one; None: not asked
    notes: tuple[HeardNote, ...] = ()  # what was said without the model and it has not heard yet
    timezone: str = ""  # of whoever speaks
    revisions: Mapping[str, int] = field(default_factory=dict)  # of folders of files, where they were asked for


@dataclass(frozen=True, slots=True)
class Written:
    """Rows on their way into a transcript; `base` is the version that the writer knows."""

    session: str
    writer: str
    base: int
    rows: Sequence[Row]
    frozen: Sequence[
        tuple[int, str, bytes]
    ] = ()  # place, dialect, bytes: encoded forms to keep, as `Store.freeze` does


#: Seconds for which a refused message is named to whoever looks after Hermes.
REFUSED_SHOWN = 7 * 86_400.0


@dataclass(frozen=True, slots=True)
class UnsentChat:
    """A chat with messages that have not arrived."""

    account: str
    chat: str
    count: int
    since: float  # when the first of them was stored
    tried: bool  # it was sent, and not taken


@dataclass(frozen=True, slots=True)
class RefusedRow:
    """A message that its platform will never take, and why."""

    account: str
    chat: str
    at: float
    reason: str


@dataclass(frozen=True, slots=True)
class ControlSent:
    """What became of a control message: the row is stored, and `live` says whether a living owner will read it."""

    id: int
    live: bool


@dataclass(frozen=True, slots=True)
class Control:
    id: int
    conversation: str
    kind: str  # stop, steer, answer, …
    body: Mapping[str, Any] = field(default_factory=dict)
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class NodeRow:
    """A living node, as others see it."""

    id: str
    version: str
    address: str
    draining: bool
    beaten: float  # seconds since its last heartbeat
    owned: int  # conversations
    open: int  # those of them with messages that wait
    serves: int = 2
    facts: str = ""


@dataclass(frozen=True, slots=True)
class HeldLease:
    """A named lease of a living node: of an account it is the name, of the chores for the store `chores`."""

    name: str
    owner: str
    epoch: int
    address: str  # of the owner


@dataclass(frozen=True, slots=True)
class Holding:
    """A conversation that has an owner or waiting messages, for `status`."""

    conversation: str
    epoch: int
    owner: str
    live: bool
    pending: int


@dataclass(frozen=True, slots=True)
class ConversationStand:
    """How far a conversation has come, for whoever looks at it while another process works there."""

    epoch: int = 0  # of its newest claim
    open: frozenset[int] = frozenset()  # messages that are not dealt with
    row: int = 0  # the newest of the outbox
    session: str = ""
    version: int = 0  # of that session
