"""Asking a person before something is done: bound to the exact words, valid once, with an expiry."""

import uuid

from hermes_base.chat import Question
from hermes_base.tool_context import ToolContext

APPROVE, DENY = "approve", "deny"
EXPIRES_SECONDS = 300.0


def ask_approval(context: ToolContext, what: str, reason: str = "") -> bool:
    """True only when somebody was there, answered in time, and agreed to exactly this."""
    if context.asker is None or context.setting("approvals", "mode", "ask") == "deny" or context.cancel.cancelled:
        return False
    question = Question(uuid.uuid4().hex[:12], "approval", what, (APPROVE, DENY), EXPIRES_SECONDS, reason)
    answer = context.asker.ask(question)
    return answer.given and answer.text == APPROVE and not context.cancel.cancelled
