"""The model of an agent as its turn sees it: what is in use now, and what to do when it fails."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from agent.formats.reply import Reply
from agent.formats.wire import AnswerReader, CallSettings, Dialect, dialect_of
from agent.http.clients import StreamCall, stream
from agent.providers.runtime import needs_key
from agent.providers.table import Provider, advise_key, provider_or_custom
from hermes_base.cancel import CancelToken
from hermes_base.errors import FailureKind, ModelFailure
from run_agent.failover import describe

_KEY_REFUSED = 401

if TYPE_CHECKING:
    from run_agent import AIAgent


class AgentModel:
    """Implements `ModelPort` on an agent, whose runtime may change in mid-turn."""

    def __init__(self, agent: "AIAgent") -> None:
        self._agent = agent

    @property
    def model(self) -> str:
        return self._agent.model

    @property
    def provider(self) -> str:
        return self._agent.provider

    @property
    def base_url(self) -> str:
        return self._agent.base_url

    @property
    def api_mode(self) -> str:
        return self._agent.api_mode

    @property
    def context_length(self) -> int:
        return self._agent.context_length

    @property
    def facts(self) -> Provider:
        return provider_or_custom(self._agent.provider)

    @property
    def dialect(self) -> Dialect:
        return dialect_of(self._agent.api_mode, self.facts)

    @property
    def label(self) -> str:
        return describe(self._agent.runtime)

    def make_tail(self, *, with_tools: bool) -> dict[str, Any]:
        agent = self._agent
        ttl = agent.cache_ttl if agent._use_prompt_caching else ""
        settings = CallSettings(agent.model, agent.max_tokens, agent.reasoning_config, with_tools, ttl)
        return self.dialect.format.make_tail(self.facts, settings)

    def send(
        self,
        body: bytes,
        answer: AnswerReader,
        cancel: CancelToken,
        on_chunk: Callable[[], None],
        patience: float | None = None,
    ) -> Reply:
        agent, facts = self._agent, self.facts
        # A missing model or key fails like a call would: the message is kept, and a fallback may answer.
        if agent._runtime_problem is not None:
            raise ModelFailure(agent._runtime_problem.what, kind=FailureKind.NEXT, fix=agent._runtime_problem.fix)
        if not agent.api_key and needs_key(facts, agent.base_url):
            raise ModelFailure(f"No key for {facts.label} is set.", kind=FailureKind.NEXT, fix=advise_key(facts))
        first_byte = facts.first_byte_seconds if patience is None else min(patience, facts.first_byte_seconds)
        call = StreamCall(self.dialect.format, body, self.label, first_byte, facts.between_chunks_seconds)
        try:
            return stream(agent.ensure_client(), call, answer, cancel, on_chunk)
        except ModelFailure as failure:
            if failure.status == _KEY_REFUSED:
                failure.fix = advise_key(facts) or failure.fix
            raise

    def could_switch(self) -> bool:
        return self._agent._could_switch()

    def switch(self, failure: ModelFailure) -> bool:
        """Hand the turn to the next provider of the chain that is well, and say so once."""
        agent, before = self._agent, self.label
        self.note_failure(failure)
        if not agent._try_activate_fallback() and not agent._return_to_first_choice():
            return False
        # One word for the log and the meters.
        reason = str(failure.status or ("connection" if failure.transport else failure.kind))
        if agent._fallback_activated:
            agent.tell_switch(before, self.label, reason, failure.what)
        else:  # that the first choice is back is said when it has answered
            agent.note_switch(before, self.label, reason)
        return True

    def recover(self, failure: ModelFailure, cancel: CancelToken) -> bool:
        return self._agent._recover_transport(failure, 1, cancel.pause)

    def note_success(self) -> None:
        self._agent._note_answer()
        if not self._agent._fallback_activated:
            self._agent.tell_return(self.label)

    def note_failure(self, failure: ModelFailure) -> None:
        self._agent._permit.failed(failure.concern, failure.retry_after)
