"""Who owns a conversation: nodes and their heartbeats, claims, control messages and named leases."""

import logging
import math
from collections.abc import Mapping
from typing import Any

from hermes_base.inbound import as_fields
from hermes_state import turn_rules
from hermes_state.damage import as_object, decode
from hermes_state.sql import statements
from hermes_state.sql import turn_statements as sql
from hermes_state.sql.engines.engine import NothingDone, Sql, StorePart, Transaction
from hermes_state.sql.engines.hints import Heard, HintLine
from hermes_state.texts import clean
from hermes_state.turns import (
    GRACE_SECONDS,
    LEASE_SECONDS,
    Claim,
    Control,
    ControlSent,
    HeldLease,
    Holding,
    NodeAbout,
    NodeInfo,
    NodeRow,
)

log = logging.getLogger(__name__)

OUTCOME = "outcome"  # of the body of a control message
CLOCK = "clock"  # the row of `meta` that says when the store was last in use


class Ownership(StorePart):
    def now(self) -> float:
        """The database's clock."""
        return self._db.engine.now()

    # --- processes

    @property
    def is_shared(self) -> bool:
        """Whether other processes may be nodes of this store at the same time."""
        return self._db.engine.shared

    def open_hints(self, heard: Heard) -> HintLine:
        """A line to the other processes; `heard` is called with topic and text, on a thread that must not wait."""
        return self._db.engine.open_hints(heard)

    def join(self, info: NodeInfo, former: str = "") -> str:
        """A fresh id for this process, which was the node `former` before. With `alone`, every other node is deleted
        first and every lease dropped."""
        node = turn_rules.make_node_id()
        named = {"version": clean(info.version), "capacity": info.capacity, "address": clean(info.address)}
        named |= as_fields(info.about or NodeAbout())
        self._db.write(
            lambda db: db.run(
                *follow_clock(db),
                *([Sql(sql.DROP_ALL), Sql(sql.END_UNREAD)] if info.alone else []),
                Sql(sql.DELETE_NODES, {"kept": -math.inf if info.alone else turn_rules.KEEP_NODES}),
                Sql(sql.ADD_NODE, {"id": node, "lease": LEASE_SECONDS, **named}),
                *([Sql(sql.TAKE_QUESTIONS, {"id": node, "former": former})] if former else []),
            )
        )
        return node

    def heartbeat(self, node: str) -> bool:
        """False: expired. Cancel all turns, forget warm state, join anew."""
        beat = Sql(sql.BEAT, {"node": node, "lease": LEASE_SECONDS})
        return self._db.write(lambda db: db.run(*follow_clock(db), beat)[-1].changed > 0)

    def drain(self, node: str) -> None:
        """No new claims for this node."""
        self._db.run(Sql(sql.DRAIN, {"node": node}))

    def leave(self, node: str) -> bool:
        """Release everything the node owns, drop its leases and delete its row; False: there was none."""
        steps = (sql.RELEASE_ALL, sql.DROP_OF_NODE, sql.DELETE_NODE)
        return self._db.run(*(Sql(one, {"node": node}) for one in steps))[-1].changed > 0

    def describe_node(self, node: str, about: NodeAbout) -> None:
        """It can do something else from now on."""
        self._db.run(Sql(sql.DESCRIBE_NODE, {"node": node, **as_fields(about)}))

    def nodes(self) -> list[NodeRow]:
        """Those that live."""
        return [
            NodeRow(id, version, address, bool(draining), max(0.0, beaten), *rest)
            for id, version, address, draining, beaten, *rest in self._db.find(sql.NODES, {"lease": LEASE_SECONDS})
        ]

    def versions(self) -> list[str]:
        """Of those that live, each once."""
        return [str(version) for (version,) in self._db.find(sql.VERSIONS)]

    def fair(self, node: str) -> tuple[int, int, int, bool]:
        """Living nodes that do not drain and serve best, conversations that living nodes own, those that this one owns,
        and whether nobody serves better than this one."""
        ((nodes, total, mine, is_best),) = self._db.find(sql.COUNT_OWNED, {"node": node})
        return nodes, total, mine, bool(is_best)

    # --- claims

    def claim(self, node: str, limit: int, late: bool = False) -> list[Claim]:
        """Conversations with due messages and no living owner, the longest waiting first, now owned by `node`.

        For GRACE_SECONDS they are left to the living node that had them last. `late`: only those that have waited
        longer than that. A node that is dead or draining gets none.
        """
        age = GRACE_SECONDS if late else -math.inf
        (found,) = self._db.run(Sql(sql.CLAIM, {"node": node, "grace": GRACE_SECONDS, "age": age, "limit": limit}))
        return [Claim(conversation, epoch, node) for _, conversation, epoch in sorted(found.rows)]

    def claim_one(self, node: str, conversation: str) -> Claim | None:
        """Own this conversation (for a command or a client that joins), with or without waiting messages; the claim
        that the node has if it owns it already; None while another living node owns it."""
        key = clean(conversation)
        wanted = {"node": node, "conversation": key}
        found = self._db.find(sql.GET_CLAIM, wanted)  # `accept` has claimed it as a rule
        if not found:
            add, take = Sql(statements.ADD_CONVERSATION, (key,)), Sql(sql.CLAIM_ONE, wanted)
            try:
                found = self._db.run(add, take, Sql(sql.GET_CLAIM, wanted, NothingDone))[-1].rows
            except NothingDone:
                return None
        return Claim(key, found[0][0], node)

    def owner(self, conversation: str) -> str:
        """The living node that owns it; empty: none does."""
        found = self._db.find(sql.LIVING_OWNER, {"conversation": clean(conversation)})
        return str(found[0][0]) if found else ""

    def ready(self, node: str) -> list[Claim]:
        """What the node owns and has due messages."""
        found = self._db.find(sql.FIND_READY, {"node": node})
        return [Claim(conversation, epoch, node) for conversation, epoch in found]

    def release(self, claim: Claim) -> bool:
        """Give the conversation up; without effect (False) if others have it."""
        return self._db.run(Sql(sql.RELEASE, as_fields(claim)))[0].changed > 0

    def give_up(self, claim: Claim) -> bool:
        """Release an idle conversation for good: it does not wait for this node when there is something to do."""
        return self._db.run(Sql(sql.GIVE_UP, as_fields(claim)))[0].changed > 0

    def pass_on(self, claim: Claim, needs: str) -> bool:
        """Leave the conversation to whoever serves it better; without effect (False) when nobody living does. `needs`:
        the provider that was chosen for it; empty: none was."""
        return self._db.run(Sql(sql.PASS_ON, {**as_fields(claim), "needs": clean(needs)}))[0].changed > 0

    def holdings(self, limit: int = 100) -> list[Holding]:
        found = self._db.find(sql.HOLDINGS, {"limit": limit})
        return [Holding(name, epoch, owner, bool(live), pending) for name, epoch, owner, live, pending in found]

    # --- control

    def send_control(self, conversation: str, kind: str, body: Mapping[str, Any]) -> ControlSent:
        """Keep a control message for the conversation's owner, the present one or the next."""
        row = {"conversation": clean(conversation), "kind": clean(kind), "body": turn_rules.write_body(body)}
        named = {"conversation": row["conversation"]}
        added, owner = self._db.run(Sql(sql.ADD_CONTROL, row), Sql(sql.LIVING_OWNER, named))
        return ControlSent(int(added.rows[0][0]), live=bool(owner.rows))

    def control_outcome(self, control: int) -> tuple[bool, Mapping[str, Any] | None]:
        """Whether it was taken, and what came of it, once that is known."""
        found = self._db.find(sql.GET_CONTROL, {"id": control})
        if not found:
            return False, None
        taken, body = found[0]
        return bool(taken), decode("control", (control,), body, as_object).get(OUTCOME)

    def withdraw_control(self, control: int) -> bool:
        """Nobody takes it any more; False: somebody has."""
        return self._db.run(Sql(sql.WITHDRAW_CONTROL, {"id": control}))[0].changed > 0

    def end_control(self, control: Control, outcome: Mapping[str, Any]) -> None:
        """What came of it stands with it, for whoever asked."""
        body = turn_rules.write_body({**control.body, OUTCOME: dict(outcome)})
        self._db.run(Sql(sql.END_CONTROL, {"id": control.id, "body": body}))

    def take_controls(self, node: str) -> list[Control]:
        """Control messages for conversations that this node owns, each handed out once."""
        return self._db.write(
            lambda db: [
                Control(row, conversation, kind, decode("control", (row,), body, as_object), created)
                for row, conversation, kind, body, created in sorted(db.execute(sql.TAKE_CONTROLS, {"node": node}).rows)
            ]
        )

    # --- named leases

    def hold(self, name: str, node: str, ttl: float) -> int | None:
        """The lease's epoch, new or renewed; None while another living holder has it, and for a node that is gone: what
        it asked for too late must not keep its successor out."""
        named = {"name": clean(name)}
        _, held = self._db.run(Sql(sql.ADD_LEASE, named), Sql(sql.HOLD, {**named, "node": node, "ttl": ttl}))
        return int(held.rows[0][0]) if held.rows else None

    def leases(self) -> list[HeldLease]:
        """Who has what, of those that live."""
        return [HeldLease(*row) for row in self._db.find(sql.LEASES)]

    def drop(self, name: str, node: str) -> None:
        self._db.run(Sql(sql.DROP, {"name": clean(name), "node": node}))


# --- the steps of those calls, inside their transaction


def follow_clock(db: Transaction) -> list[Sql]:
    """Note the time. When the clock was set back since it was last noted, what waits for its time goes along."""
    known, now = db.execute(statements.GET_META, (CLOCK,)).first, db.now()
    by = turn_rules.measure_setback("" if known is None else known[0], now)
    if by:
        log.warning("the clock was set back by %.0f s; what waits for its time does not wait for that", by)
    moves = [Sql(move, {"by": by}) for move in sql.MOVES] if by else []
    return [*moves, Sql(statements.SET_META, (CLOCK, repr(now)))]
