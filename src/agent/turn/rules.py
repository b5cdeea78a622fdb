"""The rules of a turn: what to do next, decided on values. No network, no thread, no clock, no store.

`converse` is a generator: it yields steps and is sent their outcomes. A driver performs the steps
(`agent.turn.driver`); a test plays the driver with plain values.
"""

import copy
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from agent.formats.reply import Reply, ToolCall
from hermes_base.errors import FailureKind, ModelFailure
from hermes_base.settings import AgentSettings
from hermes_base.text.wrappers import ASK_AGAIN, OUT_OF_STEPS
from hermes_base.turn import journal

REPEATED_CALL = (
    "This exact call was made {count} times in a row with the same result; it was not run again. "
    "Do something else, or answer with what you know."
)
CUT_CALL = "The call was cut off before its end and was not run. Send it again in smaller parts."


LEAST_WAIT = 0.1  # seconds that a provider may wish between two tries
LENGTH, FILTERED = "length", "content_filter"
#: Answers that stopped before their end, and what the turn's reason is then.
_ENDED_EARLY = {LENGTH: journal.CUT, FILTERED: journal.FILTERED}


@dataclass(frozen=True, slots=True)
class TurnLimits:
    max_iterations: int = AgentSettings().max_iterations
    max_retries: int = 3  # the same provider, when nobody else can answer
    max_overflows: int = 3
    max_empty: int = 2
    max_repeats: int = 3  # identical rounds of calls that are still run
    longest_wait: float = 60.0
    longest_retry: float = 300.0  # all tries of one model step, from its first failure that was detected (C11)
    longest_beside: float = 8.0  # the same, for a second try where another provider is well (D2)


# --- steps, and what the driver sends back for each


@dataclass(frozen=True, slots=True)
class TakeMessage:
    """-> None; the person's message now stands in the conversation, with what plugins add to it"""


@dataclass(frozen=True, slots=True)
class TakeUp:
    """-> None; a turn that another process began: each of its calls now has a result, and the rest of what the person
    said stands in the conversation"""


@dataclass(frozen=True, slots=True)
class CallModel:
    """-> Reply or ModelFailure; the answer has to begin before `until`, and where another provider could take over,
    before `until_beside` (None: as long as the provider may take)"""

    with_tools: bool = True
    until: float | None = None
    until_beside: float | None = None

    def find_patience(self, now: float, could_switch: Callable[[], bool]) -> float | None:
        """Seconds in which the answer has to begin; None: as long as the provider may take."""
        limits = [self.until] if self.until is not None else []
        if self.until_beside is not None and could_switch():
            limits.append(self.until_beside)
        return max(0.1, min(limits) - now) if limits else None


@dataclass(frozen=True, slots=True)
class RunTools:
    """-> None; `refusal` is the result of every call instead of running it"""

    calls: tuple[ToolCall, ...]
    refusal: str = ""


@dataclass(frozen=True, slots=True)
class Compact:
    """-> True when the conversation became shorter; `forced` when the provider said it is too long"""

    forced: bool


@dataclass(frozen=True, slots=True)
class SwitchProvider:
    """-> True when another provider has taken over for this turn"""

    failure: ModelFailure


@dataclass(frozen=True, slots=True)
class LeaveOut:
    """-> True when something of the request was refused and is not sent any more, and the rest can be asked"""

    failure: ModelFailure


@dataclass(frozen=True, slots=True)
class RecoverTransport:
    """-> True when the connection was built anew"""

    failure: ModelFailure


@dataclass(frozen=True, slots=True)
class Pause:
    """-> None, after that many seconds"""

    seconds: float
    failure: ModelFailure


@dataclass(frozen=True, slots=True)
class Tell:
    """-> None; a message to the model in the user's place, which people are not shown"""

    text: str


@dataclass(frozen=True, slots=True)
class TakeSteering:
    """-> True when the person put something into the running turn, which now stands in the conversation"""


@dataclass(frozen=True, slots=True)
class Done:
    """The end of a turn."""

    text: str
    completed: bool
    reason: str = "answered"
    failure: ModelFailure | None = None


Step = (
    TakeMessage
    | TakeUp
    | CallModel
    | RunTools
    | Compact
    | SwitchProvider
    | LeaveOut
    | RecoverTransport
    | Pause
    | Tell
    | TakeSteering
)
Rules = Generator[Step, Any, Done]


@dataclass
class _Rounds:
    """How often the same round of calls came in a row."""

    last: tuple[tuple[str, str], ...] = ()
    count: int = 0
    empty: int = 0

    def note(self, calls: tuple[ToolCall, ...]) -> int:
        named = tuple((call.name, call.arguments) for call in calls)
        self.count = self.count + 1 if named == self.last else 1
        self.last = named
        return self.count


