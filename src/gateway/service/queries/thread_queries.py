"""Conversations for the page and the API: lists, finds, shows, copies and deletes them. Everybody sees their own."""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from gateway.core.text.session_export import FORMS, name_session
from gateway.core.timeline import (
    is_shortened,
    list_entries,
    list_exchanges,
    list_notes,
    may_go_on,
    merge,
    same_talk,
    squeeze,
)
from gateway.turns.agent_builder import Choices, choose_model, find_chat
from gateway.turns.lanes import Lanes
from gateway.turns.run_turn import GatewayParts
from gateway.turns.sessions import ROTATED, list_sessions
from gateway.turns.threads import start_thread
from hermes_base.conversation_key import ONCE, ConversationKey, parse_key
from hermes_base.errors import AtWork, HermesError
from hermes_base.inbound import read_inbound
from hermes_base.query_values import (
    Caller,
    Conflict,
    FoundWords,
    NotThere,
    PastExchange,
    Thread,
    Timeline,
    WaitingMessage,
)
from hermes_base.text.wrappers import bare_words
from hermes_base.turn.journal import Row
from hermes_cli import config as cli_config
from hermes_state.records import make_session_id, make_writer_id
from hermes_state.store import TITLE, NewSession, SessionInfo

T = TypeVar("T")
NOT_THERE = "There is no such conversation."
AT_WORK = "This conversation is in the middle of a turn."
LOOKED_THROUGH = 200  # sessions with the same beginning that are compared with what a client brings
NOTES_SHOWN = 500
LAST_ROWS = 40  # of a session, by which most that only begin alike are told apart
LIKENESS = 40  # characters at the beginning of a session by which it is told from others without reading it
TITLE_CHARS = 200
_NAME = re.compile(r"[\w.-]{1,64}", re.ASCII)


