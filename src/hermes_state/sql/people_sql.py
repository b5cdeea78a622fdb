"""People: every call is one transaction on the store's own file."""

import hashlib
import json
from collections.abc import Collection, Sequence
from dataclasses import asdict, astuple
from functools import partial
from typing import Any

from hermes_state import people_records as rules
from hermes_state.approval_store import KeptAnswer
from hermes_state.damage import as_object, as_texts, decode
from hermes_state.people_store import (
    ADMIN,
    ANSWERED,
    MAX_PAIRINGS,
    MEMBER,
    OWNER,
    PAIRING_SECONDS,
    Forgotten,
    Identity,
    Pairing,
    Person,
    QuestionRow,
)
from hermes_state.sql import search_index, statements
from hermes_state.sql.approvals_sql import (
    DELETE_RULES_BY,
    DELETE_RULES_IN,
    DELETE_RULES_OF,
    DELETE_RULES_OF_TASK,
    keep_rule,
)
from hermes_state.sql.damage_sql import check_role
from hermes_state.sql.engines.engine import Sql, StorePart, Transaction
from hermes_state.sql.files.files_sql import forget_files
from hermes_state.sql.shared.news_sql import PEOPLE, note_news
from hermes_state.texts import clean

_CHOICES = list(QuestionRow.__dataclass_fields__).index("choices")

# --- people
_PERSON = "p.id, p.name, bytes_of(p.role), p.created, p.by_settings"
FIND_PERSON = f"select {_PERSON} from identity i join person p on p.id = i.person where i.platform = ? and i.sender = ?"
GET_PERSON = f"select {_PERSON} from person p where p.id = ?"
LOCK_PERSON = f"{GET_PERSON} for update"
GET_OWNER = f"select {_PERSON} from person p where p.role = 'owner'"
GET_PEOPLE = f"select {_PERSON} from person p order by p.created, p.id"
ADD_PERSON = (
    "insert into person (id, name, role, created, by_settings) values (:id, :name, :role, :created, :by_settings) "
    "on conflict (id) do nothing"
)
SET_ROLE = "update person set role = ?, by_settings = ? where id = ?"
SET_NAME = "update person set name = ? where id = ?"
DELETE_PERSON = "delete from person where id = ?"
_IDENTITY = "platform, sender, person, listed, by_code"
GET_IDENTITIES = f"select {_IDENTITY} from identity order by person, platform, sender"
GET_IDENTITIES_OF = f"select {_IDENTITY} from identity where person = ? order by platform, sender"
ADD_IDENTITY = (
    f"insert into identity ({_IDENTITY}) values (:platform, :sender, :person, :listed, :by_code) "
    "on conflict (platform, sender) do update set listed = least(identity.listed, excluded.listed), "
    "by_code = least(identity.by_code, excluded.by_code) where identity.person = excluded.person"
)
IS_LET_IN = "select 1 from identity where platform = ? and sender = ? and listed = 0 and by_code = 0"
DELETE_IDENTITIES = "delete from identity where person = ?"
ADD_MARK = "insert into removed_identity (mark) values (?) on conflict (mark) do nothing"
DELETE_MARK = "delete from removed_identity where mark = ?"
HAS_MARK = "select 1 from removed_identity where mark = ?"

# --- requests of strangers
_PAIRING = "code, platform, sender, name, created, expires, chat, conversation"
GET_PAIRINGS = f"select {_PAIRING} from pairing where expires > clock() order by created, code"
GET_PAIRING_OF = f"select {_PAIRING} from pairing where platform = ? and sender = ? and expires > clock()"
COUNT_PAIRINGS = "select count(*) from pairing where platform = ? and expires > clock()"
ADD_PAIRING = f"insert into pairing ({_PAIRING}) values (?, ?, ?, ?, ?, ?, ?, ?) on conflict (code) do nothing"
DROP_OLD_PAIRINGS = "delete from pairing where expires <= clock()"
DROP_PAIRING = "delete from pairing where platform = ? and sender = ?"

