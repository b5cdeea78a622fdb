"""One budget for a chat: never more calls than allowed, room for finals, silence during a penalty."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gateway.core.budget import FINAL, PROGRESS, WORD, kind_of, open_budget
from gateway.platforms.face import PlatformSpec
from hermes_base.inbound import ANSWER, FILE, NOTE, QUESTION, Address, Outgoing

RATES = st.sampled_from([0.2, 1.0, 3.0, 30.0])
KINDS = st.sampled_from([FINAL, WORD, PROGRESS])
WISHES = st.lists(st.tuples(st.floats(0, 2), KINDS, st.sampled_from([0.0, 0.0, 0.0, 3.0])), max_size=60)


def spec_with(rate: float, burst: int, reserved: int) -> PlatformSpec:
    return PlatformSpec("x", "X", "x:X", calls_per_second=rate, burst_calls=burst, reserved_calls=reserved)


@given(RATES, st.integers(1, 6), st.integers(0, 3), WISHES)
def test_calls_in_any_window_are_bounded_and_none_falls_into_a_penalty(
    rate: float, burst: int, reserved: int, wishes: list[tuple[float, str, float]]
) -> None:
    """C8: everything draws from one budget; nothing is sent during a penalty."""
    now, made, penalties = 0.0, [], []
    budget = open_budget(spec_with(rate, burst, reserved), now)
    for pause, kind, penalty in wishes:
        now += pause
        if budget.may(kind, now) == 0:
            budget = budget.take(now)
            made.append(now)
        if penalty:
            budget = budget.close(now, penalty)
            penalties.append((now, now + penalty))
    for first in range(len(made)):
        for last in range(first, len(made)):
            assert last - first + 1 <= burst + rate * (made[last] - made[first]) + 1e-6
    assert not [call for call in made for start, end in penalties if start < call < end]


@given(RATES, st.integers(1, 6), st.integers(1, 3), WISHES)
def test_a_final_waits_for_nobody_but_other_finals(
    rate: float, burst: int, reserved: int, wishes: list[tuple[float, str, float]]
) -> None:
    """C8: progress never takes the last calls, so a final finds one at once unless finals and words used it."""
    now = 0.0
    budget = open_budget(spec_with(rate, burst, reserved), now)
    for pause, _, _ in wishes:
        now += pause
        if budget.may(PROGRESS, now) == 0:
            budget = budget.take(now)
        assert budget.may(FINAL, now) == 0


@given(RATES, st.integers(1, 6), st.integers(0, 3), st.sampled_from([FINAL, WORD]), st.integers(0, 10))
def test_after_the_wait_that_it_names_a_call_may_be_made(
    rate: float, burst: int, reserved: int, kind: str, calls: int
) -> None:
    budget = open_budget(spec_with(rate, burst, reserved), 0.0)
    for _ in range(calls):
        budget = budget.take(0.0)
    wait = budget.may(kind, 0.0)
    assert wait < math.inf
    assert budget.may(kind, wait) <= 1e-6


def test_without_a_rate_only_penalties_hold_back() -> None:
    budget = open_budget(spec_with(0, 1, 1), 0.0)
    for _ in range(100):
        budget = budget.take(0.0)
    assert budget.may(PROGRESS, 0.0) == 0
    assert budget.close(0.0, 9).may(FINAL, 4.0) == 5
    assert budget.close(0.0, 9).close(0.0, 1).may(FINAL, 4.0) == 5


def test_progress_has_no_place_where_all_is_reserved() -> None:
    assert open_budget(spec_with(1, 1, 1), 0.0).may(PROGRESS, 0.0) == math.inf
    assert open_budget(spec_with(1, 1, 1), 0.0).may(WORD, 0.0) == 0


def test_it_is_fresh_again_when_all_calls_are_back() -> None:
    budget = open_budget(spec_with(1, 2, 1), 0.0).take(0.0)
    assert not budget.is_fresh(0.5)
    assert budget.is_fresh(1.0)
    assert not budget.close(0.0, 5).is_fresh(4.0)


@pytest.mark.parametrize(("kind", "drawn"), [(ANSWER, FINAL), (QUESTION, FINAL), (FILE, FINAL), (NOTE, WORD)])
def test_what_draws_on_the_reserve(kind: str, drawn: str) -> None:
    """C8: finals and approvals have reserved capacity."""
    assert kind_of(Outgoing(Address("x", "a", "c"), "t", kind=kind)) == drawn
