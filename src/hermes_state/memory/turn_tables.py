"""The tables of messages, turns and ownership of the store in memory."""

from dataclasses import dataclass, field, replace

from hermes_base.journal import Step
from hermes_state.turn_rules import AcceptedMessage, Progress, measure_setback
from hermes_state.turns import WAITING, OutboxRow, Waiting


@dataclass(slots=True)
class NodeRow:
    expires: float
    draining: bool = False


@dataclass(slots=True)
class ConversationRow:
    epoch: int = 0
    owner: str | None = None
    last_owner: str | None = None
    pending: int = 0
    next_seq: int = 0
    ready_at: float = 0.0
    choices: str = "{}"
    last_row: int = 0  # the newest of its outbox rows that were let go


@dataclass(slots=True)
class InboxRow:
    seq: int
    account: str
    ext_id: str
    body: str
    accepted: float
    attempts: int = 0
    taken: bool = False
    begun: float | None = None
    retry_at: float = 0.0
    error: str = ""
    done_epoch: int | None = None
    done_at: float | None = None

    def show(self) -> Waiting:
        return Waiting(self.seq, self.body, self.attempts, self.taken, self.accepted, self.begun)

    def measure(self) -> AcceptedMessage:
        return AcceptedMessage(self.seq, self.attempts, self.taken, self.begun, self.done_epoch)


@dataclass(slots=True)
class OutboxEntry:
    """A row of the outbox; `row` is as it was written, the rest moves."""

    row: OutboxRow
    account: str
    chat: str
    name: str | None
    progress: Progress = field(default_factory=lambda: Progress(WAITING, 0, (), False))
    attempts: int = 0
    lease_epoch: int = 0
    ended: float | None = None


@dataclass(slots=True)
class LeaseRow:
    owner: str | None = None
    epoch: int = 0
    expires: float = 0.0


@dataclass(slots=True)
class ControlRow:
    id: int
    conversation: str
    kind: str
    body: str
    created: float
    taken_by: str | None = None
    taken_at: float | None = None


@dataclass(slots=True)
class TurnTables:
    nodes: dict[str, NodeRow] = field(default_factory=dict)
    conversations: dict[str, ConversationRow] = field(default_factory=dict)
    inbox: dict[str, dict[int, InboxRow]] = field(default_factory=dict)  # by conversation, then seq
    seen: dict[tuple[str, str], InboxRow] = field(default_factory=dict)  # by account and ext_id
    outbox: dict[int, OutboxEntry] = field(default_factory=dict)
    steps: dict[tuple[str, int], dict[int, Step]] = field(default_factory=dict)  # by conversation and turn, then n
    controls: list[ControlRow] = field(default_factory=list)
    leases: dict[str, LeaseRow] = field(default_factory=dict)
    last_row: int = 0  # the newest number of an outbox row; none is given twice
    last_control: int = 0
    clock: str = ""  # when the store was last in use

    def follow_clock(self, now: float) -> None:
        """Note the time. When the clock was set back since it was last noted, what waits for its time goes along."""
        by = measure_setback(self.clock, now)
        self.clock = repr(now)
        if not by:
            return
        for node in self.nodes.values():
            node.expires -= by if node.expires > now else 0.0
        for lease in self.leases.values():
            lease.expires -= by if lease.expires > now else 0.0
        for conversation in self.conversations.values():
            conversation.ready_at -= by if conversation.pending and conversation.ready_at > now else 0.0
        for message in (message for message in self.seen.values() if message.done_epoch is None):
            message.accepted -= by if message.accepted > now else 0.0
            message.retry_at -= by if message.retry_at > now else 0.0
        for entry in (entry for entry in self.outbox.values() if entry.ended is None):
            if entry.progress.retry_at > now:
                entry.progress = replace(entry.progress, retry_at=entry.progress.retry_at - by)

    def get_conversation(self, name: str) -> ConversationRow:
        """The conversation's row, made at first use."""
        return self.conversations.setdefault(name, ConversationRow())

    def is_alive(self, node: str | None, now: float) -> bool:
        found = None if node is None else self.nodes.get(node)
        return found is not None and found.expires > now

    def may_claim(self, node: str | None, now: float) -> bool:
        """Whether the node lives and is not draining."""
        return node is not None and self.is_alive(node, now) and not self.nodes[node].draining

    def list_due(self, conversation: str, now: float) -> list[InboxRow]:
        """The open messages that do not wait for their time, in order."""
        rows = self.inbox.get(conversation, {}).values()
        return [row for row in rows if row.done_epoch is None and row.retry_at <= now]
