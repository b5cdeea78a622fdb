"""G13: profiles of one home run side by side, and nothing of one is found in the other."""

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2
import pytest

from gateway.http import access
from hermes_lab.server import LabServer

HERMES = str(Path(sys.executable).with_name("hermes"))
ADDRESS = re.compile(r"http://[^/]+")


@dataclass(frozen=True, slots=True)
class Running:
    address: str
    token: str

    def ask(self, text: str) -> str:
        asked = {"model": "hermes", "messages": [{"role": "user", "content": text}]}
        answer = self.call("POST", "/v1/chat/completions", asked)
        return str(answer["choices"][0]["message"]["content"])

    def call(self, method: str, path: str, body: Any = None, token: str = "") -> Any:
        headers = {"Authorization": f"Bearer {token or self.token}"}
        answer = httpx2.request(method, self.address + path, json=body, headers=headers, timeout=30)
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextmanager
def run_profile(root: Path, name: str, base_url: str) -> Iterator[Running]:
    home = root if name == "default" else root / "profiles" / name
    home.mkdir(parents=True, exist_ok=True)
    (home / "config.yaml").write_text(json.dumps({"model": {"base_url": base_url, "default": "lab"}}))
    with subprocess.Popen(
        [HERMES, "--profile", name, "gateway", "run"],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "HERMES_HOME": str(root)},
    ) as child:
        try:
            assert child.stdout is not None
            found = next(found for line in child.stdout if (found := ADDRESS.search(line)))
            yield Running(found[0], access.read_token(home))
        finally:
            child.terminate()


@pytest.mark.slow
def test_two_profiles_run_side_by_side(home: Path, lab: LabServer) -> None:
    """G13: store, address, token, conversations and keys of a profile are its own."""
    with run_profile(home, "default", lab.base_url) as first, run_profile(home, "work", lab.base_url) as second:
        assert first.address != second.address
        assert first.token != second.token
        assert first.ask("[[say mine]]") == "mine"
        assert second.ask("[[say theirs]]") == "theirs"
        for running, prefix, said in ((first, "agent:main:", "mine"), (second, "agent:work:", "theirs")):
            sessions = running.call("GET", "/v1/sessions")["data"]
            assert len(sessions) == 1
            assert sessions[0]["conversation"].startswith(prefix)
            assert said in json.dumps(running.call("GET", f"/v1/sessions/{sessions[0]['id']}/messages"))
        refused = httpx2.get(f"{second.address}/v1/models", headers={"Authorization": f"Bearer {first.token}"})
        assert refused.status_code == 401
    assert (home / "web-token").read_text() != (home / "profiles" / "work" / "web-token").read_text()
