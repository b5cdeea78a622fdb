"""Compaction under trouble: stopped, failing, or with more to protect than the window holds."""

import json
import threading
from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from fresh_store import fresh_store
from hypothesis import given, settings
from hypothesis import strategies as st
from moody_model import HEAD, SUMMARY, MoodyModel, answer, call_once, end, fail, say, silent
from waiting import wait_until

from agent.context_engine import ContextEngine
from agent.turn import rules
from agent.turn.compaction import shorten_rows
from hermes_base.errors import Interrupted, ModelFailure
from hermes_base.turn.journal import Row, rough_bytes
from hermes_constants import get_hermes_home
from hermes_state.sql.store_sql import Store
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal
from run_agent import AIAgent
from tools.registry import registry

SMALL = {"compression": {"protect_first_n": 1, "protect_last_n": 4}}


@pytest.fixture
def model() -> Iterator[MoodyModel]:
    with MoodyModel() as server:
        yield server


@pytest.fixture
def told() -> list[str]:
    return []


@pytest.fixture
def store() -> Store:
    return fresh_store()


@pytest.fixture
def agent(model: MoodyModel, told: list[str], store: Store) -> AIAgent:
    """An agent with a conversation of twelve questions, each with a long result of a tool."""
    get_hermes_home().mkdir(exist_ok=True)
    agent = AIAgent(
        model="m",
        provider="custom",
        base_url=model.base_url,
        api_key="k",
        enabled_toolsets=[],
        settings=SMALL,
        journal=StoreJournal(lambda: store, NewSession("talk")),
        status_callback=lambda notice: told.append(notice.text),
    )
    history: list[dict[str, Any]] = []
    for number in range(12):
        asked = {"id": f"c{number}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        history += [
            {"role": "user", "content": f"question {number}"},
            {"role": "assistant", "content": "", "tool_calls": [asked]},
            {"role": "tool", "tool_call_id": f"c{number}", "content": f"result {number} " + "x" * 2000},
            {"role": "assistant", "content": f"answer {number}"},
        ]
    agent.run_conversation("question 12", conversation_history=history)
    model.requests.clear()
    return agent


def hang_in_summary(request: bytes) -> Iterator[bytes | None]:
    return (silent() if SUMMARY in request else answer("hello"))(request)


def is_summarising(model: MoodyModel) -> bool:
    return any(SUMMARY in request for request in model.requests)