# --- questions
_QUESTION = "id, conversation, turn, kind, text, choices, approver, node, created, expires, state, answer, answered_by"
_READ_QUESTION = _QUESTION.replace("choices", "bytes_of(choices)")
GET_QUESTION = f"select {_READ_QUESTION} from question where id = ?"
OPEN_QUESTIONS = (
    f"select {_READ_QUESTION} from question where conversation = ? and state = 'open' and expires > clock() "
    "order by created, id"
)
ADD_QUESTION = (
    f"insert into question ({_QUESTION}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) on conflict (id) do nothing"
)
CLOSE_QUESTION = "update question set state = ?, answer = ?, answered_by = ? where id = ? and state = 'open'"
EXPIRE_QUESTION = "update question set state = 'expired' where id = ? and state = 'open' and expires <= clock()"
VOID_QUESTION = "update question set state = 'void' where id = ? and state = 'open'"
_ORPHANED = (
    "state = 'open' and not exists (select 1 from node where node.id = question.node and node.expires > clock())"
)
HAS_ORPHANS = f"select 1 from question where {_ORPHANED} limit 1"
VOID_ORPHANS = f"update question set state = 'void' where {_ORPHANED} returning conversation, id"
DELETE_QUESTIONS_OF = "delete from question where approver = ?"
VOID_PERSON = "update question set state = 'void' where approver = ? and state = 'open'"

# --- keys of the API
REVOKE_KEYS = "update api_key set revoked = clock() where person = ? and revoked is null"
DELETE_KEYS = "delete from api_key where person = ?"
HAS_KEYS = "select 1 from api_key where person = ? limit 1"

# --- habits, and one person over several apps
DELETE_HABITS = "delete from habit where person = ?"
DELETE_CODES = "delete from link_code where person = ?"
#: What they did not ask for and was not sent yet, at home, in quiet hours or while an app is away, is not said (G3).
#: What is being sent at this moment is not sent again if that fails: its reader is nobody.
DROP_UNREAD = (
    "update outbox set reader = '-', reason = 'the person has no access any more', "
    "state = case when state = 'waiting' then 'failed' else state end, "
    "ended = case when state = 'waiting' then clock() end where reader = ? and ended is null and reader <> ''"
)
DROP_UNREAD_THERE = f"{DROP_UNREAD} and substr(account, 1, length(?) + 1) = ? || ':'"
MOVE_READER = "update outbox set reader = ? where reader = ? and ended is null and reader <> ''"
MOVE_HELD = "update outbox set held_for = ? where held_for = ? and ended is null and hold_until > 0"
DELETE_IDENTITY = "delete from identity where platform = ? and sender = ? and person = ?"
MOVE_IDENTITIES = "update identity set person = ?, by_code = greatest(by_code, listed) where person = ?"
MOVE_CONVERSATIONS = "update conversation set person = ? where person = ?"
HAS_SESSIONS = (
    "select 1 from conversation c join session s on s.conversation = c.id where c.person = ? and s.messages > 0 limit 1"
)

# --- what belongs to whom
PERSON_OF = "select person from conversation where id = ?"
CONVERSATIONS_OF = "select id from conversation where person = ? order by id"
LOCK_CONVERSATIONS_OF = f"{CONVERSATIONS_OF} for update"
#: Those in whose choices the name occurs at all.
CHOICES_WITH = "select id, bytes_of(choices) from conversation where choices like ? order by id"
SESSIONS_OF = "select id from session where conversation = ?"
COUNT_MESSAGES = "select count(*) from message where session = ?"
#: What hangs on a conversation, with the name under which it is counted (empty: not told).
DELETIONS: tuple[tuple[str, str], ...] = (
    ("inbox", "delete from inbox where conversation = ?"),
    ("outbox", "delete from outbox where conversation = ?"),
    ("", "delete from turn_step where conversation = ?"),
    ("", "delete from control where conversation = ?"),
    ("questions", "delete from question where conversation = ?"),
    ("", "delete from damaged where conversation = ?"),
    ("rules", DELETE_RULES_IN),
    ("", "delete from heard_note where conversation = ?"),
    ("", "delete from last_heard where conversation = ?"),
    ("", "delete from api_repeat where conversation = ?"),
)
FORGET_CALLS = (
    "update usage set conversation = '', session = '', task = '', turn = null, seq = null, call = null "
    "where conversation = ?"
)
FORGET_BREAKS = "update prefix_break set conversation = '', session = '', task = '' where conversation = ?"
#: What is left of who was forgotten: a hash, by which gateways know a folder that they have of them.
FORGOTTEN = "forgotten "
GET_FORGOTTEN = f"select key from meta where key >= '{FORGOTTEN}' and key < 'forgotten!' order by key"
DELETE_CONVERSATION = "delete from conversation where id = ?"

