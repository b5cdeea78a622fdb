"""Builds the agent of a conversation from settings, from what was chosen for the conversation, and from whose it is."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from agent.auxiliary_client import find_runtime
from agent.providers.runtime import Runtime, entry_of_runtime
from gateway.core.agent_cache import pick_baked
from gateway.core.chat_settings import NOTHING_SET, ChatSettings, read_chat
from gateway.core.meters import Meters
from gateway.core.people import Scope
from gateway.platforms.face import PlatformSpec
from gateway.platforms.platform_list import spec_of
from gateway.run import GatewayRunner
from gateway.turns.threads import forbid_store_thread
from hermes_base.conversation_key import parse_key
from hermes_base.errors import ConfigProblem
from hermes_base.inbound import FileRef, as_fields
from hermes_base.plugin_words import name_platform
from hermes_base.settings import Settings
from hermes_base.text.redact import Redactor
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.messaging import Messenger
from hermes_base.turn.tool_context import PostNotice
from hermes_cli import config as cli_config
from hermes_cli.plugins import get_plugin_toolsets
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal
from run_agent import AIAgent
from run_agent.options import TurnOptions
from tools import mcp
from tools.registry import registry

SendFile = Callable[[str, FileRef, str, bytes], None]  # to a conversation: the file, what is said about it, its bytes
CHAT_PROMPT = "# Instructions for this chat\n\n{text}"
#: How long a model that was found counts as found; keys and local servers may change meanwhile.
FOUND_SECONDS = 5.0
MOST_FOUND = 64
MOST_DECIDED = 4096
#: What was chosen goes in, so that nobody else answers in its place.
NO_MODEL = Runtime(provider="", model="", base_url="", api_key="", api_mode="", context_length=0)


@dataclass(frozen=True, slots=True)
class Choices:
    """What was chosen for one conversation; empty: the settings decide."""

    model: str = ""
    provider: str = ""
    effort: str = ""
    folder: str = ""  # of the terminal that spoke last
    address: Mapping[str, Any] = field(default_factory=dict)  # where it was spoken to last
    person: str = ""  # who spoke last, and as what
    role: str = ""
    place: str = ""  # where the last turn ran, and its working folder is: a home of several on one store
    began: str = ""  # of a direct chat: the account of its platform that it belongs to

    @classmethod
    def of(cls, stored: Mapping[str, Any]) -> "Choices":
        return cls(**{name: value for name, value in stored.items() if name in cls.__dataclass_fields__})

    def for_another(self) -> "Choices":
        """What stays when the chat begins another conversation: a model is chosen for one."""
        return replace(self, model="", provider="", effort="")

    def as_stored(self) -> dict[str, Any]:
        return {name: value for name, value in as_fields(self).items() if value}


@dataclass(frozen=True, slots=True)
class AgentPlan:
    """Everything an agent is built from, and one text that stands for it."""

    conversation: str
    settings: Settings
    choices: Choices
    scope: Scope
    runtime: Runtime
    toolsets: tuple[str, ...]
    signature: str
    fallbacks: tuple[Mapping[str, Any], ...] = ()  # who else may answer, in order
    reasoning: Mapping[str, Any] | None = None  # how long the model thinks
    changed: Mapping[str, Any] | None = None  # choices that are not stored yet
    chat: ChatSettings = NOTHING_SET  # what the settings say of its chat
    moved_from: str = ""  # the home that it was in before, if that is another one
    missing_folder: str = ""  # where it was to work, and cannot


@dataclass(frozen=True, slots=True)
class _Decided:
    """What holds for the agent of a conversation until settings, tools or its platform are others."""

    given: tuple[int, int, PlatformSpec]
    settings: Settings  # kept, so that its id stays its own
    chat: ChatSettings
    toolsets: tuple[str, ...]


class Builder:
    def __init__(
        self,
        home: Path,
        store: Store,
        post_notice: PostNotice,
        send_file: SendFile,
        messenger_of: Callable[[str], Messenger | None],
        meters: Meters,
        notes_of: Callable[[str], list[str]],
        take_reset: Callable[[str], str],
    ) -> None:
        self._home = home
        self._store = store
        self._post_notice = post_notice
        self._send_file = send_file
        self._messenger_of = messenger_of
        self._meters = meters
        self._found: dict[tuple[int, int, str, str], tuple[Settings, Redactor, float, Runtime]] = {}
        self._signatures: dict[tuple[Any, ...], tuple[Settings, str]] = {}
        self._decided: dict[str, _Decided] = {}
        self._notes_of = notes_of
        self._take_reset = take_reset

    def plan(
        self, conversation: str, settings: Settings, choices: Choices, scope: Scope, *, needs_model: bool = True
    ) -> AgentPlan:
        """What the conversation's agent has to be now; ConfigProblem when no model can be found and one is needed. An
        agent without a model looks for one at its first call, and fails there as a call does: what was said is kept."""
        known = self._decided.get(conversation)
        spec = spec_of(parse_key(conversation).platform)
        if known is None or known.given != (id(settings), registry._generation, spec) or settings.mcp_servers:
            known = self._decide(settings, conversation, spec)
        chat, toolsets = known.chat, known.toolsets
        model, provider = choose_model(choices, chat)
        try:
            runtime = self.find_runtime(settings, model, provider)
        except ConfigProblem:
            if needs_model:
                raise
            runtime = replace(NO_MODEL, model=model, provider=provider)
        signature = self._sign(settings, runtime, toolsets, f"{scope.person_id}\n{chat.instructions}".rstrip("\n"))
        fallbacks = self._list_fallbacks(settings, runtime) if model or provider else settings.model.fallbacks
        effort = choices.effort or settings.agent.reasoning_effort
        reasoning = write_effort(effort) if effort else None
        return AgentPlan(
            conversation, settings, choices, scope, runtime, toolsets, signature, fallbacks, reasoning, chat=chat
        )

    def _decide(self, settings: Settings, conversation: str, spec: PlatformSpec) -> "_Decided":
        """What the settings name, what enabled plugins and servers bring, and the tools of the context engine. A chat
        with toolsets of its own has of the servers those that it names."""
        chat = find_chat(settings, conversation)
        plugins = [name for name, *_ in get_plugin_toolsets()]
        mcp.offer_tools(settings)
        servers = () if chat.toolsets else mcp.list_toolsets(settings)
        toolsets = (*(chat.toolsets or settings.agent.toolsets), *plugins, *servers, "context_engine")
        given = (id(settings), registry._generation, spec)
        known = self._decided[conversation] = _Decided(given, settings, chat, toolsets)
        forget_oldest(self._decided, MOST_DECIDED)
        return known

    def _sign(self, settings: Settings, runtime: Runtime, toolsets: tuple[str, ...], person: str) -> str:
        """The text that stands for what an agent is built from; made once for each version of the settings. `person`
        is whom it works for, with the instructions of the chat."""
        asked = (id(settings), registry._generation, runtime, toolsets, person)
        known = self._signatures.get(asked)
        if known is None or known[0] is not settings:
            baked = GatewayRunner._extract_cache_busting_config(pick_baked(settings))
            signed = GatewayRunner._agent_config_signature(runtime.model, as_fields(runtime), toolsets, person, baked)
            known = self._signatures[asked] = settings, signed
            forget_oldest(self._signatures)
        return known[1]

    def _list_fallbacks(self, settings: Settings, runtime: Runtime) -> tuple[Mapping[str, Any], ...]:
        """Behind a model that was chosen for the conversation stands the one of all others, then their fallbacks."""
        configured = settings.model.fallbacks
        try:
            usual = self.find_runtime(settings, "", "")
        except ConfigProblem:  # nobody answers those who chose nothing, and they are told so
            return configured
        is_other = (usual.provider, usual.base_url, usual.model) != (runtime.provider, runtime.base_url, runtime.model)
        return (entry_of_runtime(usual), *configured) if is_other and usual.provider != "embedded" else configured

    def find_runtime(self, settings: Settings, model: str, provider: str) -> Runtime:
        """Which model answers; looking for one may touch the network, so the result holds for a moment, and nobody
        looks on a thread of the store."""
        keys, now = cli_config.redactor(), time.monotonic()  # another one as soon as a key is another
        wanted = (id(settings), id(keys), model, provider)
        known = self._found.get(wanted)
        if known is None or known[:2] != (settings, keys) or now - known[2] >= FOUND_SECONDS:
            forbid_store_thread("looking for a model")
            known = self._found[wanted] = settings, keys, now, find_runtime(settings, model=model, provider=provider)
            forget_oldest(self._found)
        return known[3]

    def build(self, plan: AgentPlan) -> AIAgent:
        """An agent from what its signature stands for; all other settings are given to it as to a warm one."""
        runtime, settings, person = plan.runtime, plan.settings, plan.scope.person_id
        platform = parse_key(plan.conversation).platform
        new = NewSession(plan.conversation, platform=platform, model=runtime.model, person=person)
        meters = self._meters
        journal = StoreJournal(
            lambda: self._store, new, owned=True, count_calls=meters.count_calls, count_break=meters.breaks.add
        )
        current = self._store.current(plan.conversation)

        def search(words: str, limit: int) -> Sequence[Mapping[str, Any]]:
            return [asdict(hit) for hit in self._store.search(words, limit=limit, person=person)]

        agent = AIAgent(
            model=runtime.model,
            provider=runtime.provider,
            base_url=runtime.base_url,
            key_env=runtime.key_env,
            api_mode=runtime.api_mode,
            max_tokens=runtime.max_tokens,
            context_length=runtime.context_length,
            reasoning_config=plan.reasoning,
            enabled_toolsets=list(plan.toolsets),
            ephemeral_system_prompt=CHAT_PROMPT.format(text=plan.chat.instructions) if plan.chat.instructions else "",
            skip_context_files=bool(person) or not settings.agent.context_files,
            skip_memory=not settings.memory.memory_enabled,
            settings=pick_baked(settings),
            platform=name_platform(platform),
            reset_from=lambda: self._take_reset(plan.conversation),
            session_id=current.id if current else "",
            gateway_session_key=plan.conversation,
            folder=plan.choices.folder,
            journal=journal,
            notes=self._notes_of(plan.conversation),
            post_notice=self._post_notice,
            search=search,
            send_file=lambda file, caption, data: self._send_file(plan.conversation, file, caption, data),
            messenger=self._messenger_of(plan.conversation),
            person=person,
            memory_scope=describe_scope(plan.conversation, person),
            own_folder=str(self._home / plan.scope.folder) if plan.scope.folder else "",
        )
        self.refresh(agent, plan)
        return agent

    def refresh(self, agent: AIAgent, plan: AgentPlan, cancel: CancelToken | None = None) -> None:
        """Today's settings for an agent that works outside a turn, and what stops it."""
        agent.serve(TurnOptions(settings=plan.settings, fallbacks=plan.fallbacks, cancel=cancel))


