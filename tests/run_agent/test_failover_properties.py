"""Who starts a turn and who takes over, over any order of failures, stops and times: agents without a network."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.providers.health import LONGEST_OPEN_SECONDS, ProviderHealth
from agent.providers.runtime import Runtime, runtime_of_entry
from hermes_base.errors import Concern, FailureKind, ModelFailure
from hermes_base.turn.hooks import NoHooks
from run_agent import AIAgent, runtime_switch

NAMES = ("first", "second", "third")
#: Two at one address with one key, one elsewhere.
ENTRIES = [
    {"provider": "custom", "base_url": "http://one.test/v1", "api_key": "key-of-one", "model": "second"},
    {"provider": "custom", "base_url": "http://two.test/v1", "api_key": "key-of-two", "model": "third"},
]


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        return self.now


def make_agent() -> AIAgent:
    return AIAgent(
        base_url="http://one.test/v1",
        api_key="key-of-one",
        model="first",
        fallback_model=ENTRIES,
        hooks=NoHooks(),
        skip_context_files=True,
        enabled_toolsets=["no-tools"],
    )


def chain_of(agent: AIAgent) -> list[Runtime]:
    first = Runtime("custom", "first", "http://one.test/v1", "key-of-one", agent.api_mode, 8000)
    return [first, *(runtime_of_entry(entry, {}) for entry in ENTRIES)]


CALLS = st.one_of(
    st.just("answered"),
    st.just("stopped"),
    st.tuples(st.sampled_from(list(Concern)), st.sampled_from([None, 0.0, 9999.0])),
)
TURNS = st.tuples(st.integers(0, 1), st.floats(0.0, 200.0), st.lists(CALLS, min_size=1, max_size=5))


def play_turn(agent: AIAgent, calls: list[Any], is_well: Callable[[Runtime], bool]) -> None:
    """One turn, as `run_conversation` frames it."""
    chain = chain_of(agent)
    well = [runtime.model for runtime in chain if is_well(runtime)]
    try:
        agent._begin_on_model()
        assert agent.model == (well[0] if well else "first"), "the first that is well starts, with the whole chain"
        asked = [agent.model]
        for call in calls:
            if call == "stopped":
                return
            if call == "answered":
                agent.note_success()
                return
            concern, retry_after = call
            failure = ModelFailure("it failed", kind=FailureKind.NEXT, retry_after=retry_after, concern=concern)
            expected = [runtime.model for runtime in chain if is_well(runtime) and runtime.model not in asked]
            if not agent.switch(failure):
                left = [name for name in expected if NAMES.index(name) > NAMES.index(asked[-1])]
                assert concern is not Concern.REQUEST or not left, "somebody who is well was passed over"
                return
            assert agent.model not in asked, "nobody is asked twice in one turn"
            asked.append(agent.model)
    finally:
        agent._permit.release()


@given(st.lists(TURNS, max_size=12))
def test_no_turn_leaves_a_probe_and_every_turn_has_the_whole_chain(turns: list[tuple[int, float, list[Any]]]) -> None:
    """D3, D4, D5: two conversations on one table."""
    clock = Clock()
    health = ProviderHealth(clock)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runtime_switch, "health", health)
        agents = [make_agent(), make_agent()]
        for who, pause, calls in turns:
            play_turn(agents[who], calls, health.is_well)
            assert all(circuit.probe is None for circuit in health.circuits.values())
            clock.now += pause
        clock.now += LONGEST_OPEN_SECONDS
        for agent in agents:
            play_turn(agent, ["answered"], health.is_well)
            assert agent.model == "first", "nobody is locked out, and the person's choice is back"
            agent.close()
