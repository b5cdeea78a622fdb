"""Where requests of the API went that may come again."""

from collections.abc import Iterator

import pytest
from turn_bench import CHAT, OTHER, Bench, make_bench

from hermes_state.key_store import RepeatRow


@pytest.fixture
def bench(where: str) -> Iterator[Bench]:
    made = make_bench(where)
    yield made
    made.store.close()


def test_the_first_of_several_holds_for_all(bench: Bench) -> None:
    """C1: whoever comes second is told where the first one went; other names know nothing of it."""
    repeats = bench.store.repeats
    assert repeats.find("a") is None
    first, second = RepeatRow("mark", CHAT, "m1"), RepeatRow("mark", OTHER, "m2")
    assert repeats.keep("a", first, 60.0) == first
    assert repeats.keep("a", second, 60.0) == first
    assert repeats.find("a") == first
    assert repeats.find("b") is None


def test_after_its_time_it_is_the_first_again(bench: Bench) -> None:
    repeats = bench.store.repeats
    first, second = RepeatRow("mark", CHAT, "m1"), RepeatRow("other", OTHER, "m2")
    repeats.keep("a", first, 60.0)
    bench.clock.move(60.0)
    assert repeats.find("a") is None
    assert repeats.keep("a", second, 60.0) == second


def test_what_is_kept_anew_takes_the_place_of_the_first(bench: Bench) -> None:
    repeats = bench.store.repeats
    repeats.keep("a", RepeatRow("", CHAT, "m1"), 60.0)
    newer = RepeatRow("", CHAT, "m2 \udc80")
    assert repeats.keep("a", newer, 60.0, anew=True).conversation == CHAT
    found = repeats.find("a")
    assert found is not None
    assert found.message.startswith("m2 ")


def test_what_is_over_is_let_go(bench: Bench) -> None:
    """F7: whatever is younger than other things that are kept."""
    repeats = bench.store.repeats
    repeats.keep("old", RepeatRow("", CHAT, "m"), 10.0)
    repeats.keep("new", RepeatRow("", CHAT, "m"), 1000.0)
    bench.clock.move(20.0)
    assert bench.turns.sweep(0.0, 100) == 1
    assert repeats.find("new") is not None


def test_what_is_of_a_person_is_forgotten_with_them(bench: Bench) -> None:
    """G12"""
    person = bench.store.people.add("Ann", "member", "telegram", "7").id
    bench.store.people.assign(CHAT, person)
    bench.store.repeats.keep("a", RepeatRow("mark", CHAT, "m"), 1000.0)
    bench.store.repeats.keep("b", RepeatRow("mark", OTHER, "m"), 1000.0)
    bench.store.people.forget(person)
    assert bench.store.repeats.find("a") is None
    assert bench.store.repeats.find("b") is not None
