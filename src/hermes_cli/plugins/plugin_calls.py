"""Calls the callbacks of an event: never on the thread that asks, all in one hand-over to another thread, in order.

A callback that is late is left behind with its thread, and its answer is dropped; from then on its plugin is called on
a thread of its own. A plugin that fails again and again is set aside until it is enabled again or the process ends.
"""

import asyncio
import contextvars
import inspect
import logging
import os
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

from hermes_base.errors import Interrupted
from hermes_cli import middleware

log = logging.getLogger("hermes_cli.plugins")

#: How long whoever asks waits for one callback: for those that only look, and for those that decide or write something.
SECONDS, DECIDING_SECONDS = 5.0, 30.0
_DECIDING = frozenset(
    {
        "pre_llm_call",
        "pre_tool_call",
        "transform_tool_result",
        "transform_terminal_output",
        "transform_llm_output",
        "pre_verify",
        "pre_gateway_dispatch",
    }
)
#: Hooks that may forbid something: one that cannot be asked forbids it, unless the owner said otherwise.
MAY_BLOCK = frozenset({"pre_tool_call"})
MOST_FAILURES = 5
IDLE_SECONDS = 5.0
_FAILED, _SILENT = object(), object()  # in the place of an answer: it raised; nobody asked, or waited


def find_limit(hook: str) -> float:
    return DECIDING_SECONDS if hook in _DECIDING else SECONDS


# --- threads


class _Worker(threading.Thread):
    """A thread that waits a while for the next event before it goes."""

    def __init__(self) -> None:
        super().__init__(name="plugin-hooks", daemon=True)
        self.given: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()

    def run(self) -> None:
        while True:
            try:
                work = self.given.get(timeout=IDLE_SECONDS)
            except queue.Empty:
                with _idle_lock:
                    if self in _idle:
                        _idle.remove(self)
                        return
                continue  # somebody took it this moment
            work()
            del work  # what it holds is not kept until the next one
            with _idle_lock:
                _idle.append(self)


_idle: list[_Worker] = []
_idle_lock = threading.Lock()


def _start(work: Callable[[], None]) -> None:
    with _idle_lock:
        worker = _idle.pop() if _idle else None
    if worker is None:
        worker = _Worker()
        worker.start()
    worker.given.put(work)


def _forget_threads() -> None:
    """A forked process has none of them."""
    global _idle_lock
    _idle_lock = threading.Lock()
    _idle.clear()


os.register_at_fork(after_in_child=_forget_threads)


# --- how plugins have behaved


@dataclass(slots=True, eq=False)
class PluginStanding:
    """How one plugin has behaved in this process."""

    plugin: str
    failures: int = 0  # in a row
    late: bool = False  # it was, once: it has a thread of its own
    stuck: set[int] = field(default_factory=set)  # calls that have not come back yet
    set_aside: str = ""  # why it is not called any more


@dataclass(frozen=True, slots=True)
class HookCall:
    """One callback of an event."""

    callback: Callable[..., Any]
    standing: PluginStanding


# --- one event


class _Run:
    """Some callbacks of an event on one thread, in order. Whoever waits may take the rest away, and leave the one that
    is being asked behind."""

    __slots__ = ("answers", "calls", "done", "facts", "failed", "lock", "over", "place", "steps")

    def __init__(self, calls: Sequence[HookCall], facts: Mapping[str, Any]) -> None:
        self.calls, self.facts = calls, facts
        self.answers: list[Any] = []
        self.failed: list[int] = []
        self.place = -1  # no thread has begun with it
        self.steps = iter(range(len(calls)))  # taken from by both sides: each callback is asked once
        self.over = False
        self.lock = threading.Lock()  # held while it ends: a callback is late, or it is not
        self.done = threading.Lock()
        self.done.acquire()
        context = contextvars.copy_context()
        _start(lambda: context.run(self._work))

    def _work(self) -> None:
        calls, facts, answers = self.calls, self.facts, self.answers
        for place in self.steps:
            self.place = place
            try:
                answer = calls[place].callback(**facts)
                answers.append(asyncio.run(answer) if inspect.iscoroutine(answer) else answer)
            except Interrupted:
                answers.append(_SILENT)  # the turn was stopped, which is no fault of the plugin
            except BaseException:  # a cancelled task, too: nobody waits for an answer that cannot come
                describe = middleware.describe(calls[place].callback)
                log.warning("plugin %s: %s failed", calls[place].standing.plugin, describe, exc_info=True)
                answers.append(_FAILED)
                self.failed.append(place)
        with self.lock:
            self.over = True
            calls[self.place].standing.stuck.discard(id(self))
        self.done.release()

    def wait(self, limit: float) -> tuple[int, HookCall | None]:
        """How many were taken on, and the last of them if it does not answer in time. A callback that is not the first
        one has up to twice the limit: when it began is not noted, since that would cost every event."""
        looked_at, taken = 0, -1
        while not self.done.acquire(timeout=limit):
            if self.place < 0 or self.place != looked_at:
                looked_at = max(0, self.place)
                continue
            if taken < 0:
                taken = len(self.calls) - sum(1 for _ in self.steps)  # the rest is ours
                if taken - 1 != looked_at:  # it went on this very moment
                    looked_at = taken - 1
                    continue
            with self.lock:
                if not self.over:
                    late = self.calls[looked_at]
                    late.standing.stuck.add(id(self))
                    return taken, late
        return len(self.answers), None


