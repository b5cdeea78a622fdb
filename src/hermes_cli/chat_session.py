"""The conversation behind a terminal chat: its agent, its place in the store, and what slash commands do to them."""

import threading
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from agent.auxiliary_client import find_runtime
from agent.providers import PROVIDERS
from agent.runtime import Runtime
from hermes_base.chat import Asker, Event, Notice, Question, ReasoningDelta, TextDelta
from hermes_base.errors import ConfigProblem, HermesError
from hermes_base.keys import ConversationKey
from hermes_base.tool_context import Notices
from hermes_cli import config as cli_config
from hermes_cli.plugins import get_plugin_toolsets
from hermes_cli.profiles import get_active_profile_name
from hermes_cli.sessions_cmd import find_session
from hermes_cli.usage_cmd import UsageReport, read_report
from hermes_constants import get_hermes_home
from hermes_state.interface import NewSession, SessionInfo, Store
from hermes_state.journal import StoreJournal
from hermes_state.records import make_session_id
from hermes_state.schema import STORE_FILE
from hermes_state.sqlite import SqliteStore
from run_agent import AIAgent
from tools import file_changes

EFFORTS = ("none", "minimal", "low", "medium", "high")


@dataclass(frozen=True, slots=True)
class ModelChoice:
    """What the person asked for; empty: the settings decide."""

    model: str = ""
    provider: str = ""


