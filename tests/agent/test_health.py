"""Who is well: a table of circuits and permits, on a clock that the test holds."""

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers.health import LONGEST_OPEN_SECONDS, OPEN_SECONDS, PROBE_SECONDS, Permit, ProviderHealth, names_of
from agent.providers.runtime import Runtime
from hermes_base.errors import Concern

S = Concern
ONE = Runtime("custom", "model-a", "http://one/v1", "key-1", "chat_completions", 8000)
OTHERS = {
    "other model": replace(ONE, model="model-b"),
    "other key": replace(ONE, api_key="key-2"),
    "other address": replace(ONE, base_url="http://two/v1"),
}


class Clock:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def health(clock: Clock) -> ProviderHealth:
    return ProviderHealth(clock)


def fail(health: ProviderHealth, runtime: Runtime, concern: Concern, retry_after: float | None = None) -> None:
    permit = health.insist(runtime)
    permit.failed(concern, retry_after)
    permit.release()


@pytest.mark.parametrize(
    ("concern", "still_well"),
    [
        (S.REQUEST, {"other model", "other key", "other address", "itself"}),
        (S.MODEL, {"other model", "other key", "other address"}),
        (S.KEY, {"other key", "other address"}),
        (S.ADDRESS, {"other address"}),
    ],
)
def test_a_failure_closes_the_way_for_what_it_is_about(
    health: ProviderHealth, concern: Concern, still_well: set[str]
) -> None:
    """D1, D3: a fallback at the same address is used; what concerns one request concerns nobody else."""
    fail(health, ONE, concern)
    everybody = {"itself": ONE, **OTHERS}
    assert {name for name, runtime in everybody.items() if health.is_well(runtime)} == still_well
    assert {name for name, runtime in everybody.items() if health.admit(runtime)} == still_well


def test_no_key_is_kept() -> None:
    assert not any("key-1" in part for name in names_of(ONE).values() for part in name)


@pytest.mark.parametrize("ending", ["succeeded", "failed", "abandoned", "forgotten"])
def test_a_probe_ends_however_it_ends(health: ProviderHealth, clock: Clock, ending: str) -> None:
    """D3: one probe at a time, and none that locks a provider out."""
    fail(health, ONE, S.MODEL)
    clock.now += OPEN_SECONDS
    probe = health.admit(ONE)
    assert probe is not None
    assert health.admit(ONE) is None
    match ending:
        case "succeeded":
            probe.succeeded()
        case "failed":
            probe.failed(S.MODEL)
            assert health.admit(ONE) is None
            clock.now += 2 * OPEN_SECONDS
        case "abandoned":
            probe.release()
        case "forgotten":
            clock.now += PROBE_SECONDS
    assert health.admit(ONE) is not None


def test_the_pause_doubles_with_each_stay_up_to_five_minutes(health: ProviderHealth, clock: Clock) -> None:
    """D3: the tries of one stay are one failure."""
    for expected in (30.0, 60.0, 120.0, 240.0, 300.0, 300.0):
        permit = health.insist(ONE)
        for _ in range(3):
            permit.failed(S.MODEL)
        clock.now += expected - 0.01
        assert not health.is_well(ONE)
        clock.now += 0.01
        assert health.is_well(ONE)


MODELS = (ONE, *OTHERS.values())
EVENTS = st.one_of(
    st.tuples(st.just("start"), st.sampled_from(MODELS)),
    st.tuples(st.just("wait"), st.floats(0.0, 400.0)),
    st.tuples(st.sampled_from(["succeed", "abandon"]), st.integers(0, 9)),
    st.tuples(st.just("fail"), st.integers(0, 9), st.sampled_from(list(S)), st.sampled_from([None, 0.0, 5.0, 9999.0])),
)


@given(st.lists(EVENTS, max_size=60))
def test_nobody_is_locked_out_beyond_their_time_and_one_probes_at_a_time(events: list[tuple[Any, ...]]) -> None:
    """D3: over any order of failures, stops and times."""
    clock = Clock()
    health = ProviderHealth(clock)
    staying: list[tuple[Permit, float]] = []
    for kind, *more in events:
        if kind == "wait":
            clock.now += more[0]
        elif kind == "start":
            permit = health.admit(more[0])
            staying += [(permit, clock.now)] if permit is not None else []
        elif staying:
            permit, _ = staying.pop(more[0] % len(staying))
            match kind:
                case "succeed":
                    permit.succeeded()
                case "fail":
                    permit.failed(*more[1:])
            permit.release()
        for circuit in health.circuits.values():
            assert circuit.open_until <= clock.now + LONGEST_OPEN_SECONDS
            assert circuit.probe is None or any(circuit.probe is permit for permit, _ in staying)
    for permit, _ in staying:
        permit.release()
    clock.now += LONGEST_OPEN_SECONDS
    assert all(health.is_well(model) for model in MODELS)
    for model in MODELS:
        permit = health.admit(model)
        assert permit is not None
        permit.succeeded()
        permit.release()
    assert not any(name in health.circuits for model in MODELS for name in names_of(model).values())


@given(st.lists(st.sampled_from(MODELS), min_size=2, max_size=8))
def test_after_a_failure_of_the_address_one_of_many_probes(asking: list[Runtime]) -> None:
    """D3: models and keys at one address wait for one probe of it."""
    clock = Clock()
    health = ProviderHealth(clock)
    fail(health, ONE, S.ADDRESS)
    clock.now += OPEN_SECONDS
    at_one = [model for model in asking if model.base_url == ONE.base_url]
    admitted = [permit for permit in map(health.admit, at_one) if permit is not None]
    assert len(admitted) == min(1, len(at_one))


def test_a_stay_that_fails_after_another_one_succeeded_counts_anew(health: ProviderHealth, clock: Clock) -> None:
    """D3: the circuit that it failed in before is over; the way is closed for the usual time."""
    first = health.insist(ONE)
    first.failed(S.MODEL)
    health.insist(ONE).succeeded()
    first.failed(S.MODEL)
    clock.now += OPEN_SECONDS - 1
    assert not health.is_well(ONE)
    clock.now += 1
    assert health.is_well(ONE)
