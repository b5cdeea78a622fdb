"""A10: a conversation whose cache stays cold is named once."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.usage_pricing import CACHE_MINIMUM, CACHE_SECONDS, CacheWatch, CanonicalUsage, TurnUse, hit_rate

COLD = TurnUse("m", CanonicalUsage(input_tokens=3000, cache_read_tokens=1000))
WARM = TurnUse("m", CanonicalUsage(input_tokens=1000, cache_read_tokens=1000))


def warnings(turns: list[TurnUse]) -> list[int]:
    """The turns after which a warning is raised, counted from 1."""
    watch = CacheWatch()
    return [count for count, turn in enumerate(turns, 1) if watch.note(turn)]


def test_five_cold_turns_in_a_row_warn_once() -> None:
    """A10: the first turn cannot hit, so the sixth is the fifth that should have."""
    assert warnings([COLD] * 20) == [6]


def test_a_hit_rate_of_half_is_warm() -> None:
    """A10: reads against reads, writes and new input."""
    assert warnings([WARM] * 20) == []
    assert hit_rate(CanonicalUsage(100, 5, 200, 100)) == 0.5
    assert hit_rate(CanonicalUsage()) == 0.0
    written = TurnUse("m", CanonicalUsage(cache_read_tokens=1900, cache_write_tokens=2000))
    assert warnings([written] * 20) == [6]


def test_a_warm_turn_starts_the_count_anew() -> None:
    """A10"""
    assert warnings([COLD] * 5 + [WARM] + [COLD] * 4) == []
    assert warnings([COLD] * 5 + [WARM] + [COLD] * 5) == [11]


@pytest.mark.parametrize(
    "excused",
    [
        replace(COLD, broke=True),
        replace(COLD, pause=CACHE_SECONDS + 1),
        replace(COLD, provider="ollama"),
        replace(COLD, usage=CanonicalUsage(input_tokens=CACHE_MINIMUM)),
        replace(COLD, calls=4),
    ],
    ids=["named break", "long pause", "no cache", "short prompt", "many short prompts"],
)
def test_turns_that_cannot_hit_are_left_out(excused: TurnUse) -> None:
    """A10: a conversation that should hit."""
    assert warnings([excused] * 20) == []
    assert warnings([COLD, *[excused, COLD] * 5]) == [11]


def test_another_model_starts_anew() -> None:
    """A10: its cache is another one."""
    other = replace(COLD, model="other")
    assert warnings([COLD] * 5 + [other] * 5) == []
    assert warnings([COLD] * 5 + [other] * 6) == [11]
    assert warnings([COLD, other] * 20) == []


@given(st.lists(st.sampled_from([COLD, WARM, replace(COLD, broke=True), replace(COLD, model="other")]), max_size=40))
def test_there_is_never_a_second_warning(turns: list[TurnUse]) -> None:
    """A10"""
    assert len(warnings(turns)) <= 1