def test_the_tries_of_a_summary_share_one_clock(
    agent: AIAgent, model: MoodyModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C11: a server that fails and then says nothing does not get its whole patience once more."""
    monkeypatch.setattr(rules, "TurnLimits", partial(rules.TurnLimits, longest_retry=2.0))
    model.mood = lambda request: (fail(503) if len(model.requests) == 1 else silent())(request)
    with pytest.raises(ModelFailure, match="the longest for one step"):
        agent._summarise("sum it up", 100)
    assert len(model.requests) == 2


# --- stopped


def test_a_stop_during_a_summary_changes_nothing(agent: AIAgent, model: MoodyModel) -> None:
    """C4, E1, E3: neither messages nor results nor the session are other than before; nothing is paid after it."""
    before, session = agent.messages, agent.session_id
    model.mood = hang_in_summary
    box: list[BaseException] = []

    def compress() -> None:
        try:
            agent.compress_now()
        except Interrupted as stop:
            box.append(stop)

    thread = threading.Thread(target=compress, daemon=True)
    thread.start()
    wait_until(lambda: is_summarising(model))
    agent.interrupt("stopped by a test")
    thread.join(20)
    assert [str(stop) for stop in box] == ["stopped by a test"]
    assert (agent.messages, agent.session_id) == (before, session)
    assert len(model.requests) == 1
    model.mood = answer("hello")
    assert agent.run_conversation("again")["final_response"] == "hello"


def test_a_stop_during_a_summary_of_a_turn_ends_the_turn(agent: AIAgent, model: MoodyModel) -> None:
    """C4, E1: the message that was on its way stands in the transcript, and all older results are whole."""
    before = agent.messages
    model.mood = hang_in_summary
    agent.context_compressor.threshold_tokens = 10
    box: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: box.append(agent.run_conversation("go on")), daemon=True)
    thread.start()
    wait_until(lambda: is_summarising(model))
    agent.interrupt()
    thread.join(20)
    assert box[0]["interrupted"] is True
    assert agent.messages[: len(before)] == before
    assert agent.messages[len(before)]["content"].startswith("go on")
    assert len(model.requests) == 1


# --- failing


def test_a_summary_that_fails_once_is_tried_again(agent: AIAgent, model: MoodyModel, told: list[str]) -> None:
    """E3: one 503 is no reason to go without."""
    tries = iter([fail(503), answer("what was said before")])
    model.mood = lambda request: next(tries)(request)
    changed = agent.compress_now()
    assert changed is not None
    assert changed[1] < changed[0]
    assert any("what was said before" in str(message["content"]) for message in agent.messages)
    assert not any("could not be summarised" in text for text in told)


def test_a_summary_that_nobody_writes_is_told_once_and_drops_nothing(
    agent: AIAgent, model: MoodyModel, told: list[str], store: Store
) -> None:
    """E1, E3: what is sent of an old result says where the whole of it is."""
    before, session = agent.messages, agent.session_id
    model.mood = fail(401)
    agent.compress_now()
    agent.compress_now()
    assert sum("could not be summarised" in text for text in told) == 1
    assert [message["role"] for message in agent.messages] == [message["role"] for message in before]
    cut = [message["content"] for message in agent.messages if message["role"] == "tool"]
    assert cut[0].endswith(f"[… shortened to save room; the whole is kept: {session} …]")
    assert [row.message for row in store.said(session)] == before


class Broken(ContextEngine):
    """Somebody's engine that fails wherever it is asked."""

    threshold_tokens = 1
    context_length = 100_000

    def __init__(self, compressed: Any = None) -> None:
        self.compressed = compressed
        self.asked = 0

    @property
    def name(self) -> str:
        return "broken"

    def update_from_response(self, usage: dict[str, Any]) -> None:
        raise ValueError("no counts today")

    def should_compress(self, prompt_tokens: int | None = None) -> bool:
        return True

    def compress(self, messages: list[dict[str, Any]], *args: Any, **more: Any) -> list[dict[str, Any]]:
        self.asked += 1
        if self.compressed is None:
            messages[0]["content"] = "spoilt"
            raise SystemExit("this engine gives up")
        return self.compressed(messages)  # type: ignore[no-any-return]


def without_newest(messages: list[dict[str, Any]]) -> list[dict[str, Any]]:
    asked = [place for place, message in enumerate(messages) if message["role"] == "user"]
    return messages[: asked[-1]][:3]


@pytest.mark.parametrize(
    "compressed",
    [None, without_newest, lambda messages: 7, lambda messages: ["no message"]],
    ids=["raises", "drops the newest request", "gives a number", "gives words"],
)
def test_an_engine_that_fails_blocks_nothing(
    agent: AIAgent, model: MoodyModel, told: list[str], compressed: Any
) -> None:
    """E3, E7, H8: the built-in one stands in, the person is told once, and every message is answered."""
    engine = Broken(compressed)
    agent.context_compressor = engine
    model.mood = lambda request: iter([HEAD + say("a summary" if SUMMARY in request else "fine") + end()])
    for number in range(3):
        result = agent.run_conversation(f"and now {number}")
        assert result["final_response"] == "fine", result
        sent = [request for request in model.requests if SUMMARY not in request][-1]
        assert f"and now {number}".encode() in sent
        assert b"spoilt" not in sent
    assert engine.asked >= 3
    assert sum("The context engine" in text for text in told) == 1
    assert any("Nothing was dropped; the built-in one" in text for text in told)
    assert any("a summary" in str(message["content"]) for message in agent.messages)


# --- more than the window holds


def user(size: int, word: str = "u") -> dict[str, Any]:
    return {"role": "user", "content": word * size}


def round_of(*sizes: int) -> list[dict[str, Any]]:
    calls = [
        {"id": f"r{place}", "type": "function", "function": {"name": "look", "arguments": "{}"}}
        for place in range(len(sizes))
    ]
    results = [{"role": "tool", "tool_call_id": f"r{place}", "content": "r" * size} for place, size in enumerate(sizes)]
    return [{"role": "assistant", "content": "", "tool_calls": calls}, *results] if sizes else []


def check_calls(messages: list[dict[str, Any]]) -> None:
    waiting: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            waiting.remove(message["tool_call_id"])
        else:
            assert waiting == []
            waiting = [call["id"] for call in message.get("tool_calls", ())]
    assert waiting == []


SIZES = st.integers(min_value=0, max_value=20_000)


@settings(max_examples=150)
@given(
    rounds=st.lists(st.tuples(SIZES, st.lists(SIZES, max_size=4), SIZES), max_size=12),
    newest=SIZES,
    last=st.lists(SIZES, max_size=4),
    room=st.integers(min_value=6_000, max_value=40_000),
)
def test_whatever_the_sizes_are_the_result_fits(
    rounds: list[tuple[int, list[int], int]], newest: int, last: list[int], room: int
) -> None:
    """E7, E8, E9, E10: by construction; the newest request is there, and calls have their results."""
    messages: list[dict[str, Any]] = []
    for asked, results, said in rounds:
        messages += [user(asked), *round_of(*results), {"role": "assistant", "content": "a" * said}]
    messages += [user(newest, "n"), *round_of(*last)]
    rows = [Row(message, position=place) for place, message in enumerate(messages)]
    fitted = shorten_rows(rows, room, "session")
    sent = [dict(row.message) for row in fitted]
    assert sum(map(rough_bytes, sent)) <= room
    check_calls(sent)
    asked_last = [message["content"] for message in sent if message["role"] == "user"][-1]
    assert asked_last.startswith("n" * min(newest, 200))
    for row in fitted:
        if row not in rows and row.shown:
            assert "the whole is kept: session, message" in str(row.message["content"])
            assert (
                row.shown
                == messages[int(row.message["content"].partition("session, message ")[2].split()[0])]["content"]
            )
    if sum(map(rough_bytes, messages)) <= room:
        assert fitted == rows


@pytest.fixture
def endless() -> Iterator[None]:
    """A tool whose result is longer than any window."""
    schema = {"description": "look", "parameters": {"type": "object", "properties": {}}}
    registry.register("look", "lab-tools", schema, lambda args: "r" * 100_000)
    yield
    registry.deregister("look")


def test_three_messages_of_a_quarter_and_a_round_of_half_a_window_are_answered(
    model: MoodyModel, told: list[str], endless: None
) -> None:
    """E8, E9, E10: 1.25 windows, all of it protected. The server refuses what is longer than four bytes a token."""
    window = 8192
    too_long = b'{"error": {"code": "context_length_exceeded", "message": "maximum context length"}}'
    head = f"HTTP/1.1 400 X\r\nContent-Type: application/json\r\nContent-Length: {len(too_long)}\r\n\r\n".encode()

    def judge(request: bytes) -> Iterator[bytes | None]:
        return iter([head + too_long]) if len(request) > window * 4 else answer("fine")(request)

    model.mood = call_once(("look", {}), ("look", {}), then=judge)
    get_hermes_home().mkdir(exist_ok=True)
    agent = AIAgent(
        model="m",
        provider="custom",
        base_url=model.base_url,
        api_key="k",
        enabled_toolsets=["lab-tools"],
        context_length=window,
        settings=SMALL,
        status_callback=lambda notice: told.append(notice.text),
    )
    yes = {"role": "assistant", "content": "yes"}
    result = agent.run_conversation("c" * 7800, conversation_history=[user(7900, "a"), yes, user(7900, "b"), yes])
    assert result["final_response"] == "fine", result["error"]
    sent = [message["content"] for message in json.loads(model.requests[-1])["messages"]]
    assert [text[:100] for text in sent[1:6:2]] == ["a" * 100, "b" * 100, "c" * 100]
    assert all("the whole is kept" in text for text in sent[-2:])


def test_who_writes_more_than_fits_is_told(model: MoodyModel, told: list[str]) -> None:
    """E8."""
    get_hermes_home().mkdir(exist_ok=True)
    agent = AIAgent(
        model="m",
        provider="custom",
        base_url=model.base_url,
        api_key="k",
        enabled_toolsets=[],
        context_length=8192,
        status_callback=lambda notice: told.append(notice.text),
    )
    agent.run_conversation("short")
    assert told == []
    agent.run_conversation("long " * 5000)
    assert sum("quarter of the model's window" in text for text in told) == 1
