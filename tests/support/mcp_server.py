"""A server of tools, written with the official SDK: `python mcp_server.py stdio|http|sse [port]`.

What it is asked to do wrong it does wrong; what it has seen it writes to the file that `SEEN` names.
"""

import asyncio
import base64
import os
import signal
import socket
import sys
from typing import Any

from mcp.server.fastmcp import Context, FastMCP, Image
from mcp.types import SamplingMessage, TextContent
from pydantic import BaseModel

PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
port = int(sys.argv[2]) if len(sys.argv) > 2 else 0
server = FastMCP("a test server", port=port, log_level="CRITICAL")


def note(text: str) -> None:
    path = os.environ.get("SEEN")
    if path:
        with open(path, "a", encoding="utf-8") as file:
            file.write(text + "\n")


note(f"start {os.getpid()}")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    note(f"add {a} {b}")
    return a + b


@server.tool()
def say(text: str) -> str:
    """Say a text back."""
    return text


@server.tool()
def dial(port: int) -> str:
    """Call a port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), 5).close()
    except OSError:
        return "not reached"
    return "reached"


@server.tool()
def variable(name: str) -> str:
    """A variable of the environment."""
    return os.environ.get(name, "(not set)")


@server.tool()
def environment() -> str:
    """All names of the environment."""
    return " ".join(sorted(os.environ))


@server.tool()
def picture() -> Image:
    """A small picture."""
    return Image(data=base64.b64decode(PIXEL), format="png")


@server.tool()
def long(characters: int) -> str:
    """A long text."""
    return "a" + "x" * (characters - 2) + "z"


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it went wrong")


@server.tool()
def die() -> str:
    """End in the middle of the call."""
    note("die")
    os.kill(os.getpid(), signal.SIGKILL)
    return "never"


@server.tool()
async def hang(context: Context[Any, Any, Any]) -> str:
    """Never answer."""
    note("hang")
    try:
        await asyncio.Event().wait()
    except asyncio.CancelledError:
        note("cancelled")
        raise
    return "never"


@server.tool()
async def work(steps: int, seconds: float, context: Context[Any, Any, Any]) -> str:
    """Work in steps, and tell of each."""
    for step in range(steps):
        await asyncio.sleep(seconds)
        await context.report_progress(step + 1, steps, f"step {step + 1}")
    return "done"


class Wish(BaseModel):
    colour: str


@server.tool()
async def ask(context: Context[Any, Any, Any]) -> str:
    """Ask the person for a colour."""
    answer = await context.elicit("Which colour?", Wish)
    return f"{answer.action}: {answer.data.colour if answer.action == 'accept' else ''}"


@server.tool()
async def write(tokens: int, context: Context[Any, Any, Any]) -> str:
    """Have the model write something."""
    content = TextContent(type="text", text="Write a line.")
    try:
        result = await context.session.create_message(
            [SamplingMessage(role="user", content=content)], max_tokens=tokens
        )
    except Exception as problem:
        return f"refused: {problem}"
    return f"the model wrote: {getattr(result.content, 'text', '')}"


@server.tool()
async def grow(context: Context[Any, Any, Any]) -> str:
    """Have one tool more."""
    server.add_tool(say, name="grown", description="It came later.")
    await context.session.send_tool_list_changed()
    return "grown"


@server.resource("note://one")
def one() -> str:
    """The first note."""
    return "what stands in the note"


@server.prompt()
def greet(name: str) -> str:
    """Greet somebody."""
    return f"Say hello to {name}."


if __name__ == "__main__":
    server.run({"stdio": "stdio", "http": "streamable-http", "sse": "sse"}[sys.argv[1]])
