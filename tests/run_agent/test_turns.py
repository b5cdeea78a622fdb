"""Whole turns against the lab server: answers, tools, failures, stopping, steering."""

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import openai
import pytest
from fresh_store import fresh_store
from waiting import wait_until

import run_agent
from hermes_base.chat import Notice
from hermes_base.errors import ConfigProblem, HermesError
from hermes_base.turn.cancel import CancelToken
from hermes_base.turn.hooks import NoHooks
from hermes_base.turn.journal import shown_text
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal
from run_agent import AIAgent


def roles(messages: list[dict[str, Any]]) -> list[str]:
    return [message["role"] for message in messages]


def test_an_answer_streams_and_is_kept(make_agent: Any) -> None:
    heard: list[str] = []
    agent = make_agent(stream_delta_callback=heard.append)
    result = agent.run_conversation("[[say hello there]]", stream_callback=heard.append)
    assert result["final_response"] == "hello there"
    assert "".join(heard[::2]) == "hello there"
    assert (result["completed"], result["interrupted"], result["api_calls"]) == (True, False, 1)
    assert roles(result["messages"]) == ["user", "assistant"]
    assert result["usage"]["prompt_tokens"] > 0


def test_blank_lines_before_a_call_or_an_answer_are_not_shown_and_are_sent_back_as_they_came(
    make_agent: Any, tool: Any, lab: LabServer
) -> None:
    """C7: what people see live is what stands in the end."""
    tool("look", lambda args: "three")
    heard: list[str] = []
    agent = make_agent(stream_delta_callback=heard.append)
    call = {"name": "look", "arguments": {}}
    lab.set_plan(
        [
            {"text": "\n\n", "tool_calls": [call], "chunk_size": 1},
            {"text": "\n \n  I look.", "tool_calls": [call], "chunk_size": 1},
            {"text": "\n\ngood", "chunk_size": 1},
        ]
    )
    assert agent.run_conversation("hello")["final_response"] == "good"
    assert "".join(heard) == "  I look.good"
    shown = [shown_text(row) for row in agent.journal.load().rows if row.message["role"] == "assistant"]
    assert shown == ["", "  I look.", "good"]
    agent.run_conversation("hello")
    answers = [said["content"] for said in lab.requests[-1].json()["messages"] if said["role"] == "assistant"]
    assert answers == ["\n\n", "\n \n  I look.", "\n\ngood"]


def test_parallel_calls_run_at_the_same_time_and_answer_in_order(make_agent: Any, tool: Any) -> None:
    meeting = threading.Barrier(3)

    def meet(args: dict[str, Any]) -> str:
        meeting.wait(10)  # passes only when all three calls are under way
        time.sleep(0.05 * (3 - args["n"]))
        return f"met {args['n']}"

    tool("meet", meet)
    calls = "".join(f'[[tool meet {{"n": {n}}}]]' for n in range(3))
    result = make_agent().run_conversation(calls)
    assert [m["content"] for m in result["messages"] if m["role"] == "tool"] == ["met 0", "met 1", "met 2"]
    assert result["api_calls"] == 2


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ('[[tool absent {"a": 1}]]', "There is no tool called 'absent'"),
        ('[[tool boom {"a": ]]', "not a valid JSON object"),
        ("[[tool boom {}]]", "RuntimeError: no good"),
        ("[[tool wrong {}]]", "instead of text"),
    ],
)
def test_what_goes_wrong_in_a_tool_is_a_text_for_the_model(make_agent: Any, tool: Any, script: str, said: str) -> None:
    def boom(args: dict[str, Any]) -> str:
        raise RuntimeError("no good")

    tool("boom", boom)
    tool("wrong", lambda args: 42)
    result = make_agent().run_conversation(script)
    (output,) = [m["content"] for m in result["messages"] if m["role"] == "tool"]
    assert said in output
    assert result["completed"]


def test_a_tool_outside_the_offered_set_is_not_run(make_agent: Any, tool: Any) -> None:
    """The model may name any tool; only what this conversation was offered runs."""
    tool("look", lambda args: "seen")
    result = make_agent().run_conversation('[[tool terminal {"command": "true"}]]')
    assert "There is no tool called 'terminal'" in result["messages"][2]["content"]


def test_a_message_of_a_megabyte_and_broken_unicode_go_through(make_agent: Any) -> None:
    agent = make_agent()
    assert agent.run_conversation("x" * 1_000_000)["completed"]
    result = agent.run_conversation("half a pair \udc00 [[say fine]]")
    assert result["final_response"] == "fine"
    assert "half a pair \ufffd" in result["messages"][2]["content"]


