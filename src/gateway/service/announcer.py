"""What the threads of turns, tools and titles have to say to a conversation: stored first, then shown by the event
loop. Nobody who was removed is told of the end of a process (G3)."""

import asyncio
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import replace

from gateway.core.timeline import shorten
from gateway.delivery.delivery import Delivery, LiveEvents
from gateway.platforms.face import Asking, LiveEvent, Titled
from gateway.platforms.platform_list import spec_of
from gateway.turns.agent_builder import Choices
from gateway.turns.sender import Senders
from gateway.turns.whereabouts import Whereabouts
from hermes_base.chat import Answer, Notice, Question
from hermes_base.errors import StoreFailure
from hermes_base.files.home_files import HomeFiles, OwnName
from hermes_base.inbound import (
    FILE,
    NOTE,
    NOTICE,
    OUTBOX,
    QUESTION,
    SHOWN,
    Address,
    FileRef,
    Inbound,
    Outgoing,
    name_question,
    write_inbound,
)
from hermes_base.text.foreign import BACKGROUND, UPLOADED
from hermes_base.text.harmless import clean_name
from hermes_base.turn.consent import label_choices, split_answer
from hermes_state.people_store import Person
from hermes_state.sql.store_sql import Store

log = logging.getLogger(__name__)

STORE_PAUSE = 1.0
NO_ANSWER = "→ Nobody answered in time, so it was not done."
NOT_NEEDED = "→ It is not asked any more."
RESTARTED = "→ Hermes was restarted, so it is not asked any more."
WAITS = "A question waits on the page: {text}"
WAITING_CHARS = 500  # of a question, where it is only told that it waits
ELSEWHERE = "It belongs to an earlier conversation, which goes on with: /resume {session}"


