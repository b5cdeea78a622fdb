"""Messages and turns: every call is one transaction, and an owner's begins with the check of its claim."""

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import Any

from hermes_base.inbound import Outgoing
from hermes_base.journal import Row, Step, UsageRow
from hermes_state import records, turn_rules
from hermes_state.damage import as_object, decode, read_text
from hermes_state.sql import retention_sql, statements
from hermes_state.sql import session_steps as steps
from hermes_state.sql import turn_statements as sql
from hermes_state.sql.outbox import Outbox, add_answers
from hermes_state.sql.ownership import Ownership, check_claim, claim_free, name_claim
from hermes_state.store import SessionInfo
from hermes_state.texts import clean
from hermes_state.turn_rules import AcceptedMessage
from hermes_state.turns import BegunTurn, Claim, Waiting, Written

PAGE = 500


class TurnStore(Ownership, Outbox):
    """The part of a store on who works on what; the calls raise as those of `Store` do."""

    # --- messages

    def accept(self, conversation: str, account: str, ext_id: str, body: str, node: str = "") -> int | None:
        """Store a message durably; its place in the conversation, or None when it was seen before.

        With `node`, a conversation without a living owner is claimed for it in the same transaction.
        """
        name = clean(conversation)
        row = {"conversation": name, "account": clean(account), "ext_id": clean(ext_id), "body": clean(body)}
        with self._db.write() as db:
            if db.execute(sql.SEEN, row).fetchone() is not None:
                return None
            now = self._clock()
            db.execute(statements.ADD_CONVERSATION, (name,))
            seq = int(db.execute(sql.COUNT_IN, {"conversation": name, "now": now}).fetchone()[0])
            db.execute(sql.ADD_MESSAGE, {**row, "seq": seq, "now": now})
            if node:
                claim_free(db, node, name, now)
            return seq

    def find_message(self, account: str, stem: str) -> list[tuple[int, bool, bool]]:
        """The stored revisions of a message (ext_id is `stem/` and a revision without a stroke) in order: seq, whether
        a turn was begun, done."""
        first = clean(stem) + "/"
        wanted = {"account": clean(account), "first": first, "end": first[:-1] + "0", "length": len(first)}
        found = self._db.read(lambda db: db.execute(sql.FIND_REVISIONS, wanted).fetchall())
        return [(seq, bool(begun), bool(done)) for seq, begun, done in found]

    def waiting(self, claim: Claim, limit: int = 200, check: Callable[[str], object] = str) -> list[Waiting]:
        """The open messages in order, the first `limit` of them, without those that wait for their `retry_at`; none
        when the claim does not hold any more. A message that `check` cannot read was damaged on the disk: it is set
        aside, its sender is told, and it is not among them."""
        wanted = {**name_claim(claim), "now": self._clock(), "limit": limit}
        return self._db.read(
            lambda db: [
                Waiting(seq, _read_message(claim.conversation, seq, raw, check), attempts, bool(taken), accepted, begun)
                for seq, raw, attempts, taken, accepted, begun in db.execute(sql.WAITING, wanted).fetchall()
            ]
        )

    def inbox_since(
        self, conversation: str, after: int, limit: int = 100, check: Callable[[str], object] = str
    ) -> list[tuple[int, str]]:
        """What was said in the conversation after this seq, done or not: seq and body. In the place of one that `check`
        cannot read stands a word that it is lost."""
        name = clean(conversation)
        wanted = {"conversation": name, "after": after, "limit": limit}
        return self._db.read(
            lambda db: [
                (seq, _read_message(name, seq, raw, check))
                for seq, raw in db.execute(sql.INBOX_SINCE, wanted).fetchall()
            ]
        )

    def open_seqs(self, conversation: str) -> list[int]:
        """The messages that are not dealt with yet, in order."""
        wanted = {"conversation": clean(conversation)}
        return [seq for (seq,) in self._db.read(lambda db: db.execute(sql.OPEN_SEQS, wanted).fetchall())]

    def latest(self, conversation: str) -> tuple[int, int]:
        """The newest outbox row and the newest seq of the conversation; 0 where there is none."""
        wanted = {"conversation": clean(conversation)}
        row, seq = self._db.read(
            lambda db: (db.execute(sql.LATEST_ROW, wanted).fetchone(), db.execute(sql.LATEST_SEQ, wanted).fetchone())
        )
        return int(row[0]), 0 if seq is None else int(seq[0])

    def depth(self) -> tuple[int, int]:
        """Messages that wait in the inbox, and in the outbox."""
        return self._db.read(
            lambda db: (db.execute(sql.COUNT_INBOX).fetchone()[0], db.execute(sql.COUNT_OUTBOX).fetchone()[0])
        )

    def sweep(self, before: float, limit: int) -> int:
        """Delete at most `limit` rows that were over before then, the oldest first, and say how many: messages that are
        dealt with, answers that were sent or given up, control messages that were taken, questions that are closed.
        What is open stays, however old; no number is given twice. Leases stay, too: their epochs are fences."""
        with self._db.write() as db:
            return retention_sql.sweep(db, before, limit)

    def mentioned(self, words: Collection[str]) -> set[str]:
        """Which of these words occur in a message that is kept, come in or going out, dealt with or not."""
        found: set[str] = set()
        for query in retention_sql.PAGES_OF_BODIES:
            last = 0
            while page := self._db.read(partial(_read_page, query, last)):
                found.update(word for word in words if any(word in body for _, body in page))
                last = page[-1][0]
        return found

    # --- a turn

    def begin(
        self,
        claim: Claim,
        seqs: Sequence[int],
        going_on: Outgoing | None = None,
        choices: Mapping[str, Any] | None = None,
    ) -> BegunTurn | None:
        """One turn for these messages; counts the attempt. None when one of them is done already. With `choices`, those
        of the conversation are replaced, as by `choose`.

        A second or third attempt puts `going_on` into the outbox. After MAX_ATTEMPTS, or FRESH_SECONDS after the first
        one, the turn comes back with `given_up`, and nothing is told: the caller closes it by `complete`.
        """
        with self._db.write() as db:
            check_claim(db, claim)
            now = self._clock()
            messages = [_find_message(db, claim, seq) for seq in turn_rules.sort_seqs(seqs)]
            turn = turn_rules.start_turn([message for message in messages if message is not None], now)
            if turn is None or None in messages:
                return None
            db.executemany(sql.BEGIN_MESSAGE, [{**name_message(claim, seq), "now": now} for seq in turn.seqs])
            if going_on is not None and turn.attempt > 1 and not turn.given_up:
                add_answers(db, claim.conversation, turn.seq, [going_on], now)
            if choices is not None:
                _set_choices(db, claim.conversation, choices)
            return turn

    def append(self, claim: Claim, seq: int, written: Written, usage: Sequence[UsageRow] = ()) -> int:
        """Finished rows in mid-turn with their calls' usage; the new version. Messages named by `Row.inbox` are marked
        as taken in the same transaction."""
        batch = records.write_batch(written.rows)
        with self._db.write() as db:
            check_claim(db, claim)
            return _append(db, claim, seq, written, batch, usage)

    def rotate(self, claim: Claim, seq: int, written: Written, reason: str) -> SessionInfo:
        """As `Store.rotate`, by the owner."""
        batch = records.write_batch(written.rows)
        with self._db.write() as db:
            check_claim(db, claim)
            _check_session(db, claim, written.session)
            _keep_frozen(db, written)
            mark = steps.TurnMark(seq, claim.epoch)
            child = steps.rotate_session(db, batch, turn_rules.name_place(written), reason, mark=mark)
            _mark_taken(db, claim, written.rows)
            return child

    def step(self, claim: Claim, seq: int, n: int, kind: str, body: Mapping[str, Any]) -> None:
        """What is not a message: a tool started, a tool ended, a marker. Repeating a number replaces it."""
        row = {"n": n, "epoch": claim.epoch, "kind": clean(kind), "body": turn_rules.write_body(body)}
        with self._db.write() as db:
            check_claim(db, claim)
            db.execute(sql.SET_STEP, {**name_message(claim, seq), **row})

    def steps(self, conversation: str, seq: int) -> list[Step]:
        """What a predecessor had done in the turn."""
        turn = clean(conversation), seq
        wanted = {"conversation": turn[0], "seq": seq}
        return self._db.read(
            lambda db: [
                Step(n, kind, decode("turn_step", (*turn, n), raw, as_object))
                for n, kind, raw in db.execute(sql.GET_STEPS, wanted).fetchall()
            ]
        )

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
        batch = records.write_batch(written.rows if written else ())
        version = written.base + len(batch.rows) if written and batch.rows else None
        with self._db.write() as db:
            check_claim(db, claim)
            closing = turn_rules.pick_open(claim, _get_done(db, claim, seqs))
            if not closing:
                return version
            turn = min(seqs)
            if written is not None:
                _append(db, claim, turn, written, batch, usage)
            else:
                _charge(db, claim, turn, usage)
            named = [name_message(claim, seq) for seq in closing]
            done = {"epoch": claim.epoch, "now": self._clock()}
            db.executemany(sql.CLOSE_MESSAGE, [{**name, **done} for name in named])
            db.executemany(sql.DELETE_STEPS, named)
            db.execute(sql.COUNT_OUT, {"conversation": claim.conversation, "closed": len(named)})
            if answers:
                add_answers(db, claim.conversation, turn, answers, self._clock())
            if end_session:
                current = steps.find_info(db, statements.GET_CURRENT, claim.conversation)
                if current is not None:
                    steps.end_session(db, current.id, claim.conversation, end_session)
            if go_on_in:
                steps.go_on_in(db, go_on_in, claim.conversation, statements.SET_CURRENT)
        return version

    def fail(self, claim: Claim, seq: int, error: str, retry_at: float) -> None:
        """The turn could not be run; this message waits until then (database clock). Later ones do not wait for it, so
        a turn of several messages fails them one by one."""
        with self._db.write() as db:
            check_claim(db, claim)
            db.execute(sql.POSTPONE, {**name_message(claim, seq), "error": clean(error), "retry_at": retry_at})

    # --- choices

    def choices(self, conversation: str) -> dict[str, Any]:
        key = clean(conversation)
        found = self._db.read(
            lambda db: [
                decode("conversation", (key,), raw, as_object)
                for (raw,) in db.execute(sql.GET_CHOICES, {"conversation": key}).fetchall()
            ]
        )
        return found[0] if found else {}

    def choose(self, conversation: str, choices: Mapping[str, Any]) -> None:
        """Replace them all; creates the conversation if there is none."""
        with self._db.write() as db:
            db.execute(statements.ADD_CONVERSATION, (clean(conversation),))
            _set_choices(db, clean(conversation), choices)


