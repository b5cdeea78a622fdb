"""What the terminals of this machine may ask of the gateway beyond sending messages, for the owner."""

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agent.providers import embedded
from agent.providers.runtime import Runtime
from gateway.platforms.face import Core
from gateway.platforms.local.house import OpenedConversation, SeenMessage
from gateway.service.admin.operations import Operations
from gateway.service.settings_watch import SettingsWatch
from gateway.turns.agent_builder import Choices, choose_model, find_chat
from gateway.turns.controls import Controls
from gateway.turns.run_turn import GatewayParts
from gateway.turns.sender import LOCAL_OWNER
from gateway.turns.sessions import find_session
from gateway.turns.threads import start_thread
from hermes_base.chat import Question
from hermes_base.conversation_key import ONCE, ConversationKey, parse_key
from hermes_base.errors import ConfigProblem
from hermes_base.inbound import Inbound, OutboxRow, read_inbound
from hermes_base.local_wire import Hello
from hermes_cli import config as cli_config
from hermes_cli.plugins import get_plugin_commands, list_changed
from hermes_constants import VERSION
from hermes_state.records import make_session_id

#: Stays under the typed line while nothing better is set up.
TOY = "A small built-in model answers: a toy without tools. `hermes setup` sets up a real one."
ReadRows = Callable[..., Awaitable[Sequence[OutboxRow]]]
USE = "/help shows the commands, Ctrl-C stops an answer, /quit leaves."


