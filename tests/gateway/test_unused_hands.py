"""A gateway that uses neither the web nor a browser nor servers of tools does not carry them along (F4)."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from hermes_lab.server import LabServer

pytestmark = pytest.mark.slow
#: What reads pages, drives a browser, and speaks to servers of tools and to editors.
HANDS = {"mcp", "playwright", "lxml", "pypdf", "acp"}
#: A gateway of its own that answers a message with all the tools that are offered everywhere; what it has loaded then.
TURN = """
import sys
from hermes_cli.main import main
code = main(["-q", '[[tool terminal {"command": "echo made"}]]'])
print(*sorted({name.partition(".")[0] for name in sys.modules}), file=sys.stderr)
sys.exit(code)
"""


@pytest.mark.parametrize("used", [False, True])
def test_a_gateway_that_uses_none_of_it_loads_none_of_it(home: Path, lab: LabServer, used: bool) -> None:
    """F4: they are installed here, and a server of tools in the settings is the way to see that."""
    home.mkdir(exist_ok=True)
    missing = f"import {', '.join(sorted(HANDS))}"
    assert subprocess.run([sys.executable, "-c", missing], capture_output=True).returncode == 0, "or this says nothing"
    servers = {"t": {"command": sys.executable, "args": ["-c", ""], "connect_timeout": 5}} if used else {}
    settings = {"model": {"base_url": lab.base_url, "default": "lab"}, "approvals": {"mode": "auto"}}
    (home / "config.yaml").write_text(json.dumps({**settings, "mcp_servers": servers}))
    env = {**os.environ, "HERMES_HOME": str(home)}
    done = subprocess.run([sys.executable, "-c", TURN], env=env, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    loaded = set(done.stderr.splitlines()[-1].split())
    assert {"gateway", "run_agent", "tools"} <= loaded, "it was the gateway itself"
    tools = {tool["function"]["name"] for tool in lab.requests[0].json()["tools"]}
    assert {"terminal", "web_extract"} <= tools
    assert loaded & HANDS == ({"mcp"} if used else set())
