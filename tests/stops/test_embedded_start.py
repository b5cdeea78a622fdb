"""The built-in model's start: it has a limit, a stop is heard while it lasts, and nobody else waits for it."""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from built_in_model import end_built_in_model
from moody_model import MoodyModel, answer, fail, hang_up
from waiting import wait_until

from agent.providers import embedded
from agent.providers.health import health
from hermes_base.errors import Concern, ConfigProblem, Interrupted
from hermes_base.turn.cancel import CancelToken
from hermes_constants import get_hermes_home
from run_agent import AIAgent

SILENT = "#!/bin/sh\nprintf x >> {noted}\nwhile read line; do :; done\n"
GOOD = """#!/bin/sh
echo '{{"base_url": "http://127.0.0.1:9/v1", "api_key": "k"}}'
while read line; do :; done
"""
SERVING = """#!/bin/sh
echo '{{{{"base_url": "{address}", "api_key": "k"}}}}'
while read line; do :; done
"""


class Engine:
    """What is started in the place of the built-in model: a real process."""

    def __init__(self, folder: Path) -> None:
        self.noted = folder / "starts"
        self.program = folder / "engine"

    def write(self, script: str) -> None:
        self.program.unlink(missing_ok=True)
        self.program.write_text(script.format(noted=self.noted))
        self.program.chmod(0o755)

    @property
    def starts(self) -> int:
        return len(self.noted.read_text()) if self.noted.exists() else 0


@pytest.fixture(autouse=True)
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Engine]:
    """It is installed, it starts, and it never says that it is ready."""
    made = Engine(tmp_path)
    made.write(SILENT)
    monkeypatch.setattr(embedded, "is_installed", lambda: True)
    monkeypatch.setattr(embedded, "sys", SimpleNamespace(executable=str(made.program)))
    monkeypatch.setattr(embedded, "_starts", [], raising=False)
    yield made
    end_built_in_model()


def test_a_start_that_does_not_end_is_given_up_and_can_be_tried_again(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """H8."""
    monkeypatch.setattr(embedded, "START_SECONDS", 0.5, raising=False)
    with pytest.raises(ConfigProblem, match="did not start"):
        embedded.ensure_started()
    monkeypatch.setattr(embedded, "START_SECONDS", 60.0, raising=False)
    engine.write(GOOD)
    server = embedded.ensure_started()
    assert embedded.ensure_started() is server


def test_who_is_stopped_waits_no_longer_and_the_others_go_on_waiting(engine: Engine) -> None:
    """C4: one start for all, and no lock around it."""
    ended: list[BaseException] = []
    stopped, other = CancelToken(), CancelToken()

    def wait(cancel: CancelToken) -> None:
        try:
            embedded.ensure_started(cancel)
        except Interrupted as stop:
            ended.append(stop)

    threads = [threading.Thread(target=wait, args=(cancel,), daemon=True) for cancel in (stopped, other)]
    for thread in threads:
        thread.start()
    wait_until(lambda: engine.starts > 0)
    stopped.cancel()
    threads[0].join(20)
    assert len(ended) == 1
    assert threads[1].is_alive()
    other.cancel()
    threads[1].join(20)
    assert engine.starts == 1


def test_a_stop_is_heard_by_a_turn_that_waits_for_it_and_other_conversations_are_answered(engine: Engine) -> None:
    """C4, H8."""
    get_hermes_home().mkdir(exist_ok=True)
    waiting = AIAgent(provider="embedded", enabled_toolsets=[])
    box: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: box.append(waiting.run_conversation("hi")), daemon=True)
    thread.start()
    wait_until(lambda: engine.starts > 0)
    with MoodyModel() as model:
        other = AIAgent(model="m", provider="custom", base_url=model.base_url, api_key="k", enabled_toolsets=[])
        assert other.run_conversation("hi")["final_response"] == "hello"
    waiting.interrupt()
    thread.join(20)
    assert box[0]["interrupted"] is True
    assert [message["role"] for message in waiting.messages] == ["user", "assistant"]


def test_a_stop_is_heard_by_a_turn_that_begins_on_the_built_in_model_as_a_fallback(engine: Engine) -> None:
    """C4: the first choice failed a moment ago."""
    get_hermes_home().mkdir(exist_ok=True)
    agent = AIAgent(
        model="m",
        base_url="http://127.0.0.1:9/v1",
        api_key="k",
        enabled_toolsets=[],
        fallback_model={"provider": "embedded"},
    )
    health.insist(agent.runtime).failed(Concern.MODEL)
    box: list[dict[str, Any]] = []
    thread = threading.Thread(target=lambda: box.append(agent.run_conversation("hi")), daemon=True)
    thread.start()
    wait_until(lambda: engine.starts > 0)
    agent.interrupt("stopped by Ann")
    thread.join(20)
    assert box[0]["interrupted"] is True
    assert [message["role"] for message in agent.messages] == ["user", "assistant"]


def kill_engine() -> None:
    server = embedded.ensure_started()
    server.process.kill()
    server.process.wait()


def test_a_built_in_model_that_died_is_started_anew_for_the_next_turn(engine: Engine) -> None:
    """C2, D2: a warm agent asks the one that runs now, at its new address."""
    get_hermes_home().mkdir(exist_ok=True)
    with MoodyModel() as first, MoodyModel() as second:
        engine.write(SERVING.format(address=first.base_url))
        agent = AIAgent(provider="embedded", enabled_toolsets=[])
        assert agent.run_conversation("hi")["completed"] is True
        first.mood, second.mood = hang_up, answer("anew")
        engine.write(SERVING.format(address=second.base_url))
        kill_engine()
        assert agent.run_conversation("hi again")["final_response"] == "anew"
        assert len(first.requests) == 1


def test_a_built_in_model_that_dies_in_a_turn_is_started_anew_for_the_last_try(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """C2: the new connection goes to where it is served now."""
    get_hermes_home().mkdir(exist_ok=True)
    monkeypatch.setattr("run_agent.runtime_switch.LONGEST_RECOVERY_PAUSE", 0)
    with MoodyModel() as first, MoodyModel() as second:
        engine.write(SERVING.format(address=first.base_url))
        agent = AIAgent(provider="embedded", enabled_toolsets=[])
        died: list[bool] = []

        def die(request: bytes) -> Iterator[bytes | None]:
            if not died:
                died.append(True)
                engine.write(SERVING.format(address=second.base_url))
                kill_engine()
            return hang_up(request)

        first.mood, second.mood = die, answer("anew")
        assert agent.run_conversation("hi")["final_response"] == "anew"


def test_a_built_in_model_that_died_under_a_fallback_is_had_again_where_it_is_now(engine: Engine) -> None:
    """D3: the first choice comes back with its new address, not with the one it had."""
    get_hermes_home().mkdir(exist_ok=True)
    with MoodyModel() as first, MoodyModel() as second, MoodyModel() as other:
        engine.write(SERVING.format(address=first.base_url))
        stand_in = {"provider": "custom", "model": "m", "base_url": other.base_url, "api_key": "k"}
        agent = AIAgent(provider="embedded", enabled_toolsets=[], fallback_model=stand_in)
        first.mood, second.mood, other.mood = fail(404), answer("anew"), answer("stand-in")
        assert agent.run_conversation("hi")["final_response"] == "stand-in"
        engine.write(SERVING.format(address=second.base_url))
        kill_engine()
        health.forget()
        assert agent.run_conversation("hi again")["final_response"] == "anew"
