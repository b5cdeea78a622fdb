"""People in the store in memory: the twin of `SqlitePeople`, with the same answers and no file."""

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

from hermes_state import people_records as rules
from hermes_state.memory.memory_state import Charge, MemoryState, locked
from hermes_state.memory.turn_tables import TurnTables
from hermes_state.people_store import (
    ANSWERED,
    EXPIRED,
    MAX_PAIRINGS,
    MEMBER,
    OPEN,
    OWNER,
    PAIRING_SECONDS,
    VOID,
    Forgotten,
    Identity,
    Pairing,
    Person,
    QuestionRow,
)
from hermes_state.texts import clean

Key = tuple[str, str]


class MemoryPeople:
    """Implements `PeopleStore`."""

    def __init__(self, state: MemoryState, clock: Callable[[], float] = time.time) -> None:
        self._state = state
        self._clock = clock
        self._people: dict[str, Person] = {}
        self._identities: dict[Key, Identity] = {}
        self._removed: set[bytes] = set()
        self._pairings: dict[Key, Pairing] = {}
        self._questions = state.questions

    # --- people

    @locked
    def find(self, platform: str, sender: str) -> Person | None:
        identity = self._identities.get((platform, sender))
        return None if identity is None else self._people[identity.person]

    @locked
    def get(self, person: str) -> Person | None:
        return self._people.get(person)

    @locked
    def people(self) -> list[Person]:
        return sorted(self._people.values(), key=lambda person: (person.created, person.id))

    @locked
    def identities(self, person: str | None = None) -> list[Identity]:
        found = [identity for identity in self._identities.values() if person in (None, identity.person)]
        return sorted(found, key=lambda identity: (identity.person, identity.platform, identity.sender))

    @locked
    def add(self, name: str, role: str, platform: str, sender: str, *, listed: bool = False) -> Person:
        return self._add(name, role, platform, sender, listed)

    @locked
    def link(self, person: str, platform: str, sender: str, *, listed: bool = False) -> Person:
        found = self._get(person)
        self._add_identity(person, platform, sender, listed)
        return found

    @locked
    def set_role(self, person: str, role: str) -> Person:
        self._check_role(role, person)
        self._people[person] = changed = replace(self._get(person), role=role)
        return changed

    @locked
    def remove(self, person: str) -> Person:
        found = self._get(person)
        self._remove_person(person)
        return found

    @locked
    def is_removed(self, platform: str, sender: str) -> bool:
        return rules.mark_identity(platform, sender) in self._removed

    # --- requests of strangers

    @locked
    def pair(self, platform: str, sender: str, name: str, chat: str) -> Pairing | None:
        key, now = (platform, sender), self._clock()
        self._drop_old_pairings(now)
        if key in self._identities or not rules.is_identity(platform, sender):
            return None
        if key in self._pairings:
            return self._pairings[key]
        if sum(pairing.platform == platform for pairing in self._pairings.values()) >= MAX_PAIRINGS:
            return None
        shown = rules.clean_name(name, sender)
        made = Pairing(self._new_code(), *key, shown, now, now + PAIRING_SECONDS, chat=clean(chat))
        self._pairings[key] = made
        return replace(made, fresh=True)

    @locked
    def pairings(self) -> list[Pairing]:
        return self._list_pairings()

    @locked
    def approve(self, code: str, role: str = MEMBER, name: str = "") -> Person:
        pairing = rules.pick_pairing(code, self._list_pairings())
        if pairing is None:
            raise rules.wrong_code()
        return self._add(name or pairing.name, role, pairing.platform, pairing.sender, listed=False)

    # --- questions

    @locked
    def ask(self, question: QuestionRow) -> None:
        kept = rules.complete_question(question, self._clock())
        if kept.id in self._questions:
            raise rules.asked_already(kept.id)
        self._questions[kept.id] = kept

    @locked
    def close_question(self, question: str, answer: str, by: str) -> bool:
        known = self._questions.get(question)
        if known is None or known.state != OPEN:
            return False
        if known.expires <= self._clock():
            self._questions[question] = replace(known, state=EXPIRED)
            return False
        self._questions[question] = replace(known, state=ANSWERED, answer=clean(answer), answered_by=clean(by))
        return True

    @locked
    def open_questions(self, conversation: str) -> list[QuestionRow]:
        wanted, now = clean(conversation), self._clock()
        found = [
            question
            for question in self._questions.values()
            if question.conversation == wanted and question.state == OPEN and question.expires > now
        ]
        return sorted(found, key=lambda question: (question.created, question.id))

    @locked
    def question(self, question: str) -> QuestionRow | None:
        return self._questions.get(question)

    @locked
    def void_turn(self, conversation: str, turn: str) -> int:
        wanted = (clean(conversation), clean(turn))
        return self._void(lambda question: (question.conversation, question.turn) == wanted)

    @locked
    def void_questions(self, node: str | None = None) -> int:
        return self._void(lambda question: node in (None, question.node))

    # --- what belongs to whom

    @locked
    def assign(self, conversation: str, person: str) -> str:
        return self._state.assign(clean(conversation), clean(person))

    @locked
    def person_of(self, conversation: str) -> str:
        return self._state.persons.get(clean(conversation), "")

    @locked
    def conversations_of(self, person: str) -> Sequence[str]:
        return _list_conversations(self._state, person)

    @locked
    def spoken_last_by(self, person: str) -> Sequence[str]:
        chosen = {name: json.loads(row.choices) for name, row in self._state.turns.conversations.items()}
        return sorted(name for name, choices in chosen.items() if person and choices.get("person") == clean(person))

    @locked
    def forget(self, person: str) -> Forgotten:
        rules.check_person(person)
        self._drop_old_pairings(self._clock())
        conversations = _list_conversations(self._state, person)
        counts = {
            **_forget_sessions(self._state, conversations),
            **_forget_messages(self._state.turns, conversations),
            "calls": _forget_calls(self._state, conversations),
        }
        self._state.keys = {digest: key for digest, key in self._state.keys.items() if key.person != person}
        gone = [q.id for q in self._questions.values() if q.conversation in conversations or q.approver == person]
        for question in gone:
            del self._questions[question]
        identities, pairings = self._remove_person(person)
        return Forgotten(
            **counts,
            conversations=len(conversations),
            questions=len(gone),
            identities=identities,
            pairings=pairings,
        )

    # --- the steps of those calls, under the lock

    def _get(self, person: str) -> Person:
        found = self._people.get(person)
        if found is None:
            raise rules.missing_person(person)
        return found

    def _check_role(self, role: str, person: str = "") -> None:
        rules.check_role(role)
        owner = next((one.id for one in self._people.values() if one.role == OWNER), person)
        if role == OWNER and owner != person:
            raise rules.second_owner(owner)

    def _add(self, name: str, role: str, platform: str, sender: str, listed: bool) -> Person:
        key = rules.check_identity(platform, sender)
        self._check_role(role)
        if key in self._identities:
            raise rules.taken_identity(platform, sender, self._identities[key].person)
        person = Person(rules.make_person_id(), rules.clean_name(name, sender), role, self._clock())
        while person.id in self._people:
            person = replace(person, id=rules.make_person_id())
        self._people[person.id] = person
        self._add_identity(person.id, platform, sender, listed)
        return person

    def _add_identity(self, person: str, platform: str, sender: str, listed: bool) -> None:
        key = rules.check_identity(platform, sender)
        known = self._identities.get(key)
        if known is not None and known.person != person:
            raise rules.taken_identity(platform, sender, known.person)
        self._identities[key] = Identity(*key, person, listed and (known is None or known.listed))
        self._pairings.pop(key, None)
        self._removed.discard(rules.mark_identity(platform, sender))

    def _remove_person(self, person: str) -> tuple[int, int]:
        keys = [key for key, identity in self._identities.items() if identity.person == person]
        self._removed.update(rules.mark_identity(*key) for key in keys)
        pairings = [self._pairings.pop(key) for key in keys if key in self._pairings]
        for key in keys:
            del self._identities[key]
        self._people.pop(person, None)
        self._void(lambda question: question.approver == person)
        self._state.revoke_keys(person, self._clock())
        return len(keys), len(pairings)

    def _list_pairings(self) -> list[Pairing]:
        now = self._clock()
        found = [pairing for pairing in self._pairings.values() if pairing.expires > now]
        return sorted(found, key=lambda pairing: (pairing.created, pairing.code))

    def _drop_old_pairings(self, now: float) -> None:
        self._pairings = {key: pairing for key, pairing in self._pairings.items() if pairing.expires > now}

    def _new_code(self) -> str:
        taken = {pairing.code for pairing in self._pairings.values()}
        return next(code for code in iter(rules.make_code, "") if code not in taken)

    def _void(self, chosen: Callable[[QuestionRow], bool]) -> int:
        gone = [question for question in self._questions.values() if question.state == OPEN and chosen(question)]
        for question in gone:
            self._questions[question.id] = replace(question, state=VOID)
        return len(gone)


