"""Messages and turns: every call is one transaction, and an owner's begins with the check of its claim."""

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from hermes_base.inbound import Address, Outgoing, as_fields
from hermes_base.turn.journal import Row, Step, UsageRow
from hermes_state import records, turn_rules
from hermes_state.damage import as_object, decode, read_text
from hermes_state.people_store import HeardNote
from hermes_state.sql import retention_sql, statements
from hermes_state.sql import session_steps as steps
from hermes_state.sql import turn_statements as sql
from hermes_state.sql.engines.engine import Found, NothingDone, Sql, Transaction
from hermes_state.sql.habits_sql import GET_NOTES, GET_TIMEZONE
from hermes_state.sql.outbox import Outbox, add_answers
from hermes_state.sql.ownership import Ownership
from hermes_state.store import SessionInfo
from hermes_state.texts import clean
from hermes_state.turn_rules import BegunMessage
from hermes_state.turns import BegunTurn, Claim, ConversationStand, MessageTimes, Waiting, Written

PAGE = 500
MOST_AT_ONCE = 128  # conversations that one statement asks for


class TurnStore(Ownership, Outbox):
    """The part of a store on who works on what; the calls raise as those of `Store` do."""

    # --- messages

    def accept(
        self,
        conversation: str,
        account: str,
        ext_id: str,
        body: str,
        node: str = "",
        heard: tuple[Address, str] | None = None,
    ) -> int | None:
        """Store a message durably; its place in the conversation, or None when it was seen before.

        With `node`, a conversation without a living owner is claimed for it in the same transaction. With `heard`, this
        message is where its chat is read on from after an absence (`find_last`).
        """
        name = clean(conversation)
        row = {"conversation": name, "account": clean(account), "ext_id": clean(ext_id), "body": clean(body)}
        claim = [Sql(sql.CLAIM_ONE, {"node": node, "conversation": name})] if node else []
        noted = [_note_heard(name, *heard)] if heard else []
        try:
            _, added, *_ = self._db.run(
                Sql(sql.COUNT_IN, {"conversation": name}),
                Sql(sql.ADD_MESSAGE, row, NothingDone),
                *claim,
                *noted,
            )
        except NothingDone:
            return None
        return int(added.rows[0][0])

    def find_last(self, account: str) -> dict[Address, str]:
        """The last message that was accepted in each chat of an account, for platforms that have a history."""
        platform, _, name = account.partition(":")
        found = self._db.find(sql.GET_LAST_HEARD, {"account": clean(account)})
        return {Address(platform, name, chat, kind, thread): message for chat, kind, thread, message in found}

    def find_message(self, account: str, stem: str) -> list[tuple[int, bool, bool]]:
        """The stored revisions of a message (ext_id is `stem/` and a revision without a stroke) in order: seq, whether
        a turn was begun, done."""
        first = clean(stem) + "/"
        wanted = {"account": clean(account), "first": first, "end": first[:-1] + "0", "length": len(first)}
        return [(seq, bool(begun), bool(done)) for seq, begun, done in self._db.find(sql.FIND_REVISIONS, wanted)]

    def waiting(self, claim: Claim, limit: int = 200, read: Callable[[str], Any] = str) -> list[Waiting]:
        """The open messages in order, the first `limit` of them, without those that wait for their `retry_at`; none
        when the claim does not hold any more. A message that `read` cannot read was damaged on the disk: it is set
        aside, its sender is told, and it is not among them."""

        def make(row: tuple[Any, ...]) -> Waiting:
            seq, raw, attempts, taken, accepted, begun, draft, now = row
            body = read_text("inbox", (claim.conversation, seq), raw, read)
            return Waiting(seq, body, attempts, bool(taken), accepted, begun, draft, ahead=now - time.time())

        return self._db.find_as(make, sql.WAITING, {**as_fields(claim), "limit": limit})

    def note_draft(self, turn: str, message: str) -> None:
        """What the chat of a turn (`conversation#seq`) is shown of its answer stands there under this id: whoever goes
        on with the turn finds it."""
        conversation, _, seq = turn.rpartition("#")
        self._db.run(Sql(sql.NOTE_DRAFT, {"conversation": conversation, "seq": int(seq), "message": clean(message)}))

    def inbox_since(
        self, conversation: str, after: int, limit: int = 100, read: Callable[[str], Any] = str
    ) -> list[tuple[int, Any]]:
        """What was said in the conversation after this seq, done or not: seq and body. In the place of one that `read`
        cannot read stands a word that it is lost."""
        name = clean(conversation)
        wanted = {"conversation": name, "after": after, "limit": limit}
        return self._db.find_as(
            lambda row: (row[0], read_text("inbox", (name, row[0]), row[1], read)), sql.INBOX_SINCE, wanted
        )

    def times(self, conversation: str, first: int, last: int) -> dict[int, MessageTimes]:
        """When what was said from one seq to another came, and when its turns began."""
        wanted = {"conversation": clean(conversation), "first": first, "last": last}
        return {seq: MessageTimes(accepted, begun) for seq, accepted, begun in self._db.find(sql.INBOX_TIMES, wanted)}

    def count_rows(self, conversation: str, seq: int) -> int:
        """How many rows a turn has written so far, in all its attempts."""
        ((count,),) = self._db.find(sql.COUNT_ROWS, {"conversation": clean(conversation), "seq": seq})
        return int(count)

    def open_seqs(self, conversation: str) -> list[int]:
        """The messages that are not dealt with yet, in order."""
        wanted = {"conversation": clean(conversation)}
        return [seq for (seq,) in self._db.find(sql.OPEN_SEQS, wanted)]

    def latest(self, conversation: str) -> tuple[int, int]:
        """The newest outbox row and the newest seq of the conversation; 0 where there is none."""
        wanted = {"conversation": clean(conversation)}
        ((row, seq),) = self._db.find(sql.LATEST, wanted)
        return int(row), int(seq)

    def standings(self, conversations: Sequence[str]) -> dict[str, ConversationStand]:
        """How far each of these has come that has begun."""
        found: dict[str, ConversationStand] = {}
        names = [clean(one) for one in conversations]
        for start in range(0, len(names), MOST_AT_ONCE):
            some = names[start : start + MOST_AT_ONCE]
            # A few lengths, so that an engine meets the same few statements again and again.
            wanted = some + some[-1:] * ((1 << (len(some) - 1).bit_length()) - len(some))
            marks = ", ".join("?" * len(wanted))
            batch = [Sql(one.format(marks), wanted) for one in (sql.OPEN_MESSAGES, sql.STANDINGS)]
            opened, stands = self._db.read(lambda db, batch=batch: db.run(*batch))  # type: ignore[misc]
            seqs: dict[str, set[int]] = {}
            for name, seq in opened.rows:
                seqs.setdefault(name, set()).add(seq)
            found |= {
                name: ConversationStand(epoch, frozenset(seqs.get(name, ())), row, session, version)
                for name, epoch, row, session, version in stands.rows
            }
        return found

    def depth(self) -> tuple[int, int]:
        """Messages that wait in the inbox, and in the outbox."""
        ((inbox, outbox),) = self._db.find(sql.COUNT_OPEN)
        return inbox, outbox

    def sweep(self, before: float, limit: int) -> int:
        """Delete at most `limit` rows that were over before then, the oldest first, and say how many: messages that are
        dealt with, answers that were sent or given up, control messages that were taken, questions that are closed.
        What is open stays, however old; no number is given twice. Leases stay, too: their epochs are fences."""
        return self._db.write(lambda db: retention_sql.sweep(db, before, limit))

    def mentioned(self, words: Collection[str]) -> set[str]:
        """Which of these words occur in a message that is kept, come in or going out, dealt with or not."""
        found: set[str] = set()
        for query, key in retention_sql.PAGES_OF_BODIES:
            while page := self._db.find(query, (*key, PAGE)):
                found.update(word for word in words if any(word in body for body, *_ in page))
                _, *key = page[-1]
        return found

    # --- a turn

    def begin(
        self,
        claim: Claim,
        seqs: Sequence[int],
        going_on: Outgoing | None = None,
        choices: Mapping[str, Any] | None = None,
        person: str = "",
        files_of: str | None = None,
    ) -> BegunTurn | None:
        """One turn for these messages; counts the attempt. None when one of them is done already. With `choices`, those
        of the conversation are replaced, as by `choose`; `person` is who speaks. `files_of` asks for the revisions of
        what a turn for that person reads (empty: the owner).

        A second or third attempt puts `going_on` into the outbox. After MAX_ATTEMPTS, or FRESH_SECONDS after the first
        one, the turn comes back with `given_up`, and nothing is told: the caller closes it by `complete`.
        """
        wanted = sorted(set(seqs))
        chosen = [] if choices is None else [_set_choices(claim.conversation, choices)]
        folders = [] if files_of is None else [Sql(sql.GET_REVISIONS, {"person": clean(files_of)})]

        def begin(db: Transaction) -> BegunTurn:
            _, current, notes, habits, *found = db.run(
                check_claim(claim),
                Sql(statements.GET_STANDING, (claim.conversation,)),
                Sql(GET_NOTES, (claim.conversation,)),
                Sql(GET_TIMEZONE, (clean(person), clean(person))),
                *(Sql(sql.BEGIN_MESSAGE, name_message(claim, seq), NothingDone) for seq in wanted),
                *folders,
                *chosen,
            )
            if not wanted:
                raise NothingDone
            turn = turn_rules.start_turn(
                [BegunMessage(*one.rows[0]) for one in found[: len(wanted)]],
                current.rows[0] if current.rows else ("", 0),
                tuple(HeardNote(*row) for row in notes.rows),
                habits.rows[0][0] if person and habits.rows else "",
            )
            if folders:
                turn = replace(turn, revisions=dict(found[len(wanted)].rows))
            if going_on is not None and turn.attempt > 1 and not turn.given_up:
                db.run(*add_answers(claim.conversation, turn.seq, [going_on]))
            return turn

        try:
            return self._db.write(begin)
        except NothingDone:
            return None

    def append(self, claim: Claim, seq: int, written: Written, usage: Sequence[UsageRow] = ()) -> int:
        """Finished rows in mid-turn with their calls' usage; the new version. Messages named by `Row.inbox` are marked
        as taken in the same transaction."""
        rows = [records.write_row(row) for row in written.rows]

        def append(db: Transaction) -> None:
            head, mark = _find_own_head(db, claim, written.session), steps.TurnMark(seq, claim.epoch)
            db.run(*steps.append_rows(db, head, written, rows, usage, mark), *_mark_taken(claim, written.rows))

        self._db.write(append)
        return written.base + len(rows)

    def rotate(self, claim: Claim, seq: int, written: Written, reason: str) -> SessionInfo:
        """As `Store.rotate`, by the owner."""
        rows = [records.write_row(row) for row in written.rows]

        def rotate(db: Transaction) -> SessionInfo:
            head = _find_own_head(db, claim, written.session)
            db.run(*_mark_taken(claim, written.rows))
            mark = steps.TurnMark(seq, claim.epoch)
            return steps.rotate_session(db, head, written, rows, reason, mark)

        return self._db.write(rotate)

    def step(self, claim: Claim, seq: int, n: int, kind: str, body: Mapping[str, Any]) -> None:
        """What is not a message: a tool started, a tool ended, a marker. Repeating a number replaces it."""
        row = {"n": n, "epoch": claim.epoch, "kind": clean(kind), "body": turn_rules.write_body(body)}
        self._db.run(check_claim(claim), Sql(sql.SET_STEP, {**name_message(claim, seq), **row}))

    def steps(self, conversation: str, seq: int) -> list[Step]:
        """What a predecessor had done in the turn."""
        name = clean(conversation)

        def make(row: tuple[Any, ...]) -> Step:
            n, kind, raw = row
            return Step(n, kind, decode("turn_step", (name, seq, n), raw, as_object))

        return self._db.find_as(make, sql.GET_STEPS, {"conversation": name, "seq": seq})

    def keep_shown(self, claim: Claim, seq: int, shown: Mapping[str, Any]) -> bool:
        """What a turn has shown so far stands with its steps, and goes with them; False: the claim does not hold any
        more, or the turn is over."""
        body = turn_rules.write_body(shown)
        return self._db.run(Sql(sql.KEEP_SHOWN, {**as_fields(claim), "seq": seq, "body": body}))[0].changed > 0

    def find_shown(self, conversation: str, seq: int) -> tuple[int, Mapping[str, Any]] | None:
        """The epoch under which that was kept, and what."""
        name = clean(conversation)
        found = self._db.find_as(
            lambda row: (int(row[0]), decode("turn_step", (name, seq, 0), row[1], as_object)),
            sql.GET_SHOWN,
            {"conversation": name, "seq": seq},
        )
        return found[0] if found else None

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
        rows = [records.write_row(row) for row in written.rows] if written else []
        version = written.base + len(rows) if written and rows else None

        def complete(db: Transaction) -> None:
            look = [] if written is None else [_look_at_own(claim, written.session)]
            closed, heads = _close_messages(db, claim, seqs, look)
            if not closed:
                return
            turn, conversation = min(seqs), claim.conversation
            if written is not None:
                head, mark = _read_own_head(claim, written.session, heads[0]), steps.TurnMark(turn, claim.epoch)
                told = [*steps.append_rows(db, head, written, rows, usage, mark), *_mark_taken(claim, written.rows)]
            else:
                told = _charge(db, claim, turn, usage)
            db.run(
                *told,
                *(Sql(sql.DELETE_STEPS, name_message(claim, seq)) for seq in closed),
                Sql(sql.COUNT_OUT, {**as_fields(claim), "closed": len(closed)}, partial(turn_rules.fenced, claim)),
                *add_answers(conversation, turn, answers),
                *(_end_current(conversation, end_session) if end_session else ()),
                *(steps.go_on_in(go_on_in, conversation, statements.SET_CURRENT) if go_on_in else ()),
            )

        self._db.write(complete)
        return version

    def fail(self, claim: Claim, seq: int, error: str, retry_at: float) -> None:
        """The turn could not be run; this message waits until then (database clock). Later ones do not wait for it, so
        a turn of several messages fails them one by one."""
        postponed = {**name_message(claim, seq), "error": clean(error), "retry_at": retry_at}
        self._db.run(check_claim(claim), Sql(sql.POSTPONE, postponed))

    # --- choices

    def choices(self, conversation: str) -> dict[str, Any]:
        return self.choices_and_person(conversation)[0]

    def choices_and_person(self, conversation: str) -> tuple[dict[str, Any], str]:
        """The same, and whose the conversation is (empty: the owner's)."""
        key = clean(conversation)
        found = self._db.find_as(
            lambda row: (decode("conversation", (key,), row[0], as_object), str(row[1])),
            sql.GET_CHOICES,
            {"conversation": key},
        )
        return found[0] if found else ({}, "")

    def choose(self, conversation: str, choices: Mapping[str, Any]) -> None:
        """Replace them all; creates the conversation if there is none."""
        key = clean(conversation)
        self._db.run(Sql(statements.ADD_CONVERSATION, (key,)), _set_choices(key, choices))


