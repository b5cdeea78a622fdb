"""Ends sessions, tasks and what people have going, by what is stored: it is the same whether an agent is warm or not,
and after a restart. Who is told and what is closed is the table "The end of things" in `docs/architecture.md`."""

from collections.abc import Callable, Sequence
from types import MappingProxyType
from typing import Any

from gateway.run import GatewayRunner
from gateway.turns.agent_builder import Choices, describe_scope
from hermes_base.conversation_key import parse_key
from hermes_base.plugin_words import name_platform
from hermes_cli import config as cli_config
from hermes_cli.plugins import PluginHooks, get_plugin_manager
from hermes_constants import get_hermes_home
from hermes_state.sql.store_sql import Store
from hermes_state.store import SessionInfo
from run_agent import end_task, engines, memory_binding
from tools.process_registry import process_registry

NEW, DELETED, EXPIRED, REMOVED = "new", "deleted", "expired", "removed"  # why a session ends


#: What plugins are told of why a session ends; `/new` in the terminal has a word of its own there.
_TOLD = MappingProxyType({NEW: "new_session", EXPIRED: "session_expired"})
SHUTDOWN, CLI = "shutdown", "cli"


def tell_finalized(session: str, platform: str, reason: str) -> None:
    """The hook `on_session_finalize`. A session that follows has no id before its first message; `on_session_reset`
    tells it then."""
    facts = {"session_id": session, "platform": platform, "reason": _TOLD.get(reason, reason)}
    if reason == NEW and platform == CLI:
        facts["reason"] = "session_boundary"
    elif reason == NEW:
        facts |= {"old_session_id": session, "new_session_id": ""}
    PluginHooks(get_plugin_manager()).invoke("on_session_finalize", **facts)


def tell_shutdown(warm: Sequence[Any]) -> None:
    """The process ends: plugins hear it for each session that an agent is warm for. The conversations go on later."""
    for agent in warm:
        tell_finalized(agent.session_id, CLI if agent.platform == CLI else "gateway", SHUTDOWN)


class Endings:
    """Called on threads that may wait: engines and plugins are told here, and processes are waited for."""

    def __init__(self, store: Store, runner: GatewayRunner) -> None:
        self._store = store
        self._runner = runner

    def end_session(self, info: SessionInfo, reason: str) -> None:
        """All but the boundary, which whoever asked for the end writes."""
        self._close(info, self._read_messages(info.id), reason)

    def resume(self, info: SessionInfo) -> None:
        """Go on in this session, wherever that was asked for; AtWork while its conversation is being answered in."""
        current = self._store.current(info.conversation)
        if current is None or current.id != info.id:
            self._store.resume(info.conversation, info.id)
            self.leave_session(info.conversation, info.id)

    def let_agent_go(self, conversation: str, wanted: str, why: str) -> None:
        """The warm agent of a conversation that goes on in another session; its memory hears where."""
        warm = self._runner.cached_agent(conversation)
        if warm is not None and wanted:
            warm.leave_for(wanted, why)
        self._runner._evict_cached_agent(conversation, why)

    def leave_session(self, conversation: str, wanted: str = "") -> bool:
        """The conversation goes on in another session (`wanted`): its warm agent, what its next message would have
        told, and what was chosen for it stay behind. Whether something had been chosen."""
        self.let_agent_go(conversation, wanted, "resumed")
        self._runner.drop_notes(conversation)
        return self.end_choice(conversation)

    def end_choice(self, conversation: str) -> bool:
        """What was chosen for the session ends with it; whether something was."""
        turns = self._store.turns
        before = Choices.of(turns.choices(conversation))
        after = before.for_another()
        if before != after:
            turns.choose(conversation, after.as_stored())
        return before != after

    def delete(self, session: str) -> bool:
        """Delete a session for good, and end it if it had not ended; AtWork while it is being answered in."""
        return self._drop(session, self._store.delete, DELETED)

    def expire(self, session: str, before: float) -> bool:
        """The same for one that nobody touched since then; False when somebody did meanwhile."""
        return self._drop(session, lambda name: self._store.delete_stale(name, before), EXPIRED)

    def end_person(self, person: str) -> None:
        """Everything that goes on for a person: in conversations that are theirs, and in direct chats in which they
        spoke last. What was said stays. Where they were forgotten, the store does not say any more what was theirs:
        what lives here does."""
        people = self._store.people
        direct = (key for key in people.spoken_last_by(person) if parse_key(key).kind == "dm")
        theirs = {*people.conversations_of(person), *direct}
        for conversation in theirs:
            info = self._store.current(conversation)
            if info is None:  # whoever ended its session tells of it, here or in another process
                self._runner._evict_cached_agent(conversation, REMOVED)
                continue
            messages = self._read_messages(info.id)
            if self._store.end(info.id, REMOVED):  # in whichever process and thread: one of them tells
                self._close(info, messages, REMOVED)
        for task in {entry.task for entry in process_registry.running()}:
            left = self._store.last_of(task)
            if left is not None and left.conversation in theirs:
                end_task(task)
        for entry in process_registry.running():
            if entry.sender == person and self._store.last_of(entry.task) is None:
                end_task(entry.task)
        for conversation, session in self._runner._list_idle():
            if session and self._store.session(session) is None:
                self._runner._evict_cached_agent(conversation, REMOVED)

    def _drop(self, session: str, drop: Callable[[str], bool], reason: str) -> bool:
        """The store decides whether it goes; only then somebody is told, by what was read before."""
        info = self._store.session(session)
        if info is None:
            return False
        messages = self._read_messages(session) if info.ended is None else []
        if not drop(session):
            return False
        if info.ended is None:
            self._close(info, messages, reason)
        return True

    def _read_messages(self, session: str) -> list[dict[str, Any]]:
        return [dict(row.message) for row in self._store.load(session).rows]

    def _close(self, info: SessionInfo, messages: list[dict[str, Any]], reason: str) -> None:
        tell_finalized(info.id, name_platform(info.platform), reason)
        if reason == NEW:
            self._runner.note_reset(info.conversation, info.id)
        warm = self._runner.cached_agent(info.conversation)
        if warm is None or warm.session_id == info.id:
            self._runner.drop_notes(info.conversation)
        is_warm = warm is not None and warm.session_id == info.id
        if not (is_warm and self._runner.end_session(info.conversation, messages)):
            # No agent is warm for it: the engine that the settings name hears of the end all the same.
            about = {
                "hermes_home": str(get_hermes_home()),
                "platform": name_platform(info.platform),
                "model": info.model,
                "conversation_id": info.conversation,
            }
            settings = cli_config.load_last_good()
            engines.tell_end(settings, info.id, messages, about)
            if settings.memory.provider:
                scope = describe_scope(info.conversation, info.person)
                served = memory_binding.describe_agent(info.platform, info.conversation, scope)
                memory_binding.tell_end(settings, info.id, messages, served)
        current = self._store.current(info.conversation)
        if current is None or current.id == info.id or current.task != info.task:
            end_task(info.task)  # else the conversation goes on in a later session of the same chain
