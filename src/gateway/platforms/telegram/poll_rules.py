"""What is made of each try to hear from Telegram, and what to tell the owner. Pure."""

import math
from dataclasses import dataclass, replace
from typing import Any

from gateway.platforms.telegram.refusals import (
    BAD_TOKEN,
    TOKEN_SECONDS,
    BotTrouble,
    TroubleKind,
    is_webhook_set,
)

NORMAL_CONFLICTS = 3  # the poll of the process before us may still be open
QUIET_SECONDS = 90.0  # so long without a conflict: the other program has ended
TWO_POLLERS = (
    "Another program polls Telegram with this token, so messages go to one of the two by chance. End the other one, or "
    "make a bot of its own for it."
)
FOREIGN_WEBHOOK = (
    "Another program has set a webhook for this token, and gets the messages. It is taken away again; end that "
    "program, or make a bot of its own for it."
)
HOOK_RECENT_SECONDS = 300.0  # an error of the webhook that is older is over
HOOK_TAKEN = "Another program has changed the webhook of this token. It is set again; end that program."
HOOK_FAILS = "Telegram cannot reach the webhook: {}. What people write waits there for up to a day."
NO_NETWORK = "Telegram cannot be reached ({}). It is tried again; what people write meanwhile waits there."


@dataclass(frozen=True, slots=True)
class PollState:
    failures: int = 0  # in a row
    conflicts: int = 0  # since it was last quiet
    last_conflict: float = -math.inf
    problem: str = ""


def after_success(state: PollState, now: float) -> PollState:
    """Two pollers have their good moments: only a while of quiet says that there is one again."""
    if now - state.last_conflict < QUIET_SECONDS:
        told = state.problem if state.conflicts > NORMAL_CONFLICTS else ""
        return replace(state, failures=0, problem=told)
    return PollState()


def after_trouble(state: PollState, trouble: BotTrouble, now: float) -> PollState:
    """The state after a failed try."""
    if trouble.kind is TroubleKind.PENALTY:
        return state
    if trouble.kind is TroubleKind.TOKEN:
        return replace(state, problem=f"{BAD_TOKEN} {trouble.fix}")
    if trouble.kind is TroubleKind.CONFLICT:
        conflicts = state.conflicts + 1
        problem = FOREIGN_WEBHOOK if is_webhook_set(trouble) else TWO_POLLERS
        told = problem if conflicts > NORMAL_CONFLICTS else state.problem
        return replace(state, conflicts=conflicts, last_conflict=now, problem=told)
    failures = state.failures + 1
    told = NO_NETWORK.format(trouble.text) if failures > 1 else state.problem
    return replace(state, failures=failures, problem=told)


def find_pause(trouble: BotTrouble) -> float | None:
    """The seconds that a trouble asks for by itself; None: they grow with each failure."""
    if trouble.kind is TroubleKind.PENALTY:
        return trouble.seconds
    return TOKEN_SECONDS if trouble.kind is TroubleKind.TOKEN else None


def judge_webhook(info: Any, url: str, now: float) -> str:
    """What is wrong with the webhook, as Telegram describes it; empty: nothing."""
    info = info if isinstance(info, dict) else {}
    if info.get("url") != url:
        return HOOK_TAKEN
    failed = info.get("last_error_date")
    if info.get("pending_update_count") and isinstance(failed, int) and now - failed < HOOK_RECENT_SECONDS:
        return HOOK_FAILS.format(info.get("last_error_message") or "no reason was given")
    return ""