# --- the steps of those calls, inside their transaction


def _read_message(conversation: str, seq: int, raw: bytes, check: Callable[[str], object]) -> str:
    read_text("inbox", (conversation, seq), raw, check)
    return raw.decode()


def _read_page(query: str, last: int, db: sqlite3.Connection) -> list[tuple[int, str]]:
    return db.execute(query, (last, PAGE)).fetchall()


def name_message(claim: Claim, seq: int) -> dict[str, Any]:
    return {"conversation": claim.conversation, "seq": seq}


def _find_message(db: sqlite3.Connection, claim: Claim, seq: int) -> AcceptedMessage | None:
    found = db.execute(sql.GET_MESSAGE, name_message(claim, seq)).fetchone()
    if found is None:
        return None
    attempts, taken, begun, done_epoch = found
    return AcceptedMessage(seq, attempts, bool(taken), begun, done_epoch)


def _get_done(db: sqlite3.Connection, claim: Claim, seqs: Sequence[int]) -> dict[int, int | None]:
    """Under which epoch each message was closed; StoreFailure when there is no such message."""
    done: dict[int, int | None] = {}
    for seq in turn_rules.sort_seqs(seqs):
        message = _find_message(db, claim, seq)
        if message is None:
            raise turn_rules.no_message(claim.conversation, seq)
        done[seq] = message.done_epoch
    return done


