"""Confirmations of slash commands by a button: a plugin asks, and what was chosen runs the rest of the command."""

import asyncio
import inspect
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

log = logging.getLogger(__name__)

TIMEOUT_SECONDS = 300.0
CHOICES = frozenset({"once", "always", "cancel"})


@dataclass(frozen=True, slots=True)
class PendingConfirm:
    session_key: str
    confirm_id: str
    command: str
    handler: Callable[[str], Any]
    at: float = field(default_factory=time.monotonic)

    def __getitem__(self, name: str) -> Any:
        """Some look at it as at a dict."""
        if name not in self.__slots__:
            raise KeyError(name)
        return getattr(self, name)

    def get(self, name: str, default: Any = None) -> Any:
        return self[name] if name in self.__slots__ else default


_lock = threading.Lock()
_pending: dict[str, PendingConfirm] = {}


def register(session_key: str, confirm_id: str, command: str, handler: Callable[[str], Any]) -> None:
    """One for each conversation: a later one takes its place."""
    with _lock:
        _pending[session_key] = PendingConfirm(session_key, confirm_id, command, handler)


async def resolve(
    session_key: str,
    confirm_id: str,
    choice: str,
    timeout: float = TIMEOUT_SECONDS,  # noqa: ASYNC109 - plugins call it so
) -> str | None:
    """Run what was confirmed; its text, if it has one. None: it is not open any more, or nothing is said."""
    with _lock:
        found = _pending.get(session_key)
        if found is None or found.confirm_id != confirm_id or choice not in CHOICES:
            return None
        del _pending[session_key]
    if time.monotonic() - found.at > timeout:
        return None
    try:
        said = found.handler(choice)
        async with asyncio.timeout(timeout):
            said = await said if inspect.isawaitable(said) else said
    except Exception:  # the boundary to a plugin
        log.exception("what was confirmed for %s failed", found.command)
        return None
    return str(said) if said else None


def get_pending(session_key: str) -> PendingConfirm | None:
    return _pending.get(session_key)


def clear(session_key: str) -> None:
    with _lock:
        _pending.pop(session_key, None)
