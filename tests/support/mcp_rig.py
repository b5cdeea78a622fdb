"""Servers of tools as real processes, and homes that use them."""

import base64
import json
import os
import socket
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hermes_base.chat import Answer, Question
from hermes_base.setting_table import read_settings
from hermes_base.settings import Settings
from hermes_base.turn.tool_context import ToolContext
from hermes_lab.ports import free_ports
from tools.mcp import mcp_host, mcp_tools
from tools.registry import registry

SERVER = Path(__file__).with_name("mcp_server.py")
PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)

#: Answers each request with what `ANSWERS` says of its method; a callable is given the request.
PLAIN = """
import json, sys
def send(value): sys.stdout.write(json.dumps(value) + "\\n"); sys.stdout.flush()
def answer(request, result): send({"jsonrpc": "2.0", "id": request["id"], "result": result})
WELCOME = {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "x", "version": "1"}}
ANSWERS = {"initialize": WELCOME, "ping": {}}
TOOLS = [{"name": "one", "inputSchema": {"type": "object"}}]
ANSWERS["tools/list"] = lambda request: {"tools": TOOLS}
ANSWERS["tools/call"] = lambda request: {"content": [{"type": "text", "text": "fine"}]}
BEFORE
for line in sys.stdin:
    request = json.loads(line)
    if "id" not in request or "method" not in request: continue
    found = ANSWERS.get(request["method"])
    if found is None: continue
    answer(request, found(request) if callable(found) else found)
"""


#: Two tools of the test server, without the second of processor time that the official SDK takes to begin.
LIGHT = """
def tool(name, does, **fields):
    schema = {"type": "object", "properties": fields, "required": [*fields]}
    return {"name": name, "description": does, "inputSchema": schema}
NUMBER, TEXT = {"type": "integer"}, {"type": "string"}
TOOLS = [tool("add", "Add two numbers.", a=NUMBER, b=NUMBER), tool("say", "Say a text back.", text=TEXT)]
DONE = {"add": lambda a, b: a + b, "say": lambda text: text}
def call(request):
    said = DONE[request["params"]["name"]](**request["params"]["arguments"])
    return {"content": [{"type": "text", "text": str(said)}]}
ANSWERS["tools/call"] = call
"""


class McpHouse:
    """A home with servers, and a turn in it."""

    def __init__(self, home: Path, servers: dict[str, Any], **others: Any) -> None:
        self.home = home
        self.settings: Settings = read_settings({"mcp_servers": servers, **others})
        self.questions: list[Question] = []
        self.words: list[str] = []  # what the person answers, one after the other; then "approve"
        self.moves = 0
        self.missing = mcp_tools.offer_tools(self.settings, home)

    def context(self, **facts: Any) -> ToolContext:
        given = {"asker": self.answer, "note_activity": self.note_move, **facts}
        return ToolContext(home=self.home, task="a-task", settings=self.settings, **given)

    def answer(self, question: Question) -> Answer:
        self.questions.append(question)
        word = self.words.pop(0) if self.words else "approve"
        return Answer(word, given=word != "(silence)")

    def note_move(self) -> None:
        self.moves += 1

    def call(self, name: str, args: dict[str, Any] | None = None, **facts: Any) -> str:
        return registry.dispatch(name, args or {}, context=self.context(**facts))

    def fails(self, name: str, args: dict[str, Any] | None = None, **facts: Any) -> str:
        value = json.loads(self.call(name, args, **facts))
        assert set(value) == {"error"}, value
        return str(value["error"])


def stdio(*args: str, **fields: Any) -> dict[str, Any]:
    """The entry of a server that is a program of ours."""
    return {"command": sys.executable, "args": [str(SERVER), "stdio", *args], "trust": True, **fields}


def script(text: str, **fields: Any) -> dict[str, Any]:
    """The entry of a server that is a few lines of Python."""
    return {"command": sys.executable, "args": ["-c", text], "trust": True, **fields}


def hostile(before: str, **fields: Any) -> dict[str, Any]:
    """The entry of a server that answers, but as these lines say."""
    return script(PLAIN.replace("BEFORE", before), **fields)


def light(**fields: Any) -> dict[str, Any]:
    """The entry of a server that adds and says, for tests that are not about servers."""
    return hostile(LIGHT, **fields)


def end_all() -> None:
    """End all servers, and forget what they brought."""
    mcp_host.close_all()
    for toolset in [name for name in registry.toolsets() if name.startswith("mcp")]:
        for name in registry.names(toolset):
            registry.deregister(name)
    mcp_tools._registered.clear()


class RemoteServer:
    """The server behind an address of this machine."""

    def __init__(self, way: str, program: Sequence[str] = ()) -> None:
        """`program`: another one, which is told its port by the variable PORT."""
        (self.port,) = free_ports(1)
        self.way, self.program = way, program
        self.process: subprocess.Popen[bytes] | None = None
        self.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/{'mcp' if self.way == 'http' else 'sse'}"

    def start(self) -> None:
        words = self.program or (sys.executable, str(SERVER), self.way, str(self.port))
        environment = {**os.environ, "PORT": str(self.port)}
        quiet = subprocess.DEVNULL
        self.process = subprocess.Popen(words, stdin=quiet, stdout=quiet, stderr=quiet, env=environment)
        while True:
            assert self.process.poll() is None
            try:
                socket.create_connection(("127.0.0.1", self.port), 1).close()
                return
            except OSError:
                self.pause()

    def pause(self) -> None:
        assert self.process is not None
        try:
            self.process.wait(0.05)
        except subprocess.TimeoutExpired:
            return

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()
