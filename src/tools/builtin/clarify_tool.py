"""Asks the person something that only they can decide, and waits for the answer."""

import contextvars
import logging
import threading
from collections.abc import Mapping
from concurrent.futures import CancelledError, Future
from typing import Any

from hermes_base.chat import Answer, Asker, Question
from hermes_base.errors import ToolFailure
from hermes_base.turn.tool_context import ToolContext
from tools.registry import make_schema, registry, tool_result

log = logging.getLogger(__name__)

TOOLSET = "clarify"
EXPIRES_SECONDS = 300.0
QUESTION_CHARS = 2_000
MAX_CHOICES = 8
CHOICE_CHARS = 200
UNANSWERED = "Nobody answered. Go on with your best guess, and say which guess you made."

SCHEMA = make_schema(
    "clarify",
    "Ask the person when you cannot go on without their decision. Waits for the answer.",
    ("question",),
    question={"type": "string"},
    choices={"type": "array", "items": {"type": "string"}, "description": "Leave out for free text."},
)


def ask_person(args: Mapping[str, Any], *, context: ToolContext) -> str:
    """The person's answer, or a word that there is none."""
    text, given = args.get("question"), args.get("choices")
    if not isinstance(text, str) or not text.strip():
        raise ToolFailure("There is no question to ask.")
    if len(text) > QUESTION_CHARS:
        raise ToolFailure(f"A question has at most {QUESTION_CHARS} characters; this one has {len(text)}.")
    if given is None:
        given = []
    if not isinstance(given, list) or not all(isinstance(choice, str) for choice in given):
        raise ToolFailure("Choices are a list of texts.")
    choices = list(dict.fromkeys(choice.strip() for choice in given if choice.strip()))
    if len(choices) > MAX_CHOICES or any(len(choice) > CHOICE_CHARS for choice in choices):
        raise ToolFailure(f"Give at most {MAX_CHOICES} choices of at most {CHOICE_CHARS} characters.")
    shown = tuple(map(context.redact, choices))
    said, origins = context.redact(text.strip()), context.foreign.origins
    question = Question("clarification", said, shown, EXPIRES_SECONDS, origins=origins)
    answer = _wait_for_answer(context.asker, question, context) if context.asker is not None else Answer("", False)
    if context.cancel.cancelled:
        raise ToolFailure("The turn was stopped before the person answered.")
    if not answer.given or not answer.text.strip():
        return tool_result(answer=None, note=UNANSWERED)
    return tool_result(answer=context.redact(answer.text))


def _wait_for_answer(asker: Asker, question: Question, context: ToolContext) -> Answer:
    """Ask on a thread of its own: an asker need not know of the turn, and yet an interrupt ends the wait at once."""
    if context.cancel.cancelled:
        return Answer("", given=False)
    outcome: Future[Answer] = Future()
    asking = contextvars.copy_context()  # the home of another profile is set there
    threading.Thread(target=asking.run, args=(_ask, asker, question, outcome), name="clarify", daemon=True).start()
    forget = context.cancel.on_cancel(lambda: _give_up(outcome))
    try:
        return outcome.result(question.expires_in)
    except (CancelledError, TimeoutError):
        return Answer("", given=False)
    finally:
        outcome.cancel()
        forget()


def _give_up(outcome: Future[Answer]) -> None:
    outcome.cancel()


def _ask(asker: Asker, question: Question, outcome: Future[Answer]) -> None:
    """The boundary to a platform: whatever it raises is raised again where the tool waits."""
    try:
        answer = asker(question)
    except Exception as problem:
        log.exception("asking the person failed")
        if outcome.set_running_or_notify_cancel():
            outcome.set_exception(problem)
        return
    if outcome.set_running_or_notify_cancel():
        outcome.set_result(answer)


registry.register("clarify", TOOLSET, SCHEMA, ask_person, emoji="❓")
