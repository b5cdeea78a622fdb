"""Hooks run beside whoever asks: in one hand-over for all plugins of an event, with a limit, and each for itself."""

import asyncio
import cProfile
import pstats
import subprocess
import sys
import threading

import pytest

from hermes_base.errors import Interrupted
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.turn_context import TurnContext, current_turn
from hermes_cli import plugins, plugins_cmd
from hermes_cli.plugins import PluginContext, PluginHooks, PluginManager, PluginManifest, plugin_calls, set_aside

SHORT = 0.02
HANGS = """
    import threading
    GATE = threading.Event()
    def register(ctx):
        ctx.register_hook("pre_tool_call", lambda **facts: GATE.wait() and None)
        ctx.register_hook("post_llm_call", lambda **facts: "I")
"""


@pytest.fixture
def manager():
    return PluginManager(find_limit=lambda hook: SHORT)


def register(manager, name, **hooks):
    ctx = PluginContext(PluginManifest(name), manager)
    for hook, callback in hooks.items():
        ctx.register_hook(hook, callback)


def test_all_callbacks_of_an_event_share_one_thread_which_is_not_the_askers(manager):
    for number in range(10):
        register(manager, f"p{number}", post_llm_call=lambda **facts: threading.current_thread())
    threads = manager.invoke_hook("post_llm_call")
    assert len(threads) == 10
    assert len(set(threads)) == 1
    assert threads[0] is not threading.current_thread()


def test_hooks_know_the_turn_that_they_are_called_for(manager):
    register(manager, "mine", post_llm_call=lambda **facts: current_turn.get().session)
    token = current_turn.set(TurnContext(CancelToken(), "the-session"))
    try:
        assert manager.invoke_hook("post_llm_call") == ["the-session"]
    finally:
        current_turn.reset(token)


def test_one_that_is_late_is_left_behind_named_and_its_answer_dropped(manager, caplog):
    gate, asked = threading.Event(), []

    def hang(**facts):
        asked.append("slow")
        gate.wait()
        return "too late"

    register(manager, "before", post_llm_call=lambda **facts: "before")
    register(manager, "slow", post_llm_call=hang)
    register(manager, "after", post_llm_call=lambda **facts: asked.append("after") or "after")
    assert manager.invoke_hook("post_llm_call") == ["before", "after"]
    assert "plugin slow did not answer post_llm_call" in caplog.text
    assert manager.invoke_hook("post_llm_call") == ["before", "after"]
    assert asked.count("slow") == 1  # not asked again while it has not come back
    gate.set()
    standing = manager._standings["slow"]
    while standing.stuck:
        threading.Event().wait(0.001)
    assert manager.invoke_hook("post_llm_call") == ["before", "too late", "after"]


def test_one_that_was_late_gets_a_thread_of_its_own():
    """It is asked beside the others: here it waits for one that comes after it."""
    limit, gate, came = [SHORT], threading.Event(), threading.Event()
    manager = PluginManager(find_limit=lambda hook: limit[0])
    waits = [gate, came]
    register(manager, "slow", post_llm_call=lambda **facts: waits.pop(0).wait() and "slow")
    register(manager, "quick", post_llm_call=lambda **facts: came.set() or "quick")
    assert manager.invoke_hook("post_llm_call") == ["quick"]
    gate.set()
    while manager._standings["slow"].stuck:
        threading.Event().wait(0.001)
    came.clear()
    limit[0] = 60.0
    assert manager.invoke_hook("post_llm_call") == ["slow", "quick"]


def test_five_failures_in_a_row_set_a_plugin_aside(manager, caplog):
    calls = []

    def fail(**facts):
        calls.append(1)
        raise RuntimeError("no")

    register(manager, "broken", post_llm_call=fail)
    register(manager, "well", post_llm_call=lambda **facts: "well")
    for _ in range(8):
        assert manager.invoke_hook("post_llm_call") == ["well"]
    assert len(calls) == plugin_calls.MOST_FAILURES
    assert "plugin broken is set aside until it is enabled again" in caplog.text


def test_an_answer_between_failures_begins_the_count_anew(manager):
    turn = iter(range(100))

    def fail_often(**facts):
        if next(turn) % 5 != 4:
            raise RuntimeError("no")
        return "yes"

    register(manager, "moody", post_llm_call=fail_often)
    assert [manager.invoke_hook("post_llm_call") for _ in range(20)].count(["yes"]) == 4


def test_a_hook_that_may_block_and_is_late_blocks(write_plugin, enable, monkeypatch):
    monkeypatch.setattr(plugins, "_plugin_manager", PluginManager(find_limit=lambda hook: SHORT))
    write_plugin("guard", HANGS)
    manager = enable("guard")
    refusal = PluginHooks(manager).refuse_tool("terminal", {}, None)
    assert refusal.startswith("terminal was not run: the plugin guard decides about tools and did not answer")
    assert PluginHooks(manager).refuse_tool("terminal", {}, None)  # and while it has not come back
    manager._plugins["guard"].module.GATE.set()


