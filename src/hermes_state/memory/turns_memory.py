"""Messages and turns in memory: the twin of `SqliteTurns`. Everything is checked before anything is written."""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from hermes_base.inbound import Outgoing
from hermes_base.journal import Row, Step, UsageRow
from hermes_state import records, turn_rules
from hermes_state.memory import retention_memory
from hermes_state.memory.memory_state import locked
from hermes_state.memory.outbox_memory import MemoryOutbox
from hermes_state.memory.ownership_memory import MemoryOwnership
from hermes_state.memory.turn_tables import InboxRow
from hermes_state.store import SessionInfo
from hermes_state.texts import clean
from hermes_state.turns import BegunTurn, Claim, Waiting, Written


class MemoryTurns(MemoryOwnership, MemoryOutbox):
    """Implements `TurnStore` on the tables of a `MemoryStore`."""

    # --- messages

    @locked
    def accept(self, conversation: str, account: str, ext_id: str, body: str, node: str = "") -> int | None:
        name, key, tables = clean(conversation), (clean(account), clean(ext_id)), self._tables
        if key in tables.seen:
            return None
        row, now = tables.get_conversation(name), self._clock()
        row.ready_at = row.ready_at if row.pending else now
        row.pending, row.next_seq = row.pending + 1, row.next_seq + 1
        message = InboxRow(row.next_seq, *key, clean(body), now)
        tables.inbox.setdefault(name, {})[message.seq] = tables.seen[key] = message
        if node:
            self._claim_free(node, name)
        return message.seq

    @locked
    def find_message(self, account: str, stem: str) -> list[tuple[int, bool, bool]]:
        name, first = clean(account), clean(stem) + "/"
        found = [
            (row.seq, row.begun is not None, row.done_epoch is not None)
            for (own, ext_id), row in self._tables.seen.items()
            if own == name and ext_id.startswith(first) and "/" not in ext_id[len(first) :]
        ]
        return sorted(found)

    @locked
    def waiting(self, claim: Claim, limit: int = 200, check: Callable[[str], object] = str) -> list[Waiting]:
        del check  # nothing damages what is in memory
        if not self._holds(claim):
            return []
        return [row.show() for row in self._tables.list_due(claim.conversation, self._clock())[:limit]]

    @locked
    def inbox_since(
        self, conversation: str, after: int, limit: int = 100, check: Callable[[str], object] = str
    ) -> list[tuple[int, str]]:
        del check
        rows = self._tables.inbox.get(clean(conversation), {}).values()
        return [(row.seq, row.body) for row in rows if row.seq > after][:limit]

    @locked
    def open_seqs(self, conversation: str) -> list[int]:
        rows = self._tables.inbox.get(clean(conversation), {}).values()
        return [row.seq for row in rows if row.done_epoch is None]

    @locked
    def latest(self, conversation: str) -> tuple[int, int]:
        name, tables = clean(conversation), self._tables
        rows = [row for row, entry in tables.outbox.items() if entry.row.conversation == name]
        known = tables.conversations.get(name)
        if known is None:
            return max(rows, default=0), 0
        return max(*rows, known.last_row, 0), known.next_seq

    @locked
    def depth(self) -> tuple[int, int]:
        tables = self._tables
        coming = sum(row.done_epoch is None for row in tables.seen.values())
        return coming, sum(entry.ended is None for entry in tables.outbox.values())

    @locked
    def sweep(self, before: float, limit: int) -> int:
        return retention_memory.sweep(self._state, before, limit)

    @locked
    def mentioned(self, words: Collection[str]) -> set[str]:
        bodies = [row.body for row in self._tables.seen.values()]
        bodies += [turn_rules.write_answer(entry.row.outgoing)["body"] for entry in self._tables.outbox.values()]
        return {word for word in words if any(word in body for body in bodies)}

    # --- a turn

    @locked
    def begin(
        self,
        claim: Claim,
        seqs: Sequence[int],
        going_on: Outgoing | None = None,
        choices: Mapping[str, Any] | None = None,
    ) -> BegunTurn | None:
        self._check_claim(claim)
        chosen = None if choices is None else turn_rules.write_body(choices)
        now, inbox = self._clock(), self._tables.inbox.get(claim.conversation, {})
        wanted = turn_rules.sort_seqs(seqs)
        messages = [inbox[seq] for seq in wanted if seq in inbox]
        turn = turn_rules.start_turn([message.measure() for message in messages], now)
        if turn is None or len(messages) < len(wanted):
            return None
        for message in messages:
            message.attempts += 1
            message.begun = now if message.begun is None else message.begun
        if going_on is not None and turn.attempt > 1 and not turn.given_up:
            self._add_answers(claim.conversation, turn.seq, [going_on])
        if chosen is not None:
            self._tables.get_conversation(claim.conversation).choices = chosen
        return turn

    @locked
    def append(self, claim: Claim, seq: int, written: Written, usage: Sequence[UsageRow] = ()) -> int:
        batch = records.write_batch(written.rows)
        self._check_claim(claim)
        self._check_session(claim, written.session)
        self._keep_frozen(written)
        version = self._state.append_batch(batch, turn_rules.name_place(written), usage)
        self._mark_taken(claim, written.rows)
        return version

    @locked
    def rotate(self, claim: Claim, seq: int, written: Written, reason: str) -> SessionInfo:
        batch = records.write_batch(written.rows)
        self._check_claim(claim)
        self._check_session(claim, written.session)
        kept = self._state.get(written.session)
        records.check_open(written.session, kept.info.ended, kept.info.end_reason)
        self._keep_frozen(written)
        child = self._state.rotate_session(batch, turn_rules.name_place(written), reason)
        self._mark_taken(claim, written.rows)
        return child

    @locked
    def step(self, claim: Claim, seq: int, n: int, kind: str, body: Mapping[str, Any]) -> None:
        kept = json.loads(turn_rules.write_body(body))
        self._check_claim(claim)
        self._tables.steps.setdefault((claim.conversation, seq), {})[n] = Step(n, clean(kind), kept)

    @locked
    def steps(self, conversation: str, seq: int) -> list[Step]:
        found = self._tables.steps.get((clean(conversation), seq), {})
        return [found[n] for n in sorted(found)]

    @locked
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
        batch = records.write_batch(written.rows if written else ())
        version = written.base + len(batch.rows) if written and batch.rows else None
        self._check_claim(claim)
        closing = turn_rules.pick_open(claim, self._get_done(claim, seqs))
        if not closing:
            return version
        if go_on_in:
            self._check_session(claim, go_on_in)
        if written is not None:
            self._check_session(claim, written.session)
            self._keep_frozen(written)
            self._state.append_batch(batch, turn_rules.name_place(written), usage)
            self._mark_taken(claim, written.rows)
        else:
            self._charge(claim, usage)
        self._close(claim, closing)
        self._add_answers(claim.conversation, min(seqs), answers)
        if end_session:
            self._end_current(claim.conversation, end_session)
        if go_on_in:
            self._state.go_on_in(go_on_in, claim.conversation)
        return version

    @locked
    def fail(self, claim: Claim, seq: int, error: str, retry_at: float) -> None:
        self._check_claim(claim)
        message = self._tables.inbox.get(claim.conversation, {}).get(seq)
        if message is not None and message.done_epoch is None:
            message.error, message.retry_at = clean(error), retry_at

    # --- choices

    @locked
    def choices(self, conversation: str) -> dict[str, Any]:
        row = self._tables.conversations.get(clean(conversation))
        return {} if row is None else dict(json.loads(row.choices))

    @locked
    def choose(self, conversation: str, choices: Mapping[str, Any]) -> None:
        written = turn_rules.write_body(choices)
        self._tables.get_conversation(clean(conversation)).choices = written

    # --- the steps of those calls, under the lock

    def _get_done(self, claim: Claim, seqs: Sequence[int]) -> dict[int, int | None]:
        """Under which epoch each message was closed; StoreFailure when there is no such message."""
        inbox = self._tables.inbox.get(claim.conversation, {})
        wanted = turn_rules.sort_seqs(seqs)
        for seq in wanted:
            if seq not in inbox:
                raise turn_rules.no_message(claim.conversation, seq)
        return {seq: inbox[seq].done_epoch for seq in wanted}

    def _check_session(self, claim: Claim, session: str) -> None:
        """A claim is on one conversation, and gives no right to write to another's session."""
        if self._state.get(session).info.conversation != claim.conversation:
            raise records.foreign(session, claim.conversation)

    def _keep_frozen(self, written: Written) -> None:
        """Keep the encoded forms that come with rows; nothing when the rows would be refused."""
        kept = self._state.get(written.session)
        records.check_base(written.session, kept.info.version, written.base, kept.successor)
        for place, _, _ in written.frozen:
            records.check_place(place, kept.info.version, written.session)
        for place, dialect, body in written.frozen:
            self._state.keep_encoded(kept, place, dialect, body)

    def _mark_taken(self, claim: Claim, rows: Sequence[Row]) -> None:
        inbox = self._tables.inbox.get(claim.conversation, {})
        for seq in turn_rules.list_taken(rows):
            if seq in inbox:
                inbox[seq].taken = True

    def _charge(self, claim: Claim, usage: Sequence[UsageRow]) -> None:
        """Calls of a turn that wrote no rows stand under the session that the conversation goes on in."""
        session = self._state.current.get(claim.conversation, "")
        task = self._state.get(session).info.task if session else ""
        self._state.add_usage(session, task, usage)

    def _close(self, claim: Claim, seqs: Sequence[int]) -> None:
        inbox = self._tables.inbox[claim.conversation]
        for seq in seqs:
            inbox[seq].done_epoch, inbox[seq].done_at = claim.epoch, self._clock()
            self._tables.steps.pop((claim.conversation, seq), None)
        self._tables.conversations[claim.conversation].pending -= len(seqs)

    def _end_current(self, conversation: str, reason: str) -> None:
        session = self._state.current.get(conversation)
        if session is not None:
            kept = self._state.get(session)
            self._state.close_session(kept, reason)
            self._state.move_current(kept.info, None)