_MOVES_OF_JOINED = (MOVE_IDENTITIES, MOVE_CONVERSATIONS, MOVE_HELD, MOVE_READER)
_OF_REMOVED = (DELETE_IDENTITIES, DELETE_PERSON, VOID_PERSON, REVOKE_KEYS, DELETE_HABITS, DELETE_CODES, DROP_UNREAD)


class PeopleStore(StorePart):
    # --- people

    def find(self, platform: str, sender: str) -> Person | None:
        """Whom this identity belongs to; None: a stranger."""
        if not rules.is_identity(platform, sender):
            return None
        return self._find_person(FIND_PERSON, platform, sender)

    def get(self, person: str) -> Person | None:
        return self._find_person(GET_PERSON, person)

    def _find_person(self, query: str, *key: str) -> Person | None:
        found = self._db.find_as(_read_person, query, key)
        return found[0] if found else None

    def people(self) -> list[Person]:
        """The earliest first."""
        return self._db.find_as(_read_person, GET_PEOPLE)

    def identities(self, person: str | None = None) -> list[Identity]:
        """Those of one person, or all."""
        return self._db.read(lambda db: _list_identities(db, person))

    def add(self, name: str, role: str, platform: str, sender: str, *, listed: bool = False) -> Person:
        """A new person with this identity; StoreFailure when it is somebody's already, or for a second owner."""
        return self._db.write(lambda db: _add_person(db, name, role, platform, sender, listed))

    def link(self, person: str, platform: str, sender: str, *, listed: bool = False, by_code: bool = False) -> Person:
        """One more identity for a person; StoreFailure when it is another person's."""

        def link(db: Transaction) -> Person:
            found = _get_person(db, person)
            _add_identity(db, Identity(platform, sender, found.id, listed, by_code))
            return found

        return self._db.write(link)

    def part(self, identity: Identity, name: str, role: str) -> Person:
        """The identity is somebody else from now on: a new person with this name and role, by the settings."""

        def part(db: Transaction) -> Person:
            key = (identity.platform, identity.sender)
            db.run(Sql(DELETE_IDENTITY, (*key, identity.person), partial(rules.not_theirs, *key, identity.person)))
            return _add_person(db, name, role, *key, listed=True)

        return self._db.write(part)

    def unlink(self, person: str, platform: str, sender: str) -> Person:
        """Take one identity from a person; StoreFailure when they do not have it. Nobody comes in by it before they
        are let in again; the settings alone do not do that."""

        def unlink(db: Transaction) -> Person:
            found = _get_person(db, person)
            gone = Sql(DELETE_IDENTITY, (platform, sender, person), partial(rules.not_theirs, platform, sender, person))
            unread = Sql(DROP_UNREAD_THERE, (person, platform, platform))
            db.run(gone, Sql(ADD_MARK, (rules.mark_identity(platform, sender),)), unread, note_news(PEOPLE))
            return found

        return self._db.write(unlink)

    def find_forgotten(self, ids: Collection[str]) -> list[str]:
        """Which of these people and groups were forgotten and have not come back."""
        marks = {str(key) for (key,) in self._db.find(GET_FORGOTTEN)}
        gone = [id for id in ids if _mark_forgotten(id) in marks]
        return [id for id in gone if self.get(id) is None and not self.conversations_of(id)]

    def has_data(self, person: str) -> bool:
        """Whether conversations or keys of the API belong to them."""
        return bool(self._db.find(HAS_SESSIONS, (person,)) or self._db.find(HAS_KEYS, (person,)))

    def join(self, person: str, other: str) -> Person:
        """The other's identities are this person's from now on, and the other is gone; whoever asks for it has seen
        that the other has nothing to lose."""

        def join(db: Transaction) -> Person:
            found = _get_person(db, person)
            _get_person(db, other)
            db.run(*(Sql(move, (person, other)) for move in _MOVES_OF_JOINED))
            _remove_person(db, other)
            return found

        return self._db.write(join)

    def set_role(self, person: str, role: str, *, by_settings: bool = False) -> Person:
        """By a command, or by the settings. Rules that they made go with the right to make them (G4), and what they
        would have been told as the owner with being it (G3)."""

        return self._db.write(lambda db: _set_role(db, person, role, by_settings=by_settings))

    def remove(self, person: str) -> Person:
        """The person and their identities go, their open questions are void, their API keys hold no more, nor do rules
        for their turns and rules that they made; their data stays (G3). The settings do not bring a removed identity
        back; an approval does."""

        def remove(db: Transaction) -> Person:
            found = _get_person(db, person)
            _remove_person(db, person)
            return found

        return self._db.write(remove)

    def is_removed(self, platform: str, sender: str) -> bool:
        """Whether this identity was somebody's who was removed, and nobody let it in again."""
        mark = rules.mark_identity(platform, sender)
        return bool(self._db.find(HAS_MARK, (mark,)))

    # --- requests of strangers

    def pair(self, platform: str, sender: str, name: str, chat: str, conversation: str = "") -> Pairing | None:
        """The open request of this identity, made if there is none; None for one that was let in by itself, for none at
        all, and while MAX_PAIRINGS requests are open on the platform. Whom the settings or another identity let in, the
        caller has seen them let in no more."""
        if not rules.is_identity(platform, sender):
            return None

        place = (clean(chat), clean(conversation))

        def pair(db: Transaction) -> Pairing | None:
            _, let_in, known, (((open_ones,),), _) = db.run(
                Sql(DROP_OLD_PAIRINGS),
                Sql(IS_LET_IN, (platform, sender)),
                Sql(GET_PAIRING_OF, (platform, sender)),
                Sql(COUNT_PAIRINGS, (platform,)),
            )
            if let_in.rows:
                return None
            if known.rows:
                return Pairing(*known.rows[0])
            if open_ones >= MAX_PAIRINGS:
                return None
            shown, now = rules.clean_name(name, sender), db.now()
            while True:  # until there is a code that no other open one has
                columns = (rules.make_code(), platform, sender, shown, now, now + PAIRING_SECONDS, *place)
                if db.execute(ADD_PAIRING, columns).changed:
                    return Pairing(*columns, fresh=True)

        return self._db.write(pair)

    def pairings(self) -> list[Pairing]:
        """The open ones, the earliest first."""
        return [Pairing(*row) for row in self._db.find(GET_PAIRINGS)]

    def approve(self, code: str, role: str = MEMBER, name: str = "") -> Person:
        """Make a person of the request with this code, which is used up; StoreFailure when there is none. Who had this
        identity alone is the same person again; one of several becomes somebody of its own (G3)."""

        def approve(db: Transaction) -> Person:
            pairing = rules.pick_pairing(code, (Pairing(*row) for row in db.execute(GET_PAIRINGS).rows))
            if pairing is None:
                raise rules.wrong_code()
            key = (pairing.platform, pairing.sender)
            known = _find_person(db, FIND_PERSON, *key)
            if known is not None and len(_list_identities(db, known.id)) == 1:
                _add_identity(db, Identity(*key, known.id))
                if name:
                    db.execute(SET_NAME, (rules.clean_name(name, pairing.sender), known.id))
                return _set_role(db, known.id, role, by_settings=False)
            if known is not None:
                db.execute(DELETE_IDENTITY, (*key, known.id))
            return _add_person(db, name or pairing.name, role, *key, listed=False)

        return self._db.write(approve)

    # --- questions

    def ask(self, question: QuestionRow) -> None:
        """Keep an open question; `created` is given by the store."""

        def ask(db: Transaction) -> None:
            kept = rules.complete_question(question, db.now())
            columns = list(astuple(kept))
            columns[_CHOICES] = json.dumps(kept.choices)
            db.run(Sql(ADD_QUESTION, columns, partial(rules.asked_already, kept.id)))

        self._db.write(ask)

    def close_question(self, question: str, answer: str, by: str, keep: KeptAnswer | None = None) -> bool:
        """Note the answer, once; False when the question is not open any more, or has expired. The rule that is made of
        an answer is kept with it or not at all."""

        def close(db: Transaction) -> bool:
            _, closed = db.run(
                Sql(EXPIRE_QUESTION, (question,)),
                Sql(CLOSE_QUESTION, (ANSWERED, clean(answer), clean(by), question)),
            )
            if closed.changed == 1 and keep is not None:
                keep_rule(db, keep, by)
            return closed.changed == 1

        return self._db.write(close)

    def open_questions(self, conversation: str) -> list[QuestionRow]:
        """The earliest first; expired ones are left out."""
        return self._db.find_as(_read_question, OPEN_QUESTIONS, (clean(conversation),))

    def question(self, question: str) -> QuestionRow | None:
        found = self._db.find_as(_read_question, GET_QUESTION, (question,))
        return found[0] if found else None

    def void_question(self, question: str) -> bool:
        """Nobody waits for the answer any more; False when it was not open."""
        return self._db.run(Sql(VOID_QUESTION, (question,)))[0].changed == 1

    def void_orphans(self) -> list[tuple[str, str]]:
        """The same for what processes asked that do not live any more; conversation and id of each."""
        if not self._db.find(HAS_ORPHANS):
            return []
        (voided,) = self._db.run(Sql(VOID_ORPHANS))
        return [(str(conversation), str(id)) for conversation, id in voided.rows]

    # --- what belongs to whom

    def assign(self, conversation: str, person: str) -> str:
        """Give a conversation that is nobody's to a person; whose it is now. One that has a person keeps it."""
        key = clean(conversation)
        *_, found = self._db.run(
            Sql(statements.ADD_CONVERSATION, (key,)),
            Sql(statements.ASSIGN, (clean(person), key)),
            Sql(PERSON_OF, (key,)),
        )
        return str(found.rows[0][0])

    def person_of(self, conversation: str) -> str:
        """Whose the conversation is; empty: the owner's."""
        found = self._db.find(PERSON_OF, (clean(conversation),))
        return str(found[0][0]) if found else ""

    def conversations_of(self, person: str) -> Sequence[str]:
        return [str(key) for (key,) in self._db.find(CONVERSATIONS_OF, (person,))]

    def spoken_last_by(self, person: str) -> Sequence[str]:
        """Conversations in which this person spoke last, whosesoever they are (the choice `person`). It reads all
        conversations, so it is for what happens rarely."""
        name = clean(person)
        return [str(key) for key, raw in self._db.find(CHOICES_WITH, (f"%{name}%",)) if _spoke_last(raw) == name]

    def forget(self, person: str) -> Forgotten:
        """Delete what belongs to a person, and the person: sessions with rows, search entries and blobs nobody else
        uses, messages that came in and went out in their conversations, identities, requests, questions, API keys,
        kept approvals. Calls stay in the ledger without the names of conversation and session (G12)."""
        rules.check_person(person)

        def forget(db: Transaction) -> Forgotten:
            forgotten = _forget(db, person)
            if search_index.find_reach(db) is not None:
                db.execute(statements.TIDY_SEARCH)
            return forgotten

        forgotten = self._db.write(forget)
        self._db.engine.empty_log()
        return forgotten