class Late(Exception):
    """A call did not come back in time, and was left behind with its thread."""


def call_beside(work: Callable[[], Any], limit: float) -> Any:
    """What a function gives back or raises, run on another thread; Late when that takes too long."""
    done = threading.Lock()
    done.acquire()
    came: list[tuple[Any, BaseException | None]] = []

    def run() -> None:
        try:
            came.append((work(), None))
        except BaseException as problem:  # noqa: BLE001 - whoever waits gets it
            came.append((None, problem))
        done.release()

    context = contextvars.copy_context()
    _start(lambda: context.run(run))
    if not done.acquire(timeout=limit):
        raise Late
    answer, problem = came[0]
    if problem is not None:
        raise problem
    return answer


class PluginCalls:
    """Asks callbacks and keeps the standing of their plugins. `on_set_aside` hears of each that is called no more."""

    def __init__(self, find_limit: Callable[[str], float], on_set_aside: Callable[[PluginStanding], None]) -> None:
        self._find_limit = find_limit
        self._on_set_aside = on_set_aside
        self._troubled = False  # something has failed once; before that nothing is looked up

    def ask(self, hook: str, calls: Sequence[HookCall], facts: Mapping[str, Any]) -> list[Any]:
        """The answers in the order of the callbacks; `could_not_answer` and `is_answer` tell what each of them is."""
        limit = self._find_limit(hook)
        if not self._troubled:
            run = _Run(calls, facts)
            begun, late = run.wait(limit)
            if late is None and not run.failed:
                return run.answers
            self._troubled = True
            answers = [_SILENT] * len(calls)
            self._take(hook, range(len(calls)), run, (begun, late), answers)
            rest = [place for place in range(begun, len(calls)) if not calls[place].standing.stuck]
        else:
            answers = [_SILENT] * len(calls)
            rest = list(range(len(calls)))
        apart: dict[str, list[int]] = {}
        together: list[int] = []
        for place in rest:
            standing = calls[place].standing
            if standing.stuck or standing.set_aside:
                continue
            (apart.setdefault(standing.plugin, []) if standing.late else together).append(place)
        runs = [(places, _Run([calls[place] for place in places], facts)) for places in apart.values()]
        while together:
            run = _Run([calls[place] for place in together], facts)
            waited = run.wait(limit)
            self._take(hook, together, run, waited, answers)
            together = [place for place in together[waited[0] :] if not calls[place].standing.stuck]
        for places, run in runs:
            self._take(hook, places, run, run.wait(limit), answers)
        return answers

    def _take(
        self, hook: str, places: Sequence[int], run: _Run, waited: tuple[int, HookCall | None], answers: list[Any]
    ) -> None:
        begun, late = waited
        for number in range(begun - (late is not None)):
            answers[places[number]] = run.answers[number]
            standing = run.calls[number].standing
            if number in run.failed:
                self._note_failure(standing, f"it failed {MOST_FAILURES} times in a row, last in {hook}")
            else:
                standing.failures = 0
        if late is not None:
            late.standing.late = True
            then = "what it may forbid is forbidden" if hook in MAY_BLOCK else "it goes on without that answer"
            told = (
                "plugin %s did not answer %s within %g seconds; %s, and it is not asked again until that call is back"
            )
            log.warning(told, late.standing.plugin, hook, self._find_limit(hook), then)
            self._note_failure(late.standing, f"it failed {MOST_FAILURES} times in a row; {hook} did not answer")

    def _note_failure(self, standing: PluginStanding, why: str) -> None:
        standing.failures += 1
        if standing.failures >= MOST_FAILURES and not standing.set_aside:
            standing.set_aside = why
            told = "plugin %s is set aside until it is enabled again, or Hermes starts anew: %s"
            log.warning(told, standing.plugin, why)
            self._on_set_aside(standing)


def could_not_answer(answer: Any) -> bool:
    """Whether the callback was late, or not asked at all."""
    return answer is _SILENT


def is_answer(answer: Any) -> bool:
    return answer is not None and answer is not _FAILED and answer is not _SILENT


#: What a tool is refused with when a plugin that may forbid it cannot be asked.
UNASKED = MappingProxyType(
    {
        True: "{tool} was not run: the plugin {plugin} decides about tools and is set aside ({why}). The owner runs "
        "`hermes plugins enable {plugin}`, or allows tools without it: "
        "`hermes config set plugins.entries.{plugin}.fail_open true`.",
        False: "{tool} was not run: the plugin {plugin} decides about tools and did not answer in time. The owner may "
        "allow tools without it: `hermes config set plugins.entries.{plugin}.fail_open true`.",
    }
)


def refuse_unasked(standing: PluginStanding, tool: str) -> dict[str, str]:
    """The directive in the place of the one that a plugin could not give."""
    text = UNASKED[bool(standing.set_aside)]
    return {"action": "block", "message": text.format(tool=tool, plugin=standing.plugin, why=standing.set_aside)}
