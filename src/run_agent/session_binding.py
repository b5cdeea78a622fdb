"""The conversation of an agent: how it is loaded, made shorter and taken back, and how the context engine follows it
from session to session, through rotation, to the end."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from agent import auxiliary_client
from agent.context_compressor import ContextCompressor
from agent.formats.repair import repair_after
from agent.formats.reply import Reply
from agent.turn import rules
from agent.turn.compaction import BYTES_A_TOKEN
from agent.turn.conversation import Conversation, Exchange, PrefixBreak
from agent.turn.ports import TurnFacts
from hermes_base.chat import Notice
from hermes_base.errors import ModelFailure
from hermes_base.text.foreign import ForeignText
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.hooks import Hooks
from hermes_base.turn.journal import TOOLS, Journal, Row, TurnEnd, UsageRow, head_row
from hermes_base.turn.tool_context import ToolContext
from hermes_base.turn.turn_context import TurnContext
from hermes_cli.plugins import get_plugin_manager
from hermes_constants import get_hermes_home
from run_agent import engines, memory_binding
from run_agent.engine_guard import GuardedEngine
from run_agent.hands import tool_names_in
from run_agent.memory_binding import AgentMemory
from run_agent.options import AgentOptions, TurnOptions
from run_agent.runtime_switch import SwitchableRuntime
from tools import mcp
from tools.builtin.indirect_tools import name_of
from tools.registry import registry


class SessionBinding(SwitchableRuntime):
    """The engine of an agent is told of every change of session; whoever knows a session's id learns the new one."""

    tools: Sequence[Mapping[str, Any]] = ()
    session_id: str = ""
    platform: str = ""
    journal: Journal
    _hooks: Hooks
    _engine_hold: object = None  # kept as long as the agent is there
    _options: AgentOptions
    _turn_id: str = ""
    _conversation: Conversation | None = None
    _cached_system_prompt: str | None = None
    _gateway_session_key: str = ""
    _left_session: str = ""  # which one a person left for this one, until the memory hears of it
    _bound_session: str = ""  # which session the engine was told of last
    _memory: AgentMemory | None = None  # of a provider that the settings name
    _turn_options: TurnOptions = TurnOptions()
    _told_by_tools: tuple[Any, tuple[str, ...]] = (None, ())  # whose words stand in which array of tools

    @property
    def task_id(self) -> str:
        """Owner of shells and processes: the first session of the chain."""
        return self._conversation.task if self._conversation is not None else self.session_id

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The conversation as it stands."""
        return list(self._load_conversation().messages)

    def _load_conversation(self) -> Conversation:
        """The warm one while it is what the store has; else read anew."""
        warm = self._conversation
        if warm is None or (warm.session, warm.version) != self.journal.standing():
            warm = self._conversation = Conversation(self.journal.load())
            if warm.session != self._bound_session:
                self._begin_session(warm.session)
        return warm

    def _take_history(self, history: Sequence[Mapping[str, Any]]) -> Conversation:
        """A history from the caller: what it adds is appended; where it contradicts what was sent, it replaces it."""
        conversation = self._load_conversation()
        kept, repaired = repair_after(history, conversation.count_same(history))
        known, same = len(conversation), conversation.count_same(repaired, kept)
        if same == known:
            rows = [Row(message) for message in repaired[known - kept :]]
            if rows:
                conversation.note(rows, self.journal.append(rows))
            return conversation
        given = [*conversation.say_again(kept), *repaired]
        self.journal.rotate("history_replaced", [Row(message) for message in given])
        replaced = PrefixBreak("history_replaced", same)
        self.journal.broke(replaced.reason, replaced.position)
        old, self._conversation = conversation, Conversation(self.journal.reload(), replaced)
        self._session_rotated(old.session, self._conversation.session, old.messages)
        return self._conversation

    def _find_foreign(self, facts: TurnFacts, conversation: Conversation) -> ForeignText:
        """What is in sight from the start: of the transcript, of the array of tools, and of what came along (G9)."""
        sent = conversation.frozen.get((TOOLS, "neutral"), b"[]")
        if self._told_by_tools[0] != (array := (sent, self.tools, registry._generation)):
            self._told_by_tools = array, mcp.find_origins({*tool_names_in(sent), *map(name_of, self.tools)})
        foreign = ForeignText((*conversation.marks.seen_by(facts.sender), *self._told_by_tools[1]))
        for origin in self._turn_options.foreign:
            foreign.note(origin)
        return foreign

    def _turn_context(self, cancel: CancelToken, facts: TurnFacts, tools: ToolContext | None = None) -> TurnContext:
        """What plugins find out about the turn without asking."""
        pay, run, key = partial(self._charge, facts.turn), self._turn_options, self._gateway_session_key
        ids = cancel, facts.session, facts.task, self.platform
        return TurnContext(*ids, pay, run.asked, key, facts.turn, tools, run.asker)

    # --- taking back what was said last; nothing is deleted

    def last_exchange(self) -> Exchange | None:
        """What the person asked last, as far as it stands and was not compacted."""
        return self._load_conversation().find_last_exchange()

    @property
    def is_compacted(self) -> bool:
        """Whether something in the conversation stands for what was said before."""
        return self._load_conversation().is_compacted

    def estimate_tokens(self, keep: int) -> int:
        """Roughly what the first messages, the tools and the prompt take in a request."""
        return self._load_conversation().estimate_bytes(keep) // BYTES_A_TOKEN

    def take_back_last_turn(self, *, last: bool = False) -> str | None:
        """Undo the last exchange: the question, what was put into its turn, the answer. Its text, or None when there is
        none. The provider's last count was of what is gone now, so it counts no more (E4).

        `last`: this is all that is done for the message that asked for it.
        """
        conversation = self._load_conversation()
        exchange = conversation.find_last_exchange()
        if exchange is None:
            return None
        taken_back = [head_row(exchange.place)]
        version = self.journal.finish(taken_back, (), TurnEnd("")) if last else self.journal.append(taken_back)
        conversation.forget_after(exchange.place, version)
        self.context_compressor.last_prompt_tokens = 0
        if self._memory is not None:
            self._memory.move(conversation.session, reset=False, rewound=True)
        return exchange.text

    # --- the memory provider

    def _choose_memory(self) -> AgentMemory | None:
        """The provider that the settings name, not opened yet; None for an agent without one."""
        name = "" if self._options.get("skip_memory") else memory_binding.name_provider(self._settings)
        key = self._gateway_session_key or self.session_id
        return AgentMemory(name, key, self._describe_for_memory, self.emit) if name else None

    def _describe_for_memory(self) -> dict[str, Any]:
        scope = self._options.get("memory_scope") or {}
        told = memory_binding.describe_agent(self.platform, self._gateway_session_key, scope)
        callbacks = {
            "warning_callback": lambda text: self.emit(Notice(str(text), "warning")),
            "status_callback": lambda text: self.emit(Notice(str(text))),
        }
        return told | (callbacks if told["platform"] == "cli" else {})

    def _open_memory(self, memory: AgentMemory, session: str) -> None:
        """The provider, for the session that is served now; its tools are offered."""
        if memory.open(session):
            self.tools = self._offered_tools()
        left, self._left_session = self._left_session, ""
        if left:
            memory.follow_new(left)

    def _offered_tools(self) -> Sequence[Mapping[str, Any]]:
        raise NotImplementedError

    # --- the context engine

    def shutdown_memory_provider(self, messages: Sequence[Mapping[str, Any]] | None = None) -> None:
        """The conversation is over: the engine may store what it keeps of it."""
        conversation = self._conversation
        spoken = list(messages) if messages is not None else (conversation.messages if conversation else [])
        if spoken:
            engines.call_if_there(self.context_compressor, "on_session_end", self.session_id, spoken)
            if self._memory is not None:
                self._memory.end(self.session_id, spoken)

    def leave_for(self, session: str, reason: str) -> None:
        """The conversation goes on in another session, with another agent: the memory hears of it."""
        if self._memory is not None:
            self._memory.move(session, reset=False, reason=reason)

    def release_clients(self) -> None:
        super().release_clients()
        if self._memory is not None:
            self._memory.close()

    def reset_session_state(
        self,
        previous_messages: Sequence[Mapping[str, Any]] | None = None,
        old_session_id: str | None = None,
        carry_over_context: bool = False,
    ) -> None:
        """Forget the conversation in memory; with what the old session was, the engine is moved to the new one."""
        self._conversation = None
        self._cached_system_prompt = None
        if self._memory is not None:
            ended = list(previous_messages) if previous_messages else None
            self._memory.move(self.session_id, ended, reset=True, reason="new_session")
        self._transition_context_engine_session(
            old_session_id=old_session_id,
            new_session_id=self.session_id,
            previous_messages=previous_messages,
            carry_over_context=carry_over_context,
        )

    def _transition_context_engine_session(
        self,
        *,
        old_session_id: str | None = None,
        new_session_id: str | None = None,
        previous_messages: Sequence[Mapping[str, Any]] | None = None,
        carry_over_context: bool = False,
    ) -> None:
        """End, reset, start, carry over: each step stands on its own, so that one failing leaves the others."""
        engine, new = self.context_compressor, new_session_id or self.session_id
        if previous_messages:
            engines.call_if_there(engine, "on_session_end", old_session_id or new, list(previous_messages))
        engines.call_if_there(engine, "on_session_reset")
        if old_session_id or previous_messages or carry_over_context:
            moved = {"old_session_id": old_session_id, "carry_over_context": carry_over_context}
            engines.bind_session(engine, new, {**moved, **self._engine_facts()})
        if carry_over_context:
            engines.call_if_there(engine, "carry_over_new_session_context", old_session_id, new)
        self._bound_session = new

    def _begin_session(self, session: str) -> None:
        """Bind the engine to a session that there is; if a person left another one for it, it hears which, and so do
        plugins."""
        left = self._options.get("reset_from", str)()
        if not left or left == session:
            self._bind_engine(session)
            return
        self.session_id, self._left_session = session, left
        self._transition_context_engine_session(old_session_id=left, new_session_id=session)
        ids = {"session_id": session, "old_session_id": left, "new_session_id": session}
        self._hooks.invoke("on_session_reset", **ids, platform=self.platform, reason="new_session")

    def _bind_engine(self, session: str, **facts: Any) -> None:
        """Tell the engine which session it works for; only of one that there is."""
        self.session_id = self._bound_session = session
        engines.bind_session(self.context_compressor, session, {**facts, **self._engine_facts()})

    def _session_rotated(self, old: str, new: str, messages: list[dict[str, Any]]) -> None:
        """A compaction moved the conversation to a new session: everyone who knows the old id learns the new one."""
        engines.call_if_there(self.context_compressor, "on_session_end", old, messages)
        if self._memory is not None:
            self._memory.move(new, messages, reset=False, reason="compression")
        self._bind_engine(new, boundary_reason="compression", old_session_id=old)

    def _engine_facts(self) -> dict[str, Any]:
        return {
            "hermes_home": str(get_hermes_home()),
            "platform": self.platform,
            "model": self.model,
            "context_length": getattr(self.context_compressor, "context_length", 0),
            "conversation_id": self._gateway_session_key or None,
        }

    def _choose_engine(self) -> Any:
        """The engine of the settings; somebody else's so that it can neither hold a turn up nor break it. The one that
        a plugin registered is lent to the owner's conversations only: it may remember what it saw (G12)."""
        engine = engines.choose_engine(self._settings, self.runtime, lend=not self._options.get("person"))
        if isinstance(engine, ContextCompressor):
            engine.summarise = self._summarise
        if type(engine) is ContextCompressor:
            return engine
        self._engine_hold = get_plugin_manager().hold_engine(engine)
        guarded = GuardedEngine(engine, self._build_spare, lambda text: self.tell_once("engine aside", text))
        if problem := engines.tell_model(guarded, self.runtime):
            self.tell_once("engine model", problem)
        return guarded

    def _make_spare_engine(self) -> ContextCompressor | None:
        """The built-in engine for one compaction, where somebody else's is in use."""
        return None if isinstance(self.context_compressor, ContextCompressor) else self._build_spare()

    def _build_spare(self) -> ContextCompressor:
        spare = engines.build_compressor(self._settings, self.runtime)
        spare.summarise = self._summarise
        spare.on_session_start(self.session_id)
        return spare

    def _summarise(self, request: str, max_tokens: int) -> str:
        """The built-in engine's summary, by the model in use: tried again, and by others, as any call of a turn is, and
        charged to the conversation. Raises ModelFailure when nobody could write it, and Interrupted."""
        return self._write_beside([{"role": "user", "content": request}], "compression", max_tokens)

    def _write_for_tool(self, messages: Sequence[Mapping[str, Any]], max_tokens: int) -> str:
        """What a tool has the model write: a call like a summary's."""
        return self._write_beside(messages, "tool", max_tokens)

    def _write_beside(self, messages: Sequence[Mapping[str, Any]], task: str, max_tokens: int) -> str:
        """One call beside the conversation."""
        cancel = self._cancel or CancelToken()
        call = auxiliary_client.AuxiliaryCall([dict(message) for message in messages], task, max_tokens)
        plan = rules.reach_model(rules.TurnLimits())
        outcome: Any = None
        while True:
            cancel.check()
            try:
                step = plan.send(outcome)
            except StopIteration as end:
                if isinstance(end.value, Reply):
                    return end.value.text
                raise end.value.failure from None
            outcome = self._perform_beside(step, call, cancel)

    def _perform_beside(self, step: rules.Step, call: auxiliary_client.AuxiliaryCall, cancel: CancelToken) -> Any:
        """The steps of the rules as far as a call beside the conversation has them."""
        match step:
            case rules.CallModel():
                patient = replace(call, patience=step.find_patience(time.monotonic(), self.could_switch))
                charge = partial(self._charge, self._turn_id)
                try:
                    return auxiliary_client.complete(self.runtime, self.ensure_client(), patient, charge, cancel)
                except ModelFailure as failure:
                    return failure
            case rules.SwitchProvider(failure):
                return self.switch(failure)
            case rules.RecoverTransport(failure):
                return self.recover(failure, cancel.pause)
            case rules.Pause(seconds):
                return cancel.pause(seconds)
        return False  # what is asked for a summary cannot be made shorter

    def _charge(self, turn: str, row: UsageRow) -> None:
        """A call beside the conversation, put to the account of a turn."""
        self.journal.charge([replace(row, turn=turn)])
