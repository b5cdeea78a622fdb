"""When a turn has to end: pure clocks that look at what a turn was seen doing, warn once, and then end it.

Silence is lack of progress: a command that the turn waits for, an open question and a working sub-agent are progress.
The third clock, the retry time of one model step, belongs to the rules of the turn (`agent.turn.rules`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from hermes_base.settings import GatewaySettings

SILENCE, WALL = "silence", "wall"
NOTICE_SECONDS = 60.0  # a warning comes at least so long before the end, where the limit is long enough for it

_WARNINGS: Mapping[str, str] = MappingProxyType(
    {
        SILENCE: "Nothing has moved in this turn for {passed}. If that stays so, it is stopped in {left}; "
        "/stop stops it now.",
        WALL: "This turn has run for {passed} and is stopped in {left}: {limit} is the longest time of a turn here "
        "(gateway.turn_minutes).",
    }
)
_ENDS: Mapping[str, str] = MappingProxyType(
    {
        SILENCE: "Stopped by the watchdog: nothing had moved in this turn for {passed} (gateway.silence_minutes). "
        "What was done is kept; write again to go on.",
        WALL: "Stopped by the watchdog: the turn had run for {passed}, the longest time of a turn here is {limit} "
        "(gateway.turn_minutes). What was done is kept; write again to go on.",
    }
)


@dataclass(frozen=True, slots=True)
class TurnTimes:
    """In seconds; 0: this clock is off."""

    silence: float = 60.0 * GatewaySettings().silence_minutes
    wall: float = 0.0


@dataclass(frozen=True, slots=True)
class Signs:
    """What a turn is seen doing now."""

    last_step: float = 0.0  # another number whenever the agent does something; 0: not known
    last_child_step: float = 0.0  # the same of its sub-agents
    processes: int = 0  # commands that a call of it waits for
    asking: bool = False  # a person was asked and has not answered yet


@dataclass(frozen=True, slots=True)
class TurnClocks:
    """The clocks of one turn; they vanish with it. All times are of one clock that nobody sets (time.monotonic())."""

    started: float
    progress: float  # when something was last seen to have moved
    warned: Mapping[str, float] = field(default_factory=dict)  # clock -> when its warning was given
    steps: tuple[float, float] = (0.0, 0.0)  # the last ones that were seen


@dataclass(frozen=True, slots=True)
class Warn:
    clock: str
    text: str


@dataclass(frozen=True, slots=True)
class Kill:
    clock: str
    text: str


def observe(turn: TurnClocks, signs: Signs, now: float) -> TurnClocks:
    """The clocks after a look at the turn; whoever moves again is warned again before the next end."""
    steps = (signs.last_step or turn.steps[0], signs.last_child_step or turn.steps[1])
    if not (signs.processes or signs.asking or steps != turn.steps):
        return turn
    warned = {clock: moment for clock, moment in turn.warned.items() if clock != SILENCE}
    return replace(turn, progress=now, warned=warned, steps=steps)


def note(turn: TurnClocks, warning: Warn, now: float) -> TurnClocks:
    """The clocks after the warning was given."""
    return replace(turn, warned={**turn.warned, warning.clock: now})


def judge(turn: TurnClocks, limits: TurnTimes, now: float) -> Warn | Kill | None:
    """What is due. No clock ends a turn without a warning that left time to do something about it."""
    found: list[Warn | Kill] = []
    for clock, since, limit in ((SILENCE, turn.progress, limits.silence), (WALL, turn.started, limits.wall)):
        if limit <= 0:
            continue
        passed, warned = now - since, turn.warned.get(clock)
        # The warning comes a sixth of the limit before the end, and a minute before it where two fit into the limit.
        notice = max(limit / 6, NOTICE_SECONDS) if limit >= 2 * NOTICE_SECONDS else limit / 6
        if warned is None and passed >= limit - notice:
            # After a sleep of the machine the limit may have passed already: the time to react is given all the same.
            left = max(notice, limit - passed)
            text = _WARNINGS[clock].format(passed=_say(passed), left=_say(left), limit=_say(limit))
            found.append(Warn(clock, text))
        elif warned is not None and passed >= limit and now - warned >= notice:
            found.append(Kill(clock, _ENDS[clock].format(passed=_say(passed), limit=_say(limit))))
    return next((verdict for verdict in found if isinstance(verdict, Kill)), found[0] if found else None)


def _say(seconds: float) -> str:
    """A time in words, rounded."""
    if seconds < 90:
        count, unit = round(seconds), "second"
    elif seconds < 5400:
        count, unit = round(seconds / 60), "minute"
    else:
        return f"{seconds / 3600:.1f} hours"
    return f"{count} {unit}{'' if count == 1 else 's'}"
