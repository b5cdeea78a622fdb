"""`/stop` at every step of a turn, through a whole gateway: heard, nothing paid after it, and the chat goes on.

A turn that does not hear is left behind after `STOP_PATIENCE`. Here that is out of reach, so a step that is deaf fails.
"""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from house import House, Visitor
from moody_model import HEAD, SUMMARY, MoodyModel, answer, call_once, drip, fail, hang_up, say, silent
from waiting import wait_until

from gateway.platforms.pretend.service import PretendRules
from gateway.turns import lane
from gateway.turns.agent_builder import Builder
from hermes_state.sql.turns_sql import TurnStore
from tools.files import searching
from tools.process_registry import process_registry

DEAF_SECONDS = 600.0
SLEEP = ("terminal", {"command": "echo begun; sleep 600"})


@dataclass
class Stage:
    """A gateway with one person in a chat, and a model that does as it is told."""

    house: House
    model: MoodyModel
    person: Visitor
    monkeypatch: pytest.MonkeyPatch
    tmp: Path

    def waits_for(self, count: int) -> Callable[[], bool]:
        return lambda: len(self.model.requests) >= count


@pytest.fixture
def stage(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Stage]:
    monkeypatch.setattr(lane, "STOP_PATIENCE", DEAF_SECONDS)
    with MoodyModel() as model:
        settings: dict[str, Any] = {"pretend": {"owner": "ann"}}
        with House(home, model.base_url, PretendRules(), **settings) as house:
            yield Stage(house, model, house.person("ann"), monkeypatch, tmp_path)


# --- the steps: each brings the turn there, and says when it is there


def in_building(stage: Stage) -> Callable[[], bool]:
    """The agent is being built; it goes on when the stop has been taken."""
    begun, build = threading.Event(), Builder.build

    def slowly(self: Builder, *args: Any, **more: Any) -> Any:
        begun.set()
        lanes = stage.house.gateway.lanes.at_work
        wait_until(lambda: any(each.slot is not None and each.slot.stopping for each in list(lanes.values())))
        return build(self, *args, **more)

    stage.monkeypatch.setattr(Builder, "build", slowly)
    return begun.is_set


def in_connecting(stage: Stage) -> Callable[[], bool]:
    stage.monkeypatch.setattr("agent.http.clients.CONNECT_SECONDS", DEAF_SECONDS)
    stage.house.write_settings(model={"base_url": stage.model.deaf_url, "default": "lab"})
    before = set(threading.enumerate())
    return lambda: any(each.name == "connect" for each in {*threading.enumerate()} - before)


def in_head(stage: Stage) -> Callable[[], bool]:
    stage.model.mood = silent()
    return stage.waits_for(1)


def in_dripped_head(stage: Stage) -> Callable[[], bool]:
    stage.model.mood = drip
    return stage.waits_for(1)


def in_first_byte(stage: Stage) -> Callable[[], bool]:
    stage.model.mood = silent(HEAD)
    return stage.waits_for(1)


def in_stream(stage: Stage) -> Callable[[], bool]:
    stage.model.mood = silent(HEAD + say("half of "))
    return stage.waits_for(1)


def in_command(stage: Stage) -> Callable[[], bool]:
    stage.model.mood = call_once(SLEEP, then=answer("never"))
    return lambda: bool(process_registry.running())


def in_parallel_commands(stage: Stage) -> Callable[[], bool]:
    stage.model.mood = call_once(SLEEP, SLEEP, then=answer("never"))
    return lambda: bool(process_registry.running())


def in_search(stage: Stage) -> Callable[[], bool]:
    """A search whose program does not end."""
    program, begun = stage.tmp / "rg", stage.tmp / "begun"
    program.write_text(f"#!/bin/sh\necho > {begun}\nexec sleep 600\n")
    program.chmod(0o755)
    stage.monkeypatch.setattr(searching, "find_program", lambda name: str(program))
    stage.model.mood = call_once(("search_files", {"pattern": "x"}), then=answer("never"))
    return begun.exists


def in_approval(stage: Stage) -> Callable[[], bool]:
    stage.house.write_settings(approvals={"mode": "ask"})
    stage.model.mood = call_once(("terminal", {"command": "touch made"}), then=answer("never"))
    return lambda: any(message.question for message in stage.person.messages)


