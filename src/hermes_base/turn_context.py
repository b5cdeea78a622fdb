"""The one context variable: which turn this thread works for.

It serves the functions that plugins call without arguments (`is_interrupted`, `get_session_env`); our own code
passes what it needs as arguments.
"""

from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

from hermes_base.cancel import CancelToken


@dataclass(frozen=True, slots=True)
class TurnContext:
    cancel: CancelToken
    session: str = ""
    task: str = ""
    platform: str = ""
    env: Mapping[str, str] = field(default_factory=dict)  # HERMES_SESSION_PLATFORM, …_CHAT_ID, …_THREAD_ID


current_turn: ContextVar[TurnContext | None] = ContextVar("hermes_current_turn", default=None)
