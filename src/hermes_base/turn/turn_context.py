"""The one context variable: which turn this thread works for.

It serves the functions that plugins call without arguments (`is_interrupted`, `get_session_env`); our own code
passes what it needs as arguments. The log reads it, too, so that a line names its conversation and turn.
"""

from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from hermes_base.inbound import Inbound
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.journal import UsageRow
from hermes_base.turn.tool_context import ToolContext


@dataclass(frozen=True, slots=True)
class TurnContext:
    cancel: CancelToken
    session: str = ""
    task: str = ""
    platform: str = ""
    charge: Callable[[UsageRow], None] = lambda _: None  # puts a call that a plugin makes into the ledger
    asked: Inbound | None = None  # the message that it answers, and where that was said
    conversation: str = ""  # its key
    turn: str = ""
    tools: ToolContext | None = None  # what tools of this turn are told; a plugin that runs one has the same rights
    asker: Callable[[Any], Any] | None = None  # asks the person of the turn (`hermes_base.chat.Asker`); None: nobody


current_turn: ContextVar[TurnContext | None] = ContextVar("hermes_current_turn", default=None)
