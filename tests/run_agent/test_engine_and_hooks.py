"""What other people's code sees of a turn: token buckets reach the engine, hooks fire in order, edits are named."""

from collections.abc import Callable
from typing import Any

import pytest
from fresh_store import fresh_store

from agent.context_engine import ContextEngine
from hermes_cli.plugins import VALID_HOOKS, PluginHooks, PluginManager
from hermes_lab.server import LabServer
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal

KINDS = ("llm_request", "llm_execution", "tool_request", "tool_execution")


def plugins(**callbacks: Callable[..., Any]) -> PluginHooks:
    """The plugin host with these hooks and middleware registered."""
    manager = PluginManager()
    for name, callback in callbacks.items():
        registered = manager._middleware if name in KINDS else manager._hooks
        registered.setdefault(name, []).append(callback)
    return PluginHooks(manager)


class Watching(ContextEngine):
    """Notes what it is told."""

    name = "watching"

    def __init__(self) -> None:
        self.told: list[dict[str, Any]] = []
        self.seen: list[str] = []

    def update_from_response(self, usage: dict[str, Any]) -> None:
        self.told.append(usage)

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return False

    def compress(self, messages: list[dict[str, Any]], **options: Any) -> list[dict[str, Any]]:
        return messages

    def get_tool_schemas(self) -> list[dict[str, Any]]:
        return [{"name": "engine_recall", "description": "recall", "parameters": {"type": "object"}}]

    def handle_tool_call(self, name: str, args: dict[str, Any], **facts: Any) -> str:
        self.seen = [message["role"] for message in facts["messages"]]
        return f"recalled {args}"


def test_token_buckets_reach_the_engine(make_agent: Any, lab: LabServer) -> None:
    agent = make_agent()
    engine = agent.context_compressor = Watching()
    usage = {"prompt_tokens": 100, "cached_tokens": 60, "completion_tokens": 7, "reasoning_tokens": 3}
    lab.set_plan([{"text": "hi", "usage": usage}])
    agent.run_conversation("hello")
    assert engine.told == [
        {
            "prompt_tokens": 100,
            "completion_tokens": 7,
            "total_tokens": 107,
            "input_tokens": 40,
            "output_tokens": 7,
            "cache_read_tokens": 60,
            "cache_write_tokens": 0,
            "reasoning_tokens": 3,
        }
    ]


def test_the_engines_own_tools_are_offered_and_run(make_agent: Any, monkeypatch: Any) -> None:
    from run_agent import engines

    engine = Watching()
    monkeypatch.setattr(engines, "choose_engine", lambda settings, runtime, **_: engine)
    agent = make_agent(enabled_toolsets=["lab-tools", "context_engine"])
    result = agent.run_conversation('[[tool engine_recall {"about": "tea"}]]')
    assert result["messages"][2]["content"] == "recalled {'about': 'tea'}"
    assert engine.seen == ["user", "assistant"]


def test_hooks_fire_in_the_documented_order(make_agent: Any, tool: Any) -> None:
    tool("look", lambda args: "seen")
    fired: list[str] = []
    hooks = plugins(**{name: lambda name=name, **_: fired.append(name) for name in VALID_HOOKS})
    make_agent(hooks=hooks).run_conversation("[[tool look {}]]")
    assert fired == [
        "on_session_start",
        "pre_llm_call",
        "pre_api_request",
        "post_api_request",
        "pre_tool_call",
        "post_tool_call",
        "transform_tool_result",
        "pre_api_request",
        "post_api_request",
        "pre_verify",
        "transform_llm_output",
        "post_llm_call",
        "on_session_end",
    ]


def test_what_a_hook_adds_to_a_message_is_stored_as_sent_and_sent_again(make_agent: Any, lab: LabServer) -> None:
    """A1, A3"""
    count = iter(range(9))
    hooks = plugins(pre_llm_call=lambda **_: {"context": f"note {next(count)}"})
    agent = make_agent(hooks=hooks)
    agent.run_conversation("one")
    result = agent.run_conversation("two")
    contents = [message["content"] for message in lab.requests[-1].json()["messages"]]
    assert contents[1].endswith("note 0")
    assert contents[3].endswith("note 1")
    assert result["prefix_breaks"] == []


def test_an_edit_of_an_older_message_shows_in_the_request_and_is_a_named_break(make_agent: Any, lab: LabServer) -> None:
    """A2"""

    def shorten(conversation_history: list[dict[str, Any]], **_: Any) -> None:
        if len(conversation_history) > 1:
            conversation_history[0]["content"] = "(shortened)"

    agent = make_agent(hooks=plugins(pre_llm_call=shorten))
    agent.run_conversation("a long first message")
    result = agent.run_conversation("two")
    assert lab.requests[-1].json()["messages"][1]["content"] == "(shortened)"
    assert result["prefix_breaks"] == [("plugin_edit", 0)]