# --- the steps of those calls, inside their transaction


def _note_heard(conversation: str, address: Address, message: str) -> Sql:
    place = {"chat": clean(address.chat), "thread": clean(address.thread), "kind": clean(address.kind)}
    row = {"account": clean(address.account_key), "conversation": conversation, "message": clean(message), **place}
    return Sql(sql.SET_LAST_HEARD, row)


def name_message(claim: Claim, seq: int) -> dict[str, Any]:
    return {"conversation": claim.conversation, "seq": seq}


def check_claim(claim: Claim) -> Sql:
    """Fenced unless the claim still holds; the first statement of every write of an owner."""
    return Sql(sql.FENCE, as_fields(claim), partial(turn_rules.fenced, claim))


def _close_messages(
    db: Transaction, claim: Claim, seqs: Sequence[int], beside: Sequence[Sql]
) -> tuple[list[int], list[Found]]:
    """Close those of the messages that are open, and say which. The others were closed under this claim before: the
    call is the repetition of one whose reply was lost. And what was asked beside it."""
    wanted = sorted(set(seqs))
    named = as_fields(claim)
    both = db.run(*(Sql(sql.CLOSE_MESSAGE, {**named, "seq": seq}) for seq in wanted), *beside)
    found, others = both[: len(wanted)], both[len(wanted) :]
    closed = [seq for seq, one in zip(wanted, found, strict=True) if one.changed]
    if len(closed) == len(wanted) > 0:
        return closed, others
    _, *found = db.run(
        check_claim(claim),
        *(
            Sql(
                sql.GET_DONE,
                name_message(claim, seq),
                partial(turn_rules.no_message, claim.conversation, seq),
            )
            for seq in wanted
        ),
    )
    turn_rules.check_closed(claim, {seq: one.rows[0][0] for seq, one in zip(wanted, found, strict=True)})
    return closed, others


