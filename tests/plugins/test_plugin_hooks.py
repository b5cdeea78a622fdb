"""Hooks: order, isolation, what every callback is told, and what they say about tool calls and the end of a turn."""

import threading

import pytest

from hermes_base.turn.hooks import Hooks
from hermes_cli import plugins
from hermes_cli.plugins import VALID_HOOKS, PluginContext, PluginHooks, PluginManifest


@pytest.fixture
def ctx():
    return PluginContext(PluginManifest("mine"), plugins.get_plugin_manager())


def test_there_are_23_hooks():
    assert len(VALID_HOOKS) == 23


def test_callbacks_run_in_order_and_none_is_dropped(ctx):
    for answer in ("first", None, "second"):
        ctx.register_hook("post_llm_call", lambda answer=answer, **facts: answer)
    assert plugins.invoke_hook("post_llm_call") == ["first", "second"]


def test_a_failing_callback_is_logged_and_left_out(ctx, caplog):
    def break_down(**facts):
        raise RuntimeError("hook trouble")

    ctx.register_hook("post_llm_call", break_down)
    ctx.register_hook("post_llm_call", lambda **facts: "alive")
    assert plugins.invoke_hook("post_llm_call") == ["alive"]
    assert "break_down" in caplog.text


def test_a_callback_may_be_a_coroutine(ctx):
    """One that forbids a tool is heard, not dropped."""

    async def forbid(**facts):
        return {"action": "block", "message": "no"}

    ctx.register_hook("pre_tool_call", forbid)
    assert plugins.invoke_hook("pre_tool_call") == [{"action": "block", "message": "no"}]


def test_every_call_carries_the_schema_version(ctx):
    ctx.register_hook("pre_llm_call", lambda **facts: facts)
    assert plugins.invoke_hook("pre_llm_call", session_id="s") == [
        {"session_id": "s", "telemetry_schema_version": "hermes.observer.v1"}
    ]


def test_messages_are_passed_alive(ctx):
    ctx.register_hook("pre_llm_call", lambda conversation_history, **facts: conversation_history[0].update(content="x"))
    message = {"role": "user", "content": "long"}
    plugins.invoke_hook("pre_llm_call", conversation_history=[message])
    assert message["content"] == "x"


def test_an_unknown_hook_is_kept_with_a_warning(ctx, caplog):
    ctx.register_hook("on_full_moon", lambda **facts: "howl")
    assert "on_full_moon" in caplog.text
    assert plugins.invoke_hook("on_full_moon") == ["howl"]


def test_the_turn_sees_hooks_and_middleware(ctx):
    hooks: Hooks = PluginHooks()
    payload = {"messages": []}
    assert not hooks.has("pre_llm_call")
    assert hooks.invoke("pre_llm_call") == []
    assert hooks.request("llm_request", payload) is payload
    assert hooks.execute("llm_execution", payload, lambda given: given) is payload
    ctx.register_hook("pre_llm_call", lambda **facts: "more")
    ctx.register_middleware("tool_request", lambda args, tool_name, **facts: {"args": {**args, "tool": tool_name}})
    ctx.register_middleware("tool_execution", lambda next_call, **facts: next_call() + "!")
    assert hooks.has("pre_llm_call")
    assert hooks.has("tool_request")
    assert not hooks.has("llm_request")
    assert hooks.invoke("pre_llm_call") == ["more"]
    assert hooks.request("tool_request", {"a": 1}, tool_name="echo") == {"a": 1, "tool": "echo"}
    assert hooks.execute("tool_execution", {"a": 1}, lambda args: str(args["a"]), tool_name="echo") == "1!"
    assert plugins.has_hook("pre_llm_call")
    assert plugins.has_middleware("tool_execution")


def test_a_turn_may_be_given_a_host_of_its_own(ctx):
    ctx.register_hook("pre_llm_call", print)
    assert not PluginHooks(plugins.PluginManager()).has("pre_llm_call")


