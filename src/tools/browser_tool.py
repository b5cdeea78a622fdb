"""Browser sessions by task. None is opened yet; what ends a task already ends its browser."""

import logging
import threading
from collections.abc import Callable

log = logging.getLogger(__name__)

_lock = threading.Lock()
_closers: dict[str, Callable[[], None]] = {}


def keep_browser(task_id: str, close: Callable[[], None]) -> None:
    """A browser was opened for a task; `close` ends it."""
    with _lock:
        _closers[task_id] = close


def cleanup_browser(task_id: str) -> None:
    """End the browser of a task, if it has one."""
    with _lock:
        close = _closers.pop(task_id, None)
    if close is not None:
        close()