# --- the steps of those calls, inside their transaction


def _mark_forgotten(person: str) -> str:
    return FORGOTTEN + hashlib.sha256(person.encode()).hexdigest()


def _add_person(db: Transaction, name: str, role: str, platform: str, sender: str, listed: bool) -> Person:
    rules.check_identity(platform, sender)
    _check_role(db, role)
    known = _find_person(db, FIND_PERSON, platform, sender)
    if known is not None:
        raise rules.taken_identity(platform, sender, known.id)
    shown, now = rules.clean_name(name, sender), db.now()
    columns = {"name": shown, "role": role, "created": now, "by_settings": int(listed)}
    person = rules.make_person_id()
    while not db.execute(ADD_PERSON, {**columns, "id": person}).changed:
        person = rules.make_person_id()
    _add_identity(db, Identity(platform, sender, person, listed))
    return _get_person(db, person)


def _set_role(db: Transaction, person: str, role: str, *, by_settings: bool) -> Person:
    _check_role(db, role, person)
    if role != OWNER and _get_person(db, person).role == OWNER:
        db.execute(DROP_UNREAD, (person,))
    db.run(Sql(SET_ROLE, (role, int(by_settings), person), partial(rules.missing_person, person)))
    if role not in (OWNER, ADMIN):
        db.execute(DELETE_RULES_BY, (person,))
    return _get_person(db, person)


