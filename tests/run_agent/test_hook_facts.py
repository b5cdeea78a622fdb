"""What plugins are told in a turn, exactly: the keywords of each hook, what is in them, and when nothing is told."""

import threading
from typing import Any

import pytest
from waiting import wait_until

from hermes_cli.plugins import VALID_HOOKS, PluginHooks, PluginManager
from hermes_lab.server import LabServer

IDS = {"session_id", "task_id", "turn_id"}
MODEL = {"platform", "model", "provider", "base_url", "api_mode", "api_call_count", "api_request_id"}
TIMES = {"api_duration", "started_at", "ended_at"}
CALL = IDS | {"tool_name", "args", "tool_call_id", "api_request_id"}
RESULT = CALL | {"result", "duration_ms", "status", "error_type", "error_message"}
KEYWORDS = {
    "on_session_start": {"session_id", "model", "platform"},
    "pre_llm_call": IDS | {"user_message", "conversation_history", "is_first_turn", "model", "platform", "sender_id"},
    "pre_api_request": IDS
    | MODEL
    | {"user_message", "conversation_history", "request_messages", "message_count", "tool_count"}
    | {"approx_input_tokens", "request_char_count", "max_tokens", "started_at", "middleware_trace", "request"},
    "post_api_request": IDS
    | MODEL
    | TIMES
    | {"finish_reason", "message_count", "response_model", "response", "usage", "assistant_message"}
    | {"assistant_content_chars", "assistant_tool_call_count"},
    "api_request_error": IDS
    | MODEL
    | TIMES
    | {"status_code", "retry_count", "max_retries", "retryable", "reason", "error", "request"},
    "pre_tool_call": CALL | {"middleware_trace"},
    "post_tool_call": RESULT | {"middleware_trace"},
    "transform_tool_result": RESULT,
    "pre_verify": {"session_id", "platform", "model", "coding", "attempt", "final_response", "changed_paths"},
    "transform_llm_output": {"response_text", "session_id", "model", "platform"},
    "post_llm_call": IDS | {"user_message", "assistant_response", "conversation_history", "model", "platform"},
    "on_session_end": IDS | {"completed", "interrupted", "model", "platform"},
}


class Probe:
    """Every hook, and what it was told."""

    def __init__(self, **answers: Any) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        manager = PluginManager()
        for hook in VALID_HOOKS:
            manager._hooks[hook] = [lambda hook=hook, **facts: self._take(hook, facts, answers.get(hook))]
        self.hooks = PluginHooks(manager)

    def _take(self, hook: str, facts: dict[str, Any], answer: Any) -> Any:
        assert facts.pop("telemetry_schema_version") == "hermes.observer.v1"
        self.told.append((hook, facts))
        return answer(facts) if callable(answer) else answer

    def of(self, hook: str) -> list[dict[str, Any]]:
        return [facts for name, facts in self.told if name == hook]


@pytest.fixture
def probe() -> Probe:
    return Probe()


def test_each_hook_is_told_exactly_what_is_documented(make_agent: Any, tool: Any, probe: Probe, lab: LabServer) -> None:
    tool("look", lambda args: "seen")
    agent = make_agent(hooks=probe.hooks)
    agent.run_conversation("[[tool look {}]]")
    lab.set_plan([{"fault": {"status": 400, "body": {"error": {"message": "no"}}}, "times": 0}])
    agent.run_conversation("this fails")
    assert {hook: set(facts) for hook, facts in probe.told} == KEYWORDS


def test_the_current_message_stands_last_in_the_history_and_clean(make_agent: Any, probe: Probe) -> None:
    agent = make_agent(hooks=probe.hooks)
    agent.run_conversation("one")
    agent.run_conversation("two")
    first, second = probe.of("pre_llm_call")
    assert first["conversation_history"] == [{"role": "user", "content": "one"}]
    assert (first["is_first_turn"], second["is_first_turn"]) == (True, False)
    assert second["conversation_history"][-1] == {"role": "user", "content": "two"}
    assert [message["role"] for message in second["conversation_history"]] == ["user", "assistant", "user"]


