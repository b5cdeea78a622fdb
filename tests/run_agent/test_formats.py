"""Thirty turns in each wire format, with tools, thinking and images: the bytes, the bill and the cache agree."""

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from hermes_base.turn.cancel import CancelToken
from hermes_lab.server import LabServer
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal

KEY = "lab-key-12345678"
PIXEL = (
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ"
    "AAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
FORMATS = ("chat_completions", "anthropic_messages", "codex_responses")
TURNS = 30


@pytest.fixture
def counting_lab() -> Iterator[LabServer]:
    """Short texts are cached too."""
    with LabServer(cache_minimum=1) as server:
        yield server


@pytest.fixture
def build(make_agent: Any, tool: Any, counting_lab: LabServer) -> Any:
    tool("look", lambda args: json.dumps({"seen": args["at"]}, ensure_ascii=False))

    def make(api_mode: str, store: Store) -> Any:
        address = counting_lab.address if api_mode == "anthropic_messages" else counting_lab.base_url
        model = "claude-sonnet-4-5" if api_mode == "anthropic_messages" else "gpt-5-mini"
        return make_agent(
            base_url=address,
            model=model,
            api_mode=api_mode,
            api_key=KEY,
            reasoning_config={"enabled": True, "effort": "low"},
            journal=StoreJournal(lambda: store, NewSession("c")),
        )

    return make


def message_of(turn: int) -> Any:
    """Answers, thinking, parallel tools after thinking, sealed thinking, images."""
    kinds = [
        f"turn {turn}: just an answer with \u00fcml\u00e4uts",
        f'turn {turn} [[reason about {turn}]][[tool look {{"at": {turn}}}]][[tool look {{"at": "\u00fc"}}]]'
        f"[[then]][[reason and now]][[say turn {turn} is done]]",
        f"turn {turn} [[reason a thought]][[say an answer after it]]",
        [{"type": "text", "text": f"turn {turn}: what is this?"}, {"type": "image_url", "image_url": {"url": PIXEL}}],
        f'turn {turn} [[hide a sealed thought]][[tool look {{"at": 1}}]][[then]][[say ok]]',
    ]
    return kinds[turn % len(kinds)]


def content_of(body: bytes) -> list[Any]:
    """Everything that stands in the prompt, in order, without the marks of the cache."""
    request = json.loads(body)
    system = request.get("system") or request.get("instructions") or []
    spoken = request.get("messages") or request.get("input")
    return (
        [request.get("tools"), system, *_without_marks(spoken)]
        if not isinstance(system, list)
        else [_without_marks(request.get("tools")), *_without_marks(system), *_without_marks(spoken)]
    )


def _without_marks(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_marks(inner) for name, inner in value.items() if name != "cache_control"}
    return [_without_marks(inner) for inner in value] if isinstance(value, list) else value


@pytest.mark.parametrize("api_mode", FORMATS)
def test_30_turns(build: Any, counting_lab: LabServer, tmp_path: Path, api_mode: str) -> None:
    """A1, A6, A8, A9: over evictions and reopened stores; the ledger is the bill to the token; the cache is read."""
    stores = [Store(tmp_path / "store.db")]
    agent = build(api_mode, stores[-1])
    for turn in range(TURNS):
        if turn % 7 == 6:
            agent.release_clients()
            agent = build(api_mode, stores[-1])
        if turn % 10 == 9:
            stores[-1].close()
            stores.append(Store(tmp_path / "store.db"))
            agent = build(api_mode, stores[-1])
        result = agent.run_conversation(message_of(turn))
        assert (result["completed"], result["error"], result["prefix_breaks"]) == (True, "", [])
    contents = [content_of(request.body) for request in counting_lab.requests]
    for before, after in pairwise(contents):
        assert after[: len(before)] == before
    check_bill(counting_lab, stores[-1], agent.task_id)
    stores[-1].close()


def check_bill(lab: LabServer, store: Store, task: str) -> None:
    bill, spent = lab.bill[KEY], store.usage(task=task)
    assert (spent.calls, spent.unsettled) == (bill.calls, 0)
    assert spent.input_tokens == bill.uncached_tokens
    assert spent.cache_read_tokens == bill.cache_read_tokens
    assert spent.cache_write_tokens == bill.cache_write_5m_tokens + bill.cache_write_1h_tokens
    assert spent.output_tokens == bill.output_tokens
    assert spent.reasoning_tokens == bill.reasoning_tokens
    assert bill.cache_read_tokens >= 0.99 * bill.readable_tokens
    assert bill.readable_tokens >= 0.99 * bill.previous_tokens


@pytest.mark.parametrize("api_mode", FORMATS)
def test_a_switch_of_the_format_encodes_anew_once_and_the_way_back_sends_the_first_bytes(
    build: Any, counting_lab: LabServer, tmp_path: Path, api_mode: str
) -> None:
    """A1, D7: another format takes the whole conversation over, its own reasoning only; the way back is as it was."""
    store = Store(tmp_path / "store.db")
    for turn in range(5):
        build(api_mode, store).run_conversation(message_of(turn))
    first = content_of(counting_lab.requests[-1].body)
    other = FORMATS[(FORMATS.index(api_mode) + 1) % 3]
    for turn in range(5, 8):
        result = build(other, store).run_conversation(message_of(turn))
        assert result["completed"], result["error"]
    result = build(api_mode, store).run_conversation("and back")
    assert result["completed"], result["error"]
    assert content_of(counting_lab.requests[-1].body)[: len(first)] == first
    reasons = [row.reason for row in store.breaks()]
    assert reasons.count("model_changed") == (2 if "anthropic_messages" in (api_mode, other) else 0)
    store.close()


@pytest.mark.parametrize("first", ["chat_completions", "codex_responses"])
@pytest.mark.parametrize("model", ["claude-sonnet-4-5", "claude-opus-4-6"])
def test_claude_takes_over_in_mid_loop_and_thinks_again_when_the_loop_is_over(
    make_agent: Any, tool: Any, lab: LabServer, first: str, model: str
) -> None:
    """D7: who thinks by a budget refuses to begin with it behind a call that another provider made without."""
    tool("look", lambda args: "three")
    with LabServer() as claude:
        fallback = {"provider": "custom", "base_url": claude.address, "api_key": "claude-key-1"}
        fallback |= {"model": model, "api_mode": "anthropic_messages"}
        agent = make_agent(api_mode=first, fallback_model=fallback, reasoning_config={"effort": "low"})
        lab.set_plan([{"tool_calls": [{"name": "look", "arguments": {}}]}, {"fault": {"status": 401}, "times": 0}])
        claude.set_plan([{"tool_calls": [{"name": "look", "arguments": {}}]}, {"text": "three"}])
        result = agent.run_conversation("look")
        assert (result["final_response"], result["model"]) == ("three", model), result["error"]
        assert agent.run_conversation("and now?")["completed"]
        budgets = ["budget_tokens" in request.json().get("thinking", {}) for request in claude.requests]
        assert budgets == [False, False, model == "claude-sonnet-4-5"]


@pytest.mark.parametrize("api_mode", FORMATS)
def test_failures_in_every_format(build: Any, counting_lab: LabServer, tmp_path: Path, api_mode: str) -> None:
    """A cut stream, an error in mid-stream, an overload, a refusal, a call cut at the output limit."""
    store = Store(tmp_path / "store.db")
    agent = build(api_mode, store)
    again = [{"text": "fine"}]
    cut = [{"text": "half of it", "chunks": 4, "fault": {"cut_after_chunks": 2}}]
    counting_lab.set_plan(cut + again)
    assert agent.run_conversation("one")["final_response"] == "fine"
    counting_lab.set_plan([{"text": "abc", "fault": {"error_after_chunks": 1, "status": 503}}, *again])
    assert agent.run_conversation("two")["final_response"] == "fine"
    counting_lab.set_plan([{"fault": {"status": 503}}, *again])
    assert agent.run_conversation("three")["final_response"] == "fine"
    counting_lab.set_plan(
        [{"tool_calls": [{"name": "look", "arguments": {"at": 1}}], "finish_reason": "length"}, *again]
    )
    result = agent.run_conversation("four")
    assert result["final_response"] == "fine"
    assert "cut off before its end" in result["messages"][-2]["content"]
    counting_lab.set_plan([{"fault": {"status": 401, "message": "bad key"}}])
    assert "did not accept the key" in agent.run_conversation("five")["error"]
    counting_lab.set_plan([])
    assert agent.run_conversation("[[say six]]")["final_response"] == "six"
    store.close()


@pytest.mark.parametrize("api_mode", FORMATS)
def test_a_refusal_is_told_and_not_asked_for_again(
    build: Any, counting_lab: LabServer, tmp_path: Path, api_mode: str
) -> None:
    """With words they are the answer, and the person is told that it was stopped; without, that is the answer."""
    store = Store(tmp_path / "store.db")
    agent = build(api_mode, store)
    told: list[str] = []
    agent.status_callback = lambda notice: told.append(notice.text)
    spoken = agent.run_conversation("[[refuse]][[say I will not]]")
    assert (spoken["completed"], spoken["reason"], spoken["final_response"]) == (True, "filtered", "I will not")
    assert "stopped the answer" in told[0]
    silent = agent.run_conversation("[[refuse]][[say ]]")
    assert (silent["completed"], silent["reason"], silent["api_calls"]) == (False, "refused", 1)
    assert "refused to answer" in silent["error"]
    call = agent.run_conversation('[[refuse]][[tool look {"at": 1}]][[then]][[say ok]]')
    assert "was not run" in next(m["content"] for m in call["messages"][-3:] if m["role"] == "tool")
    store.close()


def test_the_marks_of_the_cache_live_as_long_as_set(make_agent: Any, counting_lab: LabServer) -> None:
    agent = make_agent(
        base_url=counting_lab.address,
        model="claude-sonnet-4-5",
        api_mode="anthropic_messages",
        settings={"model": {"cache_ttl": "1h"}},
        api_key=KEY,
    )
    agent.run_conversation("hello")
    assert counting_lab.bill[KEY].cache_write_1h_tokens > 0
    assert b'"ttl":"1h"' in counting_lab.requests[0].body


def test_a_cold_cache_is_told_once(make_agent: Any) -> None:
    """A10: five turns in a row that should have hit and did not; a provider without a cache is not blamed."""
    told: list[str] = []
    with LabServer(cache_minimum=None) as lab:
        agent = make_agent(
            base_url=lab.base_url,
            provider="openai",
            model="gpt-5-mini",
            api_mode="chat_completions",
            status_callback=lambda notice: told.append(notice.text),
        )
        for turn in range(14):
            agent.run_conversation(f"turn {turn} " + "word " * 1_000)
            assert len(told) == (turn >= 5)
    assert "less than half of the prompt" in told[0]


@pytest.mark.slow
@pytest.mark.parametrize("api_mode", FORMATS)
def test_streams_cut_anywhere(
    make_agent: Any, tool: Any, counting_lab: LabServer, monkeypatch: pytest.MonkeyPatch, api_mode: str
) -> None:
    """Cut at any byte, also inside a character: never a wrong text, never a tool run on half an argument."""
    monkeypatch.setattr(CancelToken, "wait", lambda self, seconds: False)  # no pause before the second try
    seen: list[Any] = []
    tool("look", lambda args: str(seen.append(args)))
    answers = [
        {"text": "\u00fcml\u00e4ut \U0001f389 \u4f60\u597d", "reasoning": "a \u201cthought\u201d", "chunks": 7},
        {
            "text": "so",
            "tool_calls": [{"name": "look", "arguments": {"at": "\u00fc" * 9, "n": 12345}}],
            "chunk_size": 5,
        },
    ]
    address = counting_lab.address if api_mode == "anthropic_messages" else counting_lab.base_url
    model = "claude-sonnet-4-5" if api_mode == "anthropic_messages" else "gpt-5-mini"
    for cut in range(1, 3_000, 61):
        for answer in answers:
            agent = make_agent(base_url=address, model=model, api_mode=api_mode, api_key=KEY)
            whole = {**answer, "times": 1}
            counting_lab.set_plan(
                [{**whole, "fault": {"cut_after_bytes": cut}}, whole, {"text": "end"}, {"text": "end"}]
            )
            result = agent.run_conversation("go")
            assert result["completed"], (cut, result["error"])
            assert result["final_response"] in (answers[0]["text"], "end")
            assert all(args == {"at": "\u00fc" * 9, "n": 12345} for args in seen)
            agent.release_clients()


@pytest.mark.parametrize("api_mode", FORMATS)
def test_an_image_that_a_tool_read_reaches_the_model_as_the_format_allows(
    make_agent: Any, tool: Any, counting_lab: LabServer, api_mode: str
) -> None:
    """E9: an image is never cut as if it were text, nor sent as a megabyte of letters."""
    image = {"type": "image_url", "image_url": {"url": PIXEL[:-4] + "A" * 200_000}}
    tool("see", lambda args: {"_multimodal": True, "content": [{"type": "text", "text": "a picture"}, image]})
    address = counting_lab.address if api_mode == "anthropic_messages" else counting_lab.base_url
    model = "claude-sonnet-4-5" if api_mode == "anthropic_messages" else "gpt-5-mini"
    agent = make_agent(base_url=address, model=model, api_mode=api_mode, api_key=KEY, context_length=8192)
    result = agent.run_conversation("[[tool see {}]][[then]][[say seen]]")
    assert result["final_response"] == "seen", result["error"]
    body = counting_lab.requests[-1].body
    assert b"a picture" in body
    assert (b"AAAAAAAAAA" in body) == (api_mode != "chat_completions")


def test_steering_that_comes_too_late_is_handed_back(make_agent: Any, lab: LabServer) -> None:
    """Nothing said is lost: what the turn did not read is in its result."""
    agent = make_agent(stream_delta_callback=lambda text: None)
    turns: list[Any] = []
    agent.status_callback = None
    finish = agent.journal.finish

    def finish_late(*args: Any) -> int:
        turns.append(agent.steer("too late for this one"))
        return finish(*args)

    agent.journal.finish = finish_late
    result = agent.run_conversation("[[say done]]")
    assert turns == [True]
    assert result["unread_steering"] == ["too late for this one"]
