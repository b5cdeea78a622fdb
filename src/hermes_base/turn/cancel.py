"""Telling a turn to stop: a token that waits can watch and that cuts what is blocked. No thread is killed."""

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hermes_base.errors import Interrupted

log = logging.getLogger(__name__)


@dataclass(eq=False)
class CancelToken:
    """Set once, by anyone; everything that waits in a turn waits on it or has its cut registered here."""

    reason: str = ""
    _event: threading.Event = field(default_factory=threading.Event)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _cuts: list[Callable[[], None]] = field(default_factory=list)

    @property
    def cancelled(self) -> bool:
        return self._event.is_set()

    def cancel(self, reason: str = "stopped by the user") -> None:
        """Stop the turn; the first reason stays."""
        with self._lock:
            if self._event.is_set():
                return
            self.reason = reason
            self._event.set()
            cuts = list(self._cuts)
        for cut in cuts:
            _run_cut(cut)

    def check(self) -> None:
        if self._event.is_set():
            raise Interrupted(self.reason)

    def wait(self, seconds: float) -> bool:
        """Pause; True at once when the turn is told to stop."""
        return self._event.wait(seconds)

    def pause(self, seconds: float) -> None:
        """Wait so long; raises Interrupted at once when the turn is told to stop."""
        self.wait(seconds)
        self.check()

    def on_cancel(self, cut: Callable[[], None]) -> Callable[[], None]:
        """Call `cut` when the turn is told to stop (now, if it already was); returns what forgets it."""
        with self._lock:
            pending = not self._event.is_set()
            if pending:
                self._cuts.append(cut)
        if not pending:
            _run_cut(cut)
        return lambda: self._forget(cut)

    def _forget(self, cut: Callable[[], None]) -> None:
        with self._lock:
            if cut in self._cuts:
                self._cuts.remove(cut)


@contextmanager
def ended_with(outer: CancelToken | None) -> Iterator[CancelToken]:
    """A token for what is begun in a block: it is set when the block ends, however it does, and before that with the
    outer one, which is left as it is."""
    token = CancelToken()
    forget = outer.on_cancel(lambda: token.cancel(outer.reason)) if outer is not None else None
    try:
        yield token
    finally:
        if forget is not None:
            forget()
        token.cancel("what it was begun for is over")


def _run_cut(cut: Callable[[], None]) -> None:
    """One cut that fails must not keep the others from running."""
    try:
        cut()
    except Exception:
        log.exception("cutting a blocked call failed")
