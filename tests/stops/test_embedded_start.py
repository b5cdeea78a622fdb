"""The built-in model's start: it has a limit, a stop is heard while it lasts, and nobody else waits for it."""

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from moody_model import MoodyModel
from waiting import wait_until

from agent import embedded
from hermes_base.cancel import CancelToken
from hermes_base.errors import ConfigProblem, Interrupted
from hermes_constants import get_hermes_home
from run_agent import AIAgent

SILENT = "#!/bin/sh\nprintf x >> {noted}\nwhile read line; do :; done\n"
GOOD = """#!/bin/sh
echo '{{"base_url": "http://127.0.0.1:9/v1", "api_key": "k"}}'
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
def engine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Engine:
    """It is installed, it starts, and it never says that it is ready."""
    made = Engine(tmp_path)
    made.write(SILENT)
    monkeypatch.setattr(embedded, "is_installed", lambda: True)
    monkeypatch.setattr(embedded, "sys", SimpleNamespace(executable=str(made.program)))
    monkeypatch.setattr(embedded, "_starts", [], raising=False)
    return made


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
    server.process.kill()
    server.process.wait()


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
