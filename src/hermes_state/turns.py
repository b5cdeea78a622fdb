"""Who works on a conversation, and how nothing is lost when they die: the interface, without any engine.

A process joins as a *node* and stays alive by heartbeat; a conversation belongs to the node that claimed it, under an
epoch that each claim raises. Every write of an owner names its claim and is refused (`Fenced`, nothing written) when
the conversation has another epoch or owner. All calls are synchronous and may be made from any thread; the clock is
the database's. `SqliteStore.turns` and `MemoryStore.turns` implement this and pass one conformance suite.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hermes_base.inbound import Outgoing
from hermes_base.journal import Row, Step, UsageRow
from hermes_state.store import SessionInfo

LEASE_SECONDS = 8.0  # a node without a heartbeat for so long is dead
GRACE_SECONDS = 1.0  # work waits so long for the living node that had the conversation last
MAX_ATTEMPTS = 3  # a turn that was begun so often and never ended is given up
FRESH_SECONDS = 3600.0  # a turn that was begun longer ago is not gone on with

#: States of an outbox row.
WAITING, SENDING, SENT, FAILED = "waiting", "sending", "sent", "failed"


@dataclass(frozen=True, slots=True)
class NodeInfo:
    version: str
    alone: bool = False  # the caller owns the store's home by lock: rows of other nodes are dead and are deleted
    capacity: int = 0
    address: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    conversation: str
    epoch: int
    node: str


@dataclass(frozen=True, slots=True)
class Waiting:
    """An accepted message that is not dealt with yet."""

    seq: int
    body: str
    attempts: int  # how often a turn was begun for it
    taken: bool  # it stands in the transcript already
    accepted: float
    begun: float | None  # when a turn was first begun for it


@dataclass(frozen=True, slots=True)
class BegunTurn:
    seq: int  # the smallest of its messages
    seqs: tuple[int, ...]
    attempt: int  # 1: the first
    taken: frozenset[int]  # those of its messages that stand in the transcript already
    given_up: str = ""  # "attempts" or "age": do not go on, close it with an excuse


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


@dataclass(frozen=True, slots=True)
class OutboxRow:
    id: int
    conversation: str
    seq: int
    n: int
    outgoing: Outgoing
    state: str
    attempts: int  # how often it was taken for sending
    parts_sent: int  # a long message goes out in parts; so many are known to have arrived
    platform_ids: tuple[str, ...]  # of those parts
    unsure: bool  # it was taken before and nobody noted the end: the next part may have arrived
    created: float


@dataclass(frozen=True, slots=True)
class ControlSent:
    """What became of a control message: the row is stored; `live` says whether a living owner will read it."""

    live: bool


@dataclass(frozen=True, slots=True)
class Control:
    id: int
    conversation: str
    kind: str  # stop, steer, answer, …
    body: Mapping[str, Any] = field(default_factory=dict)
    created: float = 0.0


@dataclass(frozen=True, slots=True)
class Holding:
    """A conversation that has an owner or waiting messages, for `status`."""

    conversation: str
    epoch: int
    owner: str
    live: bool
    pending: int


class TurnStore(Protocol):
    # --- processes
    def join(self, info: NodeInfo) -> str:
        """A fresh id for this process. With `alone`, every other node is deleted first and every lease dropped."""
        ...

    def heartbeat(self, node: str) -> bool:
        """False: expired. Cancel all turns, forget warm state, join anew."""
        ...

    def drain(self, node: str) -> None:
        """No new claims for this node."""
        ...

    def leave(self, node: str) -> None:
        """Release everything the node owns, drop its leases and delete its row."""
        ...

    def fair(self, node: str) -> tuple[int, int, int]:
        """Living nodes, conversations that living nodes own, and those that this one owns."""
        ...

    # --- messages
    def accept(self, conversation: str, account: str, ext_id: str, body: str, node: str = "") -> int | None:
        """Store a message durably; its place in the conversation, or None when it was seen before.

        With `node`, a conversation without a living owner is claimed for it in the same transaction.
        """
        ...

    def find_message(self, account: str, stem: str) -> list[tuple[int, bool, bool]]:
        """The stored revisions of a message (ext_id is `stem/` and a revision without a stroke) in order: seq, whether
        a turn was begun, done."""
        ...

    def claim(self, node: str, limit: int, late: bool = False) -> list[Claim]:
        """Conversations with due messages and no living owner, the longest waiting first, now owned by `node`.

        For GRACE_SECONDS they are left to the living node that had them last. `late`: only those that have waited
        longer than that. A node that is dead or draining gets none.
        """
        ...

    def claim_one(self, node: str, conversation: str) -> Claim | None:
        """Own this conversation (for a command or a client that joins), with or without waiting messages; the claim
        that the node has if it owns it already; None while another living node owns it."""
        ...

    def ready(self, node: str) -> list[Claim]:
        """What the node owns and has due messages."""
        ...

    def waiting(self, claim: Claim, limit: int = 200, check: Callable[[str], object] = str) -> list[Waiting]:
        """The open messages in order, the first `limit` of them, without those that wait for their `retry_at`; none
        when the claim does not hold any more. A message that `check` cannot read was damaged on the disk: it is set
        aside, its sender is told, and it is not among them."""
        ...

    def release(self, claim: Claim) -> bool:
        """Give the conversation up; without effect (False) if others have it."""
        ...

    # --- a turn
    def begin(
        self,
        claim: Claim,
        seqs: Sequence[int],
        going_on: Outgoing | None = None,
        choices: Mapping[str, Any] | None = None,
    ) -> BegunTurn | None:
        """One turn for these messages; counts the attempt. None when one of them is done already. With `choices`, those
        of the conversation are replaced, as by `choose`.

        A second or third attempt puts `going_on` into the outbox. After MAX_ATTEMPTS, or FRESH_SECONDS after the first
        one, the turn comes back with `given_up`, and nothing is told: the caller closes it by `complete`.
        """
        ...

    def append(self, claim: Claim, seq: int, written: Written, usage: Sequence[UsageRow] = ()) -> int:
        """Finished rows in mid-turn with their calls' usage; the new version. Messages named by `Row.inbox` are marked
        as taken in the same transaction."""
        ...

    def rotate(self, claim: Claim, seq: int, written: Written, reason: str) -> SessionInfo:
        """As `Store.rotate`, by the owner."""
        ...

    def step(self, claim: Claim, seq: int, n: int, kind: str, body: Mapping[str, Any]) -> None:
        """What is not a message: a tool started, a tool ended, a marker. Repeating a number replaces it."""
        ...

    def steps(self, conversation: str, seq: int) -> list[Step]:
        """What a predecessor had done in the turn."""
        ...

    def complete(
        self,
        claim: Claim,
        seqs: Sequence[int],
        written: Written | None = None,
        answers: Sequence[Outgoing] = (),
        usage: Sequence[UsageRow] = (),
        end_session: str = "",
        go_on_in: str = "",
    ) -> int | None:
        """THE transaction: last rows, messages done, answers in the outbox, usage; the new version (None without rows).

        `end_session` also ends the conversation's current session with this reason; `go_on_in` makes another session
        of it the current one, which only its owner may do while messages wait. Repeating the call after a lost
        reply is safe: when all messages were closed under this epoch, nothing is written. When only some were, the
        others are closed with what this call brings. Fenced when one was closed under another epoch; StoreFailure
        without a message. The steps of these turns are deleted.
        """
        ...

    def fail(self, claim: Claim, seq: int, error: str, retry_at: float) -> None:
        """The turn could not be run; this message waits until then (database clock). Later ones do not wait for it, so
        a turn of several messages fails them one by one."""
        ...

    def post(self, conversation: str, name: str, outgoing: Outgoing) -> bool:
        """Put a word into the outbox outside of a turn; False when one with this name is there already."""
        ...

    # --- control
    def send_control(self, conversation: str, kind: str, body: Mapping[str, Any]) -> ControlSent:
        """Keep a control message for the conversation's owner, the present one or the next."""
        ...

    def take_controls(self, node: str) -> list[Control]:
        """Control messages for conversations that this node owns, each handed out once."""
        ...

    # --- named leases
    def hold(self, name: str, node: str, ttl: float) -> int | None:
        """The lease's epoch, new or renewed; None while another living holder has it, and for a node that is gone: what
        it asked for too late must not keep its successor out."""
        ...

    def drop(self, name: str, node: str) -> None: ...

    # --- delivery: whoever took a row may say what became of it until another has taken it; then it is Fenced
    def outbox_chats(self, account: str) -> list[str]:
        """Chats of the account with messages that were not sent yet, due or not, the longest waiting first."""
        ...

    def outbox_take(self, account: str, chat: str, lease_epoch: int) -> OutboxRow | None:
        """The chat's first message that was not sent, marked as being sent under this lease; None when there is none
        that is due. Fenced when the account's lease (named like the account) has another epoch."""
        ...

    def outbox_part(self, row: int, lease_epoch: int, platform_id: str) -> None:
        """One more part of it has arrived."""
        ...

    def outbox_sent(self, row: int, lease_epoch: int, platform_id: str = "") -> None:
        """All of it has arrived."""
        ...

    def outbox_back(self, row: int, lease_epoch: int, retry_at: float, *, certain: bool) -> None:
        """It was not sent and is due again then; not `certain`: its next part may have arrived (the row is unsure). A
        row that was unsure stays so until a part is known to have arrived."""
        ...

    def outbox_fail(self, row: int, lease_epoch: int, reason: str) -> None:
        """The platform will never take it; it is kept with the reason."""
        ...

    def outbox_since(self, conversation: str, after: int, limit: int = 100) -> list[OutboxRow]:
        """What was said to the conversation after this row, sent or not, for a client that comes back."""
        ...

    def outbox_of(self, conversation: str, seq: int) -> list[OutboxRow]:
        """What was said to the turn of this message (the smallest one of its turn), in order."""
        ...

    def outbox_from(self, conversation: str, since: float, limit: int = 100) -> list[OutboxRow]:
        """What was said to the conversation from this time on, in order."""
        ...

    def inbox_since(
        self, conversation: str, after: int, limit: int = 100, check: Callable[[str], object] = str
    ) -> list[tuple[int, str]]:
        """What was said in the conversation after this seq, done or not: seq and body. In the place of one that `check`
        cannot read stands a word that it is lost."""
        ...

    def open_seqs(self, conversation: str) -> list[int]:
        """The messages that are not dealt with yet, in order."""
        ...

    def latest(self, conversation: str) -> tuple[int, int]:
        """The newest outbox row and the newest seq of the conversation; 0 where there is none."""
        ...

    # --- what a person chose for one conversation (model, effort, folder, …)
    def choices(self, conversation: str) -> dict[str, Any]: ...

    def choose(self, conversation: str, choices: Mapping[str, Any]) -> None:
        """Replace them all; creates the conversation if there is none."""
        ...

    # --- for status
    def holdings(self, limit: int = 100) -> list[Holding]: ...

    def depth(self) -> tuple[int, int]:
        """Messages that wait in the inbox, and in the outbox."""
        ...

    # --- what is over
    def sweep(self, before: float, limit: int) -> int:
        """Delete at most `limit` rows that were over before then, the oldest first, and say how many: messages that are
        dealt with, answers that were sent or given up, control messages that were taken, questions that are closed.
        What is open stays, however old; no number is given twice. Leases stay, too: their epochs are fences."""
        ...

    def mentioned(self, words: Collection[str]) -> set[str]:
        """Which of these words occur in a message that is kept, come in or going out, dealt with or not."""
        ...

    def now(self) -> float:
        """The database's clock."""
        ...