def test_unless_the_owner_said_otherwise(write_plugin, enable, monkeypatch):
    monkeypatch.setattr(plugins, "_plugin_manager", PluginManager(find_limit=lambda hook: SHORT))
    write_plugin("guard", HANGS)
    manager = enable("guard", guard={"fail_open": True})
    assert PluginHooks(manager).refuse_tool("terminal", {}, None) is None
    manager._plugins["guard"].module.GATE.set()


def test_one_that_is_set_aside_is_told_of_and_comes_back_when_it_is_enabled(write_plugin, enable, capsys):
    write_plugin("broken", "def register(ctx): ctx.register_hook('pre_tool_call', lambda **facts: 1 / 0)")
    manager = enable("broken")
    hooks = PluginHooks(manager)
    refusals = [hooks.refuse_tool("terminal", {}, None) for _ in range(6)]
    assert refusals[:5] == [None] * 5
    assert "is set aside (it failed 5 times in a row" in refusals[5]
    assert set_aside.read().keys() == {"broken"}
    assert plugins_cmd.main(["list"]) == 0
    assert "broken: set aside" in capsys.readouterr().out
    assert manager.take_back() == []
    set_aside.forget("broken")  # as `hermes plugins enable broken` does, in another process
    assert manager.take_back() == ["broken"]
    assert hooks.refuse_tool("terminal", {}, None) is None


def test_a_dead_process_sets_nothing_aside(home, monkeypatch):
    monkeypatch.setattr("os.getpid", lambda: 2**22 + 1)  # more than any process has
    set_aside.note("gone", "it failed")
    assert set_aside.read() == {}


def count(work):
    profile = cProfile.Profile()
    profile.runcall(work)
    return pstats.Stats(profile).total_calls


def test_an_event_costs_one_hand_over_however_many_plugins_there_are(manager):
    """Of what is called on the asker's thread nothing grows with the plugins but looking through their answers."""
    register(manager, "p", post_llm_call=lambda **facts: None)
    manager.invoke_hook("post_llm_call")
    alone = count(lambda: manager.invoke_hook("post_llm_call"))
    for number in range(49):
        register(manager, f"p{number}", post_llm_call=lambda **facts: None)
    manager.invoke_hook("post_llm_call")
    assert count(lambda: manager.invoke_hook("post_llm_call")) <= alone + 1


def test_an_event_without_plugins_costs_a_look(manager):
    hooks = PluginHooks(manager)
    assert count(lambda: hooks.invoke("post_llm_call")) <= 3  # the lambda, the call, and the profiler's own


@pytest.mark.parametrize("problem", [asyncio.CancelledError, GeneratorExit, KeyboardInterrupt])
def test_what_is_no_usual_failure_keeps_nobody_waiting(problem, caplog):
    manager = PluginManager(find_limit=lambda hook: 60.0)

    def fail(**facts):
        raise problem

    register(manager, "bad", post_llm_call=fail)
    register(manager, "good", post_llm_call=lambda **facts: "good")
    assert manager.invoke_hook("post_llm_call") == ["good"]
    assert "plugin bad" in caplog.text


def test_a_stop_that_reaches_a_hook_is_no_fault_of_its_plugin():
    manager = PluginManager(find_limit=lambda hook: 60.0)

    def stop(**facts):
        raise Interrupted("by the user")

    register(manager, "asks", pre_tool_call=stop)
    for _ in range(plugin_calls.MOST_FAILURES + 1):
        assert manager.invoke_hook("pre_tool_call", tool_name="t")[0]["action"] == "block"
    assert not manager._standings["asks"].set_aside


LINGERS = """
import threading, time
def register(ctx):
    threading.Thread(target=lambda: time.sleep(600), name=__name__).start()
"""


def test_a_command_ends_although_a_plugin_left_a_thread_running(write_plugin):
    """Its code is the command's own, and the thread is named; one that ends by itself is waited for."""
    write_plugin("lingers", LINGERS)
    write_plugin("ends", LINGERS.replace("600", "0.5"))
    told = {}
    for name in ("ends", "lingers"):
        done = subprocess.run(
            [sys.executable, "-m", "hermes_cli.main", "plugins", "enable", name],
            capture_output=True,
            text=True,
            timeout=60,
        )
        assert done.returncode == 0, done.stderr
        told[name] = done.stderr
    assert "left the thread hermes_plugins.lingers running" in told["lingers"]
    assert "left the thread" not in told["ends"]


def test_one_that_ends_the_program_is_told_in_words(write_plugin, enable):
    write_plugin("leaves", "raise SystemExit(3)")
    assert enable("leaves")._plugins["leaves"].error == "it wanted to end the program (SystemExit: 3)"
