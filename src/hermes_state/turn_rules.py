"""What the store decides about turns and deliveries: pure, on values read inside the transaction."""

import json
import math
import os
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from hermes_base.errors import Fenced, StoreFailure
from hermes_base.inbound import OutboxRow, Outgoing, read_outgoing, write_outgoing
from hermes_state import records
from hermes_state.damage import as_texts, decode
from hermes_state.people_store import HeardNote
from hermes_state.texts import clean
from hermes_state.turns import FRESH_SECONDS, MAX_ATTEMPTS, BegunTurn, Claim

CLOCK_SLACK = 2.0  # a clock that is put right by less than this changes nothing
KEEP_NODES = 3600.0  # the row of a dead node is kept so long, for whoever looks into the store


@dataclass(frozen=True, slots=True)
class BegunMessage:
    """A message for which a turn is begun, and when that is."""

    seq: int
    attempts: int  # with this one
    taken: bool
    begun: float  # for the first time
    now: float


def measure_setback(known: str | float, now: float) -> float:
    """How far the clock was set back since the time that is known, which may be damaged or missing; 0: it was not."""
    try:
        by = float(known) - now
    except ValueError:
        return 0.0
    return by if math.isfinite(by) and by > CLOCK_SLACK else 0.0


def start_turn(
    messages: Sequence[BegunMessage], standing: tuple[str, int], notes: tuple[HeardNote, ...], timezone: str
) -> BegunTurn:
    """The turn of these messages, in order, with what it begins from."""
    attempt = max(message.attempts for message in messages)
    age = max(message.now - message.begun for message in messages)
    given_up = "attempts" if attempt > MAX_ATTEMPTS else "age" if age > FRESH_SECONDS else ""
    seqs = tuple(message.seq for message in messages)
    taken = frozenset(one.seq for one in messages if one.taken)
    return BegunTurn(seqs[0], seqs, attempt, taken, given_up, standing, notes, timezone)


def check_closed(claim: Claim, done: Mapping[int, int | None]) -> None:
    """Fenced when one of the messages was closed under another epoch: then somebody else dealt with it."""
    if not done:
        raise StoreFailure("A turn without a message cannot be completed.", kept="Nothing was written.")
    if any(epoch != claim.epoch for epoch in done.values()):
        raise fenced(claim)


def make_row(found: Sequence[Any]) -> OutboxRow:
    """The row from its columns: id, conversation, seq, n, body, state, attempts, parts, ids, unsure, created."""
    row, conversation, seq, n, body, state, attempts, parts, ids, unsure, created = found
    outgoing = decode("outbox", (row,), body, read_outgoing)
    known = decode("outbox", (row,), ids, as_texts)
    return OutboxRow(row, conversation, seq, n, outgoing, state, attempts, parts, known, bool(unsure), created)


def write_answer(outgoing: Outgoing) -> dict[str, str | float]:
    """The columns of an outgoing message: whose chat it goes to, its body, who reads it, the foreign text that was in
    sight, and until when it waits for whom."""
    address = outgoing.address
    named = {
        "account": address.account_key,
        "chat": address.chat_key,
        "body": write_outgoing(outgoing),
        "held_for": outgoing.held_for,
        "reader": outgoing.reader,
        "note": outgoing.note,
        "note_origin": outgoing.note_origin,
        "origins": json.dumps(outgoing.origins),
    }
    return {**{column: clean(text) for column, text in named.items()}, "hold_until": outgoing.hold_until}


def make_node_id() -> str:
    return f"{os.getpid()}-{secrets.token_hex(8)}"


def write_body(body: Mapping[str, Any]) -> str:
    return clean(records.write_json(body))


def fenced(claim: Claim) -> Fenced:
    return Fenced(
        f"Conversation {claim.conversation} is not owned under epoch {claim.epoch} any more.",
        kept="Nothing of this write was stored; the messages are with their present owner.",
        fix="Drop the turn.",
    )


def lease_lost(what: str, lease_epoch: int) -> Fenced:
    return Fenced(
        f"{what} is not held under epoch {lease_epoch} any more.",
        kept="Nothing of this write was stored; the message is with the account's present holder.",
        fix="Hold the account's lease again.",
    )


def no_message(conversation: str, seq: int) -> StoreFailure:
    return StoreFailure(f"Conversation {conversation} has no message {seq}.", kept="Nothing was written.")
