"""Runs one turn on its thread: begins it in the store, claims the agent, lets it work, and leaves all in place."""

import asyncio
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from gateway.core import bursts, clocks
from gateway.core.agent_cache import HeldTranscript
from gateway.core.bursts import Item
from gateway.core.drafts import Draft, name_attempt
from gateway.core.meters import Meters
from gateway.core.people import Scope, scope_of
from gateway.core.quiet_hours import zone_or_own
from gateway.core.text import takeover_words as takeover
from gateway.delivery.delivery import Delivery, DraftFeed, LiveEvents
from gateway.delivery.hints import ALL_NODES, Hints
from gateway.platforms.face import Adapter, LiveEvent, Taken
from gateway.platforms.platform_list import spec_of
from gateway.run import GatewayRunner
from gateway.turns.agent_builder import AgentPlan, Builder, Choices, choose_model
from gateway.turns.endings import Endings
from gateway.turns.questions import Questions, TurnAsker
from gateway.turns.sender import WORKSPACE, make_folders, name_beginner, open_folder
from gateway.turns.threads import EventPipe, StoreFace
from gateway.turns.titling import Titler
from gateway.turns.transcribing import read_images
from gateway.turns.whereabouts import Whereabouts, choose_notes
from hermes_base.chat import Answer, Asker, LastingNotice, Notice, Question, ReasoningDelta, TextDelta, TextEnded
from hermes_base.errors import ConfigProblem, Fenced, HermesError, StoreFailure
from hermes_base.files.home_files import HomeFiles
from hermes_base.inbound import NOTE, NOTICE, Outgoing, as_fields, name_question
from hermes_base.settings import Settings
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.journal import TurnEnd
from hermes_cli import config as cli_config
from hermes_state.files.shared_folders import SharedFolders
from hermes_state.people_store import HeardNote
from hermes_state.sql.store_sql import Store
from hermes_state.sql.turns_sql import check_claim
from hermes_state.store_journal import StoreJournal
from hermes_state.turns import BegunTurn, Claim
from run_agent import AIAgent
from run_agent.events import Listeners
from run_agent.options import TurnOptions
from tools.process_registry import process_registry

log = logging.getLogger(__name__)

GOING_ON = "Hermes was restarted; going on with your message."
TRYING_AGAIN = "Going on with your message now."
GIVEN_UP = {
    "attempts": "the work on this broke off three times",
    "age": "the program was restarted, and the message is more than an hour old",
}
BY_NEW_MESSAGE = "a new message came"  # why a turn was stopped


@dataclass(frozen=True, slots=True)
class Again:
    """A question that is asked once more, with all that came along with it (`/retry`)."""

    text: str
    parts: tuple[Mapping[str, Any], ...] = ()  # images
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """What is done next, as it is handed to a thread."""

    claim: Claim
    items: tuple[Item, ...]
    depth: int = 0
    again: Again | None = None
    failed: bool = False  # it was tried here before, and something was in the way
    first: Item = field(init=False)
    seqs: tuple[int, ...] = field(init=False)
    #: The one name of its turn, from the inbox to the log: the same for every attempt, so that a turn that goes on
    #: takes up the draft that it had.
    turn: str = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "first", self.items[0])
        object.__setattr__(self, "seqs", tuple(item.row.seq for item in self.items))
        object.__setattr__(self, "turn", f"{self.claim.conversation}#{self.first.row.seq}")


@dataclass(frozen=True, slots=True)
class JobDone:
    """What became of a job."""

    closed: tuple[int, ...] = ()  # messages that are dealt with
    again: Again | None = None  # of a command: what is asked as the turn of the same message
    moved: str = ""  # of a command: the conversation that its sender goes on in