def _find_person(db: Transaction, query: str, *key: str) -> Person | None:
    found = db.execute(query, key).first
    return None if found is None else _read_person(found)


def _get_person(db: Transaction, person: str) -> Person:
    """For a change: nobody else changes or removes them before the transaction ends."""
    found = _find_person(db, LOCK_PERSON, person)
    if found is None:
        raise rules.missing_person(person)
    return found


def _check_role(db: Transaction, role: str, person: str = "") -> None:
    """A known role, and no second owner."""
    rules.check_role(role)
    owner = _find_person(db, GET_OWNER) if role == OWNER else None
    if owner is not None and owner.id != person:
        raise rules.second_owner(owner.id)


def _list_identities(db: Transaction, person: str | None) -> list[Identity]:
    found = db.execute(GET_IDENTITIES) if person is None else db.execute(GET_IDENTITIES_OF, (person,))
    return [
        Identity(platform, sender, owner, bool(listed), bool(by_code))
        for platform, sender, owner, listed, by_code in found.rows
    ]


def _add_identity(db: Transaction, new: Identity) -> None:
    platform, sender = rules.check_identity(new.platform, new.sender)
    known = _find_person(db, FIND_PERSON, platform, sender)
    if known is not None and known.id != new.person:
        raise rules.taken_identity(platform, sender, known.id)
    row = {**asdict(new), "listed": int(new.listed), "by_code": int(new.by_code)}
    db.run(
        Sql(ADD_IDENTITY, row, partial(rules.taken_identity, platform, sender, "somebody")),
        Sql(DROP_PAIRING, (platform, sender)),
        Sql(DELETE_MARK, (rules.mark_identity(platform, sender),)),
    )


