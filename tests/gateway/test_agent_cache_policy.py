"""The agent cache: the pure policy as tables and properties, the runner with agents that really talk."""

import threading
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
from fresh_store import fresh_store
from hypothesis import given
from hypothesis import strategies as st
from waiting import wait_until

from gateway import run as gateway_run
from gateway.core.agent_cache import (
    CACHE_BUSTING_KEYS,
    HeldTranscript,
    config_signature,
    extract_cache_busting,
    idle_keys,
    over_bytes,
    over_cap,
    untouchable,
)
from gateway.run import GatewayRunner
from hermes_base.errors import Fenced, HermesError
from hermes_base.turn.hooks import NoHooks
from hermes_lab.server import LabServer
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal
from run_agent import AIAgent

NAMES = st.text(max_size=6)
RUNTIMES = st.fixed_dictionaries({"api_key": NAMES, "base_url": NAMES, "provider": NAMES, "api_mode": NAMES})
INPUTS = st.tuples(
    NAMES, RUNTIMES, st.lists(NAMES, max_size=3), NAMES, st.dictionaries(NAMES, st.integers(), max_size=3)
)


@given(INPUTS, INPUTS)
def test_signatures_are_equal_exactly_when_their_inputs_are(one: Any, other: Any) -> None:
    same = (one[0], one[1], sorted(one[2]), *one[3:]) == (other[0], other[1], sorted(other[2]), *other[3:])
    assert (config_signature(*one) == config_signature(*other)) == same


@given(INPUTS)
def test_the_order_of_toolsets_and_settings_does_not_matter(inputs: Any) -> None:
    model, runtime, toolsets, prompt, keys = inputs
    turned = dict(reversed(list(keys.items())))
    assert config_signature(*inputs) == config_signature(model, runtime, toolsets[::-1], prompt, turned)


def test_the_key_itself_is_not_in_the_signature() -> None:
    """G6"""
    assert "secret-key" not in config_signature("m", {"api_key": "secret-key"}, [], "", None)


@given(st.one_of(st.none(), st.integers(), st.dictionaries(NAMES, st.one_of(st.none(), st.integers(), NAMES))))
def test_extraction_takes_any_config(config: Any) -> None:
    found = extract_cache_busting(config, 7)
    assert found.keys() == {f"{section}.{key}" for section, key in CACHE_BUSTING_KEYS} | {"tools.registry_generation"}


KEYS = st.lists(st.sampled_from("abcdefgh"), unique=True)


@given(KEYS, KEYS, st.integers(0, 8))
def test_the_cap_never_touches_running_agents_nor_newer_ones_in_their_place(
    keys: list[str], active: list[str], cap: int
) -> None:
    going, busy = over_cap(keys, active, cap)
    excess = keys[: max(0, len(keys) - cap)]
    assert set(going) == set(excess) - set(active)
    assert len(going) + busy == len(excess)


@given(st.dictionaries(st.sampled_from("abcdefgh"), st.floats(0, 100)), KEYS)
def test_only_idle_agents_go(seen: dict[str, float], active: list[str]) -> None:
    going = idle_keys(seen, active, now=100.0, limit=40.0)
    assert all(seen[key] < 60.0 and key not in active for key in going)
    assert all(key in going or key in active or seen[key] >= 60.0 for key in seen)


SIZES = st.lists(st.tuples(st.sampled_from("abcdefgh"), st.integers(0, 50)), unique_by=lambda entry: entry[0])


@given(SIZES, KEYS, st.integers(0, 120))
def test_what_stays_fits_unless_it_must_stay_and_the_oldest_go_first(
    sizes: list[tuple[str, int]], active: list[str], limit: int
) -> None:
    """F2: bounded by bytes; running agents are never shed."""
    going, over = over_bytes(sizes, active, limit)
    left = sum(size for key, size in sizes if key not in going)
    movable = [key for key, size in sizes if key not in active and size]
    assert going == movable[: len(going)]
    assert over == max(0, left - limit)
    assert not over or going == movable
    before = left + (dict(sizes)[going[-1]] if going else 0)
    assert not going or before > limit, "one more went than had to"


