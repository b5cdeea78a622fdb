"""Who owns a conversation, in memory: the twin of `SqliteOwnership`."""

import json
from collections.abc import Callable, Mapping
from typing import Any

from hermes_state import turn_rules
from hermes_state.memory.memory_state import MemoryState, locked
from hermes_state.memory.turn_tables import ControlRow, ConversationRow, LeaseRow, NodeRow
from hermes_state.texts import clean
from hermes_state.turns import GRACE_SECONDS, LEASE_SECONDS, Claim, Control, ControlSent, Holding, NodeInfo


class MemoryOwnership:
    def __init__(self, state: MemoryState, clock: Callable[[], float]) -> None:
        self._state = state
        self._tables = state.turns
        self._clock = clock

    def now(self) -> float:
        return self._clock()

    # --- processes

    @locked
    def join(self, info: NodeInfo) -> str:
        node, now, tables = turn_rules.make_node_id(), self._clock(), self._tables
        tables.follow_clock(now)
        if info.alone:
            tables.nodes.clear()
            for lease in tables.leases.values():
                _drop(lease)
        for name in [name for name, row in tables.nodes.items() if row.expires < now - turn_rules.KEEP_NODES]:
            del tables.nodes[name]
        tables.nodes[node] = NodeRow(now + LEASE_SECONDS)
        return node

    @locked
    def heartbeat(self, node: str) -> bool:
        now = self._clock()
        self._tables.follow_clock(now)
        if not self._tables.is_alive(node, now):
            return False
        self._tables.nodes[node].expires = now + LEASE_SECONDS
        return True

    @locked
    def drain(self, node: str) -> None:
        if node in self._tables.nodes:
            self._tables.nodes[node].draining = True

    @locked
    def leave(self, node: str) -> None:
        self._tables.nodes.pop(node, None)
        for row in self._tables.conversations.values():
            row.owner = None if row.owner == node else row.owner
        for lease in self._tables.leases.values():
            if lease.owner == node:
                _drop(lease)

    @locked
    def fair(self, node: str) -> tuple[int, int, int]:
        now, tables = self._clock(), self._tables
        owners = [row.owner for row in tables.conversations.values() if tables.is_alive(row.owner, now)]
        return sum(tables.is_alive(name, now) for name in tables.nodes), len(owners), owners.count(node)

    # --- claims

    @locked
    def claim(self, node: str, limit: int, late: bool = False) -> list[Claim]:
        now = self._clock()
        if not self._tables.may_claim(node, now):
            return []
        found = sorted(
            (row.ready_at, name)
            for name, row in self._tables.conversations.items()
            if self._is_work(name, row, node, now, late)
        )
        return [self._take(node, name) for _, name in found[:limit]]

    @locked
    def claim_one(self, node: str, conversation: str) -> Claim | None:
        return self._claim_free(node, clean(conversation))

    def _claim_free(self, node: str, name: str) -> Claim | None:
        """The node's claim, new if nobody who lives has one; the lock is held."""
        now, tables = self._clock(), self._tables
        row = tables.conversations.get(name, ConversationRow())
        if tables.is_alive(row.owner, now):
            return Claim(name, row.epoch, node) if row.owner == node else None
        return self._take(node, name) if tables.may_claim(node, now) else None

    @locked
    def ready(self, node: str) -> list[Claim]:
        now, tables = self._clock(), self._tables
        found = sorted(
            (row.ready_at, name, row.epoch)
            for name, row in tables.conversations.items()
            if row.owner == node and tables.list_due(name, now)
        )
        return [Claim(name, epoch, node) for _, name, epoch in found]

    @locked
    def release(self, claim: Claim) -> bool:
        if not self._holds(claim):
            return False
        self._tables.conversations[claim.conversation].owner = None
        return True

    @locked
    def holdings(self, limit: int = 100) -> list[Holding]:
        now, tables = self._clock(), self._tables
        found = sorted(
            (row.pending == 0, row.ready_at, name)
            for name, row in tables.conversations.items()
            if row.pending or row.owner is not None
        )
        rows = [(name, tables.conversations[name]) for _, _, name in found[:limit]]
        return [
            Holding(name, row.epoch, row.owner or "", tables.is_alive(row.owner, now), row.pending)
            for name, row in rows
        ]

    # --- control

    @locked
    def send_control(self, conversation: str, kind: str, body: Mapping[str, Any]) -> ControlSent:
        name, now, tables = clean(conversation), self._clock(), self._tables
        row = ControlRow(tables.last_control + 1, name, clean(kind), turn_rules.write_body(body), now)
        tables.last_control = row.id
        tables.controls.append(row)
        owner = tables.conversations.get(name, ConversationRow()).owner
        return ControlSent(live=tables.is_alive(owner, now))

    @locked
    def take_controls(self, node: str) -> list[Control]:
        conversations = self._tables.conversations
        found = [
            row
            for row in self._tables.controls
            if row.taken_by is None
            and row.conversation in conversations
            and conversations[row.conversation].owner == node
        ]
        for row in found:
            row.taken_by, row.taken_at = node, self._clock()
        return [Control(row.id, row.conversation, row.kind, json.loads(row.body), row.created) for row in found]

    # --- named leases

    @locked
    def hold(self, name: str, node: str, ttl: float) -> int | None:
        now = self._clock()
        lease = self._tables.leases.setdefault(clean(name), LeaseRow())
        if node not in self._tables.nodes or (lease.owner != node and lease.expires > now):
            return None
        lease.epoch += 0 if lease.owner == node and lease.expires > now else 1
        lease.owner, lease.expires = node, now + ttl
        return lease.epoch

    @locked
    def drop(self, name: str, node: str) -> None:
        lease = self._tables.leases.get(clean(name))
        if lease is not None and lease.owner == node:
            _drop(lease)

    # --- the steps of those calls, under the lock

    def _holds(self, claim: Claim) -> bool:
        row = self._tables.conversations.get(claim.conversation)
        return row is not None and (row.epoch, row.owner) == (claim.epoch, claim.node)

    def _check_claim(self, claim: Claim) -> None:
        """Fenced unless the claim still holds; the first step of every write of an owner."""
        if not self._holds(claim):
            raise turn_rules.fenced(claim)

    def _take(self, node: str, name: str) -> Claim:
        row = self._tables.get_conversation(name)
        row.owner = row.last_owner = node
        row.epoch += 1
        return Claim(name, row.epoch, node)

    def _is_work(self, name: str, row: ConversationRow, node: str, now: float, late: bool) -> bool:
        """Work without a living owner; for a moment it waits for the living node that had the conversation last."""
        tables, grace = self._tables, now - GRACE_SECONDS
        if tables.is_alive(row.owner, now) or (late and row.ready_at > grace):
            return False
        mine = row.last_owner == node or row.ready_at < grace or not tables.may_claim(row.last_owner, now)
        return mine and bool(tables.list_due(name, now))


def _drop(lease: LeaseRow) -> None:
    lease.owner, lease.expires = None, 0.0
