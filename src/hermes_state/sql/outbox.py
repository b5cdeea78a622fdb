"""What goes out: answers wait in the outbox, and the holder of the account's lease sends them in order."""

import json
import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hermes_base.inbound import Outgoing
from hermes_state import turn_rules
from hermes_state.damage import as_texts, decode
from hermes_state.sql import turn_statements as sql
from hermes_state.sql.connection import StorePart
from hermes_state.texts import clean
from hermes_state.turn_rules import Progress
from hermes_state.turns import FAILED, SENDING, SENT, OutboxRow


class Outbox(StorePart):
    def post(self, conversation: str, name: str, outgoing: Outgoing) -> bool:
        """Put a word into the outbox outside of a turn; False when one with this name is there already."""
        wanted = {"conversation": clean(conversation), "name": clean(name)}
        with self._db.write() as db:
            if db.execute(sql.HAS_NAME, wanted).fetchone() is not None:
                return False
            add_answers(db, wanted["conversation"], 0, [outgoing], self._clock(), name=wanted["name"])
            return True

    def outbox_chats(self, account: str) -> list[str]:
        """Chats of the account with messages that were not sent yet, due or not, the longest waiting first."""
        wanted = {"account": clean(account)}
        return self._db.read(lambda db: [chat for (chat,) in db.execute(sql.FIND_CHATS, wanted)])

    def outbox_take(self, account: str, chat: str, lease_epoch: int) -> OutboxRow | None:
        """The chat's first message that was not sent, marked as being sent under this lease; None when there is none
        that is due. One chat has one sender at a time, so a message that is marked already was left behind: it is
        unsure. Fenced when the account's lease (named like the account) has another epoch."""
        wanted = {"account": clean(account), "chat": clean(chat), "lease_epoch": lease_epoch}
        with self._db.write() as db:
            if db.execute(sql.CHECK_LEASE, wanted).fetchone() is None:
                raise turn_rules.lease_lost(f"The account {account}", lease_epoch)
            found = db.execute(sql.FIRST_UNSENT, wanted).fetchone()
            if found is None:
                return None
            row, state, retry_at = found
            if retry_at > self._clock():
                return None
            taken = {"id": row, "lease_epoch": lease_epoch, "unsure": int(state == SENDING)}
            return turn_rules.make_row(db.execute(sql.TAKE_UNSENT, taken).fetchone())

    def outbox_part(self, row: int, lease_epoch: int, platform_id: str) -> None:
        """One more part of it has arrived."""
        self._advance(row, lease_epoch, lambda known: turn_rules.add_part(known, platform_id))

    def outbox_sent(self, row: int, lease_epoch: int, platform_id: str = "") -> None:
        """All of it has arrived."""
        self._advance(row, lease_epoch, lambda known: turn_rules.finish_sending(known, platform_id))

    def outbox_back(self, row: int, lease_epoch: int, retry_at: float, *, certain: bool) -> None:
        """It was not sent and is due again then; not `certain`: its next part may have arrived (the row is unsure). A
        row that was unsure stays so until a part is known to have arrived."""
        self._advance(row, lease_epoch, lambda known: turn_rules.give_back(known, retry_at, certain))

    def outbox_fail(self, row: int, lease_epoch: int, reason: str) -> None:
        """The platform will never take it; it is kept with the reason."""
        self._advance(row, lease_epoch, lambda known: turn_rules.give_up(known, reason))

    def outbox_since(self, conversation: str, after: int, limit: int = 100) -> list[OutboxRow]:
        """What was said to the conversation after this row, sent or not, for a client that comes back."""
        wanted = {"conversation": clean(conversation), "after": after, "limit": limit}
        return self._db.read(lambda db: _read_outbox(db, sql.OUTBOX_SINCE, wanted))

    def outbox_of(self, conversation: str, seq: int) -> list[OutboxRow]:
        """What was said to the turn of this message (the smallest one of its turn), in order."""
        wanted = {"conversation": clean(conversation), "seq": seq}
        return self._db.read(lambda db: _read_outbox(db, sql.OUTBOX_OF, wanted))

    def outbox_from(self, conversation: str, since: float, limit: int = 100) -> list[OutboxRow]:
        """What was said to the conversation from this time on, in order."""
        wanted = {"conversation": clean(conversation), "since": since, "limit": limit}
        return self._db.read(lambda db: _read_outbox(db, sql.OUTBOX_FROM, wanted))

    def _advance(self, row: int, lease_epoch: int, change: Callable[[Progress], Progress]) -> None:
        """Note how far the sender has come; Fenced when the row is another's by now."""
        with self._db.write() as db:
            found = db.execute(sql.GET_SENDING, {"id": row}).fetchone()
            if found is None:
                raise turn_rules.lease_lost(f"The outgoing message {row}", lease_epoch)
            state, epoch, parts_sent, platform_ids, unsure = found
            known = Progress(state, parts_sent, decode("outbox", (row,), platform_ids, as_texts), bool(unsure))
            changed = change(known)
            if epoch != lease_epoch or state not in (SENDING, changed.state):
                raise turn_rules.lease_lost(f"The outgoing message {row}", lease_epoch)
            if state != SENDING:
                return  # it was noted before
            columns = {
                "id": row,
                "state": changed.state,
                "parts_sent": changed.parts_sent,
                "platform_ids": json.dumps(changed.platform_ids),
                "unsure": int(changed.unsure),
                "retry_at": changed.retry_at,
                "reason": changed.reason,
                "ended": self._clock() if changed.state in (SENT, FAILED) else None,
            }
            db.execute(sql.SET_PROGRESS, columns)


# --- the steps of those calls, inside their transaction


def add_answers(
    db: sqlite3.Connection,
    conversation: str,
    seq: int,
    answers: Sequence[Outgoing],
    now: float,
    *,
    name: str | None = None,
) -> None:
    """Put them into the outbox, numbered after those that the turn has there already."""
    owner = {"conversation": conversation, "seq": seq, "now": now, "name": name}
    first = db.execute(sql.NEXT_ANSWER, owner).fetchone()[0]
    rows = [{**owner, "n": n, **turn_rules.write_answer(answer)} for n, answer in enumerate(answers, first)]
    db.executemany(sql.ADD_ANSWER, rows)


def _read_outbox(db: sqlite3.Connection, query: str, wanted: Mapping[str, Any]) -> list[OutboxRow]:
    return [turn_rules.make_row(row) for row in db.execute(query, wanted).fetchall()]
