"""How an agent's context engine follows its conversation: from session to session, through rotation, to the end."""

from collections.abc import Mapping, Sequence
from typing import Any

from agent.turn.conversation import Conversation
from hermes_constants import get_hermes_home
from run_agent import engines


class SessionBinding:
    """The engine of an agent is told of every change of session; whoever knows a session's id learns the new one."""

    session_id: str = ""
    platform: str = ""
    model: str = ""
    context_compressor: Any = None
    _conversation: Conversation | None = None
    _cached_system_prompt: str | None = None
    _gateway_session_key: str = ""
    _bound_session: str = ""  # which session the engine was told of last

    def shutdown_memory_provider(self, messages: Sequence[Mapping[str, Any]] | None = None) -> None:
        """The conversation is over: the engine may store what it keeps of it."""
        conversation = self._conversation
        spoken = list(messages) if messages is not None else (conversation.messages if conversation else [])
        if spoken:
            engines.call_if_there(self.context_compressor, "on_session_end", self.session_id, spoken)

    def reset_session_state(
        self,
        previous_messages: Sequence[Mapping[str, Any]] | None = None,
        old_session_id: str | None = None,
        carry_over_context: bool = False,
    ) -> None:
        """Forget the conversation in memory; with what the old session was, the engine is moved to the new one."""
        self._conversation = None
        self._cached_system_prompt = None
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
        engines.change_session(
            self.context_compressor,
            old=old_session_id,
            new=new_session_id or self.session_id,
            messages=previous_messages,
            carry_over=carry_over_context,
            facts=self._engine_facts(),
        )
        self._bound_session = new_session_id or self.session_id

    def _bind_engine(self, session: str, **facts: Any) -> None:
        """Tell the engine which session it works for; only of one that there is."""
        self.session_id = self._bound_session = session
        engines.bind_session(self.context_compressor, session, {**facts, **self._engine_facts()})

    def _session_rotated(self, old: str, new: str, messages: list[dict[str, Any]]) -> None:
        """A compaction moved the conversation to a new session: everyone who knows the old id learns the new one."""
        engines.call_if_there(self.context_compressor, "on_session_end", old, messages)
        self._bind_engine(new, boundary_reason="compression", old_session_id=old)

    def _engine_facts(self) -> dict[str, Any]:
        return {
            "hermes_home": str(get_hermes_home()),
            "platform": self.platform,
            "model": self.model,
            "context_length": getattr(self.context_compressor, "context_length", 0),
            "conversation_id": self._gateway_session_key or None,
        }