def _list_conversations(state: MemoryState, person: str) -> list[str]:
    return sorted(conversation for conversation, whose in state.persons.items() if whose == person)


def _forget_sessions(state: MemoryState, conversations: Sequence[str]) -> dict[str, int]:
    gone = [kept for kept in state.sessions.values() if kept.info.conversation in conversations]
    ids = {kept.info.id for kept in gone}
    for session in ids:
        del state.sessions[session]
    for conversation in conversations:
        state.current.pop(conversation, None)
        state.persons.pop(conversation, None)
    state.drop_unused({digest for kept in gone for digest in kept.sent.values()})
    state.breaks = [("", replace(row, session="")) if row.session in ids else (own, row) for own, row in state.breaks]
    return {"sessions": len(gone), "messages": sum(len(kept.messages) for kept in gone)}


def _forget_messages(tables: TurnTables, conversations: Sequence[str]) -> dict[str, int]:
    came = [row for conversation in conversations for row in tables.inbox.pop(conversation, {}).values()]
    for message in came:
        del tables.seen[message.account, message.ext_id]
    sent = [id for id, entry in tables.outbox.items() if entry.row.conversation in conversations]
    for id in sent:
        del tables.outbox[id]
    tables.steps = {key: steps for key, steps in tables.steps.items() if key[0] not in conversations}
    tables.controls = [control for control in tables.controls if control.conversation not in conversations]
    for conversation in conversations:
        tables.conversations.pop(conversation, None)
    return {"inbox": len(came), "outbox": len(sent)}


def _forget_calls(state: MemoryState, conversations: Sequence[str]) -> int:
    """Take the names out of the ledger; the calls stay."""
    named = [charge.conversation in conversations for charge in state.ledger]
    state.ledger = [
        Charge("", "", replace(charge.call, turn="")) if theirs else charge
        for charge, theirs in zip(state.ledger, named, strict=True)
    ]
    return sum(named)