def test_an_empty_answer_is_asked_for_again(make_agent: Any, lab: LabServer) -> None:
    lab.set_plan([{"text": ""}, {"text": "now"}])
    result = make_agent().run_conversation("hi")
    assert result["final_response"] == "now"
    assert result["api_calls"] == 2


def test_a_passing_failure_is_not_seen_by_the_person(make_agent: Any, lab: LabServer) -> None:
    lab.set_plan([{"fault": {"status": 503}}, {"text": "back"}])
    assert make_agent().run_conversation("hi")["final_response"] == "back"


def test_when_nobody_can_answer_the_message_is_kept_and_the_reason_is_told(make_agent: Any, lab: LabServer) -> None:
    """D11, H8"""
    lab.set_plan([{"fault": {"status": 401, "message": "bad key"}, "times": 0}])
    agent = make_agent()
    result = agent.run_conversation("are you there?")
    assert not result["completed"]
    assert "did not accept the key" in result["error"]
    assert "bad key" in result["error"]
    assert "hermes config set" in result["error"]
    lab.set_plan([{"text": "yes"}])
    result = agent.run_conversation("and now?")
    assert result["final_response"] == "yes"
    assert "are you there?" in result["messages"][0]["content"]
    assert roles(result["messages"]) == ["user", "assistant", "user", "assistant"]


def test_a_stream_that_breaks_off_is_never_taken_for_an_answer(make_agent: Any, lab: LabServer) -> None:
    lab.set_plan([{"text": "the whole answer", "chunks": 4, "fault": {"cut_after_chunks": 2}}, {"text": "all of it"}])
    result = make_agent().run_conversation("hi")
    assert result["final_response"] == "all of it"
    assert len(result["messages"]) == 2