def test_after_a_turn_the_history_holds_what_people_said_alone(make_agent: Any, probe: Probe, lab: LabServer) -> None:
    """Without the line on date and folder, and what plugins added."""
    agent = make_agent(hooks=probe.hooks)
    agent.run_conversation("one")
    agent.run_conversation("two")
    history = probe.of("post_llm_call")[-1]["conversation_history"]
    assert [message["content"] for message in history if message["role"] == "user"] == ["one", "two"]
    sent = [message["content"] for message in lab.requests[-1].json()["messages"] if message["role"] == "user"]
    assert sent != ["one", "two"]


def test_what_a_hook_makes_of_the_current_message_is_what_is_sent(make_agent: Any, lab: LabServer) -> None:
    def shorten(facts: dict[str, Any]) -> None:
        facts["conversation_history"][-1]["content"] = "in short"

    make_agent(hooks=Probe(pre_llm_call=shorten).hooks).run_conversation("at length")
    sent = lab.requests[-1].json()["messages"][-1]["content"]
    assert sent.startswith("in short")
    assert "at length" not in sent


def test_a_turn_that_no_provider_answered_is_not_told_of(make_agent: Any, probe: Probe, lab: LabServer) -> None:
    lab.set_plan([{"fault": {"status": 400, "body": {"error": {"message": "no"}}}, "times": 0}])
    result = make_agent(hooks=probe.hooks).run_conversation("hello")
    assert not result["completed"]
    fired = [hook for hook, _ in probe.told]
    assert set(fired) == {"on_session_start", "pre_llm_call", "pre_api_request", "api_request_error"}


#: What middleware is told, beside the versions of both schemas.
ABOUT_CALL = IDS | MODEL | {"request", "original_request"}
ABOUT_TOOL = CALL | {"original_args"}
MIDDLEWARE = {
    "llm_request": ABOUT_CALL,
    "llm_execution": ABOUT_CALL | {"next_call", "middleware_trace"},
    "tool_request": ABOUT_TOOL,
    "tool_execution": ABOUT_TOOL | {"next_call"},
}


def test_middleware_is_told_exactly_what_is_documented(make_agent: Any, tool: Any) -> None:
    told: dict[str, dict[str, Any]] = {}

    def note(kind: str, facts: dict[str, Any]) -> Any:
        told[kind] = facts
        return facts["next_call"]() if "next_call" in facts else None

    manager = PluginManager()
    for kind in MIDDLEWARE:
        manager._middleware[kind] = [lambda kind=kind, **facts: note(kind, facts)]
    tool("look", lambda args: "seen")
    make_agent(hooks=PluginHooks(manager)).run_conversation("[[tool look {}]]")
    for facts in told.values():
        assert facts.pop("telemetry_schema_version") == "hermes.observer.v1"
        assert facts.pop("middleware_schema_version") == "hermes.middleware.v1"
    assert {kind: set(facts) for kind, facts in told.items()} == MIDDLEWARE


def test_a_turn_that_was_stopped_says_why_and_in_which_request(make_agent: Any, lab: LabServer) -> None:
    probe = Probe()
    agent = make_agent(hooks=probe.hooks)
    lab.set_plan([{"text": "late", "stall_first": 60.0}])
    turn = threading.Thread(target=agent.run_conversation, args=("hello",))
    turn.start()
    wait_until(lambda: len(lab.requests) == 1)
    agent.interrupt("enough")
    turn.join()
    (told,) = probe.of("on_session_end")
    assert set(told) == KEYWORDS["on_session_end"] | {"reason", "api_request_id"}
    assert (told["interrupted"], told["api_request_id"]) == (True, f"{told['turn_id']}:api:1")
    assert probe.of("post_llm_call") == []


def test_a_call_that_is_made_again_says_how_often_it_failed(make_agent: Any, probe: Probe, lab: LabServer) -> None:
    lab.set_plan([{"fault": {"status": 503, "body": {"error": {"message": "busy"}}}, "times": 1}, {"text": "now"}])
    assert make_agent(hooks=probe.hooks).run_conversation("hello")["completed"]
    assert [(facts["retry_count"], facts["max_retries"]) for facts in probe.of("api_request_error")] == [(0, 3)]


