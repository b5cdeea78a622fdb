"""The place of every question that a turn asks a person: approvals, clarifications, confirmations.

The turn's thread waits here; whoever answers is checked here. Only the threads that ask call the store, so `answer`,
`open` and `void_turn` never block and may be called on the event loop. Here an approval is kept as a rule, and a rule
answers in a person's place (G4).
"""

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from gateway.core.people import OWNER, may_answer, may_keep
from gateway.core.route import OpenQuestion, Standing, read_answer, read_named
from hermes_base.chat import Answer, Question
from hermes_base.errors import StoreFailure
from hermes_base.inbound import NOTE, QUESTION, Address, Outgoing
from hermes_base.turn.consent import APPROVE, CONVERSATION, KEPT, is_kept
from hermes_state.approval_store import KeptAnswer
from hermes_state.people_store import OPEN, QuestionRow
from hermes_state.sql.approvals_sql import ApprovalStore
from hermes_state.sql.people_sql import PeopleStore
from hermes_state.turn_rules import measure_setback

log = logging.getLogger(__name__)

NOBODY = Answer("", given=False, by="")


@dataclass(eq=False, frozen=True, slots=True)
class TurnAsker:
    """The right of one turn to ask. Its `ask` is the `Asker` of the turn: what is asked through it belongs to it."""

    questions: "Questions"
    conversation: str
    turn: str
    person: str  # whose turn it is
    role: str = ""

    @property
    def keeper(self) -> str:
        """Whom rules of this turn belong to; empty: the owner, wherever they speak."""
        return "" if self.role == OWNER else self.person

    def ask(self, question: Question) -> Answer:
        return self.questions.ask(self, replace(question, conversation=self.conversation, turn=self.turn))


@dataclass(frozen=True, slots=True)
class AskedElsewhere:
    """Where a question is asked whose own chat has nobody who may answer it."""

    conversation: str = ""  # empty: nobody can be reached
    address: Address | None = None


class AsksElsewhere(Protocol):
    """Finds somebody who may answer, and tells both chats; called on the asking thread."""

    def find(self, question: Question, asker: TurnAsker) -> AskedElsewhere | None: ...

    def ask(self, question: Question, asker: TurnAsker, place: AskedElsewhere) -> None: ...

    def settle(self, question: Question, answer: Answer, place: AskedElsewhere, *, expired: bool) -> None: ...


@dataclass(eq=False, slots=True)
class _Waiting:
    """A question on its way: in line, then open, then closed with an answer."""

    question: Question
    asker: TurnAsker
    first: threading.Event = field(default_factory=threading.Event)  # nobody is before it in its line any more
    closed: threading.Event = field(default_factory=threading.Event)
    open: bool = False  # it may be answered
    announced: bool = False
    shown: tuple[float, float] | None = None  # when it had arrived where the person reads, by both clocks
    covered: bool = False  # something else was said there since
    expires: float = 0.0
    answer: Answer = NOBODY
    place: AskedElsewhere | None = None  # None: it is asked where its turn runs

    def is_asked_in(self, conversation: str) -> bool:
        elsewhere = self.place.conversation if self.place is not None else ""
        return self.open and bool(conversation) and conversation in (self.question.conversation, elsewhere)


