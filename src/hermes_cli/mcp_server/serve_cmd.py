"""`hermes mcp serve`: lets other programs speak with Hermes over MCP."""

import argparse
import asyncio
import importlib.util
import os
import sys

from hermes_base.errors import ConfigProblem
from hermes_cli.acp.acp_cmd import take_stdio
from hermes_constants import get_hermes_home

LIBRARY, KEY = "mcp", "HERMES_API_KEY"
USUAL_PORT = 8643


def add_options(serve: argparse.ArgumentParser) -> None:
    serve.add_argument(
        "--http",
        metavar="PORT",
        nargs="?",
        type=_read_port,
        const=USUAL_PORT,
        help=f"on this machine's own address ({USUAL_PORT}) with keys of `hermes api-keys`, not on stdin and stdout",
    )


def _read_port(text: str) -> int:
    if text.isascii() and text.isdecimal() and int(text) <= 65535:
        return int(text)
    raise argparse.ArgumentTypeError(f"{text!r} is no port")


def serve(parsed: argparse.Namespace) -> int:
    if importlib.util.find_spec(LIBRARY) is None:
        raise ConfigProblem("What `hermes mcp serve` needs is not installed.", fix="Install it: pip install 'mcp<2'")
    if parsed.http is None and sys.stdin.isatty():
        raise ConfigProblem(
            "`hermes mcp serve` speaks with a program, and this is a terminal.",
            fix="Enter it in that program as the command of a server, or use --http.",
        )
    return asyncio.run(_serve(parsed.http))


async def _serve(port: int | None) -> int:
    # Loaded here and not above: the SDK takes most of a second, and only this command has it.
    from hermes_cli.mcp_server.house_api import HouseApi  # noqa: PLC0415
    from hermes_cli.mcp_server.mcp_doors import serve_http, serve_stdio  # noqa: PLC0415

    house = HouseApi(get_hermes_home())
    if port is not None:
        await serve_http(house, port)
    else:
        await serve_stdio(house, os.environ.get(KEY, ""), *take_stdio())
    return 0
