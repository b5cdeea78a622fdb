"""H1: from an empty home to the first answer on the page, without a question and without a key."""

import os
import re
import subprocess
import sys
from pathlib import Path

import httpx2
import pytest

from agent.providers import embedded

HERMES = str(Path(sys.executable).with_name("hermes"))
ADDRESS = re.compile(r"http://\S+\?token=\S+")
pytestmark = pytest.mark.skipif(not embedded.is_installed(), reason="the built-in model is not installed")


@pytest.mark.slow
@pytest.mark.timeout(600)  # a whole model computes here: on a busy machine that takes its time
def test_the_printed_address_is_answered_by_the_built_in_model(home: Path) -> None:
    """H1: the address that is printed to a terminal opens the page, and what is said there is answered."""
    environment = {**os.environ, "HERMES_HOME": str(home)}
    screen, terminal = os.openpty()
    with open(screen) as shown, subprocess.Popen([HERMES, "gateway", "run"], stdout=terminal, env=environment) as child:
        os.close(terminal)
        try:
            address = next(found[0] for line in shown if (found := ADDRESS.search(line)))
            url = address.partition("/?")[0]
            with httpx2.Client(base_url=url, headers={"Origin": url}, timeout=300, follow_redirects=True) as page:
                assert "<html" in page.get(address).text
                me = page.get("/web/me").json()
                assert me["needs_setup"]
                assert me["model"]["built_in"]
                talk = page.post("/web/threads", json={}).json()["conversation"]
                page.post("/web/say", json={"conversation": talk, "id": "1", "text": "Say hello.", "files": []})
                with page.stream("GET", "/web/live", params={"conversation": talk}) as live:
                    settled = next(line for line in live.iter_lines() if '"settled"' in line or '"assistant"' in line)
            assert "assistant" in settled
        finally:
            child.terminate()
    assert child.returncode == 0
