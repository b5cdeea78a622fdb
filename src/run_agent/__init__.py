"""Introduces the mind to the hands: `AIAgent`, one conversation's agent.

An agent holds references (shared pools, rendered tools, settings, its conversation) and is cheap to build. What
belongs to a turn lives in the turn. The names that hosts and tests replace (`OpenAI`, `get_tool_definitions`,
`cleanup_vm`) are globals of this module and are looked up when they are used.
"""

import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields, replace
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, Unpack

from agent import anthropic_adapter
from agent.formats.chat_completions import encode_json
from agent.formats.wire import Dialect
from agent.http import clients
from agent.providers.health import health
from agent.providers.profile_calls import find_headers
from agent.providers.runtime import Runtime
from agent.providers.table import ANTHROPIC_MESSAGES
from agent.turn import rules
from agent.turn.compaction import Wanted, compact
from agent.turn.conversation import Conversation
from agent.turn.driver import Turn, TurnMessage, TurnResult
from agent.turn.ports import Ports, TurnFacts
from agent.turn.prompt import DATE, PromptSources, build_system_prompt
from agent.usage_pricing import COLD_TURNS, CacheWatch, TurnUse, hit_rate
from hermes_base.chat import Asker, Notice
from hermes_base.errors import HermesError, Interrupted
from hermes_base.setting_table import read_settings
from hermes_base.settings import AgentSettings
from hermes_base.text.foreign import ForeignText
from hermes_base.turn.cancel import CancelToken, ended_with
from hermes_base.turn.indirect import USE_TOOL
from hermes_base.turn.journal import SYSTEM, TOOLS, TurnEnd
from hermes_base.turn.tool_context import ToolContext
from hermes_base.turn.turn_context import current_turn
from hermes_cli import config as cli_config
from hermes_cli.plugins import PluginHooks, get_plugin_manager
from hermes_constants import get_hermes_home
from hermes_state.memory_journal import MemoryJournal
from hermes_state.records import make_session_id
from model_tools import check_toolset_requirements, get_tool_definitions
from run_agent import engines
from run_agent.events import COLD, FAILED, HOOKS_AT_END, Listeners, as_dict, call_back, log_end, tell_plugins
from run_agent.hands import AgentHands, tool_names_in
from run_agent.options import AgentOptions, TurnOptions, runtime_of_options
from run_agent.runtime_switch import fallback_chain
from run_agent.session_binding import SessionBinding
from tools import browser_tool, mcp, memory_tool, toolsets
from tools.browser_tool import cleanup_browser
from tools.builtin.indirect_tools import name_of, split_tools
from tools.process_registry import process_registry
from tools.registry import registry
from tools.terminal_tool import cleanup_vm
from tools.toolsets import EVERYDAY, GATEWAY_TOOLSETS
from tools.web.page_store import forget_pages

log = logging.getLogger(__name__)


def OpenAI(**client_options: Any) -> Any:
    """The SDK's client on a shared pool. Late: importing the SDK costs most of a second."""
    return clients.build_openai_client(**client_options)


def end_task(task: str) -> None:
    """End everything that works for a task: processes, shells, browser, kept pages. It needs no agent."""
    process_registry.kill_all(task_id=task)
    cleanup_vm(task)
    cleanup_browser(task)
    forget_pages(task)