class ChatSession:
    """One conversation; used by one thread at a time, but for `interrupt`."""

    def __init__(self, choice: ModelChoice, emit: Callable[[Event], None], asker: Asker, notices: Notices) -> None:
        self._emit = emit
        self._asker = asker
        self._notices = notices
        self._store: Store | None = None
        self._store_lock = threading.Lock()
        self._choice = choice
        self._settings = cli_config.load_config_readonly()
        self._effort = str(cli_config.cfg_get(self._settings, "agent", "reasoning_effort") or "")
        self.runtime = self._find_runtime()
        self._place = NewSession(_fresh_key(), id=make_session_id(), model=self.runtime.model)
        self._agent = self._build_agent()

    # --- the store, opened when it is first needed

    def open_store(self) -> Store:
        with self._store_lock:
            if self._store is None:
                self._store = SqliteStore(get_hermes_home() / STORE_FILE)
            return self._store

    def close(self) -> None:
        self._agent.shutdown_memory_provider()
        self._agent.close()
        if self._store is not None:
            self._store.close()

    # --- turns

    def run_turn(self, text: str) -> dict[str, Any]:
        self._take_changed_settings()
        return self._agent.run_conversation(text)

    def _take_changed_settings(self) -> None:
        """An edit of the settings holds from the next message on; a broken one is told, and the old ones stay."""
        try:
            settings = cli_config.load_config_readonly()
            if settings is self._settings:
                return
            self._settings = settings
            self._rebuild(self._find_runtime())
        except ConfigProblem as problem:
            self._emit(Notice(f"The changed settings are not used: {problem}", "warning"))
            return
        self._emit(Notice("The changed settings are in use."))

    def interrupt(self, reason: str) -> bool:
        return self._agent.interrupt(reason)

    # --- what commands do

    def start_new(self) -> None:
        """End this session and its task; the next message opens another one in a conversation of its own."""
        old, messages = self._agent.session_id, self._agent.messages
        if self.open_store().session(old) is not None:
            self.open_store().end(old, "new")
        self._agent.shutdown_memory_provider(messages)
        self._agent.close()
        self._place = NewSession(_fresh_key(), id=make_session_id(), model=self.runtime.model)
        self._agent = self._build_agent()

    def list_sessions(self, limit: int = 15) -> Sequence[SessionInfo]:
        return self.open_store().sessions(limit=limit)

    def resume(self, wanted: str) -> SessionInfo:
        """Go on with an earlier session, found by its id or the beginning of it."""
        store = self.open_store()
        info = find_session(store, wanted)
        store.resume(info.conversation, info.id)
        self._agent.release_clients()
        self._place = NewSession(info.conversation, id=info.id, model=self.runtime.model)
        self._agent = self._build_agent()
        return info

    def resume_last(self) -> SessionInfo | None:
        newest = self.list_sessions(1)
        return self.resume(newest[0].id) if newest else None

    def change_model(self, choice: ModelChoice) -> Runtime:
        """Another model for this conversation; what was said and sent stays as it is."""
        old, self._choice = self._choice, replace(choice, provider=choice.provider or self.runtime.provider)
        try:
            self._rebuild(self._find_runtime())
        except ConfigProblem:
            self._choice = old
            raise
        return self.runtime

    @property
    def effort(self) -> str:
        return self._effort

    def change_effort(self, effort: str) -> None:
        if effort not in EFFORTS:
            raise ConfigProblem(f"'{effort}' is no level of reasoning.", fix=f"Choose one of: {', '.join(EFFORTS)}.")
        self._effort = effort
        self._agent.reasoning_config = _reasoning(effort)

    def take_back(self) -> str | None:
        """Take the last question and its answer back; the question's text."""
        return self._agent.take_back_last_turn()

    def describe_file_changes(self) -> str:
        """The diff that undoing the last turn's changes to files would make; empty: there are none."""
        return file_changes.describe(get_hermes_home(), self.task)

    def undo_file_changes(self) -> Sequence[str]:
        restored = file_changes.undo_last_turn(get_hermes_home(), self.task)
        self.tell_model("[The person took back your last changes to files.]")
        return restored

    def confirm(self, text: str, yes: str, no: str) -> bool:
        answer = self._asker.ask(Question(uuid.uuid4().hex[:12], "confirmation", text, (yes, no)))
        return answer.given and answer.text == yes

    def tell_model(self, note: str) -> None:
        self._agent.tell_model(note)

    @property
    def task(self) -> str:
        return self._agent.task_id

    def _search(self, words: str, *, limit: int = 20) -> Sequence[Mapping[str, Any]]:
        return [asdict(hit) for hit in self.open_store().search(words, limit=limit)]

    def compress(self, focus: str) -> tuple[int, int] | None:
        return self._agent.compress_now(focus or None)

    def usage(self) -> tuple[UsageReport, dict[str, Any]]:
        """What this conversation and the day have used, and how full the window is."""
        report = read_report(self.open_store(), self._agent.task_id)
        return report, self._agent.context_compressor.get_status()

    def tools(self) -> list[tuple[str, str]]:
        if not self.runtime.facts.calls_tools:
            return []
        functions = (tool["function"] for tool in self._agent.tools)
        return [(function["name"], str(function.get("description", ""))) for function in functions]

    # --- parts

    def _find_runtime(self) -> Runtime:
        return find_runtime(self._settings, model=self._choice.model, provider=self._choice.provider)

    def _rebuild(self, runtime: Runtime) -> None:
        """The same conversation with another agent; what was sent is in the store."""
        self.runtime = runtime
        self._agent.release_clients()
        self._place = replace(self._place, id=self._agent.session_id)
        self._agent = self._build_agent()

    def _build_agent(self) -> AIAgent:
        settings, place, runtime = self._settings, self._place, self.runtime
        return AIAgent(
            model=runtime.model,
            provider=runtime.provider,
            base_url=runtime.base_url,
            key_env=str(cli_config.cfg_get(settings, "model", "key_env") or ""),
            api_mode=runtime.api_mode,
            max_tokens=runtime.max_tokens,
            context_length=runtime.context_length,
            fallback_model=cli_config.cfg_get(settings, "model", "fallbacks", default=[]),
            reasoning_config=_reasoning(self._effort),
            max_iterations=int(cli_config.cfg_get(settings, "agent", "max_iterations", default=90)),
            enabled_toolsets=_toolsets(settings),
            skip_context_files=not cli_config.cfg_get(settings, "agent", "context_files", default=True),
            skip_memory=not cli_config.cfg_get(settings, "memory", "memory_enabled", default=True),
            settings=settings,
            platform="local",
            session_id=place.id,
            gateway_session_key=place.conversation,
            folder=str(Path.cwd()),
            journal=StoreJournal(self.open_store, place.conversation, session=place.id, model=runtime.model),
            asker=self._asker,
            notices=self._notices,
            search=self._search,
            stream_delta_callback=lambda text: self._emit(TextDelta(text)),
            reasoning_callback=lambda text: self._emit(ReasoningDelta(text)),
            tool_progress_callback=self._emit,
            status_callback=self._emit,
        )


def parse_choice(text: str) -> ModelChoice:
    """`NAME`, or `PROVIDER NAME`, or a provider alone."""
    words = text.split()
    if len(words) > 2:
        raise HermesError("That is too much for a model's name.", fix="Type: /model NAME, or /model PROVIDER NAME.")
    if len(words) == 2:
        return ModelChoice(words[1], words[0])
    return ModelChoice(provider=words[0]) if words[0].lower() in PROVIDERS else ModelChoice(words[0])


def _toolsets(settings: Mapping[str, Any]) -> list[str]:
    """What the settings name, what enabled plugins bring, and the tools of the context engine."""
    named = cli_config.cfg_get(settings, "agent", "toolsets", default=[])
    return [*named, *(name for name, *_ in get_plugin_toolsets()), "context_engine"]


def _reasoning(effort: str) -> Mapping[str, Any] | None:
    return {"enabled": effort != "none", "effort": effort} if effort else None


def _fresh_key() -> str:
    return str(ConversationKey(get_active_profile_name(), "local", "dm", make_session_id()))