def converse(limits: TurnLimits, *, goes_on: bool = False) -> Rules:
    """Ask the model, run its tools, ask again, until it answers or a limit ends the turn.

    `goes_on`: the turn was begun before and broke off with its process; it goes on from what is stored.
    """
    rounds = _Rounds()
    if goes_on:
        yield TakeUp()
    yield Compact(forced=False)
    if not goes_on:
        yield TakeMessage()
    for iteration in range(limits.max_iterations + 1):
        last = iteration == limits.max_iterations
        if last:
            yield Tell(OUT_OF_STEPS)
        outcome = yield from reach_model(limits, with_tools=not last)
        if isinstance(outcome, Done):
            return outcome
        ended = yield from _take_reply(outcome, rounds, limits, last=last)
        if ended is None:
            continue
        if not last and (yield TakeSteering()):
            continue
        return ended
    raise AssertionError("the last round always ends the turn")


def _take_reply(reply: Reply, rounds: _Rounds, limits: TurnLimits, *, last: bool) -> Generator[Step, Any, Done | None]:
    """None: the turn goes on."""
    if reply.tool_calls:
        repeats = rounds.note(reply.tool_calls)
        refusal = ""
        if last:
            refusal = OUT_OF_STEPS
        elif reply.finish_reason in _ENDED_EARLY:
            refusal = CUT_CALL
        elif repeats > limits.max_repeats:
            refusal = REPEATED_CALL.format(count=repeats - 1)
        yield RunTools(reply.tool_calls, refusal)
        if last:
            return Done(reply.text, completed=False, reason="budget")
        if repeats > limits.max_repeats + 2:
            return Done(reply.text, completed=False, reason="repeated")
        yield TakeSteering()
        yield Compact(forced=False)
        return None
    if reply.text.strip():
        return Done(reply.text, completed=True, reason=_ENDED_EARLY.get(reply.finish_reason, "answered"))
    if reply.finish_reason == FILTERED:
        return Done("", completed=False, reason="refused")
    rounds.empty += 1
    if rounds.empty > limits.max_empty or last:
        return Done("", completed=False, reason="empty")
    yield Tell(ASK_AGAIN)
    return None


@dataclass
class _Tries:
    """The tries of one model step, and the clock that began with its first failure."""

    limits: TurnLimits
    overflows: int = 0
    retries: int = 0
    tried_again: bool = False
    recovered: bool = False
    until: float | None = None  # when the time for all of them is over
    now: float = 0.0

    def note(self, failure: ModelFailure) -> None:
        self.now = failure.at
        self.until = failure.at + self.limits.longest_retry if self.until is None else self.until

    def has_time_for(self, seconds: float) -> bool:
        return self.until is not None and self.now + seconds < self.until


def reach_model(limits: TurnLimits, *, with_tools: bool = True) -> Generator[Step, Any, Reply | Done]:
    """One answer, through retries, another provider, a rebuilt connection or a shorter conversation."""
    tries = _Tries(limits)
    while True:
        beside = tries.now + limits.longest_beside if tries.tried_again else None
        outcome = yield CallModel(with_tools, tries.until, beside)
        if isinstance(outcome, Reply):
            return outcome
        failure: ModelFailure = outcome
        if failure.kind is FailureKind.OVERFLOW:
            tries.overflows += 1
            if tries.overflows <= limits.max_overflows and (yield Compact(forced=True)):
                continue
            if (yield SwitchProvider(failure)) or (yield LeaveOut(failure)):  # another window may be larger
                continue
            return _failed(failure)
        if failure.kind is FailureKind.FIX:
            return _failed(failure)
        tries.note(failure)
        if not tries.has_time_for(0.0):
            return _failed(_name_clock(failure, limits))
        ended = yield from _try_on(failure, tries)
        if ended is not None:
            return ended


def _try_on(failure: ModelFailure, tries: _Tries) -> Generator[Step, Any, Done | None]:
    """Prepare the next try: a second one at once, another provider, a new connection, a longer pause. None: try."""
    limits, patient = tries.limits, failure.kind is FailureKind.RETRY
    soon = not failure.stalled and (failure.retry_after or 0.0) <= 1.0 and tries.has_time_for(1.0)
    if patient and soon and not tries.tried_again:
        tries.tried_again = True
        yield Pause(1.0, failure)
        return None
    if (yield SwitchProvider(failure)):
        tries.tried_again, tries.retries = False, 0
        return None
    if not patient and (yield LeaveOut(failure)):
        return None
    if patient and failure.transport and not tries.recovered:
        tries.recovered = True
        if (yield RecoverTransport(failure)):
            return None
    tries.retries += 1
    # What the provider wishes; one who wishes no wait gets ours, which grows (C11).
    wished = failure.retry_after or 0.0
    wait = wished if wished >= LEAST_WAIT else 2.0**tries.retries
    if not patient or tries.retries >= limits.max_retries or wait > limits.longest_wait:
        return _failed(failure)
    if not tries.has_time_for(wait):
        return _failed(_name_clock(failure, limits))
    yield Pause(wait, failure)
    return None


def _name_clock(failure: ModelFailure, limits: TurnLimits) -> ModelFailure:
    """The failure, with a word on why it is not tried again."""
    named = copy.copy(failure)
    named.what += f" It was tried again for {limits.longest_retry / 60:g} minutes, the longest for one step."
    return named


def _failed(failure: ModelFailure) -> Done:
    return Done("", completed=False, reason="failed", failure=failure)