class Questions:
    """Asks for all conversations. A conversation is asked one thing at a time, so that an answer can
    only mean one question; an answer holds once, for the turn that asked (G4)."""

    def __init__(
        self,
        store: PeopleStore,
        announce: Callable[[Question], None],
        *,
        approvals: ApprovalStore | None = None,
        ended: Callable[[str], None] = lambda _: None,
        settled: Callable[[Question, Answer, bool], None] = lambda question, answer, expired: None,
        members_approve: Callable[[], bool] = lambda: False,
        node: str = "",
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.redirect: AsksElsewhere | None = None  # None: everything is asked where its turn runs
        self._store = store
        self._approvals = approvals  # None: nothing is kept
        self._announce = announce  # called on the asking thread, after the question is stored
        self._ended = ended  # the same, with the conversation, when a question that was announced is open no more
        self._settled = settled  # the same, with what came of it, when that is stored
        self._members_approve = members_approve
        self.node = node  # as which this process asks
        self._clock = clock
        self._lock = threading.Lock()
        self._askers: set[TurnAsker] = set()
        self.lines: dict[str, deque[_Waiting]] = {}  # of conversations in which something is asked

    # --- turns

    def begin_turn(self, conversation: str, turn: str, person: str, role: str = "") -> TurnAsker:
        """From now on the turn of this person may ask."""
        asker = TurnAsker(self, conversation, turn, person, role)
        with self._lock:
            self._askers.add(asker)
        return asker

    def void_turn(self, asker: TurnAsker) -> None:
        """The turn has ended or is told to: nobody waits for its questions, and it asks no more."""
        with self._lock:
            self._askers.discard(asker)
            if self.lines:
                self._void(lambda waiting: waiting.asker is asker)

    def void_person(self, person: str) -> None:
        """The person was removed (G3): what their turns ask is void."""
        with self._lock:
            self._askers = {asker for asker in self._askers if asker.person != person}
            self._void(lambda waiting: waiting.asker.person == person)

    def void_all(self) -> None:
        """The gateway stops."""
        with self._lock:
            self._askers.clear()
            self._void(lambda _: True)

    def _void(self, chosen: Callable[[_Waiting], bool]) -> None:
        """The lock is held."""
        for line in self.lines.values():
            for waiting in filter(chosen, line):
                waiting.open = False
                waiting.closed.set()
                waiting.first.set()

    # --- asking

    def ask(self, asker: TurnAsker, question: Question) -> Answer:
        """Wait for the answer; without one (expired, turn over, nobody to ask) it is not given, which means no."""
        ruled = self._find_rule(asker, question)
        if ruled is not None:
            return ruled
        question = self._offer(question)
        with self._lock:
            if asker not in self._askers:  # the turn is over
                return NOBODY
            waiting = _Waiting(question, asker)
            line = self.lines.setdefault(question.conversation, deque())
            line.append(waiting)
            if line[0] is waiting:
                waiting.first.set()
        try:
            waiting.first.wait()
            if not waiting.closed.is_set():
                self._show(waiting)
                waiting.closed.wait(question.expires_in)
                self._ended(question.conversation)
        finally:
            self._leave(waiting)
        answer = self._note_end(waiting)
        if waiting.announced:
            self._tell_end(waiting, answer)
        return answer

    def _tell_end(self, waiting: _Waiting, answer: Answer) -> None:
        question, expired = waiting.question, not waiting.closed.is_set()
        if self.redirect is None or waiting.place is None:
            self._settled(question, answer, expired)
        else:
            self.redirect.settle(question, answer, waiting.place, expired=expired)

    def _find_rule(self, asker: TurnAsker, question: Question) -> Answer | None:
        """The yes of a rule that a person made for exactly this deed; None: somebody has to be asked. A store that does
        not answer has no rules."""
        with self._lock:
            if asker not in self._askers or question.deed is None or self._approvals is None:
                return None
        try:
            rule = self._approvals.use(question.deed, asker.keeper)
        except StoreFailure as problem:
            log.warning("kept approvals could not be read, so it is asked for: %s", problem)
            return None
        if rule is None:
            return None
        day = time.strftime("%Y-%m-%d", time.localtime(rule.created))
        log.info("rule %s of %s allows what a turn of %s asks for", rule.id, day, asker.person or "the owner")
        return Answer(APPROVE, by=rule.made_by, rule=f"a rule of {day} ({rule.id})")

    def _offer(self, question: Question) -> Question:
        """With the choices that are kept, where they may be; where they may not, it says why."""
        if question.deed is None or self._approvals is None:
            return question
        if not question.unkept:
            return replace(question, choices=(*question.choices, *KEPT))
        once = f"it can be allowed for this once only, since {question.unkept}"
        return replace(question, reason="; ".join(filter(None, (question.reason, once))))

    def _show(self, waiting: _Waiting) -> None:
        question, redirect = waiting.question, self.redirect
        waiting.place = redirect.find(question, waiting.asker) if redirect is not None else None
        expires = waiting.expires = self._clock() + question.expires_in
        self._store.ask(
            QuestionRow(
                question.id,
                question.conversation,
                question.turn,
                question.kind,
                question.text,
                question.choices,
                waiting.asker.person,
                self.node,
                expires=expires,
            )
        )
        with self._lock:
            waiting.open = not waiting.closed.is_set()
        if not waiting.open:
            return
        waiting.announced = True
        if redirect is None or waiting.place is None:
            self._announce(question)
        else:
            redirect.ask(question, waiting.asker, waiting.place)

    def _leave(self, waiting: _Waiting) -> None:
        """From here on no answer counts; the next in line is asked."""
        conversation = waiting.question.conversation
        with self._lock:
            waiting.open = False
            line = self.lines[conversation]
            line.remove(waiting)
            if line:
                line[0].first.set()
            else:
                del self.lines[conversation]

    def _note_end(self, waiting: _Waiting) -> Answer:
        """The answer that holds. The store has the last word: a question that is void there (its person was removed)
        has none. One that the store cannot note now holds all the same; its row is void with the process."""
        question, answer = waiting.question, waiting.answer
        try:
            if answer.given:
                keep = _find_kept(waiting)
                return answer if self._store.close_question(question.id, answer.text, answer.by, keep) else NOBODY
            if waiting.closed.is_set():
                self._store.void_question(question.id)
        except StoreFailure as problem:
            log.warning("the end of question %s was not stored: %s", question.id, problem)
        return answer

    def note_arrival(self, said: Outgoing, profile: str) -> None:
        """It stands before the people of its conversation now."""
        if not self.lines:
            return
        if said.kind == QUESTION:
            self.note_shown(said.question)
        if said.kind != NOTE or said.turn:
            self.note_said(said.address.conversation(profile), said.question)

    def note_shown(self, question_id: str, age: float = 0.0) -> None:
        """The question stands before the person, for so many seconds: from then on a text can mean it."""
        with self._lock:
            for line in self.lines.values():
                if line[0].question.id == question_id:
                    line[0].shown = (self._clock() - age, time.monotonic() - age)

    def note_said(self, conversation: str, question_id: str = "") -> None:
        """A model said something there, or asked this: a bare yes may be meant for that from now on."""
        with self._lock:
            for line in self.lines.values():
                asked = line[0]
                if asked.shown is not None and asked.question.id != question_id and asked.is_asked_in(conversation):
                    asked.covered = True

    # --- answering

    def answer(self, question_id: str, text: str, by: Standing, *, conversation: str) -> bool:
        """True when this was the answer: the first one, to a question open in this conversation, that `by` may give.
        An empty text declines to answer."""
        allowed = self._members_approve()
        with self._lock:
            waiting = next((one for one in self._list_open(conversation) if one.question.id == question_id), None)
            if waiting is None:
                return False
            question = self._describe(waiting)
            if not may_answer(question.kind, by.role, by.person, question.asked, allowed, question.asked_role):
                return False
            chosen = read_answer(question, text) if text else ""
            if text and not chosen:
                return False
            if is_kept(question.kind, question.choices, chosen) and not may_keep(by.role):
                return False
            waiting.answer = Answer(chosen, given=bool(chosen), by=by.person)
            waiting.open = False
            waiting.closed.set()
            return True

    def open(self, conversation: str, named: str = "", text: str = "") -> OpenQuestion | None:
        """The question that an answer in this conversation would be for: the one that is `named`, or whose name stands
        in the text, else its own, else one of another conversation that is asked there."""
        if not self.lines:
            return None
        with self._lock:
            asked = self._list_open(conversation)
            by_id = [one for one in asked if named and one.question.id == named]
            by_name = [one for one in asked if text and read_named(self._describe(one), text) is not None]
            chosen = next(iter((*by_id, *(by_name if len(by_name) == 1 else ()), *asked)), None)
            return None if chosen is None else self._describe(chosen, conversation)

    def showing(self, conversation: str) -> Question | None:
        """The same with all that people are shown of it, and the time that is left."""
        with self._lock:
            waiting = self._find_own(conversation)
            if waiting is None:
                return None
            return replace(waiting.question, expires_in=max(0.0, waiting.expires - self._clock()))

    def asked_elsewhere(self, conversation: str) -> Question | None:
        """What a turn asks there that another process runs, as the store has it."""
        rows = [row for row in self._store.open_questions(conversation) if row.node != self.node]
        return self._read_row(rows[0]) if rows else None

    def find_elsewhere(self, question: str) -> Question | None:
        row = self._store.question(question)
        return self._read_row(row) if row is not None and row.state == OPEN and row.node != self.node else None

    def _read_row(self, row: QuestionRow) -> Question:
        left = max(0.0, row.expires - self._clock())
        return Question(row.kind, row.text, row.choices, left, "", row.conversation, row.turn, id=row.id)

    def list_unshown(self, conversation: str = "") -> list[tuple[str, str]]:
        """What was asked, there or anywhere, and is not known to have arrived: where, and its id. Another process may
        have sent it."""
        if not self.lines:
            return []
        with self._lock:
            return [
                (line[0].question.conversation, line[0].question.id)
                for line in self.lines.values()
                if line[0].open and line[0].announced and line[0].shown is None
                if conversation in ("", line[0].question.conversation)
            ]

    def asked_of_approvers(self) -> list[tuple[str, Question]]:
        """What is open and may not be answered by the person whose turn asks it, with that person: whoever may answer
        it does so wherever they are."""
        with self._lock:
            open = [line[0] for line in self.lines.values() if line[0].open and line[0].place is not None]
        now = self._clock()
        return [(one.asker.person, replace(one.question, expires_in=max(0.0, one.expires - now))) for one in open]

    def is_waiting(self, conversation: str) -> bool:
        """Whether a turn waits for a person there: that is activity, not silence (C12)."""
        with self._lock:
            return conversation in self.lines

    def _find_own(self, conversation: str) -> _Waiting | None:
        """The lock is held."""
        line = self.lines.get(conversation)
        return line[0] if line and line[0].open else None

    def _list_open(self, conversation: str) -> list[_Waiting]:
        """The same, and then what is asked there for others. The lock is held."""
        own = self._find_own(conversation)
        asked = [line[0] for line in self.lines.values() if line[0].is_asked_in(conversation)]
        return asked if own is None else [own, *(one for one in asked if one is not own)]

    def _describe(self, waiting: _Waiting, conversation: str = "") -> OpenQuestion:
        """When it was shown is told by the clock as it is set now, like the times of the messages that come."""
        question, shown, now = waiting.question, None, self._clock()
        if waiting.shown is not None:
            noted, moment = waiting.shown
            shown = noted - measure_setback(noted + time.monotonic() - moment, now)
        asker, elsewhere = waiting.asker, bool(conversation) and conversation != question.conversation
        return OpenQuestion(
            question.id,
            question.kind,
            question.choices,
            asker.person,
            shown,
            now,
            asker.role,
            elsewhere=elsewhere,
            covered=waiting.covered,
        )


def _find_kept(waiting: _Waiting) -> KeptAnswer | None:
    """What a rule is made of; None: the answer holds once."""
    question = waiting.question
    if question.deed is None or not is_kept(question.kind, question.choices, waiting.answer.text):
        return None
    where = question.conversation if waiting.answer.text == CONVERSATION else ""
    return KeptAnswer(question.deed, waiting.asker.keeper, where)
