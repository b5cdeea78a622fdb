"""What the hands cost: the prompt with and without tools of others, and one call of each kind, all on loopback.

A gateway that uses none of them has the rows of a turn and of a message, whose limits they must not move.
"""

import json
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from benches.measure import Figure
from hermes_base.setting_table import read_settings
from hermes_base.turn.hooks import NoHooks
from hermes_base.turn.tool_context import ToolContext
from run_agent import AIAgent
from tools.builtin.web_extract_tool import extract_page
from tools.mcp import mcp_host
from tools.registry import registry
from tools.shell.sandbox import is_bubblewrap_usable
from tools.terminal_tool import cleanup_vm, run_terminal

TIMES = 15
TOOLS = 100
#: A server of tools in as few lines as one can be.
SERVER = """
import json, sys
tools = [{"name": f"thing_{n}", "description": "Does something with the things of the house. " * 3,
          "inputSchema": {"type": "object", "properties": {"field": {"type": "string"}}}}
         for n in range(int(sys.argv[1]))]
welcome = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
answers = {"initialize": welcome, "ping": {}, "tools/list": {"tools": tools},
           "tools/call": {"content": [{"type": "text", "text": "fine"}]}}
for line in sys.stdin:
    request = json.loads(line)
    if "id" in request and request.get("method") in answers:
        told = {"jsonrpc": "2.0", "id": request["id"], "result": answers[request["method"]]}
        sys.stdout.write(json.dumps(told) + chr(10)); sys.stdout.flush()
"""
PAGE = (
    "<title>Page</title><main>" + "<h2>Part</h2><p>A few words with a <a href='/x'>link</a>.</p>" * 40 + "</main>"
).encode()


def measure_hands(base_url: str) -> list[Figure]:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        return [
            *measure_prompts(base_url, work),
            Figure("web_extract of a small page, wall", _time_page(work), "ms", 400.0),
            *measure_command(work),
        ]


def measure_prompts(base_url: str, folder: Path) -> list[Figure]:
    """System prompt and tools as the first request carries them; then one call of a server's tool."""
    servers = {"x": {"command": sys.executable, "args": ["-c", SERVER, str(TOOLS)], "trust": True}}
    settings = read_settings({"mcp_servers": servers})
    try:
        alone = _prompt_bytes(base_url, ["hermes-cli"], {})
        many = _prompt_bytes(base_url, ["hermes-cli", "mcp-x"], {"mcp_servers": servers})
        context = ToolContext(task="bench", folder=str(folder), settings=settings)
        call = lambda: registry.dispatch("mcp_x_thing_7", {"field": "x"}, context=context)  # noqa: E731
        assert "fine" in call()
        spent = _median_ms(call)
    finally:
        mcp_host.close_all()
    return [
        Figure("prompt and default tools", alone / 1024, "KB", 12.0),
        Figure(f"the same with {TOOLS} tools of an MCP server", many / 1024, "KB", 16.0),
        Figure("a call of an MCP tool, wall", spent, "ms", 20.0),
    ]


def _prompt_bytes(base_url: str, toolsets: list[str], settings: dict[str, Any]) -> int:
    agent = AIAgent(
        base_url=base_url,
        model="bench",
        api_key="bench-key",
        hooks=NoHooks(),
        enabled_toolsets=toolsets,
        skip_context_files=True,
        settings=settings,
    )
    agent.run_conversation("hi")
    conversation = agent._conversation
    assert conversation is not None
    sizes = [len(body) for (_, dialect), body in conversation.frozen.items() if not dialect.startswith("neutral")]
    agent.close()
    return sum(sizes)


def _time_page(folder: Path) -> float:
    """Fetched anew each time, and read in a process of its own."""
    with _serve() as port:
        settings = read_settings({"network": {"private": ["127.0.0.1"]}})
        context = ToolContext(task="bench", folder=str(folder), settings=settings)
        numbers = iter(range(10_000))
        return _median_ms(lambda: extract_page({"url": f"http://127.0.0.1:{port}/{next(numbers)}"}, context=context))


def measure_command(folder: Path) -> list[Figure]:
    """The whole tool: judged, run behind walls, read back."""
    if not is_bubblewrap_usable():
        return []
    settings = read_settings({"terminal": {"backend": "bubblewrap"}})
    context = ToolContext(task="bench-hands", folder=str(folder), settings=settings)
    try:
        spent = _median_ms(lambda: json.loads(run_terminal({"command": "ls"}, context=context)))
    finally:
        cleanup_vm("bench-hands")
    return [Figure("a command in the sandbox, from call to result, wall", spent, "ms", 60.0)]


def _median_ms(work: Callable[[], Any]) -> float:
    work()
    spent = []
    for _ in range(TIMES):
        began = time.perf_counter()
        work()
        spent.append(time.perf_counter() - began)
    return 1000 * statistics.median(spent)


class _PageHandler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        for name, value in (("content-type", "text/html"), ("content-length", str(len(PAGE)))):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(PAGE)

    def log_message(self, *_: Any) -> None:
        """Nobody reads it."""


@contextmanager
def _serve() -> Iterator[int]:
    with ThreadingHTTPServer(("127.0.0.1", 0), _PageHandler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        try:
            yield int(server.server_address[1])
        finally:
            server.shutdown()
            thread.join()