def describe_scope(conversation: str, person: str) -> dict[str, str]:
    """Whose memory it is, and where they speak, in the words of memory providers. Memory that all share has no user
    (G12)."""
    key = parse_key(conversation)
    where = {"chat_id": key.chat, "chat_type": key.kind, "thread_id": key.thread or ""}
    return {"user_id": person} | ({} if spec_of(key.platform).always_on else where)


def find_chat(settings: Settings, conversation: str) -> ChatSettings:
    """What the settings say of the chat of a conversation, wherever it is looked at from."""
    key = parse_key(conversation)
    return read_chat(settings, key.platform, key.chat, key.thread or "", spec_of(key.platform).toolsets)


def choose_model(choices: Choices, chat: ChatSettings) -> tuple[str, str]:
    """Model and provider: what was chosen in the conversation, then what is set for its chat; empty: what holds for
    all."""
    if choices.model or choices.provider:
        return choices.model, choices.provider
    return chat.model, chat.provider


def forget_oldest(found: dict[Any, Any], most: int = MOST_FOUND) -> None:
    """What was found for settings of old is not asked for any more."""
    while len(found) > most:
        found.pop(next(iter(found)), None)


def write_effort(effort: str) -> Mapping[str, Any] | None:
    return {"enabled": effort != "none", "effort": effort} if effort else None
