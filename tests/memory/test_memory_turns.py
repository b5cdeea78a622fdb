"""A memory provider in a turn: what it is asked and told, in which order, and that its faults never reach the turn."""

import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

import pytest
from memory_rig import find_call, list_calls, loaded

from agent import memory_manager, provider_calls
from agent.context_engine import ContextEngine
from hermes_base.chat import LastingNotice
from hermes_lab.server import LabServer
from run_agent import memory_binding

IN_A_TURN = ("initialize", "on_turn_start", "prefetch", "system_prompt_block", "sync_turn", "queue_prefetch")


def test_a_turn_asks_and_tells_in_order_and_the_message_is_stored_as_sent(
    make_agent: Any, write_provider: Any, lab: LabServer
) -> None:
    """A1, A3, A6"""
    write_provider()
    agent = make_agent()
    agent.run_conversation("tea")
    assert list_calls() == list(IN_A_TURN)
    result = agent.run_conversation("milk")
    sent = lab.requests[-1].json()["messages"]
    assert sent[0]["content"].endswith("The watcher watches.")
    assert sent[1]["content"].endswith("recalled for tea\n</memory-context>")
    assert "<memory-context>" in sent[3]["content"]
    assert "recalled for milk" in sent[3]["content"]
    assert result["prefix_breaks"] == []
    assert agent.last_exchange().text == "milk"  # what people see
    assert list_calls().count("system_prompt_block") == list_calls().count("initialize") == 1
    assert find_call("on_turn_start") == ((2, "milk"), {})
    assert find_call("sync_turn") == (("milk", result["final_response"]), {"session_id": agent.session_id})


def test_it_is_told_where_it_works_by_keyword(make_agent: Any, write_provider: Any, home: Path) -> None:
    write_provider()
    agent = make_agent(platform="local", gateway_session_key="agent:main:local:dm:1", memory_scope={"user_id": "ann"})
    agent.run_conversation("hello")
    (session,), facts = find_call("initialize")
    assert session == agent.session_id
    assert {name for name in facts if name.endswith("_callback")} == {"warning_callback", "status_callback"}
    told = {name: value for name, value in facts.items() if not name.endswith("_callback")}
    assert told == {
        "platform": "cli",
        "hermes_home": str(home),
        "agent_context": "primary",
        "agent_identity": "default",
        "agent_workspace": "hermes",
        "gateway_session_key": "agent:main:local:dm:1",
        "user_id": "ann",
    }


def test_a_turn_that_failed_or_was_stopped_is_not_kept(make_agent: Any, write_provider: Any, lab: LabServer) -> None:
    write_provider()
    agent = make_agent()
    lab.set_plan([{"fault": {"status": 400}}])
    assert not agent.run_conversation("tea")["completed"]
    lab.set_plan([{"text": "half of it"}])
    agent.stream_delta_callback = lambda text: agent.interrupt("stopped")
    assert agent.run_conversation("milk")["interrupted"]
    assert "sync_turn" not in list_calls()


def test_its_tools_are_offered_and_run_and_cannot_take_a_name_of_ours(
    make_agent: Any, write_provider: Any, lab: LabServer
) -> None:
    write_provider()
    agent = make_agent()
    result = agent.run_conversation("[[tool watcher_look {}]]")
    assert result["messages"][2]["content"] == "seen"
    names = [tool["function"]["name"] for tool in lab.requests[-1].json()["tools"]]
    assert names == ["memory", "watcher_look"]
    assert find_call("handle_tool_call") == (("watcher_look", {}), {})
    assert "watcher_look" not in str(make_agent(enabled_toolsets=["files"]).run_conversation("hi") and lab.requests[-1])


def test_what_it_recalls_is_foreign_text(make_agent: Any, write_provider: Any) -> None:
    """G9: a note that is written after it needs consent."""
    write_provider()
    agent = make_agent()
    result = agent.run_conversation('[[tool memory {"action": "add", "content": "likes tea"}]]')
    assert memory_binding.RECALLED in result["messages"][2]["content"]
    assert "on_memory_write" not in list_calls()


def test_notes_are_mirrored(make_agent: Any, write_provider: Any) -> None:
    write_provider(code=QUIET)
    agent = make_agent()
    agent.run_conversation('[[tool memory {"action": "add", "content": "likes tea"}]]')
    agent.run_conversation(
        '[[tool memory {"action": "replace", "content": "likes milk", "old_text": "likes tea", "target": "memory"}]]'
    )
    agent.run_conversation('[[tool memory {"action": "list"}]]')
    provider_calls.drain_all()
    assert loaded().WRITES == [("add", "memory", "likes tea", {}), ("replace", "memory", "likes milk", "likes tea")]


QUIET = """
    from agent.memory_provider import MemoryProvider
    WRITES, CALLS = [], []

    class Quiet(MemoryProvider):
        name = "quiet"
        def is_available(self): return True
        def initialize(self, session_id, **facts): pass
        def get_tool_schemas(self): return []
        def on_memory_write(self, action, target, content, about):
            WRITES.append((action, target, content, about.get("old_text", about)))
"""


# --- faults


