"""Who owns a conversation: nodes and their heartbeats, claims, control messages and named leases."""

import logging
import math
import sqlite3
from collections.abc import Mapping
from typing import Any

from hermes_state import turn_rules
from hermes_state.damage import as_object, decode
from hermes_state.sql import statements
from hermes_state.sql import turn_statements as sql
from hermes_state.sql.connection import StorePart
from hermes_state.texts import clean
from hermes_state.turns import GRACE_SECONDS, LEASE_SECONDS, Claim, Control, ControlSent, Holding, NodeInfo

log = logging.getLogger(__name__)

_MOVES = (
    *(sql.MOVE_NODES, sql.MOVE_LEASES, sql.MOVE_READY),
    *(sql.MOVE_ACCEPTED, sql.MOVE_RETRIED, sql.MOVE_UNSENT),
)
CLOCK = "clock"  # the row of `meta` that says when the store was last in use


class Ownership(StorePart):
    def now(self) -> float:
        """The database's clock."""
        return self._clock()

    # --- processes

    def join(self, info: NodeInfo) -> str:
        """A fresh id for this process. With `alone`, every other node is deleted first and every lease dropped."""
        node = turn_rules.make_node_id()
        with self._db.write() as db:
            now = self._clock()
            follow_clock(db, now)
            if info.alone:
                db.execute(sql.DROP_ALL)
            db.execute(sql.DELETE_NODES, {"before": math.inf if info.alone else now - turn_rules.KEEP_NODES})
            named = {"version": clean(info.version), "capacity": info.capacity, "address": clean(info.address)}
            db.execute(sql.ADD_NODE, {"id": node, "expires": now + LEASE_SECONDS, **named})
        return node

    def heartbeat(self, node: str) -> bool:
        """False: expired. Cancel all turns, forget warm state, join anew."""
        with self._db.write() as db:
            now = self._clock()
            follow_clock(db, now)
            return db.execute(sql.BEAT, {"node": node, "now": now, "expires": now + LEASE_SECONDS}).rowcount > 0

    def drain(self, node: str) -> None:
        """No new claims for this node."""
        with self._db.write() as db:
            db.execute(sql.DRAIN, {"node": node})

    def leave(self, node: str) -> None:
        """Release everything the node owns, drop its leases and delete its row."""
        with self._db.write() as db:
            for statement in (sql.RELEASE_ALL, sql.DROP_OF_NODE, sql.DELETE_NODE):
                db.execute(statement, {"node": node})

    def fair(self, node: str) -> tuple[int, int, int]:
        """Living nodes, conversations that living nodes own, and those that this one owns."""
        wanted = {"node": node, "now": self._clock()}
        (nodes,), (total, mine) = self._db.read(
            lambda db: [db.execute(query, wanted).fetchone() for query in (sql.COUNT_NODES, sql.COUNT_OWNED)]
        )
        return nodes, total, mine

    # --- claims

    def claim(self, node: str, limit: int, late: bool = False) -> list[Claim]:
        """Conversations with due messages and no living owner, the longest waiting first, now owned by `node`.

        For GRACE_SECONDS they are left to the living node that had them last. `late`: only those that have waited
        longer than that. A node that is dead or draining gets none.
        """
        with self._db.write() as db:
            now = self._clock()
            if not _may_claim(db, node, now):
                return []
            grace = now - GRACE_SECONDS
            wanted = {"node": node, "now": now, "grace": grace, "before": grace if late else math.inf, "limit": limit}
            found = db.execute(sql.FIND_WORK, wanted).fetchall()
            return [_take(db, node, conversation) for (conversation,) in found]

    def claim_one(self, node: str, conversation: str) -> Claim | None:
        """Own this conversation (for a command or a client that joins), with or without waiting messages; the claim
        that the node has if it owns it already; None while another living node owns it."""
        with self._db.write() as db:
            return claim_free(db, node, clean(conversation), self._clock())

    def ready(self, node: str) -> list[Claim]:
        """What the node owns and has due messages."""
        wanted = {"node": node, "now": self._clock()}
        found = self._db.read(lambda db: db.execute(sql.FIND_READY, wanted).fetchall())
        return [Claim(conversation, epoch, node) for conversation, epoch in found]

    def release(self, claim: Claim) -> bool:
        """Give the conversation up; without effect (False) if others have it."""
        with self._db.write() as db:
            return db.execute(sql.RELEASE, name_claim(claim)).rowcount > 0

    def holdings(self, limit: int = 100) -> list[Holding]:
        wanted = {"now": self._clock(), "limit": limit}
        found = self._db.read(lambda db: db.execute(sql.HOLDINGS, wanted).fetchall())
        return [Holding(name, epoch, owner, bool(live), pending) for name, epoch, owner, live, pending in found]

    # --- control

    def send_control(self, conversation: str, kind: str, body: Mapping[str, Any]) -> ControlSent:
        """Keep a control message for the conversation's owner, the present one or the next."""
        row = {"conversation": clean(conversation), "kind": clean(kind), "body": turn_rules.write_body(body)}
        with self._db.write() as db:
            now = self._clock()
            db.execute(sql.ADD_CONTROL, {**row, "now": now})
            return ControlSent(live=_get_owner(db, row["conversation"], now)[2])

    def take_controls(self, node: str) -> list[Control]:
        """Control messages for conversations that this node owns, each handed out once."""
        with self._db.write() as db:
            found = db.execute(sql.FIND_CONTROLS, {"node": node}).fetchall()
            taken = {"node": node, "now": self._clock()}
            db.executemany(sql.TAKE_CONTROL, [{**taken, "id": row[0]} for row in found])
            return [
                Control(row, conversation, kind, decode("control", (row,), body, as_object), created)
                for row, conversation, kind, body, created in found
            ]

    # --- named leases

    def hold(self, name: str, node: str, ttl: float) -> int | None:
        """The lease's epoch, new or renewed; None while another living holder has it, and for a node that is gone: what
        it asked for too late must not keep its successor out."""
        with self._db.write() as db:
            now = self._clock()
            db.execute(sql.ADD_LEASE, {"name": clean(name)})
            wanted = {"name": clean(name), "node": node, "now": now, "expires": now + ttl}
            found = db.execute(sql.HOLD, wanted).fetchone()
            return None if found is None else int(found[0])

    def drop(self, name: str, node: str) -> None:
        with self._db.write() as db:
            db.execute(sql.DROP, {"name": clean(name), "node": node})


