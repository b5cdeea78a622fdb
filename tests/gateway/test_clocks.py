"""The clocks of a turn: what counts as progress, a warning before each end, and which clock it was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.clocks import (
    NOTICE_SECONDS,
    SILENCE,
    WALL,
    Kill,
    Signs,
    TurnClocks,
    TurnTimes,
    Warn,
    judge,
    note,
    observe,
)

HALF_AN_HOUR = TurnTimes()
NO_SIGNS = Signs()


def start(now: float) -> TurnClocks:
    return TurnClocks(now, now)


def test_a_silent_turn_is_warned_then_ended_and_told_why() -> None:
    """C11, C6"""
    turn = start(100.0)
    assert judge(turn, HALF_AN_HOUR, 100.0 + 1499) is None
    warning = judge(turn, HALF_AN_HOUR, 100.0 + 1500)
    assert isinstance(warning, Warn)
    assert warning.text.startswith("Nothing has moved in this turn for 25 minutes. If that stays so, it is stopped")
    turn = note(turn, warning, 100.0 + 1500)
    assert judge(turn, HALF_AN_HOUR, 100.0 + 1799) is None
    end = judge(turn, HALF_AN_HOUR, 100.0 + 1800)
    assert isinstance(end, Kill)
    assert (end.clock, "watchdog" in end.text, "30 minutes (gateway.silence_minutes)" in end.text) == (
        SILENCE,
        True,
        True,
    )


def test_the_wall_clock_is_off_until_it_is_set() -> None:
    """C11"""
    turn = TurnClocks(started=0.0, progress=1e6)
    assert judge(turn, HALF_AN_HOUR, 1e6) is None
    warning = judge(turn, TurnTimes(wall=3600.0), 1e6)
    assert isinstance(warning, Warn)
    assert (warning.clock, "gateway.turn_minutes" in warning.text) == (WALL, True)
    end = judge(note(turn, warning, 1e6), TurnTimes(wall=3600.0), 1e6 + 600.0)
    assert isinstance(end, Kill)
    assert "longest time of a turn here is 60 minutes (gateway.turn_minutes)" in end.text


@pytest.mark.parametrize(
    "signs",
    [
        Signs(processes=1),
        Signs(asking=True),
        Signs(last_step=5000.0),
        Signs(last_child_step=5000.0),
    ],
)
def test_whatever_moves_is_no_silence(signs: Signs) -> None:
    """C12: a running command, an open question, a working sub-agent."""
    turn = start(0.0)
    assert judge(observe(turn, NO_SIGNS, 5000.0), HALF_AN_HOUR, 5000.0) is not None
    assert judge(observe(turn, signs, 5000.0), HALF_AN_HOUR, 5000.0) is None


@pytest.mark.parametrize("set_by", [-1e6, 1e6])
def test_a_step_is_a_step_whatever_time_of_day_it_bears(set_by: float) -> None:
    """C11: the clock of the machine was set. What moved is seen to have, and what stands still since then, too."""
    turn = observe(start(0.0), Signs(last_step=2e6), 10.0)
    turn = observe(turn, Signs(last_step=2e6 + set_by), 2000.0)
    assert judge(turn, HALF_AN_HOUR, 2000.0) is None
    turn = observe(turn, Signs(last_step=2e6 + set_by), 3500.0)
    assert isinstance(judge(turn, HALF_AN_HOUR, 3500.0), Warn)


def test_a_turn_that_moves_after_its_warning_is_warned_again_before_it_ends() -> None:
    """C11: a warning before each end."""
    turn = note(start(0.0), Warn(SILENCE, ""), 1500.0)
    turn = observe(turn, Signs(last_step=1600.0), 1601.0)
    assert judge(turn, HALF_AN_HOUR, 1800.0) is None
    assert isinstance(judge(turn, HALF_AN_HOUR, 1600.0 + 1800.0), Warn)


def test_the_wall_clock_is_not_set_back_by_progress() -> None:
    turn = note(start(0.0), Warn(WALL, ""), 3000.0)
    turn = observe(turn, Signs(processes=2), 3600.0)
    assert isinstance(judge(turn, TurnTimes(wall=3600.0), 3600.0), Kill)


def test_after_a_sleep_of_the_machine_there_is_still_time_to_react() -> None:
    """C11: the limit passed while nothing ran; the warning comes first all the same."""
    turn = start(0.0)
    warning = judge(turn, HALF_AN_HOUR, 40_000.0)
    assert isinstance(warning, Warn)
    assert "11.1 hours" in warning.text
    turn = note(turn, warning, 40_000.0)
    assert judge(turn, HALF_AN_HOUR, 40_001.0) is None
    assert isinstance(judge(turn, HALF_AN_HOUR, 40_300.0), Kill)


MOMENTS = st.lists(st.tuples(st.floats(0.1, 400.0), st.booleans()), max_size=60)


@given(MOMENTS, st.floats(1.0, 2000.0), st.sampled_from([0.0, 50.0, 600.0, 5000.0]))
def test_no_turn_ends_without_a_warning_and_none_is_warned_twice_for_one_end(
    moments: list[tuple[float, bool]], silence: float, wall: float
) -> None:
    """C11: and never before its limit."""
    limits = TurnTimes(silence, wall)
    now, turn, warned = 0.0, start(0.0), dict[str, float]()
    for pause, moves in moments:
        now += pause
        turn = observe(turn, Signs(last_step=now if moves else 0.0), now)
        if moves:
            warned.pop(SILENCE, None)
        verdict = judge(turn, limits, now)
        if isinstance(verdict, Warn):
            assert verdict.clock not in warned
            warned[verdict.clock] = now
            turn = note(turn, verdict, now)
        elif isinstance(verdict, Kill):
            limit, since = (silence, turn.progress) if verdict.clock == SILENCE else (wall, turn.started)
            assert now - since >= limit > 0
            notice = max(NOTICE_SECONDS, limit / 6) if limit >= 2 * NOTICE_SECONDS else limit / 6
            assert now - warned[verdict.clock] >= notice * 0.999
            return


@given(st.floats(0.6, 1e5))
def test_a_turn_that_is_watched_closely_ends_exactly_at_its_limit(limit: float) -> None:
    turn, limits = start(0.0), TurnTimes(silence=limit)
    notice = max(NOTICE_SECONDS, limit / 6) if limit >= 2 * NOTICE_SECONDS else limit / 6
    assert judge(turn, limits, (limit - notice) * 0.99) is None
    warning = judge(turn, limits, limit - notice)
    assert isinstance(warning, Warn)
    turn = note(turn, warning, limit - notice)
    assert judge(turn, limits, limit * 0.999) is None
    assert isinstance(judge(turn, limits, limit * 1.001), Kill)
