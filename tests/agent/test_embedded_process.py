"""The built-in model lives in a process of its own, which nobody has to clean up after."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from typing import Any

import pytest
from waiting import wait_until

from agent.providers import embedded

pytestmark = pytest.mark.skipif(not embedded.is_installed(), reason="the built-in model is not installed")
STARTED = (
    "from agent.providers import embedded; s = embedded.ensure_started(); print(s.process.pid, flush=True); input()"
)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def ask(server: embedded.EmbeddedServer, path: str, body: dict[str, Any] | None = None) -> Any:
    headers = {"Authorization": f"Bearer {server.api_key}", "Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(server.base_url + path, data, headers), timeout=100) as answer:
        return json.load(answer)


def list_models(server: embedded.EmbeddedServer) -> list[str]:
    return [model["id"] for model in ask(server, "/models")["data"]]


def test_one_that_died_is_started_anew() -> None:
    first = embedded.ensure_started()
    assert embedded.ensure_started() is first
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    second = embedded.ensure_started()
    assert second.process.pid != first.process.pid
    assert list_models(second) == ["SmolLM2-135M-Instruct"]


def test_it_does_not_repeat_itself_without_end() -> None:
    """Left alone it goes on with such a sentence as long as it may."""
    said = "the cat sat on the mat. "
    asked = {"prompt": said * 6, "max_tokens": 60, "temperature": 0}
    answer = ask(embedded.ensure_started(), "/completions", asked)["choices"][0]["text"]
    assert answer.lower().count(said.strip()) < 3


def test_it_begins_to_load_when_somebody_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(embedded, "_starts", [])
    embedded.start_soon()
    (start,) = embedded._starts
    assert embedded.ensure_started() is start.result()
    with start.result().process as process:
        process.kill()


def test_it_ends_with_whoever_started_it() -> None:
    """Also when that one is killed."""
    with subprocess.Popen([sys.executable, "-c", STARTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert is_alive(pid)
        owner.kill()
    wait_until(lambda: not is_alive(pid))