class LiveTurn:
    """The turn under way, as the loop and its thread share it."""

    def __init__(self, job: Job, questions: Questions) -> None:
        self._job = job
        self._questions = questions
        self._asker: TurnAsker | None = None
        self._lock = threading.Lock()
        self._agent: AIAgent | None = None
        self._journal: StoreJournal | None = None
        self.suspended = False
        self.cancel = CancelToken()  # of the turn, from the moment it is claimed

    @property
    def steerable(self) -> bool:
        return self._agent is not None

    def attach(self, agent: AIAgent, journal: StoreJournal) -> None:
        """From here on it can be told something; Fenced when it was suspended before it had begun."""
        with self._lock:
            if self.suspended:
                raise Fenced("This turn was stopped before it had begun.", kept="Its message is kept.")
            self._agent, self._journal = agent, journal

    def detach(self) -> None:
        with self._lock:
            self._agent = self._journal = None

    def begin_asking(self) -> Asker:
        """From now on it may ask whoever began it."""
        job, sender = self._job, self._job.first.view.sender
        self._asker = self._questions.begin_turn(job.claim.conversation, job.turn, sender.person, sender.role)
        return self._asker.ask

    def void_questions(self) -> None:
        if self._asker is not None:
            self._questions.void_turn(self._asker)

    def stop(self, reason: str) -> None:
        self.void_questions()
        self.cancel.cancel(reason)
        agent = self._agent
        if agent is not None:
            agent.interrupt(reason)  # its children too

    def steer(self, text: str, inbox: tuple[int, ...]) -> bool:
        agent = self._agent
        return agent is not None and agent.steer(text, inbox)

    def suspend(self) -> None:
        with self._lock:
            self.suspended = True
            if self._journal is not None:
                self._journal.suspend()

    def leave_behind(self) -> AIAgent | None:
        """Its thread does not come back: wait, on the caller's thread, until it writes nothing more. Its agent, if it
        has one by now."""
        self.suspend()
        with self._lock:
            agent, journal = self._agent, self._journal
        if journal is not None:
            journal.settle()
        return agent

    def signs(self) -> clocks.Signs:
        agent = self._agent
        asking = self._questions.is_waiting(self._job.claim.conversation)
        if agent is None:
            return clocks.Signs(asking=asking)
        children = max((child._last_activity_ts for child in agent.children), default=0.0)
        running = len(process_registry.awaited(agent.task_id))
        return clocks.Signs(agent._last_activity_ts, children, running, asking)


@dataclass(frozen=True, slots=True)
class GatewayParts:
    """What a gateway is made of; turns, commands and queries work with it."""

    home: Path
    profile: str
    started: float
    loop: asyncio.AbstractEventLoop
    call: StoreFace  # of the store, from the loop
    store: Store
    files: HomeFiles
    folders: SharedFolders | None  # memory and skills, where other gateways have them, too
    runner: GatewayRunner
    builder: Builder
    questions: Questions
    adapters: Sequence[Adapter]
    delivery: Delivery
    whereabouts: Whereabouts
    live_events: LiveEvents
    endings: Endings
    titler: Titler
    meters: Meters
    hints: Hints  # from and to other processes

    def find_question(self, conversation: str) -> Question | None:
        """What is asked there, by a turn here or in another process. On a store thread."""
        asked = self.questions.showing(conversation) or self.questions.asked_elsewhere(conversation)
        if asked is None or asked.reason:
            return asked
        said = self.store.turns.outbox_named(conversation, name_question(asked.id))
        return asked if said is None else replace(asked, reason=said.outgoing.reason)

    async def look_for_shown(self, conversation: str = "") -> None:
        """Questions, those of one conversation or all, that another process has sent stand before their people by now.
        An answer may come right behind one."""
        for place, question in self.questions.list_unshown(conversation):
            age = await self.call(self.store.turns.outbox_age, place, name_question(question))
            if age is not None:
                self.questions.note_shown(question, age)


@contextmanager
def hold_agent(
    parts: GatewayParts,
    plan: AgentPlan,
    job: Job,
    live: LiveTurn,
    turn: BegunTurn,
    answer: Callable[[TurnEnd], Sequence[Outgoing]],
    tell_taken: Callable[[tuple[int, ...]], None] = lambda _: None,
    keep_files: Callable[[], None] | None = None,
) -> Iterator[AIAgent]:
    """The conversation's agent for itself, its writes fenced by the messages of this turn or command. It is given back
    however that ends, also before it has begun: the only way to claim one."""
    key, standing = job.claim.conversation, turn.standing
    if standing is None:
        current = parts.store.current(key)
        standing = (current.id, current.version) if current else ("", 0)
    agent: AIAgent = parts.runner.claim_agent(
        key, plan.signature, lambda: parts.builder.build(plan), interrupt_depth=job.depth, standing=standing
    )
    journal = _journal_of(agent)
    try:
        journal.bind(job.claim, turn, answer, tell_taken, standing, keep_files)
        live.attach(agent, journal)
        yield agent
    except Fenced:
        if keep_files is not None:
            with suppress(StoreFailure):  # they are put aside if the conversation is another's
                keep_files()
        raise
    finally:
        live.detach()
        journal.suspend()
        size, unsaved = agent.size
        parts.runner.finish_turn(key, agent, HeldTranscript(*journal.place, size, unsaved))


