"""What is told when a turn is over: to plugins, to whoever asked for it, and to the log."""

import logging
from collections.abc import Sequence
from typing import Any

from agent.turn.driver import TurnResult
from agent.turn.ports import TurnFacts
from hermes_base.hooks import Hooks

log = logging.getLogger(__name__)


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
    hooks: Hooks, result: TurnResult, facts: TurnFacts, text: str, model: str, messages: Sequence[dict[str, Any]]
) -> None:
    """`post_llm_call` after an answer, then `on_session_end`, which fires after every turn."""
    ids = {"session_id": facts.session, "task_id": facts.task, "turn_id": facts.turn}
    where = {"model": model, "platform": facts.platform}
    if result.text and not result.interrupted:
        hooks.invoke(
            "post_llm_call",
            **ids,
            **where,
            user_message=text,
            assistant_response=result.text,
            conversation_history=list(messages),
        )
    hooks.invoke("on_session_end", **ids, **where, completed=result.completed, interrupted=result.interrupted)
