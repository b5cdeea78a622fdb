"""Asking a person before something is done: bound to the exact words, valid once, with an expiry."""

import logging

from hermes_base.chat import Question
from hermes_base.tool_context import ToolContext

log = logging.getLogger(__name__)

APPROVE, DENY = "approve", "deny"
EXPIRES_SECONDS = 300.0


def ask_approval(context: ToolContext, what: str, reason: str = "", kind: str = "approval") -> bool:
    """True only when somebody was there, answered in time, and agreed to exactly this.

    An approval is given by those who may approve commands, a `confirmation` by the person of the turn.
    """
    if context.asker is None or context.settings.approvals.mode == "deny" or context.cancel.cancelled:
        return False
    question = Question(
        kind,
        what,
        (APPROVE, DENY),
        EXPIRES_SECONDS,
        reason,
        context.conversation,
        context.turn,
    )
    answer = context.asker(question)
    agreed = answer.given and answer.text == APPROVE and not context.cancel.cancelled
    log.info("%s by %s: %s", "approved" if agreed else "not approved", answer.by or "nobody", context.redact(what))
    return agreed
