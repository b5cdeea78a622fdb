"""Long conversations in small windows: nothing overflows, nothing is lost, the newest request governs."""

import threading
from pathlib import Path
from typing import Any

import pytest
from fresh_store import fresh_store
from waiting import wait_until

from agent.auxiliary_client import call_llm
from agent.turn.compaction import fit_text
from hermes_base.turn.hooks import NoHooks
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal

SMALL = {"compression": {"protect_first_n": 1, "protect_last_n": 6}}


def check_request(request: dict[str, Any]) -> None:
    """No call without its result, no result without its call."""
    waiting: list[str] = []
    for message in request["messages"]:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert waiting == []
            waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert waiting == []


@pytest.mark.slow
def test_500_turns_in_a_window_of_8k(make_agent: Any, tool: Any) -> None:
    """E1, E3, E4, E7, E8, E9, E10: a scripted model, tools with short and endless results, some huge messages."""
    tool("look", lambda args: "seen " * args["n"])
    store = fresh_store()
    with LabServer(window=8192) as lab:
        agent = make_agent(
            base_url=lab.base_url,
            context_length=8192,
            max_tokens=512,
            settings=SMALL,
            journal=StoreJournal(lambda: store, NewSession("c")),
        )
        for turn in range(500):
            text = f"question {turn} " + "word " * (turn % 90)
            if turn % 7 == 3:
                text += f' [[tool look {{"n": {20 if turn % 14 == 3 else 20_000}}}]][[then]][[say done {turn}]]'
            if turn % 50 == 49:
                text += "long " * 20_000
            result = agent.run_conversation(text)
            assert result["completed"], (turn, result["error"])
            sent = lab.requests[-1].json()
            check_request(sent)
            asked = [message["content"] for message in sent["messages"] if message["role"] == "user"]
            assert f"question {turn} " in asked[-1]
            for back in range(1, min(3, turn + 1)):
                assert any(f"question {turn - back} " in question for question in asked)
            assert "Summary of the earlier conversation" not in str(sent["messages"][-1]["content"])
            lab.clear_requests()
    history = list(store.history(agent.session_id))
    assert sum(row.kind == "head" for row in history) > 3  # it was compacted so often
    asked = [str(row.shown).split()[:2] for row in store.said(agent.session_id) if row.message["role"] == "user"]
    assert asked == [["question", str(turn)] for turn in range(500)]


def test_a_huge_message_is_stored_whole_and_sent_as_its_ends(make_agent: Any, lab: LabServer, tmp_path: Path) -> None:
    """E8"""
    store = Store(tmp_path / "s.db")
    agent = make_agent(context_length=8192, journal=StoreJournal(lambda: store, NewSession("c")))
    text = "begin " + "x" * 100_000 + " end"
    agent.run_conversation(text)
    sent = lab.requests[0].json()["messages"][1]["content"]
    assert len(sent) < 8192 * 4 / 4 + 500
    assert sent.startswith("begin ")
    assert f"the whole is kept: {agent.session_id}, message 0" in sent
    assert store.load(agent.session_id).rows[0].shown == text
    store.close()


def test_endless_results_share_the_window_and_are_stored_whole(make_agent: Any, lab: LabServer, tool: Any) -> None:
    """E9"""
    tool("look", lambda args: str(args["n"]) * 100_000)
    store = fresh_store()
    agent = make_agent(context_length=8192, journal=StoreJournal(lambda: store, NewSession("c")))
    agent.run_conversation("".join(f'[[tool look {{"n": {n}}}]]' for n in range(4)))
    results = [m["content"] for m in lab.requests[1].json()["messages"] if m["role"] == "tool"]
    assert sum(map(len, results)) < 8192 * 4 / 2 + 1_000
    rows = [row for row in store.load(agent.session_id).rows if row.message["role"] == "tool"]
    assert [row.shown for row in rows] == [str(n) * 100_000 for n in range(4)]


def test_the_words_beside_an_image_are_cut_like_any_result(make_agent: Any, lab: LabServer, tool: Any) -> None:
    """E9"""
    image = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    words = [{"type": "text", "text": "w" * 50_000}, "v" * 50_000]
    tool("see", lambda args: {"_multimodal": True, "content": [*words, image]})
    store = fresh_store()
    agent = make_agent(context_length=8192, journal=StoreJournal(lambda: store, NewSession("c")))
    agent.run_conversation("[[tool see {}]]")
    assert len(lab.requests[1].body) < len(lab.requests[0].body) + 8192 * 4 / 4 + 2_000
    row = next(row for row in store.load(agent.session_id).rows if row.message["role"] == "tool")
    assert "w" * 50_000 in row.shown
    assert "data:image/png" in row.message["content"]


