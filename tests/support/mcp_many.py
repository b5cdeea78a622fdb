"""A server with as many tools as it is told: `python mcp_many.py 100`. Its list is as bad as the second word says."""

import asyncio
import sys
from typing import Any

from mcp.server.lowlevel import NotificationOptions, Server
from mcp.server.models import InitializationOptions
from mcp.server.stdio import stdio_server

from mcp import types

COUNT = int(sys.argv[1])
server: Server[Any, Any] = Server("many")
ABOUT = "Does something with the things of the house, slowly and with care, and tells what came of it when it is done."


@server.list_tools()
async def list_tools() -> list[types.Tool]:
    fields = {f"field_{n}": {"type": "string", "description": ABOUT} for n in range(4)}
    schema = {"type": "object", "properties": fields, "required": ["field_0"]}
    return [
        types.Tool(name=f"thing_{n:04}", description=f"{ABOUT} Number {n}.", inputSchema=schema) for n in range(COUNT)
    ]


@server.call_tool(validate_input=False)
async def call_tool(name: str, arguments: dict[str, Any]) -> list[types.TextContent]:
    return [types.TextContent(type="text", text=f"{name} got {sorted(arguments.items())}")]


async def main() -> None:
    options = server.get_capabilities(NotificationOptions(), {})
    async with stdio_server() as streams:
        await server.run(*streams, InitializationOptions(server_name="many", server_version="1", capabilities=options))


asyncio.run(main())