def test_ids_say_which_session_turn_and_request(make_agent: Any, tool: Any, probe: Probe) -> None:
    tool("look", lambda args: "seen")
    agent = make_agent(hooks=probe.hooks)
    agent.run_conversation("[[tool look {}]]")
    turn = probe.of("pre_llm_call")[0]["turn_id"]
    session, task, mark = turn.split(":")
    assert (session, task) == (agent.session_id, agent.task_id)
    assert len(mark) == 8
    assert probe.of("post_llm_call")[0]["turn_id"] == turn
    assert [facts["api_request_id"] for facts in probe.of("pre_api_request")] == [f"{turn}:api:1", f"{turn}:api:2"]
    assert probe.of("pre_tool_call")[0]["api_request_id"] == f"{turn}:api:1"


def test_a_request_and_its_answer_have_the_documented_form(make_agent: Any, probe: Probe, lab: LabServer) -> None:
    make_agent(hooks=probe.hooks).run_conversation("[[say hello]]")
    asked, answered = probe.of("pre_api_request")[0], probe.of("post_api_request")[0]
    assert asked["request"]["method"] == "POST"
    assert asked["request"]["body"] == lab.requests[-1].json()
    assert answered["assistant_message"].content == "hello"
    assert set(answered["response"]) == {"model", "finish_reason", "assistant_message", "usage"}
    assert answered["response"]["assistant_message"]["content"] == "hello"


def test_a_blocked_call_is_told_as_blocked(make_agent: Any, tool: Any) -> None:
    tool("look", lambda args: "seen")
    probe = Probe(pre_tool_call={"action": "block", "message": "not today"})
    make_agent(hooks=probe.hooks).run_conversation("[[tool look {}]]")
    told = probe.of("post_tool_call")[0]
    assert (told["status"], told["error_type"]) == ("blocked", "plugin_block")


def test_whoever_looks_on_is_told_the_arguments_that_ran(make_agent: Any, tool: Any) -> None:
    """Request middleware comes first; what it makes of a call is judged, run and told."""
    ran: list[dict[str, Any]] = []
    tool("look", lambda args: ran.append(args) or "seen")
    probe = Probe()
    probe.hooks._manager._middleware["tool_request"] = [lambda args, **facts: {"args": {**args, "where": "here"}}]
    make_agent(hooks=probe.hooks).run_conversation('[[tool look {"deep": 1}]]')
    wanted = {"deep": 1, "where": "here"}
    told = [probe.of(hook)[0]["args"] for hook in ("pre_tool_call", "post_tool_call", "transform_tool_result")]
    assert [*ran, *told] == [wanted] * 4


def test_a_handler_gets_the_documented_arguments(make_agent: Any, tool: Any) -> None:
    given: list[dict[str, Any]] = []

    async def look(args: dict[str, Any], task_id: str, session_id: str, user_task: str) -> str:
        given.append({"task_id": task_id, "session_id": session_id, "user_task": user_task})
        return "seen"

    tool("look", look)
    agent = make_agent()
    result = agent.run_conversation("[[tool look {}]]")
    assert result["messages"][2]["content"] == "seen"
    expected = {"task_id": agent.task_id, "session_id": agent.session_id, "user_task": "[[tool look {}]]"}
    assert given == [expected]


def test_a_plugin_may_keep_a_turn_from_ending_a_few_times(make_agent: Any, lab: LabServer) -> None:
    probe = Probe(pre_verify={"action": "continue", "message": "run the tests first"})
    result = make_agent(hooks=probe.hooks).run_conversation("write it")
    assert [facts["attempt"] for facts in probe.of("pre_verify")] == [0, 1, 2]
    assert result["api_calls"] == 4
    asked = [message["content"] for message in lab.requests[-1].json()["messages"] if message["role"] == "user"]
    assert asked[1:] == ["run the tests first"] * 3
    assert result["completed"]


def test_or_not_at_all(make_agent: Any) -> None:
    probe = Probe(pre_verify={"decision": "block", "reason": " "})
    assert make_agent(hooks=probe.hooks).run_conversation("hello")["api_calls"] == 1