def test_what_plugins_add_to_a_message_does_not_fill_the_window(make_agent: Any, lab: LabServer) -> None:
    """E8, E9"""

    class Adding(NoHooks):
        def has(self, name: str) -> bool:
            return name == "pre_llm_call"

        def invoke(self, name: str, **facts: Any) -> list[Any]:
            return [{"context": "a" * 100_000}, "b" * 100_000 + "\ud800"] if self.has(name) else []

    agent = make_agent(context_length=8192, hooks=Adding())
    agent.run_conversation("what was asked")
    sent = lab.requests[0].json()["messages"][1]["content"]
    assert sent.startswith("what was asked")
    assert len(sent) < 8192 * 4 / 2 + 1_000


def test_an_overflow_that_cannot_be_repaired_is_told_and_the_chat_goes_on(make_agent: Any, lab: LabServer) -> None:
    """E10"""
    overflow = {"fault": {"status": 400, "code": "context_length_exceeded", "message": "maximum context length"}}
    agent = make_agent(settings=SMALL)
    for turn in range(12):
        agent.run_conversation(f"question {turn}")
    lab.set_plan([{**overflow, "times": 8, "contains": "too much"}])
    lab.clear_requests()
    result = agent.run_conversation("too much")
    assert "longer than the window" in result["error"]
    assert "/new" in result["error"]
    lab.set_plan([])
    assert agent.run_conversation("[[say fine]]")["final_response"] == "fine"


def test_an_overflow_is_repaired_by_compaction_unseen(make_agent: Any, lab: LabServer) -> None:
    """E10: the declared window was wrong; the person notices nothing but the notice."""
    agent = make_agent(settings=SMALL)
    for turn in range(12):
        agent.run_conversation(f"question {turn}")
    lab.set_plan([{"fault": {"status": 400, "code": "context_length_exceeded", "message": "maximum context length"}}])
    result = agent.run_conversation("[[say fine]]")
    assert result["final_response"] == "fine"
    assert result["prefix_breaks"][0][0] == "compression"


def test_a_failed_summary_shortens_old_results_and_is_told_once(make_agent: Any, lab: LabServer, tool: Any) -> None:
    """E1, E3"""
    tool("look", lambda args: "seen " * 400)
    told: list[str] = []
    store = fresh_store()
    agent = make_agent(
        settings=SMALL,
        journal=StoreJournal(lambda: store, NewSession("c")),
        status_callback=lambda notice: told.append(notice.text),
    )
    for turn in range(8):
        agent.run_conversation(f"question {turn} [[tool look {{}}]]")
    first = agent.session_id
    before = agent.messages
    lab.set_plan([{"fault": {"status": 500}, "contains": "Summarise the conversation", "times": 0}])
    assert agent.compress_now() is not None
    after = agent.messages
    assert [m["role"] for m in after] == [m["role"] for m in before]
    assert [m["content"] for m in after if m["role"] == "user"] == [m["content"] for m in before if m["role"] == "user"]
    assert any("shortened to save room" in m["content"] for m in after if m["role"] == "tool")
    agent.compress_now()
    assert sum("could not be summarised" in text for text in told) == 1
    assert [row.message for row in store.said(first)] == before


def test_compaction_in_place_keeps_the_session(make_agent: Any) -> None:
    store = fresh_store()
    settings = {"compression": {**SMALL["compression"], "in_place": True}}
    agent = make_agent(settings=settings, journal=StoreJournal(lambda: store, NewSession("c")))
    for turn in range(12):
        agent.run_conversation(f"question {turn}")
    session, everything = agent.session_id, len(list(store.history(agent.session_id)))
    agent.compress_now()
    assert agent.session_id == session
    assert len(agent.messages) < 24
    assert len(list(store.history(session))) > everything


def test_breaks_are_kept_in_the_store_with_reason_and_place(make_agent: Any) -> None:
    """A2"""
    store = fresh_store()
    agent = make_agent(settings=SMALL, journal=StoreJournal(lambda: store, NewSession("c")))
    for turn in range(12):
        agent.run_conversation(f"question {turn}")
    agent.take_back_last_turn()
    agent.run_conversation("another question")
    agent.compress_now()
    agent.run_conversation("and one more")
    agent.model = "another-model"
    agent.run_conversation("who are you?")
    assert [(row.reason, row.position) for row in store.breaks(task=agent.task_id)] == [
        ("undo", 22),
        ("compression", 1),
        ("model_changed", -1),
    ]