class TurnPerformer:
    def __init__(self, parts: GatewayParts) -> None:
        self._parts = parts

    def perform(self, job: Job, live: LiveTurn) -> JobDone:
        """The turn of these messages, from its first row in the store to its last."""
        goes_on = any(item.row.attempts for item in job.items) and not live.cancel.cancelled
        going_on = self._unasked(job, make_going_on(job)) if goes_on else None
        try:
            plan = self.make_plan(job.claim.conversation, job.first, needs_model=False)
        except ConfigProblem as problem:  # not even a folder to work in, until the owner puts it right
            return self.refuse(job, str(problem))
        if not plan.runtime.api_key and (plan.runtime.key_env or plan.runtime.provider != "custom"):
            self._pass_on(job, plan)
        speaker = job.first.view.sender.person
        folders, person = self._parts.folders, plan.scope.person_id
        files_of = None if folders is None else person
        turn = self._parts.store.turns.begin(job.claim, job.seqs, going_on, plan.changed, speaker, files_of)
        if turn is None:  # one of them was dealt with meanwhile; the others are looked at again
            still_open = {row.seq for row in self._parts.store.turns.waiting(job.claim)}
            return JobDone(tuple(seq for seq in job.seqs if seq not in still_open))
        for item in job.items:
            if not item.row.attempts:  # what is tried again has waited for other reasons
                self._parts.meters.wait_seconds.note(time.time() + item.row.ahead - item.row.accepted)
        if turn.given_up:
            return self._write_end(job, turn, GIVEN_UP[turn.given_up])
        address, drawn = job.first.inbound.address, find_drawn(job, anew=going_on is not None)
        said_of_end: list[Outgoing] = []

        def answer(end: TurnEnd) -> Sequence[Outgoing]:
            drafts = not spec_of(address.platform).shows_events
            draft = self._parts.delivery.close_draft(address, drawn.turn) if drafts else ""
            said_of_end[:] = self._answer(job, end, draft or drawn.message)
            return said_of_end

        pipe = self._make_pipe(job, live, plan.settings, drawn)
        keep_files: Callable[[], None] | None = None
        if folders is not None:
            fence = check_claim(job.claim)
            self._tell_of_files(job, pipe, folders.lay_out(person, turn.revisions, fence))
            self._move_in(job, pipe, plan, folders)
            keep_files = lambda: self._tell_of_files(job, pipe, folders.write_back(person, fence))  # noqa: E731
        taken: Callable[[tuple[int, ...]], None] = lambda seqs: pipe.put(Taken(seqs))  # noqa: E731
        with hold_agent(self._parts, plan, job, live, turn, answer, taken, keep_files) as agent:
            journal = _journal_of(agent)
            try:
                self._run(job, turn, plan, agent, pipe, live)
            finally:
                live.void_questions()
            for outgoing in said_of_end:
                if outgoing.address != address:  # which its lane looks to, when the messages are closed
                    self._parts.delivery.wake(outgoing.address)
            if plan.runtime.api_mode and spec_of(address.platform).shows_titles:
                self._parts.titler.look_at(job.claim.conversation, journal.place[0], plan.runtime)
            return JobDone(journal.closed)

    def _pass_on(self, job: Job, plan: AgentPlan) -> None:
        """Fenced when another gateway has a key that is missing here: the conversation is free for it."""
        turns, key = self._parts.store.turns, job.claim.conversation
        needs = plan.runtime.provider if any(choose_model(plan.choices, plan.chat)) else ""
        if turns.is_shared and turns.pass_on(job.claim, needs):
            self._parts.hints.tell(ALL_NODES, key)
            raise Fenced(f"Another gateway can ask {plan.runtime.label or 'a model'}, and this one lacks the key.")

    def _make_pipe(self, job: Job, live: LiveTurn, settings: Settings, drawn: Draft) -> EventPipe:
        """Events of the turn: to everyone who looks at the conversation, and as a draft into the chat."""
        parts, key, address = self._parts, job.claim.conversation, job.first.inbound.address
        shows, progress = spec_of(address.platform).shows_events, settings.gateway.tool_progress
        is_silent = shows or (job.first.inbound.origin == NOTICE and self._must_be_quiet(job))
        if is_silent:
            return EventPipe(parts.loop, partial(parts.live_events.show, key))
        draft = DraftFeed(parts.delivery, address, drawn.turn, progress, drawn.message)
        parts.loop.call_soon_threadsafe(draft.begin)  # this is the turn's thread; drafts live on the loop

        def show(event: LiveEvent) -> None:
            parts.live_events.show(key, event)
            if not live.suspended:
                draft.show(event)

        return EventPipe(parts.loop, show)

    def _must_be_quiet(self, job: Job) -> bool:
        """Whether the person of a turn that nobody asked for wants to hear nothing of that kind now."""
        first = job.first
        return self._parts.whereabouts.find_quiet(first.inbound.address, first.view.sender.person) > 0

    def _unasked(self, job: Job, outgoing: Outgoing) -> Outgoing:
        """A word of the turn; of one that nobody asked for, it may have to wait."""
        first = job.first
        is_notice = first.inbound.origin == NOTICE
        return self._parts.whereabouts.quieten(outgoing, first.view.sender.person) if is_notice else outgoing

    def _answer(self, job: Job, end: TurnEnd, draft: str = "") -> list[Outgoing]:
        """What is said of the end of a turn, and where: what nobody waits for goes where its person is."""
        said, first = answer_of(job, end, draft), job.first
        address = first.inbound.address
        is_awaited = not spec_of(address.platform).is_program or self._parts.delivery.is_there(address)
        if first.inbound.origin != NOTICE and is_awaited:
            return [said]
        return self._parts.whereabouts.spread(job.claim.conversation, said, first.view.sender.person)

    def give_up(self, job: Job, live: LiveTurn, reason: str) -> JobDone:
        """Close a turn whose thread does not come back: another agent writes its end."""
        self._parts.runner.abandon_turn(job.claim.conversation, live.leave_behind())
        taken = frozenset(row.seq for row in self._parts.store.turns.waiting(job.claim) if row.taken)
        turn = BegunTurn(min(job.seqs), job.seqs, job.first.row.attempts + 1, taken)
        return self._write_end(job, turn, reason)

    def refuse(self, job: Job, why: str, stopped: str = "") -> JobDone:
        """Close messages whose turn can neither run nor end in order: nothing but this is written. `stopped` says by
        whom it was, if it was."""
        end = TurnEnd("", False, True, stopped) if stopped else TurnEnd(why, completed=False, failed=True)
        self._parts.store.turns.complete(job.claim, job.seqs, None, self._answer(job, end))
        return JobDone(job.seqs)

    def make_plan(self, key: str, item: Item, *, needs_model: bool = True) -> AgentPlan:
        """What the agent has to be for whoever speaks, where they speak; nothing is stored yet."""
        settings = cli_config.load_last_good()
        inbound, sender = item.inbound, item.view.sender
        stored, belongs = self._parts.store.turns.choices_and_person(key)
        scope = Scope()  # all is the owner's
        if settings.people.shared:
            scope = scope_of(inbound.address.kind, sender.role, sender.person, key, shared=True, belongs=belongs)
        before = Choices.of(stored)
        own = open_folder(self._parts.home, scope) if scope.folder else None
        here = "" if self._parts.folders is None else self._parts.folders.place
        moved_from = before.place if here and before.place and not takeover.is_same_home(before.place, here) else ""
        folder = str(own / WORKSPACE) if own else inbound.folder or ("" if moved_from else before.folder)
        missing = folder if here and folder and not os.path.isdir(folder) else ""
        if missing or not folder:  # where a conversation without a terminal works
            folder = str(make_folders(self._parts.home / WORKSPACE))
        now = replace(
            before,
            folder=folder,
            address=as_fields(inbound.address),
            person=sender.person,
            role=sender.role,
            place=here or before.place,
            began=before.began or name_beginner(inbound),
        )
        plan = self._parts.builder.plan(key, settings, now, scope, needs_model=needs_model)
        changed = None if now == before else now.as_stored()
        return replace(plan, changed=changed, moved_from=moved_from, missing_folder=missing)

    def _run(self, job: Job, turn: BegunTurn, plan: AgentPlan, agent: AIAgent, pipe: EventPipe, live: LiveTurn) -> None:
        first = job.first
        if first.row.attempts:  # what an earlier attempt showed of an answer that it did not finish
            pipe.put(TextEnded(kept=False))
        agent.reasoning_config = plan.reasoning
        told, left_out = self._choose_notes(job, turn.notes) if turn.notes else ((), "")
        hint = "" if turn.standing and turn.standing[1] else spec_of(first.inbound.address.platform).hint
        given = TurnOptions(
            plan.choices.folder,
            first.view.sender.person,
            ask_nobody if first.inbound.origin == NOTICE and self._must_be_quiet(job) else live.begin_asking(),
            first.inbound,
            plan.settings,
            plan.fallbacks,
            plan.settings.agent.max_iterations,
            (
                *bursts.list_foreign(job.items),
                *(job.again.foreign if job.again else ()),
                *dict.fromkeys(note.origin for note in told if note.origin),
            ),
            cancel=live.cancel,
            listeners=Listeners(
                stream_delta_callback=lambda text: pipe.put(TextDelta(text)),
                reasoning_callback=lambda text: pipe.put(ReasoningDelta(text)),
                text_end_callback=pipe.put,
                tool_progress_callback=pipe.put,
                status_callback=lambda notice: self._tell(job, pipe, notice),
                switch_callback=self._parts.meters.switches.add,
            ),
            turn=job.turn,
            zone=zone_or_own(turn.timezone) if turn.timezone else None,
        )
        for word in filter(None, (left_out, *(note.text for note in told), hint)):
            agent.tell_model(word)
        fresh = [item for item in job.items if item.row.seq not in turn.taken]
        said = bursts.text_of(fresh, bursts.find_windows(first))
        files = [file for item in fresh for file in item.inbound.files if file.kind == "image"]
        images = read_images(files) if files else []
        content: str | list[dict[str, Any]] = [{"type": "text", "text": said}, *images] if images else said
        if job.again is not None and fresh:  # as it was asked before, its images too
            again = job.again
            content = [{"type": "text", "text": again.text}, *map(dict, again.parts)] if again.parts else again.text
        began, result = time.monotonic(), "cut"  # by the store, or by whoever took the conversation over
        try:
            ended = agent.run_conversation(
                content,
                inbox=tuple(item.row.seq for item in fresh),
                goes_on=bool(turn.taken),
                given=given,
            )
            result = "interrupted" if ended["interrupted"] else "completed" if ended["completed"] else "failed"
        finally:
            self._parts.meters.turns.add(result)
            self._parts.meters.turn_seconds.note(time.monotonic() - began)
            if pipe.first_text_at:
                self._parts.meters.first_text_seconds.note(pipe.first_text_at - began)
            if turn.notes:
                self._parts.store.habits.drop_notes(turn.notes)  # the agent keeps what it did not get to say

    def _choose_notes(self, job: Job, heard: Sequence[HeardNote]) -> tuple[Sequence[HeardNote], str]:
        """Of what was said without the model what it is told now, and a line on what is left out."""
        current = self._parts.store.current(job.claim.conversation)
        return choose_notes(heard, current.task if current else "")

    def _tell(self, job: Job, pipe: EventPipe, notice: Notice) -> None:
        """Show a notice; what lasts is a message in chats that show no events (D12, E3), and whoever looks at such a
        chat from elsewhere reads that. On the turn's thread."""
        address = job.first.inbound.address
        if not isinstance(notice, LastingNotice) or spec_of(address.platform).shows_events:
            pipe.put(Notice(notice.text, notice.level))
        else:
            note = self._unasked(job, Outgoing(address, notice.text, NOTE, notice.level))
            self._parts.store.turns.post(job.claim.conversation, f"notice:{uuid.uuid4().hex[:16]}", note)
            self._parts.delivery.wake(address)

    def _move_in(self, job: Job, pipe: EventPipe, plan: AgentPlan, folders: SharedFolders) -> None:
        """The conversation was on another machine before, or its folder is there: what can be had is laid out, and what
        cannot is told."""
        parts, key, here = self._parts, job.claim.conversation, takeover.describe_home(folders.place)
        tell_model = parts.runner.notes_of(key).append
        if plan.missing_folder:
            tell_model(takeover.NO_FOLDER.format(folder=plan.missing_folder, here=here, instead=plan.choices.folder))
        current = parts.store.current(key) if plan.moved_from else None
        if current is None:
            return
        there, rows = takeover.describe_home(plan.moved_from), []
        with suppress(StoreFailure):  # what cannot be laid out is not here, and a tool that reads it says so
            rows = [paged.row for paged in parts.store.page(current.id, limit=takeover.ROWS_LOOKED_AT)]
            for path in islice(takeover.list_named(rows), takeover.MOST_NAMED):
                name = parts.files.name(path)
                if name is not None and name.person == plan.scope.person_id:
                    parts.files.find(path)
        tell_model(takeover.TOLD_MODEL.format(here=here, there=there, folder=plan.choices.folder))
        if takeover.used_tools(rows):
            self._tell(job, pipe, LastingNotice(takeover.TOLD_PERSON.format(here=here, there=there)))

    def _tell_of_files(self, job: Job, pipe: EventPipe, words: Sequence[str]) -> None:
        """What the person and the model have to know of memory and skills."""
        for word in words:
            self._parts.runner.notes_of(job.claim.conversation).append(word)
            self._tell(job, pipe, LastingNotice(word, "warning"))

    def _write_end(self, job: Job, turn: BegunTurn, reason: str) -> JobDone:
        agent = self._parts.builder.build(self.make_plan(job.claim.conversation, job.first, needs_model=False))
        journal = _journal_of(agent)
        journal.bind(job.claim, turn, lambda end: self._answer(job, end, job.first.row.draft))
        fresh = [item for item in job.items if item.row.seq not in turn.taken]
        words = [item for item in fresh if not item.is_command]
        said = job.again.text if job.again else bursts.text_of(words, bursts.find_windows(job.first))
        self._parts.meters.turns.add("given_up")
        try:
            agent.give_up_turn(reason, said, tuple(item.row.seq for item in fresh))
            return JobDone(journal.closed)
        finally:
            agent.release_clients()