class Announcer:
    """Called on threads that may wait for the store."""

    def __init__(
        self,
        files: HomeFiles,
        store: Store,
        senders: Senders,
        delivery: Delivery,
        whereabouts: Whereabouts,
        live_events: LiveEvents,
        wake: Callable[[str], None],
        is_closing: Callable[[], bool],
    ) -> None:
        """On the event loop; `wake` is called there, with a conversation that has a new message."""
        self._files = files
        self._store = store
        self._senders = senders
        self._delivery = delivery
        self._whereabouts = whereabouts
        self._live_events = live_events
        self._wake = wake
        self._is_closing = is_closing
        self._loop = asyncio.get_running_loop()

    def _show(self, conversation: str, event: LiveEvent) -> None:
        self._loop.call_soon_threadsafe(self._live_events.show, conversation, event)

    def _find_address(self, conversation: str) -> Address:
        return Address(**Choices.of(self._store.turns.choices(conversation)).address)

    def ask(self, question: Question) -> None:
        """A question is on its way to a person."""
        choices = Choices.of(self._store.turns.choices(question.conversation))
        address = Address(**choices.address)
        asked = Outgoing(
            address,
            question.text,
            QUESTION,
            level=question.kind,
            question=question.id,
            choices=question.choices,
            reason=question.reason,
            turn=question.turn,
            origins=question.origins,
        )
        self._store.turns.post(question.conversation, name_question(question.id), asked)
        self.show_question(question)
        self._delivery.wake(address)
        if spec_of(address.platform).is_program and not self._delivery.is_there(address):
            self._tell_waiting(question, address, choices.person)

    def _tell_waiting(self, question: Question, address: Address, person: str) -> None:
        """Nobody reads what a program is asked here: its person hears at home that there is something to answer."""
        word = WAITS.format(text=shorten(question.text, WAITING_CHARS))
        told = self._whereabouts.direct(Outgoing(address, word, NOTE, origins=question.origins), person)
        if told.address == address:  # they have no home: it waits on the page
            return
        try:
            if self._store.turns.post(question.conversation, f"waits:{question.id}", told):
                self._delivery.wake(told.address)
        except StoreFailure as problem:
            log.warning("nobody is told that question %s waits: %s", question.id, problem)

    def show_question(self, question: Question) -> None:
        """Whoever looks at the conversation sees it."""
        self._show(question.conversation, Asking(question))

    def end_question(self, conversation: str) -> None:
        self._show(conversation, Asking(None))

    def settle_question(self, question: Question, answer: Answer, expired: bool) -> None:
        """What came of a question. If the store does not take it, whoever presses a button hears that it is over."""
        try:
            person = self._store.people.get(answer.by) if answer.by else None
            self.tell_end(question.conversation, question.id, describe_end(question, answer, person, expired=expired))
        except StoreFailure as problem:
            log.warning("the end of question %s is not told: %s", question.id, problem)

    def tell_end(self, conversation: str, question: str, end: str) -> None:
        """Where the question was shown with buttons, its message says how it ended, and has none from then on."""
        asked = self._store.turns.outbox_named(conversation, name_question(question))
        if asked is None or not asked.outgoing.choices:
            return
        address = asked.outgoing.address
        spec = spec_of(address.platform)
        if spec.can_edit and spec.has_buttons and not spec.shows_events:
            self._store.turns.post(conversation, f"ended:{question}", Outgoing(address, end, NOTE, question=question))
            self._delivery.wake(address)

    def name_session(self, conversation: str, session: str, title: str) -> None:
        self._show(conversation, Titled(session, title))

    def send_file(self, conversation: str, file: FileRef, caption: str, data: bytes) -> None:
        """The agent hands over a file; where it is sent or fetched later, as a copy. So it is where whoever looks may
        be at another machine."""
        address = self._find_address(conversation)
        spec = spec_of(address.platform)
        if spec.fetches_files or not spec.trusted or self._files.travels:
            person = self._store.people.person_of(conversation)
            folder = SHOWN if spec.fetches_files or spec.trusted else OUTBOX
            file = keep_copy(self._files, person, folder, file, data)
        outgoing = Outgoing(address, caption, FILE, file=file, origins=(UPLOADED,))
        self._store.turns.post(conversation, f"file:{uuid.uuid4().hex[:16]}", outgoing)
        self._delivery.wake(address)

    def end_process(self, task: str, id: str, text: str) -> None:
        """A background process of the task has ended. Certain, once: nobody says it again, so it is tried until it is
        stored or the gateway ends."""
        name = f"proc:{id}:{uuid.uuid4().hex[:6]}"
        while True:
            try:
                return self._end_process(task, name, text)
            except StoreFailure as problem:
                if self._is_closing():
                    raise
                log.warning("the end of a process of %s is not stored yet: %s", task, problem)
                time.sleep(STORE_PAUSE)

    def _end_process(self, task: str, name: str, text: str) -> None:
        """Where its session is the one that the conversation goes on in, the model is told and answers; where the
        conversation goes on elsewhere (`/resume`), the person is told, and how to go back."""
        session = self._store.last_of(task)
        if session is None or not self._senders.may_hear(session.conversation):
            log.info("a process of %s ended, and nobody is there to hear of it", task)
            return
        current = self._store.current(session.conversation)
        key, address = session.conversation, self._find_address(session.conversation)
        if current is None or current.task != task:
            person = Choices.of(self._store.turns.choices(key)).person
            said = f"{text}\n{ELSEWHERE.format(session=session.id)}"
            note = Outgoing(address, said, NOTE, origins=(BACKGROUND,))
            told = self._whereabouts.direct(note, person)
            if self._store.turns.post(key, name, told):
                self._delivery.wake(told.address)
            return
        inbound = Inbound(address, name, "hermes", text, conversation=key, origin=NOTICE, received=time.time())
        if self._store.turns.accept(key, "house", name, write_inbound(inbound)) is not None:
            self._show(key, Notice(text))
            self._loop.call_soon_threadsafe(self._wake, key)


def describe_end(question: Question, answer: Answer, person: Person | None, *, expired: bool) -> str:
    """How a question ended, for everybody who sees it, in the words of its buttons."""
    if expired:
        return NO_ANSWER
    if not answer.by:
        return NOT_NEEDED
    who = clean_name(person.name if person is not None else "") or answer.by
    choice, word = split_answer(answer.text)
    labels = dict(zip(question.choices, label_choices(question.kind, question.choices), strict=True))
    said = ": ".join(filter(None, (labels.get(choice, choice), word)))
    return f"→ {said} ({who})" if answer.given else f"→ no answer ({who})"


def keep_copy(files: HomeFiles, person: str, folder: str, file: FileRef, data: bytes) -> FileRef:
    """The file as it was, in a folder of its own in this one of the person."""
    path = files.keep_bytes(OwnName(person, f"{folder}/{uuid.uuid4().hex[:16]}/{file.name}"), data)
    return replace(file, path=str(path))
