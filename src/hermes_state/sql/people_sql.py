"""People: every call is one transaction on the store's own file."""

import json
import sqlite3
from collections.abc import Sequence
from dataclasses import astuple, replace
from typing import Any

from hermes_state import people_records as rules
from hermes_state.damage import as_texts, decode
from hermes_state.people_store import (
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
from hermes_state.sql import people_queries as sql
from hermes_state.sql import search_index, statements
from hermes_state.sql.connection import StorePart
from hermes_state.sql.damage_sql import check_role
from hermes_state.texts import clean

_CHOICES = list(QuestionRow.__dataclass_fields__).index("choices")


class PeopleStore(StorePart):
    # --- people

    def find(self, platform: str, sender: str) -> Person | None:
        """Whom this identity belongs to; None: a stranger."""
        if not rules.is_identity(platform, sender):
            return None
        return self._db.read(lambda db: _find_person(db, sql.FIND_PERSON, platform, sender))

    def get(self, person: str) -> Person | None:
        return self._db.read(lambda db: _find_person(db, sql.GET_PERSON, person))

    def people(self) -> list[Person]:
        """The earliest first."""
        return self._db.read(lambda db: [_read_person(row) for row in db.execute(sql.GET_PEOPLE).fetchall()])

    def identities(self, person: str | None = None) -> list[Identity]:
        """Those of one person, or all."""
        return self._db.read(lambda db: _list_identities(db, person))

    def add(self, name: str, role: str, platform: str, sender: str, *, listed: bool = False) -> Person:
        """A new person with this identity; StoreFailure when it is somebody's already, or for a second owner."""
        with self._db.write() as db:
            return self._add(db, name, role, platform, sender, listed)

    def link(self, person: str, platform: str, sender: str, *, listed: bool = False) -> Person:
        """One more identity for a person; StoreFailure when it is another person's."""
        with self._db.write() as db:
            found = _get_person(db, person)
            _add_identity(db, found.id, platform, sender, listed)
            return found

    def set_role(self, person: str, role: str) -> Person:
        with self._db.write() as db:
            _check_role(db, role, person)
            _get_person(db, person)
            db.execute(sql.SET_ROLE, (role, person))
            return _get_person(db, person)

    def remove(self, person: str) -> Person:
        """The person and their identities go, their open questions are void, their API keys hold no more, their data
        stays (G3). The settings do not bring a removed identity back; an approval does."""
        with self._db.write() as db:
            found = _get_person(db, person)
            _remove_person(db, person, self._clock())
            return found

    def is_removed(self, platform: str, sender: str) -> bool:
        """Whether this identity was somebody's who was removed, and nobody let it in again."""
        mark = rules.mark_identity(platform, sender)
        return self._db.read(lambda db: db.execute(sql.HAS_MARK, (mark,)).fetchone() is not None)

    # --- requests of strangers

    def pair(self, platform: str, sender: str, name: str, chat: str) -> Pairing | None:
        """The open request of this identity, made if there is none; None for a known one, for none at all, and while
        MAX_PAIRINGS requests are open on the platform."""
        if not rules.is_identity(platform, sender):
            return None
        now = self._clock()
        with self._db.write() as db:
            db.execute(sql.DROP_OLD_PAIRINGS, (now,))
            if _find_person(db, sql.FIND_PERSON, platform, sender) is not None:
                return None
            known = db.execute(sql.GET_PAIRING_OF, (platform, sender, now)).fetchone()
            if known is not None:
                return Pairing(*known)
            (open_ones,) = db.execute(sql.COUNT_PAIRINGS, (platform, now)).fetchone()
            if open_ones >= MAX_PAIRINGS:
                return None
            shown = rules.clean_name(name, sender)
            while True:  # until there is a code that no other open one has
                new = Pairing(rules.make_code(), platform, sender, shown, now, now + PAIRING_SECONDS, chat=clean(chat))
                columns = (new.code, new.platform, new.sender, new.name, new.created, new.expires, new.chat)
                if db.execute(sql.ADD_PAIRING, columns).rowcount:
                    return replace(new, fresh=True)

    def pairings(self) -> list[Pairing]:
        """The open ones, the earliest first."""
        now = self._clock()
        return self._db.read(lambda db: _list_pairings(db, now))

    def approve(self, code: str, role: str = MEMBER, name: str = "") -> Person:
        """Make a person of the request with this code, which is used up; StoreFailure when there is none."""
        with self._db.write() as db:
            pairing = rules.pick_pairing(code, _list_pairings(db, self._clock()))
            if pairing is None:
                raise rules.wrong_code()
            return self._add(db, name or pairing.name, role, pairing.platform, pairing.sender, listed=False)

    def _add(self, db: sqlite3.Connection, name: str, role: str, platform: str, sender: str, listed: bool) -> Person:
        rules.check_identity(platform, sender)
        _check_role(db, role)
        known = _find_person(db, sql.FIND_PERSON, platform, sender)
        if known is not None:
            raise rules.taken_identity(platform, sender, known.id)
        shown, now = rules.clean_name(name, sender), self._clock()
        person = rules.make_person_id()
        while not db.execute(sql.ADD_PERSON, (person, shown, role, now)).rowcount:
            person = rules.make_person_id()
        _add_identity(db, person, platform, sender, listed)
        return _get_person(db, person)

    # --- questions

    def ask(self, question: QuestionRow) -> None:
        """Keep an open question; `created` is given by the store."""
        kept = rules.complete_question(question, self._clock())
        columns = list(astuple(kept))
        columns[_CHOICES] = json.dumps(kept.choices)
        with self._db.write() as db:
            if not db.execute(sql.ADD_QUESTION, columns).rowcount:
                raise rules.asked_already(kept.id)

    def close_question(self, question: str, answer: str, by: str) -> bool:
        """Note the answer, once; False when the question is not open any more, or has expired."""
        with self._db.write() as db:
            db.execute(sql.EXPIRE_QUESTION, (question, self._clock()))
            done = db.execute(sql.CLOSE_QUESTION, (ANSWERED, clean(answer), clean(by), question))
            return done.rowcount == 1

    def open_questions(self, conversation: str) -> list[QuestionRow]:
        """The earliest first; expired ones are left out."""
        now = self._clock()
        return self._db.read(lambda db: _list_questions(db, sql.OPEN_QUESTIONS, clean(conversation), now))

    def question(self, question: str) -> QuestionRow | None:
        found = self._db.read(lambda db: _list_questions(db, sql.GET_QUESTION, question))
        return found[0] if found else None

    def void_turn(self, conversation: str, turn: str) -> int:
        """The turn has ended: nobody waits for its questions any more; how many were open."""
        with self._db.write() as db:
            return db.execute(sql.VOID_TURN, (clean(conversation), clean(turn))).rowcount

    def void_questions(self, node: str | None = None) -> int:
        """The same for a process that has ended; None: for all of them."""
        with self._db.write() as db:
            done = db.execute(sql.VOID_ALL) if node is None else db.execute(sql.VOID_NODE, (node,))
            return done.rowcount

    # --- what belongs to whom

    def assign(self, conversation: str, person: str) -> str:
        """Give a conversation that is nobody's to a person; whose it is now. One that has a person keeps it."""
        key = clean(conversation)
        with self._db.write() as db:
            db.execute(statements.ADD_CONVERSATION, (key,))
            db.execute(statements.ASSIGN, (clean(person), key))
            return str(db.execute(sql.PERSON_OF, (key,)).fetchone()[0])

    def person_of(self, conversation: str) -> str:
        """Whose the conversation is; empty: the owner's."""
        found = self._db.read(lambda db: db.execute(sql.PERSON_OF, (clean(conversation),)).fetchone())
        return "" if found is None else str(found[0])

    def conversations_of(self, person: str) -> Sequence[str]:
        return self._db.read(lambda db: _list_conversations(db, person))

    def spoken_last_by(self, person: str) -> Sequence[str]:
        """Conversations in which this person spoke last, whosesoever they are (the choice `person`). It reads all
        conversations, so it is for what happens rarely."""
        found = self._db.read(lambda db: db.execute(sql.SPOKEN_LAST_BY, (clean(person),)).fetchall())
        return [str(row[0]) for row in found]

    def forget(self, person: str) -> Forgotten:
        """Delete what belongs to a person, and the person: sessions with rows, search entries and blobs nobody else
        uses, messages that came in and went out in their conversations, identities, requests, questions, API keys.
        Calls stay in the ledger without the names of conversation and session (G12)."""
        rules.check_person(person)
        with self._db.write() as db:
            forgotten = _forget(db, person, self._clock())
            if search_index.read_state(db) is not None:
                db.execute(sql.TIDY_SEARCH)
        self._db.empty_log()
        return forgotten


# --- the steps of those calls, inside their transaction


def _find_person(db: sqlite3.Connection, query: str, *key: str) -> Person | None:
    found = db.execute(query, key).fetchone()
    return None if found is None else _read_person(found)


def _get_person(db: sqlite3.Connection, person: str) -> Person:
    found = _find_person(db, sql.GET_PERSON, person)
    if found is None:
        raise rules.missing_person(person)
    return found


def _check_role(db: sqlite3.Connection, role: str, person: str = "") -> None:
    """A known role, and no second owner."""
    rules.check_role(role)
    owner = _find_person(db, sql.GET_OWNER) if role == OWNER else None
    if owner is not None and owner.id != person:
        raise rules.second_owner(owner.id)


def _list_identities(db: sqlite3.Connection, person: str | None) -> list[Identity]:
    rows = db.execute(sql.GET_IDENTITIES) if person is None else db.execute(sql.GET_IDENTITIES_OF, (person,))
    return [Identity(platform, sender, owner, bool(listed)) for platform, sender, owner, listed in rows]


def _add_identity(db: sqlite3.Connection, person: str, platform: str, sender: str, listed: bool) -> None:
    rules.check_identity(platform, sender)
    known = _find_person(db, sql.FIND_PERSON, platform, sender)
    if known is not None and known.id != person:
        raise rules.taken_identity(platform, sender, known.id)
    db.execute(sql.ADD_IDENTITY, (platform, sender, person, listed))
    db.execute(sql.DROP_PAIRING, (platform, sender))
    db.execute(sql.DELETE_MARK, (rules.mark_identity(platform, sender),))


def _remove_person(db: sqlite3.Connection, person: str, now: float) -> tuple[int, int]:
    """Take the person with identities and their requests away; how many there were of each."""
    identities = _list_identities(db, person)
    pairings = 0
    for identity in identities:
        db.execute(sql.ADD_MARK, (rules.mark_identity(identity.platform, identity.sender),))
        pairings += db.execute(sql.DROP_PAIRING, (identity.platform, identity.sender)).rowcount
    db.execute(sql.DELETE_IDENTITIES, (person,))
    db.execute(sql.DELETE_PERSON, (person,))
    db.execute(sql.VOID_PERSON, (person,))
    db.execute(sql.REVOKE_KEYS, (now, person))
    return len(identities), pairings


def _list_pairings(db: sqlite3.Connection, now: float) -> list[Pairing]:
    return [Pairing(*row) for row in db.execute(sql.GET_PAIRINGS, (now,))]


def _list_questions(db: sqlite3.Connection, query: str, *wanted: str | float) -> list[QuestionRow]:
    found = [list(row) for row in db.execute(query, wanted).fetchall()]
    for columns in found:
        columns[_CHOICES] = decode("question", (columns[0],), columns[_CHOICES], as_texts)
    return [QuestionRow(*columns) for columns in found]


def _read_person(row: Sequence[Any]) -> Person:
    person, name, role, created = row
    return Person(person, name, check_role(person, role), created)


def _list_conversations(db: sqlite3.Connection, person: str) -> list[str]:
    return [str(row[0]) for row in db.execute(sql.CONVERSATIONS_OF, (person,))]


def _forget(db: sqlite3.Connection, person: str, now: float) -> Forgotten:
    counts = dict.fromkeys(("sessions", "messages", "inbox", "outbox", "questions", "calls"), 0)
    db.execute(sql.DROP_OLD_PAIRINGS, (now,))
    conversations = _list_conversations(db, person)
    for conversation in conversations:
        for (session,) in db.execute(sql.SESSIONS_OF, (conversation,)).fetchall():
            counts["sessions"] += 1
            counts["messages"] += db.execute(sql.COUNT_MESSAGES, (session,)).fetchone()[0]
            delete_session(db, session)
        for name, statement in sql.DELETIONS:
            deleted = db.execute(statement, (conversation,)).rowcount
            if name:
                counts[name] += deleted
        counts["calls"] += db.execute(sql.FORGET_CALLS, (conversation,)).rowcount
        db.execute(sql.FORGET_BREAKS, (conversation,))
        db.execute(sql.DELETE_CONVERSATION, (conversation,))
    counts["questions"] += db.execute(sql.DELETE_QUESTIONS_OF, (person,)).rowcount
    identities, pairings = _remove_person(db, person, now)
    db.execute(sql.DELETE_KEYS, (person,))
    return Forgotten(**counts, conversations=len(conversations), identities=identities, pairings=pairings)


def delete_session(db: sqlite3.Connection, session: str) -> None:
    """A session with its rows, search entries and the blobs that nobody else uses."""
    search_index.take_session(db, session)
    hashes = db.execute(statements.GET_HASHES, (session,)).fetchall()
    db.execute(statements.DELETE_SESSION, (session,))
    db.execute(statements.DELETE_DAMAGED, (session,))
    db.executemany(statements.DROP_UNUSED_BLOB, hashes)