def _append(
    db: sqlite3.Connection,
    claim: Claim,
    seq: int,
    written: Written,
    batch: records.Batch,
    usage: Sequence[UsageRow],
) -> int:
    _check_session(db, claim, written.session)
    _keep_frozen(db, written)
    mark = steps.TurnMark(seq, claim.epoch)
    version = steps.append_batch(db, batch, turn_rules.name_place(written), usage, mark=mark)
    _mark_taken(db, claim, written.rows)
    return version


def _keep_frozen(db: sqlite3.Connection, written: Written) -> None:
    for place, dialect, body in written.frozen:
        steps.keep_encoded(db, written.session, place, dialect, body)


def _set_choices(db: sqlite3.Connection, conversation: str, choices: Mapping[str, Any]) -> None:
    db.execute(sql.SET_CHOICES, {"conversation": conversation, "choices": turn_rules.write_body(choices)})


def _check_session(db: sqlite3.Connection, claim: Claim, session: str) -> None:
    """A claim is on one conversation, and gives no right to write to another's session."""
    if steps.get_head(db, session).conversation != claim.conversation:
        raise records.foreign(session, claim.conversation)


def _mark_taken(db: sqlite3.Connection, claim: Claim, rows: Sequence[Row]) -> None:
    db.executemany(sql.TAKE_MESSAGE, [name_message(claim, seq) for seq in turn_rules.list_taken(rows)])


def _charge(db: sqlite3.Connection, claim: Claim, seq: int, usage: Sequence[UsageRow]) -> None:
    """Calls of a turn that wrote no rows stand under the session that the conversation goes on in."""
    if not usage:
        return
    current = steps.find_info(db, statements.GET_CURRENT, claim.conversation)
    session = "" if current is None else current.id
    mark = None if current is None else steps.TurnMark(seq, claim.epoch)
    steps.add_usage(db, session, steps.find_head(db, session), usage, mark)