def _find_own_head(db: Transaction, claim: Claim, session: str) -> steps.Head:
    """Where a session stands, for the owner of its conversation."""
    return _read_own_head(claim, session, db.run(_look_at_own(claim, session))[0])


def _look_at_own(claim: Claim, session: str) -> Sql:
    wanted = {**as_fields(claim), "session": session}
    return Sql(statements.GET_OWN_HEAD, wanted, partial(turn_rules.fenced, claim))


def _read_own_head(claim: Claim, session: str, found: Found) -> steps.Head:
    """A claim gives no right to write to another's session."""
    if found.rows[0][0] is None:
        raise records.missing(session)
    if found.rows[0][0] != claim.conversation:
        raise records.foreign(session, claim.conversation)
    return steps.Head(*found.rows[0])


def _end_current(conversation: str, reason: str) -> list[Sql]:
    ended = Sql(statements.END_CURRENT, (clean(reason), conversation))
    rules = Sql(statements.END_RULES_OF_CURRENT, (conversation,))
    return [ended, rules, Sql(statements.SET_CURRENT, (None, conversation))]


def _set_choices(conversation: str, choices: Mapping[str, Any]) -> Sql:
    return Sql(sql.SET_CHOICES, {"conversation": conversation, "choices": turn_rules.write_body(choices)})


def _mark_taken(claim: Claim, rows: Sequence[Row]) -> list[Sql]:
    return [
        Sql(sql.TAKE_MESSAGE, name_message(claim, seq)) for seq in sorted({seq for row in rows for seq in row.inbox})
    ]


def _charge(db: Transaction, claim: Claim, seq: int, usage: Sequence[UsageRow]) -> list[Sql]:
    """Calls of a turn that wrote no rows stand under the session that the conversation goes on in."""
    if not usage:
        return []
    current = steps.find_info(db, statements.GET_CURRENT, claim.conversation)
    mark = steps.NO_TURN if current is None else steps.TurnMark(seq, claim.epoch)
    return steps.add_usage(steps.find_owner(db, "" if current is None else current.id), usage, mark)