@pytest.mark.parametrize("method", ["is_available", "get_tool_schemas", *IN_A_TURN])
def test_one_that_hangs_costs_its_limit_once_and_is_named(
    make_agent: Any, write_provider: Any, monkeypatch: Any, method: str
) -> None:
    write_provider()
    monkeypatch.setattr(provider_calls, "USUAL_LIMIT", 0.05)
    monkeypatch.setattr(provider_calls, "LIMITS", dict.fromkeys(provider_calls.LIMITS, 0.05))
    told: list[Any] = []
    agent = make_agent(status_callback=told.append)
    from plugins.memory import load_memory_provider

    load_memory_provider("watcher")
    module = loaded()
    module.HANGS.add(method)
    monkeypatch.setattr(provider_calls, "DRAIN_SECONDS", 0.1)
    for text in ("one", "two", "three"):
        assert agent.run_conversation(text)["completed"]
        threading.Event().wait(0.06)  # what is in the background becomes overdue
    assert sum(what == method for what, _, _ in module.CALLS) == 1
    notices = [notice.text for notice in told if isinstance(notice, LastingNotice)]
    assert len(notices) == 1
    assert f"hangs in {method}" in notices[0]
    module.GO.set()


@pytest.mark.parametrize("method", ["is_available", "get_tool_schemas", *IN_A_TURN])
def test_one_that_fails_is_named_once_and_the_turn_goes_on(
    make_agent: Any, write_provider: Any, method: str, home: Path
) -> None:
    write_provider()
    told: list[Any] = []
    agent = make_agent(status_callback=told.append)
    from plugins.memory import load_memory_provider, read_problem

    load_memory_provider("watcher")
    loaded().FAILS.add(method)
    for text in ("one", "two", "three"):
        assert agent.run_conversation(text)["completed"]
        provider_calls.drain_all()
    notices = [notice.text for notice in told if isinstance(notice, LastingNotice)]
    assert len(notices) == 1
    assert f"failed in {method} (RuntimeError: no {method})" in notices[0]
    assert method in read_problem()["problem"]


def test_a_tool_that_fails_or_hangs_is_an_error_for_the_model(
    make_agent: Any, write_provider: Any, monkeypatch: Any
) -> None:
    write_provider()
    monkeypatch.setitem(provider_calls.LIMITS, "handle_tool_call", 0.05)
    agent = make_agent()
    agent.run_conversation("hello")
    loaded().FAILS.add("handle_tool_call")
    result = agent.run_conversation("[[tool watcher_look {}]]")
    assert "watcher could not run watcher_look" in result["messages"][-2]["content"]
    loaded().HANGS.add("handle_tool_call")
    result = agent.run_conversation("[[tool watcher_look {}]]")
    assert "hangs in handle_tool_call" in result["messages"][-2]["content"]


def test_a_stop_does_not_wait_for_it(make_agent: Any, write_provider: Any) -> None:
    """C4"""
    write_provider()
    agent = make_agent()
    agent.run_conversation("hello")
    module = loaded()
    module.HANGS.add("prefetch")
    turn = threading.Thread(target=agent.run_conversation, args=("tea",))
    turn.start()
    while module.CALLS[-1][0] != "prefetch":
        threading.Event().wait(0.005)
    agent.interrupt("stopped")
    turn.join(4)
    assert not turn.is_alive()
    module.GO.set()


# --- sessions


class Shortening(ContextEngine):
    name = "shortening"
    told = ""

    def update_from_response(self, usage: dict[str, Any]) -> None: ...

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return False

    def compress(self, messages: list[dict[str, Any]], memory_context: str = "", **more: Any) -> list[dict[str, Any]]:
        self.told = memory_context
        return messages[-2:]


def test_a_compaction_takes_its_words_along_and_moves_it(make_agent: Any, write_provider: Any) -> None:
    write_provider()
    agent = make_agent()
    agent.context_compressor = engine = Shortening()
    for text in ("one", "two"):
        agent.run_conversation(text)
    old = agent.session_id
    assert agent.compress_now() == (4, 2)
    assert engine.told == "keep the tea"
    assert list_calls()[-3:] == ["on_pre_compress", "on_session_end", "on_session_switch"]
    new = (agent.session_id,)
    assert find_call("on_session_switch") == (new, {"parent_session_id": old, "reset": False, "reason": "compression"})


def test_undo_and_a_new_session_are_told(make_agent: Any, write_provider: Any) -> None:
    write_provider()
    agent = make_agent()
    agent.run_conversation("one")
    agent.take_back_last_turn()
    session = agent.session_id
    assert find_call("on_session_switch")[1] == {"parent_session_id": session, "reset": False, "rewound": True}
    agent.session_id = "next"
    agent.reset_session_state([{"role": "user", "content": "one"}], old_session_id=session)
    assert list_calls()[-2:] == ["on_session_end", "on_session_switch"]
    told = {"parent_session_id": session, "reset": True, "reason": "new_session"}
    assert find_call("on_session_switch") == (("next",), told)


def test_an_agent_that_is_let_go_shuts_it_down_behind_what_is_queued(make_agent: Any, write_provider: Any) -> None:
    """F1: nothing is left of it."""
    write_provider()
    agent = make_agent()
    agent.run_conversation("one")
    before = threading.active_count()
    agent.release_clients()
    assert list_calls()[-3:] == ["sync_turn", "queue_prefetch", "shutdown"]
    assert threading.active_count() <= before
    agent.run_conversation("two")  # a later turn has another one
    assert list_calls().count("initialize") == 2


# --- without one


def test_without_a_provider_a_turn_does_nothing_here(make_agent: Any) -> None:
    agent = make_agent(provider="")
    agent.run_conversation("one")
    files = {memory_binding.__file__, memory_manager.__file__, provider_calls.__file__}
    called: list[str] = []

    def note(frame: FrameType, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename in files:
            called.append(frame.f_code.co_name)

    sys.setprofile(note)
    try:
        agent.run_conversation("two")
    finally:
        sys.setprofile(None)
    assert called == []