class AIAgent(SessionBinding):
    """One conversation's agent. Every option may be left out; a missing model or key is reported at the first call."""

    max_iterations: int = AgentSettings().max_iterations
    _last_activity_ts: float = 0.0
    _last_activity_desc: str = "built"
    _api_call_count: int = 0
    _turn: Turn | None = None
    _last_end: float = 0.0  # of a turn, by the clock that is never set
    _children: tuple["AIAgent", ...] = ()
    _engine_tool_names: frozenset[str] = frozenset()
    _indirect: Mapping[str, Mapping[str, Any]] = {}  # tools that `use_tool` leads to, in a conversation that has it
    _system_message: str = ""
    _turn_options: TurnOptions = TurnOptions()
    _asker: Asker | None = None
    _own_folder: Path | None = None

    def __init__(self, **options: Unpack[AgentOptions]) -> None:
        unknown = options.keys() - AgentOptions.__annotations__.keys()
        if unknown:
            raise TypeError(f"AIAgent does not know the option(s) {', '.join(sorted(unknown))}")
        self._options = options
        given = options.get("settings")
        self._settings = read_settings(given) if given else cli_config.load_settings()
        self.session_id = options.get("session_id") or make_session_id()
        self.platform = options.get("platform") or "library"
        self.reasoning_config = options.get("reasoning_config")
        self.max_iterations = options.get("max_iterations") or self.max_iterations
        self._gateway_session_key = options.get("gateway_session_key") or ""
        self.journal = options.get("journal") or MemoryJournal(self._gateway_session_key, self.session_id)
        self._hooks = options.get("hooks") or PluginHooks(get_plugin_manager())
        self._asker = options.get("asker")
        self._own_folder = Path(options["own_folder"]) if options.get("own_folder") else None  # None: the home itself
        self._running = threading.Lock()
        self._cache_watch = CacheWatch()
        notes = options.get("notes")
        self._notes: list[str] = [] if notes is None else notes
        self._fallback_chain = fallback_chain(options.get("fallback_model"))
        for listener in fields(Listeners):
            setattr(self, listener.name, options.get(listener.name))
        self._adopt(runtime_of_options(options))
        self.context_compressor = self._choose_engine()
        self._memory = self._choose_memory()
        self.tools = self._offered_tools()
        self._snapshot_primary()
        if options.get("session_id") or not options.get("journal"):
            self._bind_engine(self.session_id)  # otherwise nobody knows yet which session it will be
        self._last_activity_ts = time.time()

    # --- what a host calls

    def run_conversation(
        self,
        user_message: str | Sequence[Mapping[str, Any]],
        system_message: str | None = None,
        conversation_history: Sequence[Mapping[str, Any]] | None = None,
        task_id: str | None = None,
        stream_callback: Callable[[str], None] | None = None,
        *,
        inbox: tuple[int, ...] = (),
        goes_on: bool = False,
        given: TurnOptions | None = None,
    ) -> dict[str, Any]:
        """One turn: the answer and everything about it. `conversation_history=None` means the stored transcript.

        `user_message` is a text, or a list of parts (text, image_url) as OpenAI's format has them.
        `system_message` takes the place of the system prompt of a conversation that has none yet.
        `inbox` names the accepted messages it is made of; with `goes_on` the turn broke off with its process and goes
        on from what is stored, and the message is what is not stored yet. `given` is what else belongs to this turn:
        for whom it works, who hears it, what stops it.
        """
        if not self._running.acquire(blocking=False):
            raise HermesError("This agent is in the middle of a turn.", fix="Wait for it, steer it or interrupt it.")
        try:
            if given is not None:
                self.serve(given)
            self._system_message, self._turn_stream = system_message or "", stream_callback
            turn = TurnMessage.of(user_message, inbox=inbox, goes_on=goes_on)
            with ended_with(self._turn_options.cancel) as cancel:
                return self._run_turn(turn, conversation_history, task_id, cancel)
        finally:
            if health.circuits:
                self._permit.release()  # nothing is being probed any more
            self._turn_id, self._turn_options = "", TurnOptions()
            self._turn = self._cancel = self._turn_stream = self._given_listeners = None
            self._running.release()

    def interrupt(self, reason: str = "stopped by the user") -> bool:
        """Stop the turn under way, with those of child agents; False when there is none."""
        for child in self._children:
            child.interrupt(reason)
        cancel = self._cancel
        if cancel is None:
            return False
        cancel.cancel(reason)
        return True

    def steer(self, text: str, inbox: tuple[int, ...] = ()) -> bool:
        """Put a text into the turn under way; the model reads it at its next step. False when there is none."""
        turn = self._turn
        return turn is not None and turn.steer(text, inbox)

    def give_up_turn(self, reason: str, said: str = "", inbox: tuple[int, ...] = ()) -> None:
        """Close the turn that a dead process left open, as interrupted; the model is not asked. `said` is what of its
        messages does not stand in the transcript yet."""
        conversation = self._load_conversation()
        facts = TurnFacts(conversation.session, conversation.task, uuid.uuid4().hex[:16], self.platform)
        ports = self._make_ports(CancelToken(), facts, conversation)
        message = TurnMessage.of(said, inbox=inbox, goes_on=True)
        Turn(ports, conversation, message, facts, rules.TurnLimits()).abandon(reason)

    def tell_model(self, note: str) -> None:
        """A word that goes along with the next user message, once; the prompt stays as it is (A4)."""
        self._notes.append(note)

    def compress_now(self, focus: str | None = None) -> tuple[int, int] | None:
        """Compact on request: the number of messages before and after, or None when there was nothing to do."""
        conversation = self._load_conversation()
        before = len(conversation)
        if self._memory is not None:
            self._open_memory(self._memory, conversation.session)
        facts = TurnFacts(conversation.session, conversation.task, "compress", self.platform)
        tokens = max(0, getattr(self.context_compressor, "last_prompt_tokens", 0))
        self._cancel = cancel = self._turn_options.cancel or CancelToken()
        token = current_turn.set(self._turn_context(cancel, facts))
        try:
            cancel.check()
            self._begin_on_model()
            shorter = compact(self._make_ports(cancel, facts, conversation), conversation, Wanted(tokens, True, focus))
        finally:
            self._permit.release()
            current_turn.reset(token)
            self._cancel = None
        if shorter is None:
            return None
        shorter.take_break()  # it stands in the journal; the next turn does not make it
        self._conversation = shorter
        return before, len(shorter)

    def add_child(self, child: "AIAgent") -> None:
        self._children = (*self._children, child)

    def close(self) -> None:
        """Hard: end everything that works for this task, child agents included, then let go of the client."""
        self.interrupt("the conversation was closed")
        children, self._children = self._children, ()
        for child in children:
            child.close()
        if self._conversation is None and self.journal.standing()[0]:
            self._load_conversation()  # the task is the first session of the chain, not the newest
        end_task(self.task_id)
        self.release_clients()

    @property
    def children(self) -> tuple["AIAgent", ...]:
        return self._children

    @property
    def size(self) -> tuple[int, bool]:
        """Roughly how many bytes it keeps warm, and whether it knows something that is stored nowhere."""
        return (0 if self._conversation is None else self._conversation.bytes), bool(self._notes)

    def reload_tools(self) -> tuple[frozenset[str], frozenset[str], bool]:
        """Offer the tools that there are now, from the next request on: which came, which went, and whether the prompt
        is another one for it. That is then all that is done for the message that asked for it."""
        conversation, dialect = self._load_conversation(), self.dialect
        sent = conversation.frozen.get((TOOLS, dialect.neutral))
        before = self._find_allowed(tool_names_in(sent or b"[]"))
        if self._memory is not None:
            self._open_memory(self._memory, conversation.session)
        self.tools = self._offered_tools()
        rendered = encode_json(self._render_part(TOOLS, dialect))
        after = self._find_allowed(tool_names_in(rendered))
        is_another = sent is not None and rendered != sent
        if is_another:
            body = dialect.format.encode_tools(json.loads(rendered))
            conversation.replace_tools({dialect.neutral: rendered, dialect.name: body})
            for name in (dialect.neutral, dialect.name):
                self.journal.freeze(TOOLS, name, conversation.frozen[TOOLS, name])
            self.journal.finish([], (), TurnEnd(""))
        return after - before, before - after, is_another

    def toolset_status(self) -> dict[str, bool]:
        return check_toolset_requirements()

    # --- a turn

    def _run_turn(
        self,
        given: TurnMessage,
        history: Sequence[Mapping[str, Any]] | None,
        task_id: str | None,
        cancel: CancelToken,
    ) -> dict[str, Any]:
        self._cancel = cancel
        with suppress(Interrupted):  # the turn hears of it at its first step, and writes its end
            self._begin_on_model()
        conversation = self._load_conversation() if history is None else self._take_history(history)
        if self._memory is not None:
            self._open_memory(self._memory, conversation.session)
        facts = TurnFacts(
            conversation.session,
            task_id or conversation.task,
            self._turn_options.turn or uuid.uuid4().hex[:16],
            self.platform,
            self._turn_options.sender or self._options.get("sender_id") or "",
            given.text,
        )
        self._turn_id = facts.turn
        ports = self._make_ports(cancel, facts, conversation)
        if not conversation.messages:
            self._hooks.invoke("on_session_start", session_id=facts.session, model=self.model, platform=self.platform)
        # What a message tells the model beside its text, when it was not told before.
        zone = self._turn_options.zone
        date = f"{datetime.now(zone).strftime(DATE)}{f' in {zone}' if zone else ''}"
        told = "" if self.dialect.plain else ports.redact(f"[{date}; working folder {self.folder}]")
        notes = self._notes[:]  # they are told now; tools may note more meanwhile
        del self._notes[: len(notes)]
        message = replace(given, facts="\n\n".join(notes), told="" if told == conversation.told else told)
        turn = Turn(ports, conversation, message, facts, rules.TurnLimits(self.max_iterations))
        turn.result.breaks += conversation.take_break()
        self._turn = turn
        token = current_turn.set(self._turn_context(cancel, facts, ports.hands.context))
        try:
            result = turn.run()
            log_end(result, self.provider, self.model)
        finally:
            current_turn.reset(token)
            self._conversation = turn.conversation
            if not turn.facts_told:
                self._notes[:0] = notes  # the next message takes them along
        self._watch_cache(result)
        if result.reason != FAILED and (self._memory is not None or any(map(self._hooks.has, HOOKS_AT_END))):
            ended = replace(facts, session=self.session_id)
            tell_plugins(
                self._hooks, result, ended, message.text, self.model, turn.conversation.list_said(), self._memory
            )
        return {
            **as_dict(result),
            "messages": list(turn.conversation.messages),
            "session_id": self.session_id,
            "model": self.model,
            "provider": self.provider,
        }

    def _watch_cache(self, result: TurnResult) -> None:
        """Say so once when the provider's cache is not hit as it should be (A10)."""
        now = time.monotonic()
        pause, self._last_end = now - (self._last_end or now), now
        used = TurnUse(self.model, result.usage, result.api_calls, bool(result.breaks), pause, self.provider)
        if self._cache_watch.note(used):
            self.emit(Notice(COLD.format(turns=COLD_TURNS, rate=hit_rate(result.usage)), "warning"))

    # --- parts

    def _make_ports(self, cancel: CancelToken, facts: TurnFacts, conversation: Conversation) -> Ports:
        """What a turn is given: the model, the hands, the journal, the plugins and the person."""
        options, redact, foreign = self._options, cli_config.redactor(), self._find_foreign(facts, conversation)
        context = ToolContext(
            task=facts.task,
            session=facts.session,
            conversation=conversation.conversation,
            turn=facts.turn,
            folder=self.folder,
            home=get_hermes_home(),
            own=self._own_folder,
            person=options.get("person") or "",
            sender=facts.sender,
            cancel=cancel,
            asker=self._asker,
            settings=self._settings,
            redact=redact,
            post_notice=options.get("post_notice"),
            search=options.get("search"),
            send_file=options.get("send_file"),
            messenger=options.get("messenger"),
            tell_model=self.tell_model,
            window_tokens=self.context_length,
            foreign=foreign,
            note_activity=lambda: self._touch("running tools"),
            ask_model=self._write_for_tool,
            indirect=self._indirect,
        )
        return Ports(
            model=self,
            hands=AgentHands(
                hooks=self._hooks,
                emit=lambda event: self.emit_progress(event, lambda: self._turn_id != facts.turn),
                allowed=lambda: self._find_allowed(tool_names_in(conversation.frozen.get((TOOLS, "neutral"), b"[]"))),
                context=context,
                engine=self.context_compressor,
                engine_tools=self._engine_tool_names,
                memory=self._memory,
                user_task=facts.said,
            ),
            journal=self.journal,
            hooks=self._hooks,
            engine=self.context_compressor,
            emit=self.emit,
            on_text=self.emit_text,
            on_reasoning=self.emit_reasoning,
            on_chunk=partial(self._touch, "reading the answer"),
            redact=redact,
            touch=self._touch,
            render_part=partial(self._render_part, foreign=foreign),
            **({} if self._memory is None else self._memory.make_ports(foreign)),
            on_rotated=self._session_rotated,
            tell_once=self.tell_once,
            tell_again=self.tell_again,
            make_spare_engine=self._make_spare_engine,
            compression_enabled=self._settings.compression.enabled,
            compress_in_place=self._settings.compression.in_place,
            cancel=cancel,
            foreign=foreign,
        )

    @property
    def folder(self) -> str:
        return self._turn_options.folder or self._options.get("folder") or os.getcwd()

    def serve(self, given: TurnOptions) -> None:
        """Where and for whom the coming turn works, by which settings, and who hears it; the conversation stays the
        same."""
        self._turn_options, self._given_listeners = given, given.listeners
        self._settings = given.settings or self._settings
        if given.fallbacks is not None:
            self._fallback_chain = fallback_chain(given.fallbacks) if given.fallbacks else ()
        self._asker = given.asker or self._asker
        self.max_iterations = given.max_iterations or self.max_iterations

    def _build_system_prompt(self, *, small: bool = False, foreign: ForeignText | None = None) -> str:
        """Rendered once for a conversation; afterwards its stored bytes are sent."""
        options = self._options
        sources = PromptSources(
            home=get_hermes_home(),
            folder=None if options.get("skip_context_files") else Path(self.folder),
            memory=not options.get("skip_memory"),
            small=small,
            extra=options.get("ephemeral_system_prompt") or "",
            own=self._own_folder,
        )
        prompt = build_system_prompt(sources)
        return prompt if self._memory is None or small else self._memory.add_block(prompt, foreign)

    def _render_part(
        self, part: str, dialect: Dialect, foreign: ForeignText | None = None
    ) -> str | list[dict[str, Any]]:
        if part != SYSTEM:
            return [] if dialect.plain else [dict(tool) for tool in self.tools]
        self._cached_system_prompt = self._system_message or self._build_system_prompt(
            small=dialect.plain, foreign=foreign
        )
        return self._cached_system_prompt

    def _offered_tools(self) -> Sequence[Mapping[str, Any]]:
        """The shared rendering of the toolsets, and the engine's own tools where it has some."""
        enabled = self._options.get("enabled_toolsets")
        refused = list(self._options.get("disabled_toolsets") or ())
        if self._options.get("messenger") is None:
            refused += GATEWAY_TOOLSETS
        if not browser_tool.is_offered(self._settings):
            refused.append(browser_tool.TOOLSET)
        if self._settings.mcp_servers:
            mcp.offer_tools(self._settings)
        found = get_tool_definitions(enabled_toolsets=enabled, disabled_toolsets=refused, quiet_mode=True)
        shared, self._indirect = self._split_offered(found)
        wanted = enabled is None or "context_engine" in enabled
        offered, self._engine_tool_names = engines.add_engine_tools(shared, self.context_compressor if wanted else None)
        if self._memory is not None and toolsets.includes(memory_tool.TOOLSET, enabled, refused):
            offered, self._memory.tool_names = engines.add_engine_tools(offered, self._memory)
        return offered

    def _split_offered(
        self, found: Sequence[Mapping[str, Any]]
    ) -> tuple[Sequence[Mapping[str, Any]], Mapping[str, Mapping[str, Any]]]:
        """The tools of the array, and what of those that plugins and servers bring is too much for it."""
        plugins = get_plugin_manager()._plugin_tool_names
        entries = {name: entry for name in map(name_of, found) if (entry := registry.get_entry(name)) is not None}
        others = {name: entry.toolset for name, entry in entries.items() if entry.toolset not in EVERYDAY}
        brought = {name for name, toolset in others.items() if name in plugins or mcp.owns(toolset)}
        return split_tools(found, brought, self._settings.tools.direct_bytes) if brought else (found, {})

    def _find_allowed(self, sent: frozenset[str]) -> frozenset[str]:
        """What a conversation may call: the tools that were sent, and what these lead to."""
        return sent | self._indirect.keys() if USE_TOOL in sent else sent

    def _build_client(self, runtime: Runtime) -> Any:
        headers = find_headers(runtime.facts)
        more: dict[str, Any] = {"default_headers": headers} if headers else {}
        if runtime.api_mode == ANTHROPIC_MESSAGES:
            return anthropic_adapter.build_anthropic_client(runtime.api_key, runtime.base_url, **more)
        return OpenAI(api_key=runtime.api_key, base_url=runtime.base_url, **more)

    def _touch(self, what: str) -> None:
        """A sign of life, for whoever watches for silence."""
        self._last_activity_ts, self._last_activity_desc = time.time(), what
        if what == "waiting for the model":
            self._api_call_count += 1
            if (told := (self._given_listeners or self).step_callback) is not None:
                call_back(told, self._api_call_count)
