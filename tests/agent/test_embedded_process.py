"""The built-in model lives in a process of its own, which nobody has to clean up after."""

import json
import os
import signal
import subprocess
import sys
import urllib.request

import pytest
from waiting import wait_until

from agent import embedded

pytestmark = pytest.mark.skipif(not embedded.is_installed(), reason="the built-in model is not installed")
STARTED = "from agent import embedded; s = embedded.ensure_started(); print(s.process.pid, flush=True); input()"


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def list_models(server: embedded.EmbeddedServer) -> list[str]:
    request = urllib.request.Request(f"{server.base_url}/models", headers={"Authorization": f"Bearer {server.api_key}"})
    with urllib.request.urlopen(request, timeout=30) as answer:
        return [model["id"] for model in json.load(answer)["data"]]


def test_one_that_died_is_started_anew() -> None:
    first = embedded.ensure_started()
    assert embedded.ensure_started() is first
    first.process.send_signal(signal.SIGKILL)
    first.process.wait()
    second = embedded.ensure_started()
    assert second.process.pid != first.process.pid
    assert list_models(second) == ["SmolLM2-135M-Instruct"]


def test_it_ends_with_whoever_started_it() -> None:
    """Also when that one is killed."""
    with subprocess.Popen([sys.executable, "-c", STARTED], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as owner:
        assert owner.stdout is not None
        pid = int(owner.stdout.readline())
        assert is_alive(pid)
        owner.kill()
    wait_until(lambda: not is_alive(pid))
