"""What a turn costs does not grow with what was said before; counted in function calls, the same on every machine."""

import cProfile
import gc
import pstats
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from fresh_store import fresh_store

from hermes_base.turn.journal import Row
from hermes_state.store import NewSession
from hermes_state.store_journal import StoreJournal

SHORT, LONG = 20, 2_000  # messages
SLACK = 300  # calls


def count_calls(work: Callable[[], object]) -> int:
    profile = cProfile.Profile()
    gc.collect()
    gc.disable()  # what earlier tests left behind is no part of the work
    try:
        profile.runcall(work)
    finally:
        gc.enable()
    return int(pstats.Stats(profile).total_calls)  # type: ignore[attr-defined]


@pytest.fixture
def long_talk(make_agent: Any, tmp_path: Path) -> Any:
    """An agent that is warm, in a stored conversation of so many messages."""

    def make(messages: int) -> Any:
        store = fresh_store(path=tmp_path / f"{messages}.db")
        agent = make_agent(journal=StoreJournal(lambda: store, NewSession("c")), context_length=10_000_000)
        said = [Row({"role": role, "content": "so many words"}) for role in ("user", "assistant")] * (messages // 2)
        agent.journal.load()
        agent.journal.append(said)
        store.rebuild_search()  # so that no batch falls into what is counted
        agent.run_conversation("[[say warm]]")
        agent.run_conversation("[[say warm]]")
        return agent

    return make


def test_a_turn_does_not_look_through_what_was_said(long_talk: Any) -> None:
    """The cheapest of three turns: an answer that comes in more pieces, or on a new connection, costs more calls."""
    short, long = (
        min(count_calls(partial(agent.run_conversation, "[[say hi]]")) for _ in range(3))
        for agent in map(long_talk, (SHORT, LONG))
    )
    assert long < short + SLACK


def test_taking_back_reads_only_what_is_taken_back(long_talk: Any) -> None:
    short, long = (count_calls(agent.take_back_last_turn) for agent in map(long_talk, (SHORT, LONG)))
    assert long < short + 4 * LONG  # the marks of what stays are looked at; no row of the store is
