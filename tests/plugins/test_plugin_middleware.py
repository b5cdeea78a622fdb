"""Chains of middleware: what replaces a request, `next_call` once, and failures before, in and after it."""

import pytest

from hermes_cli import middleware, plugins
from hermes_cli.middleware import apply_request, run_execution

VERSIONS = {"middleware_schema_version": "hermes.middleware.v1", "telemetry_schema_version": "hermes.observer.v1"}


def _fail(**facts):
    raise RuntimeError("middleware trouble")


# --- requests


def test_each_callback_sees_what_the_one_before_made():
    seen = []

    def add(request, original_request, **facts):
        seen.append((dict(request), original_request, facts))
        return {"request": {**request, "n": request["n"] + 1}}

    payload = {"n": 0}
    assert apply_request("llm_request", payload, [add, add], session_id="s") == {"n": 2}
    assert payload == {"n": 0}
    facts = {"session_id": "s", **VERSIONS}
    assert seen == [({"n": 0}, {"n": 0}, facts), ({"n": 1}, {"n": 0}, facts)]


@pytest.mark.parametrize("answer", [None, "text", {}, {"request": {}}, {"args": "no dict"}, {"args": None}])
def test_other_answers_replace_nothing(answer):
    payload = {"a": 1}
    assert apply_request("tool_request", payload, [lambda **facts: answer], tool_name="t") is payload


def test_a_callback_that_edits_and_fails_leaves_nothing_behind(caplog):
    def edit(request, **facts):
        request["messages"].clear()
        raise RuntimeError("half way")

    payload = {"messages": [1]}
    assert apply_request("llm_request", payload, [edit]) == {"messages": [1]}
    assert "edit" in caplog.text


def test_a_failing_callback_is_left_out():
    assert apply_request("tool_request", {}, [_fail, lambda **facts: {"args": {"a": 1}}]) == {"a": 1}


def test_invoke_collects_answers(caplog):
    assert middleware.invoke_all("llm_request", [_fail, lambda **f: None, lambda **f: f["x"]], x=1) == [1]


def test_the_manager_invokes_middleware():
    manager = plugins.get_plugin_manager()
    manager._middleware["llm_request"] = [lambda **facts: facts]
    facts = {"request": {}, **VERSIONS}
    assert plugins.invoke_middleware("llm_request", request={}) == [facts]


# --- executions


def test_the_first_registered_is_outermost():
    steps = []

    def wrap(name):
        def callback(next_call, **facts):
            steps.append(name)
            result = next_call()
            steps.append(f"/{name}")
            return result + name

        return callback

    assert run_execution("tool_execution", {}, [wrap("a"), wrap("b")], lambda args: "r") == "rba"
    assert steps == ["a", "b", "/b", "/a"]


def test_the_payload_goes_on_unless_replaced():
    payload = {"a": 1}
    given = []
    run_execution("tool_execution", payload, [lambda next_call, **facts: next_call()], given.append)
    assert given[0] is payload
    run_execution(
        "tool_execution", payload, [lambda next_call, args, **facts: next_call({**args, "b": 2})], given.append
    )
    assert given[1] == {"a": 1, "b": 2}


def test_an_edit_counts_when_it_is_handed_on():
    def edit(next_call, request, **facts):
        request["messages"].append("new")
        return next_call(request)

    payload = {"messages": []}
    assert run_execution("llm_execution", payload, [edit], lambda request: request) == {"messages": ["new"]}
    assert payload == {"messages": []}


def test_a_callback_may_answer_itself():
    assert run_execution("tool_execution", {}, [lambda **facts: "cached"], lambda args: pytest.fail("ran")) == "cached"


def test_facts_reach_the_callback():
    def check(next_call, tool_name, args, original_args, **facts):
        return tool_name, args, original_args, facts

    result = run_execution("tool_execution", {"a": 1}, [check], str, tool_name="t", session_id="s")
    assert result == ("t", {"a": 1}, {"a": 1}, {"session_id": "s", **VERSIONS})


def test_raising_before_next_call_skips_the_callback(caplog):
    assert run_execution("tool_execution", {}, [_fail, lambda next_call, **f: next_call() + "!"], lambda a: "r") == "r!"
    assert "_fail" in caplog.text


def test_raising_after_next_call_keeps_the_result():
    runs = []

    def callback(next_call, **facts):
        next_call()
        raise RuntimeError("too late")

    assert run_execution("tool_execution", {}, [callback], lambda args: runs.append(1) or "r") == "r"
    assert runs == [1]


def test_next_call_works_once():
    runs = []

    def callback(next_call, **facts):
        next_call()
        with pytest.raises(RuntimeError, match="once"):
            next_call()
        return "caught"

    assert run_execution("tool_execution", {}, [callback], runs.append) == "caught"
    assert len(runs) == 1


def test_an_uncaught_second_call_keeps_the_first_result():
    results = iter("ab")
    twice = lambda next_call, **facts: (next_call(), next_call())  # noqa: E731
    assert run_execution("tool_execution", {}, [twice], lambda args: next(results)) == "a"


def _break(args):
    raise ConnectionError("downstream")


def _wrap_failure(next_call, **facts):
    try:
        return next_call()
    except ConnectionError as problem:
        raise ValueError("mine") from problem


@pytest.mark.parametrize("callback", [lambda next_call, **facts: next_call(), _wrap_failure])
def test_a_downstream_failure_passes_through(callback):
    with pytest.raises(ConnectionError, match="downstream"):
        run_execution("tool_execution", {}, [callback, callback], _break)


def test_a_downstream_failure_may_be_answered():
    def rescue(next_call, **facts):
        try:
            return next_call()
        except ConnectionError:
            return "rescued"

    assert run_execution("tool_execution", {}, [rescue], _break) == "rescued"


def test_an_interrupt_passes_every_layer():
    def stop(args):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_execution("tool_execution", {}, [lambda next_call, **facts: next_call()], stop)
