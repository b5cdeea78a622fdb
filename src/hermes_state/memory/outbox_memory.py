"""What goes out, in memory: the twin of `SqliteOutbox`."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from hermes_base.inbound import Outgoing, read_outgoing
from hermes_state import turn_rules
from hermes_state.memory.memory_state import MemoryState, locked
from hermes_state.memory.turn_tables import LeaseRow, OutboxEntry
from hermes_state.texts import clean
from hermes_state.turn_rules import Progress
from hermes_state.turns import FAILED, SENDING, SENT, WAITING, OutboxRow


class MemoryOutbox:
    def __init__(self, state: MemoryState, clock: Callable[[], float]) -> None:
        self._state = state
        self._tables = state.turns
        self._clock = clock

    @locked
    def post(self, conversation: str, name: str, outgoing: Outgoing) -> bool:
        key = clean(conversation), clean(name)
        if any((entry.row.conversation, entry.name) == key for entry in self._tables.outbox.values()):
            return False
        self._add_answers(key[0], 0, [outgoing], name=key[1])
        return True

    @locked
    def outbox_chats(self, account: str) -> list[str]:
        wanted = clean(account)
        chats = (
            entry.chat for entry in self._tables.outbox.values() if entry.account == wanted and entry.ended is None
        )
        return list(dict.fromkeys(chats))

    @locked
    def outbox_take(self, account: str, chat: str, lease_epoch: int) -> OutboxRow | None:
        lease = self._tables.leases.get(clean(account), LeaseRow())
        if lease.owner is None or lease.epoch != lease_epoch:
            raise turn_rules.lease_lost(f"The account {account}", lease_epoch)
        entry = self._find_unsent(clean(account), clean(chat))
        if entry is None:
            return None
        known = entry.progress
        if not turn_rules.may_take(known.state, entry.lease_epoch, known.retry_at, lease_epoch, self._clock()):
            return None
        entry.progress = replace(known, state=SENDING, unsure=known.unsure or known.state == SENDING)
        entry.lease_epoch, entry.attempts = lease_epoch, entry.attempts + 1
        return _show(entry)

    @locked
    def outbox_part(self, row: int, lease_epoch: int, platform_id: str) -> None:
        self._advance(row, lease_epoch, lambda known: turn_rules.add_part(known, platform_id))

    @locked
    def outbox_sent(self, row: int, lease_epoch: int, platform_id: str = "") -> None:
        self._advance(row, lease_epoch, lambda known: turn_rules.finish_sending(known, platform_id))

    @locked
    def outbox_back(self, row: int, lease_epoch: int, retry_at: float, *, certain: bool) -> None:
        self._advance(row, lease_epoch, lambda known: turn_rules.give_back(known, retry_at, certain))

    @locked
    def outbox_fail(self, row: int, lease_epoch: int, reason: str) -> None:
        self._advance(row, lease_epoch, lambda known: turn_rules.give_up(known, reason))

    @locked
    def outbox_since(self, conversation: str, after: int, limit: int = 100) -> list[OutboxRow]:
        wanted = clean(conversation)
        entries = self._tables.outbox.items()
        return [_show(entry) for row, entry in entries if row > after and entry.row.conversation == wanted][:limit]

    @locked
    def outbox_of(self, conversation: str, seq: int) -> list[OutboxRow]:
        own = (_show(entry) for entry in self._tables.outbox.values() if entry.row.conversation == clean(conversation))
        return sorted((row for row in own if row.seq == seq), key=lambda row: row.n)

    @locked
    def outbox_from(self, conversation: str, since: float, limit: int = 100) -> list[OutboxRow]:
        own = (_show(entry) for entry in self._tables.outbox.values() if entry.row.conversation == clean(conversation))
        return [row for row in own if row.created >= since][:limit]

    # --- the steps of those calls, under the lock

    def _advance(self, row: int, lease_epoch: int, change: Callable[[Progress], Progress]) -> None:
        """Note how far the sender has come; Fenced when the row is another's by now."""
        entry = self._tables.outbox.get(row)
        if entry is None or entry.lease_epoch != lease_epoch:
            raise turn_rules.lease_lost(f"The outgoing message {row}", lease_epoch)
        known, changed = entry.progress, change(entry.progress)
        if known.state == SENDING:
            entry.progress = changed
            entry.ended = self._clock() if changed.state in (SENT, FAILED) else None
        elif known.state != changed.state:
            raise turn_rules.lease_lost(f"The outgoing message {row}", lease_epoch)

    def _find_unsent(self, account: str, chat: str) -> OutboxEntry | None:
        entries = self._tables.outbox.values()
        queue = (entry for entry in entries if (entry.account, entry.chat) == (account, chat))
        return next((entry for entry in queue if entry.ended is None), None)

    def _add_answers(
        self, conversation: str, seq: int, answers: Sequence[Outgoing], *, name: str | None = None
    ) -> None:
        """Put them into the outbox, numbered after those that the turn has there already."""
        tables, place = self._tables, (conversation, seq)
        numbers = [entry.row.n for entry in tables.outbox.values() if (entry.row.conversation, entry.row.seq) == place]
        written = [turn_rules.write_answer(answer) for answer in answers]
        for n, columns in enumerate(written, max(numbers, default=0) + 1):
            tables.last_row += 1
            outgoing = read_outgoing(columns["body"])
            row = OutboxRow(
                tables.last_row, conversation, seq, n, outgoing, WAITING, 0, 0, (), unsure=False, created=self._clock()
            )
            tables.outbox[row.id] = OutboxEntry(row, columns["account"], columns["chat"], name)


def _show(entry: OutboxEntry) -> OutboxRow:
    known = entry.progress
    return replace(
        entry.row,
        state=known.state,
        attempts=entry.attempts,
        parts_sent=known.parts_sent,
        platform_ids=known.platform_ids,
        unsure=known.unsure,
    )
