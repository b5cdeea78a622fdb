"""Calls into a provider's code, each within a limit of time and on a thread that nobody has to wait for.

What raises is told and gives the value that stands for nothing. What hangs costs its limit once: until it comes back,
no further call into that provider is made, by any agent of this process, and the one that hangs is named.
"""

import atexit
import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeVar

from hermes_base.errors import Interrupted
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.turn_context import current_turn

log = logging.getLogger(__name__)

T = TypeVar("T")
#: Seconds that a call may take. What runs in the background keeps nobody waiting, so it has more.
LIMITS = {
    "initialize": 15.0,
    "prefetch": 8.0,
    "handle_tool_call": 60.0,
    "on_pre_compress": 15.0,
    "sync_turn": 120.0,
    "queue_prefetch": 120.0,
    "on_session_end": 120.0,
    "on_session_switch": 30.0,
    "on_memory_write": 30.0,
    "on_delegation": 30.0,
    "create_session": 60.0,
    "close_session": 30.0,
    "search": 30.0,
    "extract": 60.0,
}
USUAL_LIMIT = 5.0
DRAIN_SECONDS = 5.0
MOST_WAITING = 256

Tell = Callable[[str], None]  # a sentence on what went wrong


class ProviderCall:
    """One call under way."""

    def __init__(self, what: str, limit: float) -> None:
        self.what, self.limit = what, limit
        self.started = time.monotonic()
        self.ended = threading.Event()  # it is over, or nobody waits for it any more
        self.alive = True
        self.value: Any = None
        self.problem: BaseException | None = None

    @property
    def overdue(self) -> bool:
        return self.alive and time.monotonic() - self.started >= self.limit

    def run(self, work: Callable[[], Any]) -> None:
        """On whichever thread it is: the boundary to other people's code."""
        try:
            self.value = work()
        except BaseException as problem:  # noqa: BLE001 - told by whoever asked; not even SystemExit ends more than this
            self.problem = problem
        finally:
            self.alive = False
            self.ended.set()


class _UnderWay:
    """The calls of this process that are not over, by the provider that they are in."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: dict[str, list[ProviderCall]] = {}

    def add(self, provider: str, call: ProviderCall) -> None:
        with self._lock:
            kept = [known for known in self._calls.get(provider, ()) if known.alive]
            self._calls[provider] = [*kept, call]

    def find_overdue(self, provider: str) -> ProviderCall | None:
        with self._lock:
            return next((call for call in self._calls.get(provider, ()) if call.overdue), None)


_under_way = _UnderWay()


class ProviderCalls:
    """The way into one provider. `tell` hears of what goes wrong; it is called on any thread."""

    def __init__(
        self, provider: str, tell: Tell, limits: dict[str, float] | None = None, *, kind: str = "memory provider"
    ) -> None:
        self._provider = provider
        self._kind = kind
        self._tell = tell
        self._limits = limits or {}
        self._waiting: deque[tuple[str, Callable[[], Any], contextvars.Context]] = deque()
        self._changed = threading.Condition()
        self._working = False
        self._told = ""

    def find_hanging(self) -> str:
        """A sentence when a call does not come back; empty: all is well."""
        call = _under_way.find_overdue(self._provider)
        if call is None:
            return ""
        return f"The {self._kind} {self._provider} hangs in {call.what}; it is passed over until it comes back."

    def ask(self, what: str, work: Callable[[], T], otherwise: T) -> T:
        """What the provider answers within the limit; `otherwise` when it fails, hangs, or the turn is stopped."""
        if self._is_passed_over():
            return otherwise
        call = ProviderCall(what, self._find_limit(what))
        _under_way.add(self._provider, call)
        context, turn = contextvars.copy_context(), current_turn.get()
        name = f"{self._kind} {self._provider} {what}"
        threading.Thread(target=context.run, args=(call.run, work), name=name, daemon=True).start()
        forget = turn.cancel.on_cancel(call.ended.set) if turn is not None else None
        call.ended.wait(call.limit)
        if forget is not None:
            forget()
        if call.alive:
            self._is_passed_over()
            return otherwise
        return otherwise if self._tell_failure(call) else call.value

    def queue(self, what: str, work: Callable[[], Any]) -> None:
        """Have it done in the background, in the order in which it was queued. It outlives the turn."""
        if self._is_passed_over():
            return
        context = contextvars.copy_context()
        turn = current_turn.get()
        if turn is not None:
            context.run(current_turn.set, replace(turn, cancel=CancelToken()))
        with self._changed:
            if len(self._waiting) >= MOST_WAITING:
                log.warning("memory provider %s is too slow; %s is left out", self._provider, what)
                return
            self._waiting.append((what, work, context))
            if self._working:
                return
            self._working = True
        _busy.add(self)
        threading.Thread(target=self._work, name=f"memory {self._provider}", daemon=True).start()

    def flush(self, seconds: float) -> bool:
        """Wait until nothing is queued any more; False when that takes longer."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._working, seconds)

    def _work(self) -> None:
        """The worker: there is one while something waits, and none in between."""
        while True:
            with self._changed:
                if not self._waiting:
                    self._working = False
                    _busy.discard(self)
                    self._changed.notify_all()
                    return
                what, work, context = self._waiting.popleft()
            call = ProviderCall(what, self._find_limit(what))
            _under_way.add(self._provider, call)
            context.run(call.run, work)
            self._tell_failure(call)

    def _find_limit(self, what: str) -> float:
        return self._limits.get(what, LIMITS.get(what, USUAL_LIMIT))

    def _is_passed_over(self) -> bool:
        hanging = self.find_hanging()
        if hanging != self._told:
            self._told = hanging
            if hanging:
                self._note(hanging)
        return bool(hanging)

    def _tell_failure(self, call: ProviderCall) -> bool:
        problem = call.problem
        if problem is not None and not isinstance(problem, Interrupted):  # a stop is the turn's own to tell
            log.warning("%s %s failed in %s", self._kind, self._provider, call.what, exc_info=problem)
            what = f"{type(problem).__name__}: {problem}".rstrip(": ")
            self._note(f"The {self._kind} {self._provider} failed in {call.what} ({what}).")
        return problem is not None

    def _note(self, sentence: str) -> None:
        log.warning("%s", sentence)
        try:
            self._tell(sentence)
        except Exception:
            log.exception("a fault of a memory provider could not be told")


_busy: set[ProviderCalls] = set()


def drain_all(seconds: float = DRAIN_SECONDS) -> None:
    """The process ends: what is queued anywhere gets so long altogether."""
    until = time.monotonic() + seconds
    for calls in tuple(_busy):
        calls.flush(max(0.0, until - time.monotonic()))


atexit.register(drain_all)