def test_a_hook_can_block_a_call_and_replace_a_result(make_agent: Any, tool: Any) -> None:
    ran: list[Any] = []
    tool("look", lambda args: ran.append(args) or "seen")
    block = plugins(pre_tool_call=lambda **_: {"action": "block", "message": "not today"})
    result = make_agent(hooks=block).run_conversation("[[tool look {}]]")
    assert result["messages"][2]["content"] == '{"error": "not today"}'
    assert ran == []
    replace = plugins(transform_tool_result=lambda result, **_: result.upper())
    assert make_agent(hooks=replace).run_conversation("[[tool look {}]]")["messages"][2]["content"] == "SEEN"


def test_middleware_may_replace_the_request(make_agent: Any, lab: LabServer) -> None:
    hooks = plugins(llm_request=lambda request, **_: {"request": {**request, "temperature": 0}})
    result = make_agent(hooks=hooks).run_conversation("hi")
    assert lab.requests[0].json()["temperature"] == 0
    assert result["prefix_breaks"] == []


def test_middleware_that_changes_the_prompt_is_a_named_break(make_agent: Any, lab: LabServer) -> None:
    """A2"""

    def add_note(request: dict[str, Any], **_: Any) -> dict[str, Any]:
        return {"request": {**request, "messages": [*request["messages"], {"role": "user", "content": "psst"}]}}

    result = make_agent(hooks=plugins(llm_request=add_note)).run_conversation("hi")
    assert lab.requests[0].json()["messages"][-1]["content"] == "psst"
    assert result["prefix_breaks"] == [("llm_request_middleware", 0)]


def test_the_final_text_can_be_transformed_for_people(make_agent: Any) -> None:
    agent = make_agent(hooks=plugins(transform_llm_output=lambda response_text, **_: response_text.upper()))
    result = agent.run_conversation("[[say hello]]")
    assert (result["final_response"], result["messages"][-1]["content"]) == ("HELLO", "hello")


# --- compaction by the built-in engine


def fill(agent: Any, turns: int) -> None:
    for turn in range(turns):
        agent.run_conversation(f"question {turn} " + "word " * 200)


@pytest.mark.parametrize("in_place", [True, False])
def test_a_full_window_is_compacted_and_all_that_was_said_stays(make_agent: Any, in_place: bool) -> None:
    """B5, E1, E2: what was said stays in its session, or in the parent of the one that begins with the summary."""
    store = fresh_store()
    rotated: list[str] = []
    agent = make_agent(
        journal=StoreJournal(lambda: store, NewSession("c")),
        context_length=6_000,
        settings={"compression": {"protect_last_n": 4, "protect_first_n": 1, "in_place": in_place}},
        status_callback=lambda notice: rotated.append(notice.text),
    )
    first = None
    for turn in range(14):
        agent.run_conversation(f"question {turn} " + "word " * 200)
        first = first or agent.session_id
    assert (agent.session_id == first) == in_place
    assert any("compacted" in text for text in rotated)
    info = store.session(first)
    assert info is not None
    assert info.end_reason == (None if in_place else "compression")
    assert agent.task_id == first
    questions = [row.shown.split()[1] for row in store.said(first) if row.message["role"] == "user"]
    assert questions == [str(number) for number in range(14 if in_place else len(questions))]
    assert len(questions) >= 5
    texts = [message["content"] for message in agent.messages]
    assert sum("Summary of the earlier conversation" in text for text in texts) >= 1
    assert "Summary" not in texts[-1]
    for question in (11, 12, 13):
        assert any(f"question {question} " in text for text in texts)


def test_a_summary_that_fails_drops_nothing(make_agent: Any, lab: LabServer) -> None:
    """E3"""
    agent = make_agent(settings={"compression": {"protect_last_n": 2, "protect_first_n": 1}})
    fill(agent, 6)
    before = agent.messages
    lab.set_plan([{"fault": {"status": 500}, "times": 0}])
    assert agent.compress_now() is None
    assert agent.messages == before


def test_compaction_on_request_reports_before_and_after(make_agent: Any) -> None:
    """E13"""
    agent = make_agent(settings={"compression": {"protect_last_n": 2, "protect_first_n": 1}})
    assert agent.compress_now() is None
    fill(agent, 6)
    before, after = agent.compress_now()
    assert (before, after) == (12, len(agent.messages))
    assert after < before