@given(SIZES, KEYS, KEYS, st.integers(0, 120))
def test_an_agent_with_rows_that_are_not_stored_is_never_shed(
    sizes: list[tuple[str, int]], running: list[str], unsaved: list[str], limit: int
) -> None:
    """F2: by none of the three limits."""
    places = {key: HeldTranscript("s", 1, size, unsaved=key in unsaved) for key, size in sizes}
    kept = untouchable(running, places)
    keys = [key for key, _ in sizes]
    going = {*over_bytes(sizes, kept, limit)[0], *over_cap(keys, kept, 1)[0]}
    going |= {*idle_keys(dict.fromkeys(keys, 0.0), kept, 100.0, 1.0)}
    assert not going & {*running, *(key for key in unsaved if key in places)}


@pytest.mark.parametrize(
    ("place", "standing", "current"),
    [
        (HeldTranscript("s", 4), ("s", 4), True),
        (HeldTranscript("s", 4), ("s", 5), False),  # somebody else wrote
        (HeldTranscript("s", 4), ("t", 4), False),  # the session was rotated
        (HeldTranscript("", 0), ("", 0), True),  # nothing was said yet
        (HeldTranscript("", 0), ("s", 1), False),
        (HeldTranscript("s", 4, 100, unsaved=True), ("s", 4), True),
    ],
)
def test_a_place_is_current_with_the_same_session_and_version(
    place: HeldTranscript, standing: tuple[str, int], current: bool
) -> None:
    """B1, B3"""
    made: list[SimpleNamespace] = []

    def build() -> SimpleNamespace:
        made.append(SimpleNamespace(release_clients=lambda: None))
        return made[-1]

    gateway = GatewayRunner()
    gateway.finish_turn("k", gateway.claim_agent("k", "sig", build), place)
    gateway.claim_agent("k", "sig", build, standing=standing)
    assert len(made) == (1 if current else 2)


# --- the runner, with real agents


@pytest.fixture
def runner(lab: LabServer) -> Iterator[Any]:
    """A gateway whose conversations live in one store; `talk(key, text)` is a whole turn."""
    gateway = GatewayRunner()
    store = fresh_store()

    def build(key: str) -> AIAgent:
        return AIAgent(
            base_url=lab.base_url,
            model="m",
            api_key="k",
            hooks=NoHooks(),
            skip_context_files=True,
            gateway_session_key=key,
            journal=StoreJournal(lambda: store, NewSession(key)),
        )

    def talk(key: str, text: str, signature: str = "sig") -> tuple[AIAgent, dict[str, Any]]:
        agent = gateway.claim_agent(key, signature, lambda: build(key))
        try:
            return agent, agent.run_conversation(text)
        finally:
            gateway.finish_turn(key, agent)

    gateway.talk = talk  # type: ignore[attr-defined]
    yield gateway
    for agent, _ in list(gateway._agent_cache.values()):
        gateway._cleanup_agent_resources(agent)


def test_the_next_message_meets_the_same_warm_agent(runner: Any) -> None:
    agent, _ = runner.talk("a", "[[say one]]")
    again, result = runner.talk("a", "[[say two]]")
    assert again is agent
    assert len(result["messages"]) == 4
    assert agent._last_activity_ts > 0


def test_how_long_an_idle_agent_is_kept_is_a_setting(runner: Any) -> None:
    """B1: `gateway.agent_idle_minutes`, as the gateway hands it on."""
    runner.set_limits(agents=10, idle_seconds=60.0, size=10**9)
    kept, _ = runner.talk("kept", "hi")
    idle, _ = runner.talk("idle", "hi")
    idle._last_activity_ts -= 61.0
    assert runner._sweep_idle_cached_agents() == 1
    assert list(runner._agent_cache) == ["kept"]
    wait_until(lambda: idle.client is None)
    assert kept.client is not None


def test_a_hit_refreshes_its_place(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateway_run, "_AGENT_CACHE_MAX_SIZE", 2)
    first, _ = runner.talk("a", "hi")
    second, _ = runner.talk("b", "hi")
    runner.talk("a", "hi again")
    runner.talk("c", "hi")
    assert list(runner._agent_cache) == ["a", "c"]
    wait_until(lambda: second.client is None)
    assert first.client is not None