def in_pause(stage: Stage) -> Callable[[], bool]:
    """The first pause is a second, the second two: after the second call the turn is in one of them."""
    stage.model.mood = fail(503)
    return stage.waits_for(2)


def in_recovery(stage: Stage) -> Callable[[], bool]:
    for name in ("RECOVERY_PAUSE", "LONGEST_RECOVERY_PAUSE"):
        stage.monkeypatch.setattr(f"run_agent.runtime_switch.{name}", DEAF_SECONDS)
    stage.model.mood = hang_up
    return stage.waits_for(2)


def in_summary(stage: Stage) -> Callable[[], bool]:
    for number in range(8):
        stage.person.ask(f"before {number}")
    stage.model.requests.clear()
    stage.monkeypatch.setattr("agent.context_compressor.ContextCompressor.should_compress", lambda *_: True)
    stage.monkeypatch.setattr("agent.context_compressor._KEPT_USER_MESSAGES", 1)
    stage.monkeypatch.setattr("agent.context_compressor._tail_start", lambda messages, *_: len(messages) - 1)
    stage.model.mood = lambda request: (silent() if SUMMARY in request else answer("hello"))(request)
    return lambda: any(SUMMARY in request for request in stage.model.requests)


STEPS = (
    in_building,
    in_connecting,
    in_head,
    in_dripped_head,
    in_first_byte,
    in_stream,
    in_command,
    in_parallel_commands,
    in_search,
    in_approval,
    in_pause,
    in_recovery,
    in_summary,
)


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_a_stop_is_heard_at_every_step(stage: Stage, step: Callable[[Stage], Callable[[], bool]]) -> None:
    """C4, C6, D13: the turn ends and says who stopped it; nothing runs on or is paid; the next message is answered."""
    is_there = step(stage)
    stage.person.say("work")
    wait_until(is_there)
    before = len(stage.model.requests)
    stage.person.say("/stop")
    stage.person.wait_seen("Interrupted: stopped by Ann.")
    stage.house.wait_quiet()
    paid = len(stage.model.requests)
    assert paid == before or step is in_pause  # which may have been over before the stop came
    wait_until(lambda: not process_registry.running())
    stage.monkeypatch.undo()
    stage.monkeypatch.setenv("HERMES_HOME", str(stage.house.home))
    stage.house.write_settings(model={"base_url": stage.model.base_url, "default": "lab"})
    stage.model.mood = answer("back again")
    assert "back again" in stage.person.ask("next")[-1]
    assert len(stage.model.requests) == paid + 1


def test_a_stop_while_the_end_is_written_leaves_the_answer_whole(stage: Stage) -> None:
    """C4, C7: it was paid for, and it is there."""
    writing, written = threading.Event(), threading.Event()
    complete = TurnStore.complete

    def slowly(self: Any, claim: Any, seqs: Any, end: Any, *args: Any, **more: Any) -> Any:
        if end is not None:
            writing.set()
            assert written.wait(60)
        return complete(self, claim, seqs, end, *args, **more)

    stage.monkeypatch.setattr(TurnStore, "complete", slowly)
    stage.person.say("work")
    assert writing.wait(20)
    stage.person.say("/stop")
    wait_until(
        lambda: any(each.slot and each.slot.stopping for each in list(stage.house.gateway.lanes.at_work.values()))
    )
    written.set()
    stage.person.wait_seen("hello")
    stage.house.wait_quiet()
    assert stage.person.count("hello") == 1
    assert len(stage.model.requests) == 1


def test_a_stop_after_the_turn_changes_nothing(stage: Stage) -> None:
    """C5: the answer is on its way to a platform that is slow."""
    assert stage.person.ask("work") == ["hello"]
    assert "Nothing" in stage.person.ask("/stop")[-1]
    assert len(stage.model.requests) == 1


def test_a_stopped_compress_says_so(stage: Stage) -> None:
    """C4, E1: /compress is stopped like a turn, and what it had begun is nowhere."""
    is_there = in_summary(stage)
    stage.person.say("/compress")
    wait_until(is_there)
    stage.person.say("/stop")
    stage.person.wait_seen("Nothing was compacted, and nothing was changed.")
    stage.house.wait_quiet()
    assert len(stage.model.requests) == 1
    assert stage.person.count("Compacted from") == 0
