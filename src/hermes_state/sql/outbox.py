"""What goes out: answers wait in the outbox, and the holder of the account's lease sends them in order."""

import json
from collections.abc import Sequence
from functools import partial

from hermes_base.inbound import FAILED, SENDING, SENT, WAITING, OutboxRow, Outgoing, name_question, read_outgoing
from hermes_state import turn_rules
from hermes_state.sql import statements
from hermes_state.sql import turn_statements as sql
from hermes_state.sql.engines.engine import NothingDone, Sql, StorePart, Transaction
from hermes_state.texts import clean
from hermes_state.turns import RefusedRow, UnsentChat

LOOKED_AT = 500  # messages in which a platform's id is looked for
_UNCHANGED = {"keep": 1, "doubt": 0, "retry_at": 0.0, "reason": ""}


class Outbox(StorePart):
    def post(self, conversation: str, name: str, outgoing: Outgoing) -> bool:
        """Put a word into the outbox outside of a turn; False when one with this name is there already."""
        *lock, add = add_answers(clean(conversation), 0, [outgoing], name=clean(name))
        try:
            self._db.run(*lock, add._replace(refusal=NothingDone))  # a word that is there already costs no write
        except NothingDone:
            return False
        return True

    def outbox_fate(self, conversation: str, name: str) -> tuple[str, str] | None:
        """State and reason of the word with this name; None: there is none."""
        found = self._db.find(sql.FIND_NAMED, {"conversation": clean(conversation), "name": clean(name)})
        return (str(found[0][0]), str(found[0][1])) if found else None

    def outbox_age(self, conversation: str, name: str) -> float | None:
        """For how many seconds the word with this name has stood where it was sent to; None: it does not yet."""
        found = self._db.find(sql.FIND_AGE, {"conversation": clean(conversation), "name": clean(name)})
        return max(0.0, float(found[0][0])) if found else None

    def find_posted(self, conversation: str, name: str) -> Outgoing | None:
        """The word with this name; None: there is none."""
        found = self._db.find(sql.FIND_NAMED, {"conversation": clean(conversation), "name": clean(name)})
        return read_outgoing(found[0][2]) if found else None

    def outbox_held(self, person: str | None = None) -> tuple[int, float]:
        """How many messages wait for the end of quiet hours, of one person or of all, and until when the first does."""
        of_all = person is None
        ((count, until),) = self._db.find(*((sql.COUNT_HELD,) if of_all else (sql.COUNT_HELD_FOR, {"person": person})))
        return int(count), float(until)

    def hold_anew(self, person: str, until: float) -> int:
        """What waits for the end of this person's quiet hours waits until then; in the past: it is sent now."""
        return self._db.run(Sql(sql.HOLD_ANEW, {"person": person, "until": until}))[0].changed

    def find_origins(self, conversation: str, platform_id: str) -> tuple[str, ...] | None:
        """What foreign text was in sight when we wrote the message with this id on its platform; None: it is not one
        of the last ones that we sent there."""
        found = self._db.find(sql.SENT_IDS, {"conversation": clean(conversation), "limit": LOOKED_AT})
        origins = (origins for ids, origins in found if platform_id in json.loads(ids))
        return next((tuple(json.loads(one)) for one in origins), None)

    def find_asked(self, conversation: str, platform_id: str) -> str:
        """The question that the message with this id on its platform asks; empty: it is none of the last ones."""
        wanted = {"conversation": clean(conversation), "prefix": name_question(""), "limit": LOOKED_AT}
        found = self._db.find(sql.SENT_QUESTIONS, wanted)
        names = (str(name) for ids, name in found if platform_id in json.loads(ids))
        return next(names, "").removeprefix(name_question(""))

    def outbox_chats(self, account: str) -> list[str]:
        """Chats of the account with messages that were not sent yet, due or not, the longest waiting first; without
        what waits for the end of quiet hours."""
        wanted = {"account": clean(account)}
        return [chat for (chat,) in self._db.find(sql.FIND_CHATS, wanted)]

    def outbox_take(self, account: str, chat: str, lease_epoch: int) -> OutboxRow | None:
        """The chat's first message that was not sent, marked as being sent under this lease; None when there is none
        that is due. One chat has one sender at a time, so a message that is marked already was left behind: it is
        unsure. Fenced when the account's lease (named like the account) has another epoch."""
        wanted = {"account": clean(account), "chat": clean(chat), "lease_epoch": lease_epoch}
        lost = partial(turn_rules.lease_lost, f"The account {account}", lease_epoch)

        def take(db: Transaction) -> OutboxRow | None:
            taken = db.execute(sql.TAKE_UNSENT, wanted).first
            if taken is not None:
                return turn_rules.make_row(taken)
            db.run(Sql(sql.CHECK_LEASE, wanted, lost))
            return None

        return self._db.write(take)

    def outbox_pause(self, account: str, chat: str) -> float:
        """Seconds until the chat's first message is due; 0 when it is, or there is none."""
        found = self._db.find(sql.FIRST_RETRY, {"account": clean(account), "chat": clean(chat)})
        return max(0.0, float(found[0][0])) if found else 0.0

    def note_penalty(self, account: str, chat: str, kind: str, seconds: float) -> None:
        """The platform takes nothing for so long, in this chat or (none named) at all; the longest counts."""
        row = {"account": clean(account), "chat": clean(chat), "kind": kind, "seconds": seconds}
        self._db.run(Sql(sql.DROP_PENALTIES), Sql(sql.NOTE_PENALTY, row))

    def penalties(self, account: str) -> list[tuple[str, str, float]]:
        """Those that are not over, each with its chat, the kind of it, and the seconds that are left."""
        found = self._db.find(sql.GET_PENALTIES, {"account": clean(account)})
        return [(str(chat), str(kind), float(seconds)) for chat, kind, seconds in found]

    def outbox_part(self, row: int, lease_epoch: int, platform_id: str) -> None:
        """One more part of it has arrived, and nothing is doubtful before the next one is tried."""
        self._advance(row, lease_epoch, SENDING, platform_id, parts=1, keep=0)

    def outbox_sent(self, row: int, lease_epoch: int, platform_id: str = "") -> bool:
        """All of it has arrived; whether its chat has more that was not sent yet."""
        return self._advance(row, lease_epoch, SENT, platform_id, keep=0)

    def outbox_back(self, row: int, lease_epoch: int, retry_at: float, *, certain: bool) -> None:
        """It was not sent and is due again then; not `certain`: its next part may have arrived (the row is unsure). A
        row that was unsure stays so until a part is known to have arrived: that this attempt failed says nothing about
        the one before."""
        self._advance(row, lease_epoch, WAITING, retry_at=retry_at, doubt=int(not certain))

    def outbox_fail(self, row: int, lease_epoch: int, reason: str) -> None:
        """The platform will never take it; it is kept with the reason."""
        self._advance(row, lease_epoch, FAILED, reason=clean(reason))

    def outbox_return(self, conversation: str, platform_id: str, reason: str = "") -> OutboxRow | None:
        """One of the last messages there has not arrived after all, or a part of it that waits for its other parts.
        From the part with this id on it waits again; with a reason it is kept as refused. None: none of them has this
        id, or it is being sent."""
        wanted = {"conversation": clean(conversation), "limit": LOOKED_AT}

        def give_back(db: Transaction) -> OutboxRow | None:
            found = [
                (row, json.loads(ids)) for row, ids in db.execute(sql.SENT_ROWS, wanted).rows if platform_id in ids
            ]
            for row, ids in ((row, ids) for row, ids in found if platform_id in ids):
                left = ids if reason else ids[: ids.index(platform_id)]
                fate = {"state": FAILED if reason else WAITING, "over": int(bool(reason)), "reason": clean(reason)}
                noted = {"row": row, "parts": len(left), "ids": json.dumps(left)}
                return turn_rules.make_row(db.execute(sql.RETURN_SENT, {**fate, **noted}).rows[0])
            return None

        return self._db.write(give_back)

    def outbox_unsent(self, account: str, chat: str) -> list[OutboxRow]:
        """The chat's messages that have not arrived, in order."""
        return self._db.find_as(turn_rules.make_row, sql.UNSENT, {"account": clean(account), "chat": clean(chat)})

    def outbox_arrived(self, account: str, rows: Sequence[int]) -> list[OutboxRow]:
        """Clients of the account have read these here; those of them that waited for it."""
        batch = [Sql(sql.ARRIVED, {"account": clean(account), "row": row}) for row in rows]
        return self._db.write(lambda db: [turn_rules.make_row(row) for one in db.run(*batch) for row in one.rows])

    def outbox_arrived_all(self, account: str, chat: str) -> list[OutboxRow]:
        """The same for all messages of a chat, in order."""
        wanted = {"account": clean(account), "chat": clean(chat)}
        return self._db.write(
            lambda db: [turn_rules.make_row(row) for row in sorted(db.execute(sql.ARRIVED_ALL, wanted).rows)]
        )

    def count_unsent(self) -> dict[str, int]:
        """Messages that have not arrived, by account."""
        return {str(account): int(count) for account, count in self._db.find(sql.COUNT_UNSENT)}

    def list_unsent(self, limit: int = 20) -> list[UnsentChat]:
        """Chats with messages that have not arrived, the longest waiting first."""
        found = self._db.find(sql.UNSENT_CHATS, {"limit": limit})
        return [UnsentChat(account, chat, count, since, bool(tried)) for account, chat, count, since, tried in found]

    def list_refused(self, since: float, limit: int = 20) -> list[RefusedRow]:
        """Messages that were refused for good after this time, the last ones first."""
        return [RefusedRow(*row) for row in self._db.find(sql.REFUSED, {"since": since, "limit": limit})]

    def outbox_since(self, conversation: str, after: int, limit: int = 100) -> list[OutboxRow]:
        """What was said to the conversation after this row, sent or not, for a client that comes back."""
        wanted = {"conversation": clean(conversation), "after": after, "limit": limit}
        return self._db.find_as(turn_rules.make_row, sql.OUTBOX_SINCE, wanted)

    def outbox_named(self, conversation: str, name: str) -> OutboxRow | None:
        """The word that was posted under this name, sent or not."""
        wanted = {"conversation": clean(conversation), "name": clean(name)}
        return next(iter(self._db.find_as(turn_rules.make_row, sql.OUTBOX_NAMED, wanted)), None)

    def outbox_of(self, conversation: str, seq: int) -> list[OutboxRow]:
        """What was said to the turn of this message (the smallest one of its turn), in order."""
        wanted = {"conversation": clean(conversation), "seq": seq}
        return self._db.find_as(turn_rules.make_row, sql.OUTBOX_OF, wanted)

    def outbox_from(self, conversation: str, since: float, limit: int = 100) -> list[OutboxRow]:
        """What was said to the conversation from this time on, in order."""
        wanted = {"conversation": clean(conversation), "since": since, "limit": limit}
        return self._db.find_as(turn_rules.make_row, sql.OUTBOX_FROM, wanted)

    def _advance(self, row: int, lease_epoch: int, state: str, platform_id: str = "", **more: float | str) -> bool:
        """Note how far the sender has come; Fenced when the row is another's by now. Whether its chat has more."""
        named = {"row": row, "lease_epoch": lease_epoch, "state": state}
        noted = {"parts": int(bool(platform_id)), "id": json.dumps(platform_id), "over": int(state in (SENT, FAILED))}
        lost = partial(turn_rules.lease_lost, f"The outgoing message {row}", lease_epoch)

        def advance(db: Transaction) -> bool:
            found = db.execute(sql.SET_PROGRESS, {**_UNCHANGED, **named, **noted, **more})
            if not found.rows:
                (found,) = db.run(Sql(sql.HAS_PROGRESS, named, lost))
            elif state == SENT:
                db.execute(sql.ADD_HEARD, {"row": row})
            return bool(db.execute(sql.HAS_UNSENT, found.rows[0]).rows)

        return self._db.write(advance)


# --- the steps of those calls, inside their transaction


def add_answers(conversation: str, seq: int, answers: Sequence[Outgoing], *, name: str | None = None) -> list[Sql]:
    """Put them into the outbox, numbered after those that the turn has there already; what is said in another
    conversation belongs to no turn there. Whoever reads a conversation goes on behind the last row that they know, so
    its rows are there in the order of their numbers."""
    own = {"conversation": conversation, "seq": seq, "name": name}
    added = []
    for answer in answers:
        elsewhere = {"conversation": clean(answer.conversation), "seq": 0} if answer.conversation else {}
        row = {**own, **elsewhere}
        if not row["seq"]:  # the turn's own conversation is held by its claim
            added.append(Sql(statements.LOCK_CONVERSATION, (row["conversation"],)))
        added.append(Sql(sql.ADD_ANSWER, {**row, **turn_rules.write_answer(answer)}))
    return added