# --- the steps of those calls, inside their transaction


def follow_clock(db: sqlite3.Connection, now: float) -> None:
    """Note the time. When the clock was set back since it was last noted, what waits for its time goes along."""
    known = db.execute(statements.GET_META, (CLOCK,)).fetchone()
    by = turn_rules.measure_setback("" if known is None else known[0], now)
    if by:
        log.warning("the clock was set back by %.0f s; what waits for its time does not wait for that", by)
        for statement in _MOVES:
            db.execute(statement, {"by": by, "now": now})
    db.execute(statements.SET_META, (CLOCK, repr(now)))


def name_claim(claim: Claim) -> dict[str, Any]:
    return {"conversation": claim.conversation, "epoch": claim.epoch, "node": claim.node}


def check_claim(db: sqlite3.Connection, claim: Claim) -> None:
    """Fenced unless the claim still holds; the first statement of every write of an owner."""
    if db.execute(sql.FENCE, name_claim(claim)).fetchone() is None:
        raise turn_rules.fenced(claim)


def claim_free(db: sqlite3.Connection, node: str, conversation: str, now: float) -> Claim | None:
    """The node's claim, new if nobody who lives has one; None while another living node does."""
    epoch, owner, live = _get_owner(db, conversation, now)
    if owner == node and live:
        return Claim(conversation, epoch, node)
    if live or not _may_claim(db, node, now):
        return None
    db.execute(statements.ADD_CONVERSATION, (conversation,))
    return _take(db, node, conversation)


def _may_claim(db: sqlite3.Connection, node: str, now: float) -> bool:
    """Whether the node lives and is not draining."""
    return bool(db.execute(sql.GET_NODE, {"node": node, "now": now}).fetchone() == (0,))


def _take(db: sqlite3.Connection, node: str, conversation: str) -> Claim:
    epoch = db.execute(sql.TAKE, {"node": node, "conversation": conversation}).fetchone()[0]
    return Claim(conversation, epoch, node)


def _get_owner(db: sqlite3.Connection, conversation: str, now: float) -> tuple[int, str | None, bool]:
    """Epoch, owner and whether the owner lives."""
    found = db.execute(sql.GET_OWNER, {"conversation": conversation, "now": now}).fetchone()
    return (0, None, False) if found is None else (found[0], found[1], bool(found[2]))
