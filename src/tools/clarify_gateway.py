"""Answers to questions that an adapter of a plugin shows with buttons of its own."""

from collections.abc import Sequence

from hermes_base.turn.plugin_asks import CLARIFICATION, OpenAsk, open_asks

TIMEOUT_SECONDS = 300.0


def resolve_gateway_clarify(clarify_id: str, response: str) -> bool:
    """Whether the question was still open; from any thread."""
    return open_asks.answer(clarify_id, str(response))


def mark_awaiting_text(clarify_id: str) -> bool:
    """The next message of the conversation is the answer; whether the question is open."""
    ask = open_asks.find(clarify_id)
    if ask is None:
        return False
    ask.awaits_text = True
    return True


def register(clarify_id: str, session_key: str, question: str, choices: Sequence[str] | None = None) -> OpenAsk:
    """A question of a plugin's own; `wait_for_response` waits for what a button says of it."""
    given, is_open = tuple(choices or ()), not choices
    ask = OpenAsk(clarify_id, session_key, CLARIFICATION, question, given, by_plugin=True, awaits_text=is_open)
    open_asks.add(ask)
    return ask


def wait_for_response(clarify_id: str, timeout: float | None = None) -> str | None:
    """What was answered; None: nothing in this time, and the question is over."""
    ask = open_asks.find(clarify_id)
    if ask is None:
        return None
    ask.answered.wait(TIMEOUT_SECONDS if timeout is None else timeout)
    open_asks.drop(clarify_id)
    return ask.response


def get_pending_for_session(session_key: str, *, include_choice_prompts: bool = False) -> OpenAsk | None:
    """The oldest question there that a text would answer; with its choices, too, if asked for."""
    found = open_asks.of_session(session_key, CLARIFICATION)
    return next((ask for ask in found if include_choice_prompts or ask.awaits_text), None)


def clear_session(session_key: str) -> int:
    """Nobody waits for the questions of this conversation any more; how many there were."""
    found = open_asks.of_session(session_key, CLARIFICATION)
    for ask in found:
        open_asks.drop(ask.id)
        ask.answered.set()
    return len(found)


def get_clarify_timeout() -> float:
    return TIMEOUT_SECONDS