def test_an_address_where_nobody_answers_gets_a_sentence(make_agent: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(CancelToken, "wait", lambda self, seconds: False)
    agent = make_agent(base_url="http://127.0.0.1:9/v1")
    result = agent.run_conversation("hi")
    assert "cannot be reached at http://127.0.0.1:9/v1" in result["error"]
    assert "hermes config get model.base_url" in result["error"]


def test_a_missing_key_is_reported_at_the_first_call_not_when_building(make_agent: Any) -> None:
    agent = make_agent(base_url="", provider="openai", api_key="")
    result = agent.run_conversation("hi")
    assert "No key for OpenAI is set" in result["error"]
    assert "hermes config set OPENAI_API_KEY" in result["error"]


def test_an_unknown_provider_is_named_at_the_first_call(make_agent: Any) -> None:
    result = make_agent(base_url="", provider="opnai").run_conversation("hi")
    assert "There is no provider called 'opnai'" in result["error"]


def test_a_format_that_nobody_speaks_is_refused_clearly(make_agent: Any) -> None:
    with pytest.raises(ConfigProblem, match="'morse' cannot be spoken"):
        make_agent(api_mode="morse").run_conversation("hi")


# --- stopping and steering


def run_aside(agent: AIAgent, text: str) -> tuple[threading.Thread, dict[str, Any]]:
    box: dict[str, Any] = {}
    thread = threading.Thread(target=lambda: box.update(agent.run_conversation(text)))
    thread.start()
    return thread, box


def test_stopping_before_the_first_byte_frees_the_blocked_thread(make_agent: Any, lab: LabServer) -> None:
    agent = make_agent()
    thread, box = run_aside(agent, "[[stall 60]]")
    wait_until(lambda: lab.in_flight == 1)
    assert agent.interrupt("stopped by the user")
    thread.join(10)
    assert not thread.is_alive()
    assert box["interrupted"]
    assert box["reason"] == "stopped by the user"
    wait_until(lambda: lab.in_flight == 0)
    assert agent.run_conversation("[[say clean]]")["final_response"] == "clean"


def test_stopping_in_mid_stream_keeps_what_was_read(make_agent: Any) -> None:
    heard: list[str] = []
    agent = make_agent(stream_delta_callback=heard.append)
    thread, box = run_aside(agent, "[[chunks 40]][[pause 0.5]]")
    wait_until(lambda: len(heard) >= 2)
    agent.interrupt()
    thread.join(10)
    assert box["final_response"] == "".join(heard)
    assert box["messages"][-1]["content"].endswith("[interrupted: stopped by the user]")


def test_stopping_while_a_tool_runs_leaves_no_call_without_result(make_agent: Any, tool: Any) -> None:
    started = threading.Event()

    def hang(args: dict[str, Any]) -> str:
        started.set()
        time.sleep(30)
        return "never"

    tool("hang", hang)
    agent = make_agent()
    thread, box = run_aside(agent, "[[tool hang {}]]")
    assert started.wait(10)
    agent.interrupt()
    thread.join(15)
    assert not thread.is_alive()
    assert roles(box["messages"]) == ["user", "assistant", "tool", "assistant"]
    assert "outcome unknown" in box["messages"][2]["content"]
    assert agent.run_conversation("[[say next]]")["final_response"] == "next"


def test_stopping_between_an_answer_and_its_tools_leaves_no_call_without_result(make_agent: Any, tool: Any) -> None:
    """The stop comes when the answer with its calls is stored, and nothing of them has begun."""
    ran: list[str] = []
    tool("work", lambda args: ran.append("work") or "done")
    agent = make_agent(text_end_callback=lambda _: agent.interrupt())
    box = agent.run_conversation("[[say I look]][[tool work {}]]")
    assert box["interrupted"]
    assert roles(box["messages"]) == ["user", "assistant", "tool", "assistant"]
    assert "not run" in box["messages"][2]["content"]
    assert ran == []
    agent.text_end_callback = None
    assert agent.run_conversation("[[say next]]")["final_response"] == "next"


def test_stopping_an_idle_agent_changes_nothing(make_agent: Any) -> None:
    """C5"""
    agent = make_agent()
    assert agent.interrupt() is False
    assert agent.run_conversation("[[say fine]]")["final_response"] == "fine"


def test_a_child_is_stopped_and_closed_with_its_parent(make_agent: Any, lab: LabServer) -> None:
    parent, child = make_agent(), make_agent()
    parent.add_child(child)
    thread, box = run_aside(child, "[[stall 60]]")
    wait_until(lambda: lab.in_flight == 1)
    parent.close()
    thread.join(10)
    assert box["interrupted"]


def test_steering_reaches_the_model_at_its_next_step(make_agent: Any, tool: Any) -> None:
    box: list[AIAgent] = []

    def steer(args: dict[str, Any]) -> str:
        assert box[0].steer("[[say steered]]")
        return "ok"

    tool("steer", steer)
    agent = make_agent()
    box.append(agent)
    result = agent.run_conversation("[[tool steer {}]]")
    assert result["final_response"] == "steered"
    assert roles(result["messages"]) == ["user", "assistant", "tool", "user", "assistant"]
    assert agent.steer("too late") is False


def test_one_turn_at_a_time(make_agent: Any, lab: LabServer) -> None:
    agent = make_agent()
    thread, _ = run_aside(agent, "[[stall 60]]")
    wait_until(lambda: lab.in_flight == 1)
    with pytest.raises(HermesError, match="in the middle of a turn"):
        agent.run_conversation("me too")
    agent.interrupt()
    thread.join(10)


# --- history, undo, storage


def test_a_history_of_the_caller_is_repaired_and_continued(make_agent: Any, lab: LabServer) -> None:
    history = [{"role": "user", "content": "my name is Ada"}, {"role": "assistant", "content": "hello Ada"}]
    agent = make_agent()
    first = agent.run_conversation("[[say one]]", conversation_history=history)
    assert [m["content"] for m in first["messages"][:2]] == ["my name is Ada", "hello Ada"]
    second = agent.run_conversation("[[say two]]", conversation_history=first["messages"])
    assert (second["prefix_breaks"], len(second["messages"])) == ([], 6)


def test_a_history_that_contradicts_what_was_sent_is_a_named_break(make_agent: Any) -> None:
    agent = make_agent()
    agent.run_conversation("[[say one]]")
    session, task = agent.session_id, agent.task_id
    result = agent.run_conversation("[[say two]]", conversation_history=[{"role": "user", "content": "other"}])
    assert result["prefix_breaks"][0][0] == "history_replaced"
    assert agent.session_id != session
    assert agent.task_id == task


def edit_text(messages: list[dict[str, Any]]) -> None:
    messages[0]["content"] = "something else"


def edit_arguments(messages: list[dict[str, Any]]) -> None:
    messages[1]["tool_calls"][0]["function"]["arguments"] = '{"at": 99}'


@pytest.mark.parametrize(("edit", "place"), [(edit_text, 0), (edit_arguments, 1)])
def test_a_history_edited_in_place_is_sent_as_edited_and_recorded(
    make_agent: Any, lab: LabServer, tool: Any, edit: Callable[[list[dict[str, Any]]], None], place: int
) -> None:
    """A1, A2: what the caller was handed and gives back is compared by value, also deep inside."""
    tool("look", lambda args: "seen")
    agent = make_agent()
    messages = agent.run_conversation('[[tool look {"at": 1}]][[then]][[say one]]')["messages"]
    edit(messages)
    result = agent.run_conversation("[[say two]]", conversation_history=messages)
    assert result["prefix_breaks"] == [("history_replaced", place)]
    sent = lab.requests[-1].json()["messages"][1 + place]
    assert "something else" in str(sent) if place == 0 else '{"at": 99}' in str(sent)
    assert agent.run_conversation("[[say three]]", conversation_history=result["messages"])["prefix_breaks"] == []


def test_what_a_plugin_edited_and_the_caller_gives_back_is_no_second_break(make_agent: Any, lab: LabServer) -> None:
    """A2: the caller's history is what was sent, though it is not what was stored."""

    class Editor(NoHooks):
        def has(self, name: str) -> bool:
            return name == "pre_llm_call"

        def invoke(self, name: str, **facts: Any) -> list[Any]:
            if name == "pre_llm_call" and len(agent.messages) > 1:
                agent._conversation.messages[0]["content"] = "shorter"
            return []

    agent = make_agent(hooks=Editor())
    agent.run_conversation("[[say one]]")
    result = agent.run_conversation("[[say two]]")
    assert result["prefix_breaks"] == [("plugin_edit", 0)]
    assert agent.run_conversation("[[say three]]", conversation_history=result["messages"])["prefix_breaks"] == []


def test_taking_back_the_last_turn_deletes_nothing(make_agent: Any) -> None:
    store = fresh_store()
    agent = make_agent(journal=StoreJournal(lambda: store, NewSession("c")))
    agent.run_conversation("[[say one]]")
    agent.run_conversation("[[say two]]")
    assert agent.take_back_last_turn() == "[[say two]]"
    result = agent.run_conversation("[[say three]]")
    assert [m["content"] for m in result["messages"] if m["role"] == "assistant"] == ["one", "three"]
    assert result["prefix_breaks"] == [("undo", 2)]
    assert len(list(store.history(agent.session_id))) == 7


def test_what_another_writer_committed_is_in_the_next_turn(make_agent: Any) -> None:
    """B2, B3: own writes leave the warm conversation alone; foreign ones are read."""
    store = fresh_store()
    agent = make_agent(journal=StoreJournal(lambda: store, NewSession("c"), writer="me"))
    agent.run_conversation("[[say one]]")
    warm = agent._conversation
    agent.run_conversation("[[say two]]")
    assert agent._conversation is warm
    other = make_agent(journal=StoreJournal(lambda: store, NewSession("c"), writer="other"))
    other.run_conversation("[[say from elsewhere]]")
    result = agent.run_conversation("[[say three]]")
    said = [m["content"] for m in result["messages"] if m["role"] == "assistant"]
    assert said == ["one", "two", "from elsewhere", "three"]
    assert agent._conversation is not warm


def test_without_a_journal_nothing_is_written(make_agent: Any, home: Path) -> None:
    make_agent().run_conversation("[[say hi]]")
    assert not home.exists()


def test_usage_of_every_call_is_in_the_ledger(make_agent: Any, tool: Any, lab: LabServer, tmp_path: Path) -> None:
    tool("look", lambda args: "seen")
    store = Store(tmp_path / "s.db")
    agent = make_agent(journal=StoreJournal(lambda: store, NewSession("c")))
    result = agent.run_conversation("[[tool look {}]]")
    spent = store.usage(session=agent.session_id)
    assert spent.calls == 2 == len(lab.requests)
    assert spent.input_tokens + spent.cache_read_tokens == result["usage"]["prompt_tokens"]
    assert spent.output_tokens == result["usage"]["output_tokens"]
    store.close()


def test_notices_reach_the_status_callback_and_a_failing_callback_hurts_nobody(make_agent: Any, lab: LabServer) -> None:
    notices: list[Notice] = []

    def fail(text: str) -> None:
        raise ValueError("my display is broken")

    lab.set_plan([{"fault": {"status": 500, "retry_after": 2}}, {"text": "ok"}])
    agent = make_agent(status_callback=notices.append, stream_delta_callback=fail)
    assert agent.run_conversation("hi")["final_response"] == "ok"
    assert "Trying again" in notices[0].text


def test_the_session_of_a_store_is_named_before_the_first_turn(make_agent: Any) -> None:
    store = fresh_store()
    store.open_session(NewSession("c", id="the-session"))
    agent = make_agent(journal=StoreJournal(lambda: store, NewSession("c")))
    assert agent.run_conversation("[[say hi]]")["session_id"] == "the-session"
    assert json.loads(json.dumps(agent.messages)) == agent.messages


def test_a_client_that_a_host_made_is_used(lab: LabServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """D1: `OpenAI` is one of the names that hosts replace."""
    own = {"x-host": "mine"}
    monkeypatch.setattr(run_agent, "OpenAI", lambda **options: openai.OpenAI(default_headers=own, **options))
    agent = AIAgent(base_url=lab.base_url, model="m", api_key="k")
    assert agent.run_conversation("[[say hi]]")["final_response"] == "hi"
    assert dict(lab.requests[-1].headers)["x-host"] == "mine"