# --- pre_tool_call


@pytest.mark.parametrize(
    ("answers", "expected"),
    [
        ([], (None, None)),
        ([{"action": "block", "message": "no"}], ("block", "no")),
        ([{"action": "block", "message": " "}], (None, None)),
        ([{"action": "block"}], (None, None)),
        ([{"action": "dance"}, "text", 3], (None, None)),
        ([{"action": "approve"}], ("approve", None)),
        ([{"action": "approve", "message": "sure?"}, {"action": "block", "message": "no"}], ("approve", "sure?")),
        ([{"action": "block"}, {"action": "block", "message": "second"}], ("block", "second")),
    ],
)
def test_the_first_valid_directive_wins(ctx, answers, expected):
    for answer in answers:
        ctx.register_hook("pre_tool_call", lambda answer=answer, **facts: answer)
    assert plugins.get_pre_tool_call_directive("terminal", {}) == expected
    message = expected[1] if expected[0] == "block" else None
    assert plugins.get_pre_tool_call_block_message("terminal", {}) == message


def test_the_hook_gets_all_keywords_and_fires_once(ctx):
    seen = []
    ctx.register_hook("pre_tool_call", lambda **facts: seen.append(facts))
    assert plugins.resolve_pre_tool_block("terminal", None, session_id="s") is None
    assert seen == [
        {
            "tool_name": "terminal",
            "args": {},
            "task_id": "",
            "session_id": "s",
            "tool_call_id": "",
            "turn_id": "",
            "api_request_id": "",
            "middleware_trace": [],
            "telemetry_schema_version": "hermes.observer.v1",
        }
    ]


def test_a_block_is_the_result(ctx):
    ctx.register_hook("pre_tool_call", lambda **facts: {"action": "block", "message": "not today"})
    assert plugins.resolve_pre_tool_block("terminal", {}, approve=lambda question: True) == "not today"


def _fail(question):
    raise RuntimeError("the line is dead")


@pytest.mark.parametrize(
    ("approve", "runs"), [(None, False), (lambda q: True, True), (lambda q: False, False), (_fail, False)]
)
def test_approval_fails_closed(ctx, approve, runs):
    ctx.register_hook("pre_tool_call", lambda **facts: {"action": "approve", "rule_key": "k"})
    reason = plugins.resolve_pre_tool_block("terminal", {}, approve=approve)
    assert (reason is None) is runs


def test_the_person_reads_the_plugins_question(ctx):
    ctx.register_hook("pre_tool_call", lambda **facts: {"action": "approve", "message": "Delete it?", "rule_key": "rm"})
    asked = []
    plugins.resolve_pre_tool_block("terminal", {}, approve=lambda question: not asked.append(question))
    assert asked == ["Delete it? (rm)"]


def test_a_thread_may_be_held_to_some_tools():
    plugins.set_thread_tool_whitelist({"memory"}, "No {tool_name} in a review.")
    elsewhere = []
    thread = threading.Thread(target=lambda: elsewhere.append(plugins.resolve_pre_tool_block("terminal", {})))
    thread.start()
    thread.join()
    assert elsewhere == [None]
    assert plugins.resolve_pre_tool_block("terminal", {}) == "No terminal in a review."
    assert plugins.resolve_pre_tool_block("memory", {}) is None
    plugins.clear_thread_tool_whitelist()
    assert plugins.resolve_pre_tool_block("terminal", {}) is None


# --- pre_verify


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        (None, None),
        ("text", None),
        ({"action": "continue"}, None),
        ({"action": "continue", "message": "run the tests"}, "run the tests"),
        ({"decision": "block", "reason": "not done"}, "not done"),
        ({"decision": "approve", "reason": "fine"}, None),
    ],
)
def test_a_plugin_can_keep_the_turn_going(ctx, answer, expected):
    ctx.register_hook("pre_verify", lambda **facts: answer)
    assert plugins.get_pre_verify_continue_message(attempt=1) == expected