def test_another_signature_builds_anew_and_keeps_the_conversation(runner: Any) -> None:
    old, _ = runner.talk("a", "[[say one]]")
    new, result = runner.talk("a", "[[say two]]", signature="changed")
    assert new is not old
    assert len(result["messages"]) == 4
    wait_until(lambda: old.client is None)


def test_an_agent_evicted_in_mid_turn_finishes_it_and_is_then_let_go(runner: Any, lab: LabServer) -> None:
    box: list[Any] = []
    thread = threading.Thread(target=lambda: box.append(runner.talk("a", "[[stall 1]][[say done]]")))
    thread.start()
    wait_until(lambda: lab.in_flight == 1)
    runner._evict_cached_agent("a")
    thread.join(20)
    agent, result = box[0]
    assert result["final_response"] == "done"
    wait_until(lambda: agent.client is None)


def test_a_conversation_has_one_turn_at_a_time(runner: Any) -> None:
    runner.claim_agent("a", "sig", lambda: object())
    with pytest.raises(HermesError, match="under way"):
        runner.claim_agent("a", "sig", lambda: object())
    runner._agent_cache.clear()


class _Warm:
    """As much of an agent as the cache looks at."""

    def release_clients(self) -> None:
        self.released = True


def test_the_end_of_a_turn_left_behind_takes_nobody_else_off(runner: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """F2: a turn does not come back, another begins, and then the first one ends after all. The second stays registered
    as running, and is not shed in mid-turn."""
    monkeypatch.setattr(gateway_run, "_AGENT_CACHE_MAX_SIZE", 1)
    left = runner.claim_agent("a", "sig", _Warm)
    runner.abandon_turn("a", left)
    successor = runner.claim_agent("a", "sig", _Warm)
    runner.finish_turn("a", left, HeldTranscript("s", 1, 10, False))
    assert runner._running_agents == {"a": successor}
    other = runner.claim_agent("b", "sig", _Warm)  # over the cap: somebody idle would have to go
    assert runner.cached_agent("a") is successor
    runner.abandon_turn("a", left)
    assert runner._running_agents == {"a": successor, "b": other}
    wait_until(lambda: hasattr(left, "released"))
    assert not hasattr(successor, "released")
    runner._agent_cache.clear()


def test_an_agent_built_for_a_turn_left_behind_takes_nobodys_place(runner: Any) -> None:
    """F2: the building itself was left behind, and ends after the successor has begun."""
    building, go_on, refused = threading.Event(), threading.Event(), []
    late = _Warm()

    def build_late() -> _Warm:
        building.set()
        assert go_on.wait(20)
        return late

    def claim() -> None:
        try:
            runner.claim_agent("a", "sig", build_late)
        except HermesError as problem:
            refused.append(problem)

    thread = threading.Thread(target=claim)
    thread.start()
    assert building.wait(20)
    runner.abandon_turn("a")
    successor = runner.claim_agent("a", "sig", _Warm)
    go_on.set()
    thread.join(20)
    assert [type(problem) for problem in refused] == [Fenced]
    assert (runner._running_agents, runner.cached_agent("a")) == ({"a": successor}, successor)
    wait_until(lambda: hasattr(late, "released"))
    runner._agent_cache.clear()


def test_an_agent_that_cannot_be_built_leaves_no_trace(runner: Any) -> None:
    def fail() -> Any:
        raise HermesError("no")

    with pytest.raises(HermesError):
        runner.claim_agent("a", "sig", fail)
    assert (runner._running_agents, dict(runner._agent_cache)) == ({}, {})
    assert runner.talk("a", "[[say fine]]")[1]["final_response"] == "fine"


def test_restoration_happens_at_the_start_of_the_next_turn_with_the_same_agent(runner: Any, lab: LabServer) -> None:
    """D3: no eviction after a fallback; the warm agent goes back to its first choice."""
    with LabServer() as second:
        agent, _ = runner.talk("a", "[[say one]]")
        agent._fallback_chain = ({"base_url": second.base_url, "model": "second"},)
        lab.set_plan([{"fault": {"status": 401}, "times": 0}])
        assert runner.talk("a", "[[say two]]")[1]["model"] == "second"
        lab.set_plan([])
        from agent.providers.health import health

        health.forget()
        again, result = runner.talk("a", "[[say three]]")
        assert (again, result["model"]) == (agent, "m")
