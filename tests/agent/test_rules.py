"""The rules of a turn, played with plain values: no network, no thread, no clock."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from agent.formats.reply import Reply, ToolCall
from agent.turn.rules import (
    CUT_CALL,
    CallModel,
    Compact,
    Done,
    Pause,
    RecoverTransport,
    RunTools,
    Step,
    SwitchProvider,
    TakeMessage,
    TakeSteering,
    Tell,
    TurnLimits,
    converse,
    reach_model,
)
from hermes_base.errors import FailureKind, ModelFailure

CALL = ToolCall("1", "look", '{"at": "x"}')
OTHER = ToolCall("2", "look", '{"at": "y"}')


def failure(kind: FailureKind, **more: Any) -> ModelFailure:
    return ModelFailure("it failed", kind=kind, **more)


def play(outcomes: list[Any], limits: TurnLimits | None = None, **answers: Any) -> tuple[list[Step], Done]:
    """Run the rules; model calls take `outcomes` in order, other steps get `answers` by their name or None."""
    rules = converse(limits or TurnLimits())
    waiting = list(outcomes)
    steps: list[Step] = []
    sent: Any = None
    try:
        while True:
            step = rules.send(sent)
            steps.append(step)
            sent = waiting.pop(0) if isinstance(step, CallModel) else answers.get(type(step).__name__)
            if callable(sent):
                sent = sent(step)
    except StopIteration as end:
        assert not waiting, "the turn ended before all outcomes were used"
        return steps, end.value


def kinds(steps: list[Step]) -> list[type]:
    return [type(step) for step in steps]


def test_an_answer_ends_the_turn() -> None:
    steps, done = play([Reply(text="hello")])
    assert kinds(steps) == [Compact, TakeMessage, CallModel, TakeSteering]
    assert done == Done("hello", completed=True)


def test_tools_run_and_the_model_is_asked_again() -> None:
    steps, done = play([Reply(tool_calls=(CALL, OTHER)), Reply(text="done")])
    assert RunTools((CALL, OTHER)) in steps
    assert done.text == "done"
    assert kinds(steps).count(CallModel) == 2


def test_a_call_cut_at_the_output_limit_is_never_run() -> None:
    steps, _ = play([Reply(tool_calls=(CALL,), finish_reason="length"), Reply(text="ok")])
    assert RunTools((CALL,), CUT_CALL) in steps


def test_a_cut_answer_is_an_answer_that_says_so() -> None:
    _, done = play([Reply(text="half", finish_reason="length")])
    assert (done.text, done.completed, done.reason) == ("half", True, "cut")


def test_the_same_round_again_and_again_is_refused_then_ends_the_turn() -> None:
    steps, done = play([Reply(tool_calls=(CALL,))] * 6, TurnLimits(max_repeats=3))
    runs = [step for step in steps if isinstance(step, RunTools)]
    assert [bool(run.refusal) for run in runs] == [False, False, False, True, True, True]
    assert (done.reason, done.completed) == ("repeated", False)


def test_another_round_in_between_starts_the_count_anew() -> None:
    replies = [Reply(tool_calls=(call,)) for call in (CALL, CALL, CALL, OTHER, CALL, CALL)]
    steps, _ = play([*replies, Reply(text="done")])
    assert not any(step.refusal for step in steps if isinstance(step, RunTools))


def test_an_empty_answer_is_asked_for_again_at_most_twice() -> None:
    steps, done = play([Reply(), Reply(text=" \n"), Reply()])
    assert kinds(steps).count(Tell) == 2
    assert (done.reason, done.completed) == ("empty", False)
    assert play([Reply(), Reply(text="now")])[1].text == "now"


def test_the_budget_ends_with_a_last_call_without_tools() -> None:
    calls = [Reply(tool_calls=(ToolCall(str(n), "look", f'{{"n": {n}}}'),)) for n in range(3)]
    steps, done = play([*calls, Reply(text="so far")], TurnLimits(max_iterations=3))
    assert [step.with_tools for step in steps if isinstance(step, CallModel)] == [True, True, True, False]
    assert done == Done("so far", completed=True)


def test_a_model_that_goes_on_calling_tools_past_the_budget_is_stopped() -> None:
    steps, done = play([Reply(tool_calls=(CALL,)), Reply(tool_calls=(OTHER,))], TurnLimits(max_iterations=1))
    assert [bool(step.refusal) for step in steps if isinstance(step, RunTools)] == [False, True]
    assert done.reason == "budget"


def test_steering_at_the_end_keeps_the_turn_going() -> None:
    said = iter([True, False])
    _, done = play([Reply(text="first"), Reply(text="second")], TakeSteering=lambda _: next(said))
    assert done.text == "second"


def test_a_passing_failure_is_tried_again_once_before_anyone_else_is_asked() -> None:
    steps, done = play([failure(FailureKind.RETRY), Reply(text="ok")])
    assert kinds(steps)[2:5] == [CallModel, Pause, CallModel]
    assert done.text == "ok"


@pytest.mark.parametrize("kind", [FailureKind.NEXT, FailureKind.ROTATE, FailureKind.STOP])
def test_a_lasting_failure_goes_to_the_next_provider_at_once(kind: FailureKind) -> None:
    steps, done = play([failure(kind), Reply(text="ok")], SwitchProvider=True)
    assert Pause not in kinds(steps)
    assert done.text == "ok"


def test_a_long_retry_after_means_next_never_sleep() -> None:
    """D9"""
    steps, _ = play([failure(FailureKind.RETRY, retry_after=120.0), Reply(text="ok")], SwitchProvider=True)
    assert Pause not in kinds(steps)
    _, done = play([failure(FailureKind.RETRY, retry_after=120.0)], SwitchProvider=False)
    assert done.reason == "failed"


def test_the_connection_is_rebuilt_at_most_once_and_never_while_a_fallback_answers() -> None:
    broken = failure(FailureKind.RETRY, transport=True)
    steps, _ = play([broken, broken, Reply(text="ok")], SwitchProvider=True, RecoverTransport=True)
    assert RecoverTransport not in kinds(steps)
    steps, done = play([broken] * 5, SwitchProvider=False, RecoverTransport=True)
    assert kinds(steps).count(RecoverTransport) == 1
    assert done.reason == "failed"


def test_a_request_that_every_provider_would_refuse_is_not_sent_down_the_chain() -> None:
    """D10"""
    steps, done = play([failure(FailureKind.FIX)], SwitchProvider=True)
    assert SwitchProvider not in kinds(steps)
    assert done.failure is not None


def test_an_overflow_is_compacted_at_most_three_times() -> None:
    """E10"""
    overflow = failure(FailureKind.OVERFLOW)
    steps, done = play([overflow] * 4, Compact=True)
    assert sum(isinstance(step, Compact) and step.forced for step in steps) == 3
    assert done.reason == "failed"
    _, done = play([overflow, Reply(text="ok")], Compact=True)
    assert done.text == "ok"


def test_a_step_that_was_tried_again_for_too_long_ends_and_says_which_clock_ended_it() -> None:
    """C11: the third clock, retry time of one model step."""
    switches = iter([True, False] * 20)
    rules = reach_model(TurnLimits(max_retries=9, longest_retry=120.0))
    pauses: list[float] = []

    def run_to_the_end() -> None:
        answer: Any = None
        while True:
            step = rules.send(answer)
            pauses.extend([step.seconds] if isinstance(step, Pause) else [])
            answer = isinstance(step, SwitchProvider) and next(switches)
            if isinstance(step, CallModel):
                answer = failure(FailureKind.RETRY, retry_after=50.0)
                answer.at = sum(pauses)

    with pytest.raises(StopIteration) as end:
        run_to_the_end()
    assert pauses == [50.0, 50.0]
    assert "tried again for 2 minutes" in str(end.value.value.failure)


@given(
    st.lists(st.tuples(st.sampled_from([None, 0.5, 1.0, 5.0, 60.0]), st.booleans()), min_size=1, max_size=30),
    st.floats(0.0, 200.0),
)
def test_the_pauses_of_one_step_never_pass_their_limit(failures: list[tuple[Any, bool]], limit: float) -> None:
    """C11"""
    rules = reach_model(TurnLimits(max_retries=20, longest_retry=limit))
    paused, answer, waiting = 0.0, None, iter(failures)
    switch = False
    try:
        while True:
            step = rules.send(answer)
            paused += step.seconds if isinstance(step, Pause) else 0.0
            if isinstance(step, CallModel):
                after, switch = next(waiting, (None, False))
                answer = failure(FailureKind.RETRY, retry_after=after)
                answer.at = paused
            else:
                answer = switch
    except StopIteration:
        pass
    assert paused <= limit


@given(
    st.lists(st.tuples(st.floats(0.0, 700.0), st.booleans(), st.booleans()), min_size=1, max_size=20),
    st.sampled_from([60.0, 300.0]),
)
def test_no_try_of_one_step_begins_or_waits_beyond_the_clock(
    tries: list[tuple[float, bool, bool]], limit: float
) -> None:
    """C11: five minutes from the first failure that was detected, however long each try would like to take."""
    rules = reach_model(TurnLimits(max_retries=20, longest_retry=limit))
    now, first, answer, left = 0.0, None, None, iter(tries)
    switch = False
    try:
        while True:
            step = rules.send(answer)
            now += step.seconds if isinstance(step, Pause) else 0.0
            if isinstance(step, CallModel):
                takes, stalled, switch = next(left, (1.0, False, False))
                assert step.until == (None if first is None else first + limit)
                now += takes if step.until is None else min(takes, max(0.0, step.until - now))
                first = now if first is None else first
                answer = failure(FailureKind.RETRY, transport=stalled)
                answer.at, answer.stalled = now, stalled
            else:
                answer = switch
    except StopIteration:
        assert first is not None
        assert now <= first + limit + 1e-9  # what adding rounds


def test_a_stalled_stream_is_handed_over_at_once_and_tried_again_only_where_nobody_else_is() -> None:
    """C11, D2"""
    stalled = failure(FailureKind.RETRY, transport=True)
    stalled.stalled = True
    steps, _ = play([stalled, Reply(text="ok")], SwitchProvider=True)
    assert kinds(steps)[2:5] == [CallModel, SwitchProvider, CallModel]
    steps, _ = play([stalled, Reply(text="ok")], SwitchProvider=False, RecoverTransport=True)
    assert kinds(steps)[2:6] == [CallModel, SwitchProvider, RecoverTransport, CallModel]


def test_a_second_try_is_short_where_another_provider_could_answer() -> None:
    """D2: a provider that failed and then says nothing at all does not hold the turn."""
    failed = failure(FailureKind.RETRY)
    failed.at = 0.0
    steps, _ = play([failed, Reply(text="ok")])
    first, second = (step for step in steps if isinstance(step, CallModel))
    assert first.until is first.until_beside is None
    assert (second.until, second.until_beside) == (300.0, 8.0)


OUTCOMES = st.one_of(
    st.builds(Reply, text=st.sampled_from(["", "text"]), finish_reason=st.sampled_from(["stop", "length"])),
    st.builds(Reply, tool_calls=st.sampled_from([(CALL,), (OTHER,), (CALL, OTHER)])),
    st.builds(failure, st.sampled_from(list(FailureKind)), retry_after=st.sampled_from([None, 0.5, 5.0, 500.0])),
)


@given(st.lists(OUTCOMES, min_size=1), st.booleans(), st.booleans(), st.integers(1, 6))
def test_every_turn_ends_whatever_happens(outcomes: list[Any], switch: bool, shorter: bool, iterations: int) -> None:
    """The model may do anything, for ever: the number of calls stays bounded."""
    rules = converse(TurnLimits(max_iterations=iterations))
    switches = iter([switch, switch])
    answers = {SwitchProvider: lambda: next(switches, False), Compact: lambda: shorter}

    def run_to_the_end() -> None:
        sent: Any = None
        calls = 0
        while calls < 40 * (iterations + 1):
            step = rules.send(sent)
            answer = answers.get(type(step))
            sent = outcomes[calls % len(outcomes)] if isinstance(step, CallModel) else answer() if answer else None
            calls += isinstance(step, CallModel)

    with pytest.raises(StopIteration):
        run_to_the_end()


@pytest.mark.parametrize("wished", [None, 0.0, 0.01])
def test_who_wishes_no_wait_gets_our_own_pauses(wished: float | None) -> None:
    """C11: a provider that fails and asks for no pause is not asked again and again at once."""
    steps, _ = play([failure(FailureKind.RETRY, retry_after=wished)] * 4, SwitchProvider=False)
    assert [step.seconds for step in steps if isinstance(step, Pause)] == [1.0, 2.0, 4.0]