def make_going_on(job: Job) -> Outgoing:
    """The word that a turn is gone on with. It takes the place of what was shown before, so that the answer comes below
    it, as a message of its own (C10)."""
    said, before = TRYING_AGAIN if job.failed else GOING_ON, find_drawn(job, anew=False)
    place = before.message or (before.key if job.first.row.attempts else "")
    return Outgoing(job.first.inbound.address, said, NOTE, draft=place)


def find_drawn(job: Job, *, anew: bool) -> Draft:
    """The draft that the turn draws: another one if it is told that it is gone on with, else the one from before."""
    row = job.first.row
    if not row.attempts:
        return Draft(job.turn, message=row.draft)
    if anew:
        return Draft(name_attempt(job.turn, row.attempts))
    return Draft(name_attempt(job.turn, row.attempts - 1), message=row.draft)


def ask_nobody(question: Question) -> Answer:
    """Nobody is woken for the question of a turn that nobody asked for."""
    log.info("not asked during quiet hours: %s", question.kind)
    return Answer("", given=False, by="")


def answer_of(job: Job, end: TurnEnd, draft: str = "") -> Outgoing:
    """What is said of the end of a turn: the answer, or what there is of it and who stopped it (C6)."""
    inbound, text, reason = job.first.inbound, end.text, end.reason
    if end.interrupted:
        by_message = reason == BY_NEW_MESSAGE
        reason = "Interrupted by your new message." if by_message else f"Interrupted: {reason.rstrip('.')}."
        text = f"{text}\n\n({reason})".strip()
    return Outgoing(
        inbound.address,
        text,
        level="error" if end.failed else "info",
        reply_to=inbound.message if inbound.address.kind != "dm" else "",
        completed=end.completed,
        interrupted=end.interrupted,
        reason=reason,
        draft=draft,
        turn=job.turn,
        origins=end.origins,
    )


def _journal_of(agent: AIAgent) -> StoreJournal:
    journal = agent.journal
    if not isinstance(journal, StoreJournal):
        raise HermesError("This agent was not built for a gateway.")
    return journal
