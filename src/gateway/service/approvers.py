"""Asks somebody who may answer what a turn wants to know when its own person may not: the question goes to the home of
the owner or an admin, its person reads that it did, and both chats see how it ended (G4)."""

import logging
from collections.abc import Callable, Iterator

from gateway.core.people import ADMIN, OWNER, may_answer
from gateway.core.text.question_text import fence
from gateway.platforms.platform_list import spec_of
from gateway.service.announcer import RESTARTED, Announcer, describe_end
from gateway.turns.agent_builder import Choices
from gateway.turns.questions import AskedElsewhere, TurnAsker
from gateway.turns.sender import find_standing
from gateway.turns.whereabouts import Whereabouts
from hermes_base.chat import Answer, Question
from hermes_base.errors import StoreFailure
from hermes_base.inbound import NOTE, QUESTION, Address, Outgoing, name_question
from hermes_base.text.harmless import clean_name
from hermes_base.turn.consent import find_language
from hermes_cli import config as cli_config
from hermes_state.sql.store_sql import Store

log = logging.getLogger(__name__)

ASKED = "This needs the yes of the owner or an admin, who has been asked:\n\n{what}"
NOBODY_THERE = (
    "This needs the yes of the owner or an admin, and none of them can be reached in a chat app now. They can answer "
    "within {minutes} minutes in the settings of the page, or with `hermes approvals waiting` on the machine:\n\n{what}"
)
FOR_SOMEBODY = 'a turn of a person with the role {role} asks, in another chat: {id}, who calls themselves "{name}"'


class Approvers:
    """Called on threads that may wait for the store."""

    def __init__(
        self,
        store: Store,
        announcer: Announcer,
        whereabouts: Whereabouts,
        profile: str,
        wake: Callable[[Address], None],
    ) -> None:
        """`wake` is called with an address for which something is stored."""
        self._store = store
        self._announcer = announcer
        self._whereabouts = whereabouts
        self._profile = profile
        self._wake = wake

    def find(self, question: Question, asker: TurnAsker) -> AskedElsewhere | None:
        """Where a question is asked that its own chat has nobody for; None: it is asked there. In a group there may be
        somebody who may answer it."""
        settings = cli_config.load_last_good()
        person = asker.person
        own = self._find_address(question.conversation)
        if own.kind != "dm" or may_answer(question.kind, asker.role, person, person, settings.people.members_approve):
            return None
        for home in self._list_homes():
            key = home.conversation(self._profile)
            if key != question.conversation:
                return AskedElsewhere(key, home)
        return AskedElsewhere()

    def _list_homes(self) -> Iterator[Address]:
        """Homes of those who approve and may be told something now, the owner's first."""
        settings = cli_config.load_last_good()
        admins = [person.id for person in self._store.people.people() if person.role == ADMIN]
        for person in (OWNER, *admins):
            home = self._whereabouts.find_home(person)
            if home is None or self._whereabouts.find_quiet(home, person):
                continue
            if may_answer("approval", find_standing(self._store.people, settings, person).role, person, "", False):
                yield home

    def ask(self, question: Question, asker: TurnAsker, place: AskedElsewhere) -> None:
        """The question, to whoever may answer it, and a word on that to its person."""
        own, turns = self._find_address(question.conversation), self._store.turns
        if place.address is not None:
            known = self._store.people.get(asker.person)
            name = clean_name(known.name) if known is not None else ""
            who = FOR_SOMEBODY.format(name=name or asker.person, id=asker.person, role=asker.role or "nobody")
            asked = Outgoing(
                place.address,
                question.text,
                QUESTION,
                level=question.kind,
                question=question.id,
                choices=question.choices,
                reason="; ".join(filter(None, (who, question.reason))),
                turn=question.turn,
                conversation=place.conversation,
            )
            turns.post(question.conversation, name_question(question.id), asked)
            self._wake(place.address)
        what = fence(question.text, find_language(question.text))
        word = ASKED if place.address is not None else NOBODY_THERE
        told = word.format(what=what, minutes=max(1, round(question.expires_in / 60)))
        turns.post(question.conversation, f"asked:{question.id}", Outgoing(own, told, NOTE))
        self._wake(own)
        self._announcer.show_question(question)

    def settle(self, question: Question, answer: Answer, place: AskedElsewhere, *, expired: bool) -> None:
        """Both chats see how it ended."""
        try:
            person = self._store.people.get(answer.by) if answer.by else None
            end = describe_end(question, answer, person, expired=expired)
            self.tell_end(question.conversation, question.id, end, place.conversation)
        except StoreFailure as problem:
            log.warning("the end of question %s is not told: %s", question.id, problem)

    def void_orphans(self) -> None:
        """What processes asked that do not live any more is open no more, and says so."""
        for conversation, question in self._store.people.void_orphans():
            self.tell_end(conversation, question, RESTARTED)

    def tell_end(self, conversation: str, question: str, end: str, elsewhere: str = "") -> None:
        """How a question ended, in its own chat and wherever it was asked. Of one of an earlier life of ours it is not
        known where that was: it is looked for in the homes that there are."""
        self._announcer.tell_end(conversation, question, end)
        homes = [habits.home for habits in self._store.habits.every().values() if habits.home is not None]
        for key in {elsewhere, *(home.conversation(self._profile) for home in homes)} - {"", conversation}:
            asked = self._store.turns.outbox_named(key, name_question(question))
            if asked is not None and _edits_questions(asked.outgoing.address):
                self._announcer.tell_end(key, question, end)
            elif asked is not None:
                self._tell(key, question, asked.outgoing.address, end)
        told = self._store.turns.find_posted(conversation, f"asked:{question}")
        if told is not None:
            self._tell(conversation, question, told.address, end)

    def _tell(self, conversation: str, question: str, address: Address, end: str) -> None:
        self._store.turns.post(conversation, f"ended:{question}", Outgoing(address, end, NOTE))
        self._wake(address)

    def _find_address(self, conversation: str) -> Address:
        return Address(**Choices.of(self._store.turns.choices(conversation)).address)


def _edits_questions(address: Address) -> bool:
    """Whether a question there says itself how it ended."""
    spec = spec_of(address.platform)
    return spec.can_edit and spec.has_buttons