class ThreadQueries:
    """What reads the store does so on its threads, what looks for a model on one of its own."""

    def __init__(self, parts: GatewayParts, lanes: Lanes) -> None:
        self._parts = parts
        self._lanes = lanes

    # --- reading

    async def list(
        self, caller: Caller, *, limit: int = 50, before: float | None = None, passing: bool | None = None
    ) -> Sequence[Thread]:
        """Newest activity first; `before`: only those whose last activity is older; `passing`: only those of the API
        and of single questions, or only the others."""
        store = self._parts.store

        def read() -> Sequence[Thread]:
            wanted = lambda info: passing in (None, is_passing(info.conversation))  # noqa: E731
            found = list_sessions(store, limit, person=self.scope(caller), before=before, wanted=wanted)
            elsewhere = self._find_elsewhere([info.conversation for info in found])
            return [self._describe(info, elsewhere) for info in found]

        return await self._call(read)

    async def search(self, caller: Caller, words: str, *, limit: int = 20) -> Sequence[FoundWords]:
        store = self._parts.store

        def read() -> Sequence[FoundWords]:
            found = []
            for hit in store.search(words, limit=limit, person=self.scope(caller)):
                info = store.session(hit.session)
                if info is not None and (hit.role != TITLE or info.end_reason not in ROTATED):
                    found.append(FoundWords(self._describe(info), hit.role, hit.excerpt, hit.created))
            return found

        return await self._call(read)

    async def find(self, caller: Caller, session: str) -> Thread:
        """By its id; NotThere."""
        return await self._call(lambda: self._describe(self._find(caller, session)))

    async def timeline(
        self, caller: Caller, conversation: str, *, session: str = "", before: int | None = None, limit: int = 100
    ) -> Timeline:
        """The newest `limit` rows of the current session (or of `session`), or those before a position. A conversation
        that nobody has spoken in yet is empty; one that belongs to somebody else is NotThere."""
        read = await self._call(self._read, caller, conversation, session, before, limit)
        model, instead = await start_thread(lambda: self._name_models(conversation), "find model")
        return replace(read, model=model, answered=instead)

    def _read(self, caller: Caller, conversation: str, session: str, before: int | None, limit: int) -> Timeline:
        parts, store = self._parts, self._parts.store
        self.check(caller, conversation)
        info = self._find(caller, session) if session else store.current(conversation)
        waiting, question = self._find_waiting(conversation), parts.find_question(conversation)
        if info is None:
            notes = list_notes(parts.store.turns.outbox_from(conversation, 0.0, NOTES_SHOWN))
            return Timeline(conversation, None, tuple(notes), False, 0, waiting, question)
        rows = store.page(info.id, before=before, limit=limit + 1)
        more, rows = len(rows) > limit, rows[-limit:]
        since = rows[0].created if rows and more else info.started
        until = None if before is None else rows[-1].created if rows else info.started
        notes = list_notes(parts.store.turns.outbox_from(conversation, since, NOTES_SHOWN))
        kept = [note for note in notes if until is None or note.at <= until]
        entries = merge(list_entries(rows), kept)
        return Timeline(conversation, self._describe(info), entries, more, info.version, waiting, question)

    def _name_models(self, conversation: str) -> tuple[str, str]:
        """Which model answers next, and which one answered last in the place of the chosen one, if one did."""
        parts = self._parts
        choices = Choices.of(parts.store.turns.choices(conversation))
        agent = parts.runner.cached_agent(conversation)
        instead = agent.model if agent is not None and agent._fallback_activated else ""
        try:
            settings = cli_config.load_last_good()
            chosen = choose_model(choices, find_chat(settings, conversation))
            runtime = parts.builder.find_runtime(settings, *chosen)
        except HermesError:  # there is none now; whoever asks is told why
            return "", instead
        return runtime.model, instead

    def _find_waiting(self, conversation: str) -> tuple[WaitingMessage, ...]:
        """Messages that are not dealt with; those of the turn under way may stand in the transcript already."""
        turns = self._parts.store.turns
        opened = turns.open_seqs(conversation)
        if not opened:
            return ()
        wanted = set(opened)
        found = turns.inbox_since(conversation, opened[0] - 1, len(opened) + 100, read_inbound)
        times = turns.times(conversation, opened[0], opened[-1])
        return tuple(
            WaitingMessage(seq, said.text, said.sender_name, said.files, said.received, said.message, times[seq].begun)
            for seq, said in found
            if seq in wanted and seq in times
        )

    # --- opening

    async def open(self, caller: Caller, platform: str, *, name: str = "", model: str = "") -> str:
        """The key of a conversation of the caller on this platform, new or known by its `name`; with `model`, what
        answers there. Nothing is stored but that choice."""
        conversation, parts = self._name_conversation(caller, platform, name), self._parts

        def choose_model() -> None:
            before = Choices.of(parts.store.turns.choices(conversation))
            if before.model != model:
                parts.builder.find_runtime(cli_config.load_last_good(), model, before.provider)  # raises what is wrong
                parts.store.turns.choose(conversation, replace(before, model=model).as_stored())

        if model:
            await start_thread(choose_model, "find model")
        return conversation

    def _name_conversation(self, caller: Caller, platform: str, name: str = "") -> str:
        if name and not _NAME.fullmatch(name):
            raise HermesError(
                "A conversation's name is 1 to 64 letters, digits, dots, dashes and underscores.",
                kept="Nothing was sent.",
            )
        chat = f"{caller.person}..{name}" if name else f"{_own_prefix(caller)}{make_session_id()}"
        return str(ConversationKey(self._parts.profile, platform, "dm", chat))

    async def resume(self, caller: Caller, session: str) -> Thread:
        """Make a session its conversation's current one; Conflict while another one is at work there."""
        info = await self._call(self._find, caller, session)
        await self._call(self._parts.endings.resume, info)
        return await self.find(caller, session)

    # --- changing

    async def fork(self, caller: Caller, session: str, *, before: int | None = None, apart: bool = False) -> Thread:
        """A copy, up to a position if one is given, now the current session of the same conversation; `apart`: of a
        conversation of its own. The old one stays. Works for the empty copy, too."""
        return await self._call(self._fork, caller, session, before, apart)

    def _fork(self, caller: Caller, session: str, before: int | None, apart: bool) -> Thread:
        info = self._find(caller, session)
        target = self._name_conversation(caller, parse_key(info.conversation).platform) if apart else info.conversation
        goes_on = self._is_current(info)  # in the copy: it is the same talk
        new = self._parts.store.branch(session, before=before, conversation=target)
        if goes_on:
            self._parts.endings.let_agent_go(target, new.id, "branched")
        else:
            self._parts.endings.leave_session(target, new.id)
        return self._describe(new)

    async def rename(self, caller: Caller, session: str, title: str) -> Thread:
        title = " ".join(title.split())
        if not 0 < len(title) <= TITLE_CHARS:
            raise HermesError(f"A title has 1 to {TITLE_CHARS} characters.", kept="It was not changed.")
        await self._call(self._find, caller, session)
        await self._call(self._parts.titler.rename, session, title)
        return await self.find(caller, session)

    async def delete(self, caller: Caller, session: str) -> None:
        """Conflict while it is worked on."""
        info = await self._call(self._find, caller, session)
        if await self.is_busy(info.conversation) and await self._call(self._is_current, info):
            raise Conflict(AT_WORK, kept="Nothing was deleted.", fix="Stop it first.")
        await start_thread(lambda: self._parts.endings.delete(session), "end session")

    async def export(self, caller: Caller, session: str, form: str) -> str:
        """The whole session as "md" or "json"."""
        write = FORMS.get(form)
        if write is None:
            raise HermesError(f"There is no form {form!r}.", fix="Choose md or json.")

        def read() -> str:
            info = self._find(caller, session)
            return cli_config.redactor()(write(info, self._parts.store.said(session))) + "\n"

        return await self._call(read)

    # --- histories that clients bring

    async def match(self, caller: Caller, exchanges: Sequence[PastExchange]) -> str:
        """The conversation of this key whose transcript is just this; empty: there is none."""
        return await self._call(self._match, caller, exchanges) if exchanges else ""

    def _match(self, caller: Caller, exchanges: Sequence[PastExchange]) -> str:
        prefix = str(ConversationKey(self._parts.profile, "api", "dm", _own_prefix(caller)))
        first = squeeze(bare_words(exchanges[0].asked))[:LIKENESS]
        for info in self._parts.store.begun_so(first, conversations=prefix, limit=LOOKED_THROUGH):
            last = self._exchanges(info, LAST_ROWS)[-1:]  # none: in a long turn so few rows do not hold the question
            if last and not same_talk(last, exchanges[-1:]):
                continue
            rows = [paged.row for paged in self._parts.store.page(info.id, limit=info.version)]
            standing = list_exchanges(rows)
            if same_talk(standing, exchanges):
                return info.conversation
            if is_shortened(rows) and may_go_on(standing, list_exchanges(self._read_chain(info)), exchanges):
                return info.conversation
        return ""

    def _exchanges(self, info: SessionInfo, rows: int) -> Sequence[PastExchange]:
        return list_exchanges(paged.row for paged in self._parts.store.page(info.id, limit=rows))

    def _read_chain(self, info: SessionInfo) -> Iterator[Row]:
        """All that was ever written in a conversation that was compacted, in this session and in those before it."""
        parent = self._parts.store.session(info.parent) if info.parent else None
        if parent is not None and parent.task == info.task:
            yield from self._read_chain(parent)
        yield from self._parts.store.history(info.id)

    async def begin_with(self, caller: Caller, conversation: str, exchanges: Sequence[PastExchange]) -> None:
        """Begin a new conversation with what was said elsewhere."""
        store = self._parts.store

        def write() -> None:
            if store.current(conversation) is not None:
                raise Conflict("This conversation has begun already.", kept="Nothing was added to it.")
            platform = parse_key(conversation).platform
            redact = cli_config.redactor()
            new = store.open_session(NewSession(conversation, platform=platform, person=self.scope(caller) or ""))
            rows = [
                Row({"role": role, "content": redact(text)})
                for exchange in exchanges
                for role, text in (("user", exchange.asked), ("assistant", exchange.answered))
                if text
            ]
            store.append(new.id, make_writer_id(), 0, rows)

        await self._call(write)

    # --- whose is it

    def scope(self, caller: Caller) -> str | None:
        """Whose conversations the caller sees; None: everybody's, where all is shared."""
        if not cli_config.load_last_good().people.shared:
            return None
        return "" if caller.is_owner else caller.person

    def check(self, caller: Caller, conversation: str) -> None:
        """NotThere for what is somebody else's. A key that nobody has spoken under yet says itself whose it is."""
        try:
            key = parse_key(conversation)
        except HermesError as problem:
            raise NotThere(NOT_THERE) from problem
        scope = self.scope(caller)
        belongs = self._parts.store.people.person_of(conversation)
        own = key.platform == "api" and key.chat.partition(".")[0] == caller.person
        if (
            str(key) != conversation
            or key.profile != self._parts.profile
            or (scope is not None and belongs != scope and not (own and not belongs))
        ):
            raise NotThere(NOT_THERE)

    def _find(self, caller: Caller, session: str) -> SessionInfo:
        info = self._parts.store.session(session)
        scope = self.scope(caller)
        if info is None or (scope is not None and info.person != scope):
            raise NotThere(NOT_THERE, fix="The list shows those that there are.")
        return info

    # --- at work

    async def is_busy(self, conversation: str) -> bool:
        """Whether something is to be done there, here or in another process."""
        return self.is_working(conversation) or bool(await self._call(self._find_elsewhere, [conversation]))

    def is_working(self, conversation: str) -> bool:
        """Here."""
        lane = self._lanes.at_work.get(conversation)
        return lane is not None and lane.slot is not None

    def _is_current(self, info: SessionInfo) -> bool:
        current = self._parts.store.current(info.conversation)
        return current is not None and current.id == info.id

    def _find_elsewhere(self, conversations: Sequence[str]) -> frozenset[str]:
        """Those of them in which other processes have something to do. On a store thread."""
        turns = self._parts.store.turns
        if not turns.is_shared:
            return frozenset()
        found = turns.standings([each for each in conversations if each not in self._lanes.at_work])
        return frozenset(conversation for conversation, standing in found.items() if standing.open)

    def _describe(self, info: SessionInfo, elsewhere: frozenset[str] | None = None) -> Thread:
        """`elsewhere`: what is known of where other processes are at work; None: that is looked up."""
        current, conversation = self._is_current(info), info.conversation
        if elsewhere is None:
            elsewhere = self._find_elsewhere([conversation])
        is_elsewhere, questions = current and conversation in elsewhere, self._parts.questions
        return Thread(
            info.id,
            info.conversation,
            name_session(info),
            info.preview,
            info.platform,
            info.model,
            info.started,
            info.updated,
            info.messages,
            info.task,
            info.parent or "",
            current,
            is_elsewhere or (current and self.is_working(conversation)),
            (current and questions.is_waiting(conversation))
            or (is_elsewhere and questions.asked_elsewhere(conversation) is not None),
        )

    async def _call(self, work: Callable[..., T], *args: Any) -> T:
        try:
            return await self._parts.call(work, *args)
        except AtWork as problem:
            raise Conflict(AT_WORK, kept=problem.kept, fix=problem.fix) from problem


def _own_prefix(caller: Caller) -> str:
    """The beginning of the chats that belong to one key."""
    return f"{caller.person}.{caller.key}."


def is_passing(conversation: str) -> bool:
    """Whether a program asked, or a person who wanted one answer: nobody looks for it among their conversations."""
    try:
        key = parse_key(conversation)
    except HermesError:  # of a host that names them otherwise
        return False
    return key.platform == "api" or key.chat.startswith(ONCE)
