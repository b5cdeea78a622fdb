"""What the answer of an adapter of a plugin means for the message that it was given. Pure."""

from typing import Any

from gateway.platforms.face import NeverTaken, NotNow
from hermes_base.errors import DeliveryFailure

PATIENCE = 5.0  # of a platform that asks for patience without saying how long
_ON_THE_WAY = ("connecterror", "connection", "network", "broken pipe", "reset by peer", "refused", "unreachable")
_UNANSWERED = ("timed out", "timeout", "readtimeout")


def is_connection_error(error: Any) -> bool:
    """Whether it failed before anything was sent, by its words."""
    words = str(error or "").lower()
    return any(word in words for word in _ON_THE_WAY) and not is_unanswered(error)


def is_unanswered(error: Any) -> bool:
    """Whether it may have been sent although nothing was heard of it, by its words."""
    words = str(error or "").lower()
    return any(word in words for word in _UNANSWERED)


def judge_result(result: Any, label: str) -> DeliveryFailure | None:
    """Why a message did not arrive; None: it did. Whatever has no `success` counts as sent unless it is False."""
    if result is None or result is True:
        return None
    if getattr(result, "success", result is not False):
        return None
    error = str(getattr(result, "error", "") or "it did not say why")
    what = f"{label} did not take the message: {error}"
    kind, after = getattr(result, "error_kind", None), getattr(result, "retry_after", None)
    seconds = float(after) if isinstance(after, int | float) and after > 0 else PATIENCE
    if kind == "rate_limited" or (kind is None and after):
        return NotNow(what, seconds)
    if kind in ("forbidden", "not_found"):
        return NeverTaken(what)
    if kind in ("bad_format", "too_long"):
        return NeverTaken(what, markup=True)
    if kind == "transient" or getattr(result, "retryable", False) or is_connection_error(error):
        return NotNow(what, seconds)
    if is_unanswered(error):
        return DeliveryFailure(what)
    return NeverTaken(what, markup=True)  # once more as plain text, and kept if that is not taken either


def read_message_id(result: Any) -> str:
    """The platform's id of what was sent; empty: it did not say."""
    found = getattr(result, "message_id", None)
    return "" if found is None else str(found)