class LocalDoor:
    """The gateway as terminals see it. Whoever got this far is the owner of the machine."""

    version = VERSION

    def __init__(
        self,
        core: Core,
        parts: GatewayParts,
        controls: Controls,
        operations: Operations,
        settings_watch: SettingsWatch,
    ) -> None:
        self._parts = parts
        self._controls = controls
        self._settings_watch = settings_watch
        self._turns = parts.store.turns
        self._call = parts.call
        self.take, self.wake_delivery, self.find_last = core.take, core.wake_delivery, core.find_last
        self.knows = core.knows
        self.take_back = core.take_back
        self.perform = operations.perform
        self.confirm = parts.delivery.confirm
        self.unseen_rows: ReadRows = parts.delivery.find_unseen
        self.open_seqs = partial(parts.call, self._turns.open_seqs)
        self.outbox_since: ReadRows = partial(parts.call, self._turns.outbox_since)
        if parts.files.travels:
            self.unseen_rows = partial(self._read_with_files, self.unseen_rows)
            self.outbox_since = partial(self._read_with_files, self.outbox_since)

    async def open(self, hello: Hello) -> OpenedConversation:
        """Find or make the conversation that a terminal asks for, and keep what it chose for it."""
        if hello.model or hello.provider:  # raises what is wrong with it, before anything is changed
            await start_thread(lambda: self._find_model(hello.model, hello.provider), "find model")
        conversation, lines = await self._call(self._open, hello)
        return await start_thread(lambda: self._describe(conversation, lines), "find model")

    def _open(self, hello: Hello) -> tuple[str, list[str]]:
        store, lines = self._parts.store, []
        found = find_session(store, hello.resume) if hello.resume else None
        if found is not None:
            self._parts.endings.resume(found)
        elif hello.continue_last:
            found = next(iter(store.sessions(limit=1, person="")), None)
        if found is not None:
            conversation = found.conversation
            lines.append(f"Going on with {found.id}: {found.title or found.preview}")
        elif hello.conversation:
            conversation = str(parse_key(hello.conversation))
        else:
            chat = f"{ONCE if hello.once else ''}{make_session_id()}"
            conversation = str(ConversationKey(self._parts.profile, "local", "dm", chat))
            if hello.continue_last:
                lines.append("There is no earlier conversation to go on with; this is a new one.")
        if hello.model or hello.provider:
            before = Choices.of(store.turns.choices(conversation))
            chosen = replace(before, model=hello.model, provider=hello.provider)
            store.turns.choose(conversation, chosen.as_stored())
        return conversation, lines

    def _describe(self, conversation: str, lines: Sequence[str]) -> OpenedConversation:
        """A chat opens whatever is wrong: there the person reads it, and can put it right."""
        hint, choices = "", Choices.of(self._turns.choices(conversation))
        try:
            runtime = self._find_model(*choose_model(choices, find_chat(cli_config.load_last_good(), conversation)))
        except ConfigProblem as problem:
            wrong = f"Nobody can answer here yet: {problem}"
            use = "/model PROVIDER NAME chooses one for this conversation."
            who = [f"Hermes {VERSION} · no model", wrong, use, USE]
        else:
            who = describe_model(runtime)
            if runtime.provider == "embedded":
                hint = TOY
                embedded.start_soon()
        problems = [*list_changed(), *filter(None, [self._settings_watch.engine_problem])]
        added = sorted(get_plugin_commands().items())
        commands = tuple((name, str(facts["args_hint"]), str(facts["description"])) for name, facts in added)
        return OpenedConversation(conversation, (*who, *problems, *lines), hint, commands)

    def _find_model(self, model: str, provider: str) -> Runtime:
        return self._parts.builder.find_runtime(cli_config.load_last_good(), model, provider)

    async def stop(self, conversation: str, by: str) -> tuple[bool, str]:
        reason = f"stopped by {'the user' if by == LOCAL_OWNER.person else by}"
        return await self._controls.stop(conversation, reason), ""

    async def answer(self, question: str, text: str, by: str) -> bool:
        del by
        row = await self._call(self._parts.store.people.question, question)
        if row is None:
            return False
        return await self._controls.answer(row.conversation, question, text, LOCAL_OWNER)

    async def question(self, conversation: str) -> Question | None:
        """What is asked there; only where several processes share the store one has to look there."""
        if not self._turns.is_shared:
            return self._parts.questions.showing(conversation)
        return await self._call(self._parts.find_question, conversation)

    async def latest(self, conversation: str) -> tuple[int, int]:
        return await self._call(self._turns.latest, conversation)

    async def _read_with_files(self, read: ReadRows, *asked: Any) -> Sequence[OutboxRow]:
        """Terminals open files by their path: what another gateway has sent is laid out here."""
        rows = await read(*asked)
        if all(row.outgoing.file is None for row in rows):
            return rows
        return await self._call(lambda: [self._bring_file(row) for row in rows])

    def _bring_file(self, row: OutboxRow) -> OutboxRow:
        file = row.outgoing.file
        found = self._parts.files.find(file.path) if file is not None else None
        if file is None or found is None:
            return row
        return replace(row, outgoing=replace(row.outgoing, file=replace(file, path=str(found))))

    async def inbox_since(self, conversation: str, seq: int, limit: int) -> Sequence[tuple[int, Inbound, float]]:
        """With the time at which each was stored: only that can be told from the times of rows."""

        def read() -> Sequence[tuple[int, Inbound, float]]:
            found = self._turns.inbox_since(conversation, seq, limit, read_inbound)
            times = self._turns.times(conversation, found[0][0], found[-1][0]) if found else {}
            return [(at, said, times[at].accepted) for at, said in found if at in times]

        return await self._call(read)

    async def find(self, inbound: Inbound) -> SeenMessage | None:
        rows = await self._call(self._turns.find_message, inbound.address.account_key, inbound.stem)
        return SeenMessage(rows[-1][0], rows[-1][2]) if rows else None


def describe_model(runtime: Runtime) -> list[str]:
    """The lines that open a chat."""
    lines = [f"Hermes {VERSION} · {runtime.model} ({runtime.label}) · {runtime.source}"]
    if runtime.provider == "embedded":
        lines.append("This small model runs on this machine, and has no tools. `hermes setup` sets up a real one.")
    return [*lines, USE]
