"""The doors of the MCP server: stdin and stdout, or HTTP on this machine alone with a key at every request."""

import asyncio
import json
import logging
import signal
import socket
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio
import mcp.types as types
import uvicorn
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from mcp.server.transport_security import TransportSecuritySettings
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from hermes_base.errors import HermesError
from hermes_cli.mcp_server.house_api import HouseApi, ProgramCaller
from hermes_cli.mcp_server.served_tools import ServedTool, offer, use
from hermes_constants import VERSION

log = logging.getLogger(__name__)

HOST, PATH = "127.0.0.1", "/mcp"
NO_KEY = "This needs a key: send `Authorization: Bearer KEY`. `hermes api-keys create` makes one."
INSTRUCTIONS = "Hermes is a person's own agent. Messages that you send are answered by it, with its tools and memory."


def make_server(house: HouseApi, key: str = "") -> "Server[Any, Any]":
    """`key`: of whoever speaks on stdio; over HTTP each request brings its own."""
    server: Server[Any, Any] = Server("hermes", VERSION, INSTRUCTIONS)

    async def find_caller() -> ProgramCaller:
        request = server.request_context.request
        given = read_key(request) if isinstance(request, Request) else key
        caller = await asyncio.to_thread(house.find_caller, given)
        if caller is None:
            raise HermesError("This key does not hold.", fix="`hermes api-keys list` shows those that do.")
        return caller

    @server.list_tools()  # type: ignore[no-untyped-call, untyped-decorator]
    async def list_tools() -> list[types.Tool]:
        return [describe_tool(tool) for tool in offer(await find_caller())]

    @server.call_tool()  # type: ignore[untyped-decorator]
    async def call_tool(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
        told = await use(house, await find_caller(), name, arguments)
        return [types.TextContent(type="text", text=json.dumps(told, ensure_ascii=False))]

    return server


def describe_tool(tool: ServedTool) -> types.Tool:
    hints = types.ToolAnnotations(readOnlyHint=not tool.changes, openWorldHint=False)
    return types.Tool(name=tool.name, description=tool.description, inputSchema=tool.schema, annotations=hints)


def read_key(request: Request) -> str:
    scheme, _, secret = request.headers.get("authorization", "").partition(" ")
    return secret.strip() if scheme.lower() == "bearer" else ""


# --- stdio


async def serve_stdio(house: HouseApi, key: str, source: int, sink: int) -> None:
    """Until the other side closes its end."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # nothing is held here, and a thread waits for the next line
    server = make_server(house, key)
    with open(source, encoding="utf-8", errors="replace") as given, open(sink, "w", encoding="utf-8") as told:  # noqa: ASYNC230
        async with stdio_server(anyio.wrap_file(given), anyio.wrap_file(told)) as (incoming, outgoing):
            await server.run(incoming, outgoing, server.create_initialization_options())


# --- HTTP


async def serve_http(house: HouseApi, port: int) -> None:
    """Until a signal ends it; says where it listens."""
    with _listen(port) as listening:
        bound = listening.getsockname()[1]
        settings = uvicorn.Config(make_app(house, bound), log_config=None, access_log=False, ws="none")
        print(f"Hermes serves MCP on http://{HOST}:{bound}{PATH}, for keys of `hermes api-keys`.", flush=True)
        await uvicorn.Server(settings).serve([listening])


def _listen(port: int) -> socket.socket:
    try:
        return socket.create_server((HOST, port))
    except OSError as problem:
        fix = "Choose another port: --http PORT."
        raise HermesError(f"Port {port} cannot be used: {problem.strerror}.", fix=fix) from problem


def make_app(house: HouseApi, port: int) -> Starlette:
    names = [f"{name}:{port}" for name in (HOST, "localhost")]
    origins = [f"http://{name}" for name in names]
    security = TransportSecuritySettings(allowed_hosts=names, allowed_origins=origins)
    manager = StreamableHTTPSessionManager(make_server(house), stateless=True, security_settings=security)

    @asynccontextmanager
    async def live(_: Starlette) -> AsyncIterator[None]:
        async with manager.run():
            yield

    return Starlette(routes=[Route(PATH, endpoint=KeyedDoor(house, manager))], lifespan=live)


class KeyedDoor:
    """Nobody comes in without a key that holds."""

    def __init__(self, house: HouseApi, manager: StreamableHTTPSessionManager) -> None:
        self._house = house
        self._manager = manager

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        key = read_key(Request(scope))
        caller = await asyncio.to_thread(self._house.find_caller, key) if key else None
        if caller is not None:
            await self._manager.handle_request(scope, receive, send)
            return
        refusal = JSONResponse({"error": {"message": NO_KEY}}, 401, {"www-authenticate": "Bearer"})
        await refusal(scope, receive, send)
