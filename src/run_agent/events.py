"""What an agent tells: to callbacks while a turn runs; to plugins, the log and whoever asked for it when it is over."""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agent.turn.driver import TurnResult
from agent.turn.ports import TurnFacts
from hermes_base.chat import Event, LastingNotice, Notice, TextEnded, ToolEnded, ToolStarted
from hermes_base.settings import Settings
from hermes_base.turn.hooks import Hooks
from hermes_cli import config as cli_config
from run_agent.memory_binding import AgentMemory

log = logging.getLogger(__name__)

FAILED = "failed"  # the reason of a turn that no provider answered
HOOKS_AT_END = ("post_llm_call", "on_session_end")

COLD = (
    "The provider's cache was hit for less than half of the prompt in the last {turns} turns (now {rate:.0%}), so they "
    "cost more than they should. /usage shows what moved the prompt; a plugin or a proxy may change it on its way."
)


@dataclass(eq=False)
class Listeners:
    """Who hears what happens in a turn; None means that nobody does."""

    stream_delta_callback: Callable[[str], None] | None = None
    reasoning_callback: Callable[[str], None] | None = None
    text_end_callback: Callable[[TextEnded], None] | None = None  # what was streamed stands, or is taken back
    tool_progress_callback: Callable[[ToolStarted | ToolEnded], None] | None = None
    step_callback: Callable[[int], None] | None = None
    status_callback: Callable[[Notice], None] | None = None
    switch_callback: Callable[[str], None] | None = None  # another provider answers from now on: why


class EventCallbacks(Listeners):
    """An agent's own listeners may be set and changed at any time; a turn may be given others in their place."""

    _given_listeners: Listeners | None = None
    _turn_stream: Callable[[str], None] | None = None  # given to one turn only
    _settings: Settings = Settings()
    _stand_in: str = ""  # who answers in the place of the first choice
    _told_of: str = ""  # the same, as people were told
    _told: frozenset[str] = frozenset()  # warnings that the person has read

    def emit(self, event: Event) -> None:
        """Hand an event to whoever listens; never raises."""
        hears = self._given_listeners or self
        match event:
            case TextEnded():
                call_back(hears.text_end_callback, event)
            case Notice():
                call_back(hears.status_callback, replace(event, text=cli_config.redactor()(event.text)))

    def emit_progress(self, event: ToolStarted | ToolEnded, is_over: Callable[[], bool]) -> None:
        """What the tool of a turn does, from whichever thread. Who listens is looked up first: if the turn is not over
        after that, it is whoever listens to this turn, and not to the next one."""
        listener, redact = (self._given_listeners or self).tool_progress_callback, cli_config.redactor()
        if not is_over():
            call_back(listener, replace(event, name=redact(event.name), preview=redact(event.preview)))

    def emit_text(self, text: str) -> None:
        """The short way for what comes hundreds of times in an answer."""
        hears = self._given_listeners or self
        try:
            if hears.stream_delta_callback is not None:
                hears.stream_delta_callback(text)
            if self._turn_stream is not None:
                self._turn_stream(text)
        except Exception:
            log.exception("a callback failed")

    def emit_reasoning(self, text: str) -> None:
        call_back((self._given_listeners or self).reasoning_callback, text)

    def tell_switch(self, before: str, after: str, reason: str, why: str) -> None:
        """D12: another model answers now. A person reads it once, until the first choice is back."""
        self.note_switch(before, after, reason)
        self._stand_in = after
        if after != self._told_of:
            self._told_of = after if (self._given_listeners or self).status_callback is not None else ""
            self._tell_model_change(LastingNotice(f"{why} {after} answers instead of {before} for now.", "warning"))

    def tell_return(self, after: str) -> None:
        """The first choice has answered: if somebody stood in for it, that is over."""
        before, self._stand_in = self._stand_in, ""
        told, self._told_of = self._told_of, ""
        if before:
            self.note_switch(before, after, "restored")
        if told:
            self._tell_model_change(LastingNotice(f"{after} answers again."))

    def _tell_model_change(self, notice: LastingNotice) -> None:
        if self._settings.gateway.model_notices:
            self.emit(notice)

    def tell_once(self, name: str, text: str) -> None:
        """A warning that is worth one reading, however often its cause comes back."""
        if name not in self._told:
            self._told |= {name}
            self.emit(LastingNotice(text, "warning"))

    def tell_again(self, name: str) -> None:
        """The cause is gone; when it comes back, it is told."""
        self._told -= {name}

    def note_switch(self, before: str, after: str, reason: str) -> None:
        """D12: every switch and return stands in the log with from, to and reason."""
        log.info("%s answers instead of %s (%s)", after, before, reason, extra={"reason": reason})
        call_back((self._given_listeners or self).switch_callback, reason)


def call_back(callback: Callable[..., None] | None, value: Any) -> None:
    """The boundary to somebody's callback: its failure is logged and does not touch the turn."""
    if callback is None:
        return
    try:
        callback(value)
    except Exception:
        log.exception("a callback failed")


# --- when a turn is over


def as_dict(result: TurnResult) -> dict[str, Any]:
    """The turn's own part of what `run_conversation` gives back."""
    return {
        "final_response": result.text,
        "api_calls": result.api_calls,
        "completed": result.completed,
        "interrupted": result.interrupted,
        "reason": result.reason,
        "error": result.error,
        "unread_steering": list(result.unread),
        "usage": result.usage.as_engine_usage(),
        "prefix_breaks": [(broken.reason, broken.position) for broken in result.breaks],
    }


def log_end(result: TurnResult, provider: str, model: str) -> None:
    """One line for each turn, with who answered and the tokens by bucket (H9)."""
    how = "interrupted" if result.interrupted else "completed" if result.completed else "failed"
    used = result.usage
    tokens = {
        "input": used.input_tokens,
        "cache_read": used.cache_read_tokens,
        "cache_write": used.cache_write_tokens,
        "output": used.output_tokens,
    }
    about = {"provider": provider, "model": model, "tokens": tokens, "reason": result.reason or result.error}
    log.info("the turn %s with %d calls of a model", how, result.api_calls, extra=about)


def tell_plugins(
    hooks: Hooks,
    result: TurnResult,
    facts: TurnFacts,
    text: str,
    model: str,
    messages: Sequence[dict[str, Any]],
    memory: AgentMemory | None,
) -> None:
    """`post_llm_call` after an answer, which memory then keeps, and `on_session_end`. Not for a turn that no provider
    answered: plugins take what they are told of for something that happened."""
    ids = {"session_id": facts.session, "task_id": facts.task, "turn_id": facts.told_turn}
    where = {"model": model, "platform": facts.platform}
    if result.text and not result.interrupted and not result.error and hooks.has("post_llm_call"):
        hooks.invoke(
            "post_llm_call",
            **ids,
            **where,
            user_message=facts.said,
            assistant_response=result.text,
            conversation_history=list(messages),
        )
    if memory is not None and result.completed and result.text.strip() and not result.interrupted:
        memory.keep(text, result.text, messages)
    if hooks.has("on_session_end"):
        request = f"{facts.told_turn}:api:{result.api_calls}"  # the last one
        why = {"reason": result.reason, "api_request_id": request} if result.interrupted else {}
        ended = {"completed": result.completed, "interrupted": result.interrupted, **why}
        hooks.invoke("on_session_end", **ids, **where, **ended)
