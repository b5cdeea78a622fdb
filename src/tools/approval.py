"""Asking a person before something is done: bound to the exact words, valid once, with an expiry.

Where it can be said exactly what is done (a `Deed`), whoever keeps rules may answer by one that a person made (G4).
"""

import json
import logging
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from hermes_base.chat import Question
from hermes_base.text.harmless import show_blanks, show_hidden
from hermes_base.turn.consent import ALWAYS, APPROVE, CONVERSATION, DENY, ONCE, TABLE, Deed, split_answer
from hermes_base.turn.hooks import find_hooks
from hermes_base.turn.tool_context import ToolContext

log = logging.getLogger(__name__)

EXPIRES_SECONDS = 300.0
LONGEST_SHOWN = 500  # characters of a deed in a list
NOBODY = "nobody approved it"
NO_ANSWER = "nobody approved it (there was no answer, and that means no)"
REFUSED = "nobody approved it: the answer was no"
HOOKS = ("pre_approval_request", "post_approval_response")
LOCAL = ":local:"  # in the keys of conversations in the terminal
#: What plugins call the answers.
CHOICES = MappingProxyType({APPROVE: "once", CONVERSATION: "session", ALWAYS: "always"})


@dataclass(frozen=True, slots=True)
class Consent:
    """Whether a person agreed; if not, `why` says it to the model, in the person's own words where they gave some."""

    given: bool
    why: str = ""

    def __bool__(self) -> bool:
        return self.given


def ask_approval(
    context: ToolContext, what: str, reason: str = "", kind: str = "approval", deed: Deed | None = None
) -> Consent:
    """Given only when somebody was there, answered in time, and agreed to exactly this, now or by a rule.

    An approval is given by those who may approve commands, a `confirmation` by the person of the turn.
    """
    if context.asker is None or context.settings.approvals.mode == "deny" or context.cancel.cancelled:
        return Consent(False, NOBODY)
    foreign = f"this conversation holds {' and '.join(context.foreign.origins)}" if context.foreign else ""
    question = Question(
        kind,
        show_blanks(show_hidden(what)),
        ONCE,
        EXPIRES_SECONDS,
        reason,
        context.conversation,
        context.turn,
        deed=deed,
        unkept=foreign,
        origins=context.foreign.origins,
    )
    hooks = find_hooks()
    about = _describe(context, what, reason or kind, deed) if any(map(hooks.has, HOOKS)) else {}
    hooks.invoke(HOOKS[0], **about)
    answer = context.asker(question)
    choice, word = split_answer(answer.text)
    hooks.invoke(HOOKS[1], **about, choice=_name_choice(answer.given, choice))
    agreed = answer.given and choice in TABLE and choice != DENY and not context.cancel.cancelled
    by = f"{answer.rule} ({answer.by})" if answer.rule else answer.by or "nobody"
    log.info("%s by %s: %s", "approved" if agreed else "not approved", by, context.redact(what))
    if agreed:
        return Consent(True)
    if not answer.given:
        return Consent(False, NO_ANSWER)
    return Consent(False, f"not approved: {context.redact(word)}" if word else REFUSED)


def _describe(context: ToolContext, what: str, why: str, deed: Deed | None) -> dict[str, Any]:
    """What plugins are told of a question. What may be done is decided by parsed commands, not by patterns: the kind
    of the deed stands for one."""
    pattern = deed.kind if deed is not None else "approval"
    return {
        "command": context.redact(what),
        "description": why,
        "pattern_key": pattern,
        "pattern_keys": [pattern],
        "session_key": context.conversation,
        "surface": "cli" if LOCAL in context.conversation or not context.conversation else "gateway",
        "turn_id": context.told_turn,
        "tool_call_id": context.call,
    }


def _name_choice(given: bool, choice: str) -> str:
    return CHOICES.get(choice, "deny") if given else "timeout"


def make_deed(context: ToolContext, kind: str, folder: str, words: Any, shown: str, **reach: str) -> Deed | None:
    """What is about to be done, so that a rule can be held against it; None where a rule would have to keep a secret,
    or what cannot be written down."""
    said = " ".join(shown.split())
    written = json.dumps(words)
    shown = said if len(said) <= LONGEST_SHOWN else said[: LONGEST_SHOWN - 1] + "…"
    whole = f"{folder} {said} {written}"
    if not whole.isprintable() or context.redact(whole) != whole:
        return None
    return Deed(kind, folder, reach.get("backend", ""), reach.get("level", ""), written, shown, context.task)