def _remove_person(db: Transaction, person: str) -> tuple[int, int]:
    """Take the person with identities and their requests away; how many there were of each."""
    names = [(identity.platform, identity.sender) for identity in _list_identities(db, person)]
    dropped = db.run(*(Sql(DROP_PAIRING, name) for name in names))
    db.run(
        *(Sql(ADD_MARK, (rules.mark_identity(*name),)) for name in names),
        *(Sql(one, (person,)) for one in _OF_REMOVED),
        Sql(DELETE_RULES_OF, (person, person)),
        note_news(PEOPLE),
    )
    return len(names), sum(one.changed for one in dropped)


def _spoke_last(choices: bytes) -> object:
    """Who spoke last, by the choices of a conversation; None: they do not say, or cannot be read."""
    try:
        return as_object(json.loads(choices)).get("person")
    except (ValueError, TypeError):
        return None


def _read_question(row: Sequence[Any]) -> QuestionRow:
    columns = list(row)
    columns[_CHOICES] = decode("question", (columns[0],), columns[_CHOICES], as_texts)
    return QuestionRow(*columns)


def _read_person(row: Sequence[Any]) -> Person:
    person, name, role, created, by_settings = row
    return Person(person, name, check_role(person, role), created, bool(by_settings))


def _forget(db: Transaction, person: str) -> Forgotten:
    counts = dict.fromkeys(("sessions", "messages", "inbox", "outbox", "questions", "rules", "calls"), 0)
    counts["kept_files"] = forget_files(db, person)
    db.execute(statements.SET_META, (_mark_forgotten(person), str(db.now())))
    db.execute(DROP_OLD_PAIRINGS)
    conversations = [str(key) for (key,) in db.execute(LOCK_CONVERSATIONS_OF, (person,)).rows]
    for conversation in conversations:
        for (session,) in db.execute(SESSIONS_OF, (conversation,)).rows:
            counts["sessions"] += 1
            counts["messages"] += db.execute(COUNT_MESSAGES, (session,)).rows[0][0]
            delete_session(db, session)
        for name, statement in DELETIONS:
            deleted = db.execute(statement, (conversation,)).changed
            if name:
                counts[name] += deleted
        counts["calls"] += db.execute(FORGET_CALLS, (conversation,)).changed
        db.execute(FORGET_BREAKS, (conversation,))
        db.execute(DELETE_CONVERSATION, (conversation,))
    counts["questions"] += db.execute(DELETE_QUESTIONS_OF, (person,)).changed
    counts["rules"] += db.execute(DELETE_RULES_OF, (person, person)).changed
    identities, pairings = _remove_person(db, person)
    db.execute(DELETE_KEYS, (person,))
    return Forgotten(**counts, conversations=len(conversations), identities=identities, pairings=pairings)


def delete_session(db: Transaction, session: str) -> None:
    """A session with its rows, search entries and the blobs that nobody else uses."""
    search_index.take_session(db, session)
    hashes = db.execute(statements.GET_HASHES, (session,)).rows
    db.run(
        Sql(statements.MOVE_CURRENT, {"next": None, "session": session}),
        Sql(DELETE_RULES_OF_TASK, {"session": session}),
        Sql(statements.DELETE_SESSION, (session,)),
        Sql(statements.DELETE_DAMAGED, (session,)),
        *(Sql(statements.DROP_UNUSED_BLOB, one) for one in hashes),
    )