def test_an_undo_after_a_rebuild_is_a_named_break_too(make_agent: Any) -> None:
    """A2: what was sent before is known from the store."""
    store = fresh_store()
    for turn in range(3):
        make_agent(journal=StoreJournal(lambda: store, NewSession("c"))).run_conversation(f"question {turn}")
    rebuilt = make_agent(journal=StoreJournal(lambda: store, NewSession("c")))
    rebuilt.take_back_last_turn()
    assert rebuilt.run_conversation("another one")["prefix_breaks"] == [("undo", 4)]
    assert rebuilt.run_conversation("and on")["prefix_breaks"] == []


def test_a_change_of_the_model_is_one_break_however_often_it_is_tried(make_agent: Any, lab: LabServer) -> None:
    """A2"""
    store = fresh_store()
    agent = make_agent(journal=StoreJournal(lambda: store, NewSession("c")))
    agent.run_conversation("one")
    agent.model = "another-model"
    lab.set_plan([{"fault": {"status": 503}}, {"text": "ok"}])
    agent.run_conversation("two")
    assert [row.reason for row in store.breaks()] == ["model_changed"]


def test_an_answer_that_broke_off_stays_in_the_ledger_as_unsettled(make_agent: Any, lab: LabServer) -> None:
    """A8"""
    store = fresh_store()
    agent = make_agent(journal=StoreJournal(lambda: store, NewSession("c")))
    lab.set_plan([{"text": "half of it", "chunks": 4, "fault": {"cut_after_chunks": 2}}, {"text": "all of it"}])
    agent.run_conversation("one")
    spent = store.usage(task=agent.task_id)
    assert (spent.calls, spent.unsettled) == (2, 1)


def test_a_call_that_a_plugin_makes_inside_a_turn_is_charged_to_it(
    make_agent: Any, lab: LabServer, tool: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A8"""

    def ask_beside(args: dict[str, Any]) -> str:
        answer = call_llm("plugin", base_url=lab.base_url, model="small", messages=[{"role": "user", "content": "hm"}])
        return str(answer.choices[0].message.content)

    tool("beside", ask_beside)
    store = fresh_store()
    agent = make_agent(journal=StoreJournal(lambda: store, NewSession("c")))
    result = agent.run_conversation("[[tool beside {}]]")
    assert result["messages"][2]["content"] == "You said: hm"
    assert store.usage(task=agent.task_id).calls == 3 == len(lab.requests)


@pytest.mark.parametrize(
    ("said", "calls"), [("[[chunks 9]][[cut 3]][[say one two three four five six]]", 3), ("[[stall 60]]", 2)]
)
def test_a_call_of_a_plugin_that_broke_off_or_was_stopped_is_unsettled(
    make_agent: Any, lab: LabServer, tool: Any, said: str, calls: int
) -> None:
    """A8, A11: it is paid for, and nobody told how much."""
    asked = [{"role": "user", "content": said}]
    tool("beside", lambda args: str(call_llm("plugin", base_url=lab.base_url, model="small", messages=asked)))
    store = fresh_store()
    agent = make_agent(journal=StoreJournal(lambda: store, NewSession("c")))

    def stop_the_stalled() -> None:
        wait_until(lambda: len(lab.requests) >= 2)
        if "stall" in said:
            agent.interrupt()

    stopping = threading.Thread(target=stop_the_stalled)
    stopping.start()
    agent.run_conversation("[[tool beside {}]]")
    stopping.join()
    wait_until(lambda: store.usage(task=agent.task_id).calls == calls)
    assert store.usage(task=agent.task_id).unsettled == 1
    assert len(lab.requests) == calls


def test_every_call_is_in_the_ledger_summaries_too(make_agent: Any, lab: LabServer) -> None:
    """A8: the sum of the ledger is the sum of what the provider counted."""
    store = fresh_store()
    agent = make_agent(settings=SMALL, journal=StoreJournal(lambda: store, NewSession("c")))
    for turn in range(12):
        agent.run_conversation(f"question {turn}")
    agent.compress_now()
    agent.run_conversation("after it")
    spent, bill = store.usage(task=agent.task_id), lab.bill["lab-key-12345678"]
    assert spent.calls == 14 == bill.calls
    assert spent.input_tokens + spent.cache_read_tokens == bill.prompt_tokens
    assert spent.output_tokens == bill.output_tokens


def test_fitting_is_the_same_for_the_same_text() -> None:
    text = "ü" * 10_000
    assert fit_text(text, 4_000, "here") == fit_text(text, 4_000, "here")
    assert len(fit_text(text, 4_000, "here").encode()) < 4_300
    assert fit_text("short", 4_000, "here") == "short"
