"""`hermes acp`: what an editor starts, to speak with Hermes over stdin and stdout."""

import argparse
import asyncio
import importlib.util
import os
import shlex
import sys
from pathlib import Path

from hermes_base.errors import ConfigProblem

LIBRARY = "acp"
MISSING = "What `hermes acp` needs to speak with editors is not installed."


def main(args: list[str]) -> int:
    parser = argparse.ArgumentParser(
        "hermes acp", description="Speak the Agent Client Protocol on stdin and stdout; an editor starts this."
    )
    parser.parse_args(args)
    if not is_installed():
        raise ConfigProblem(MISSING, fix=name_install())
    if sys.stdin.isatty():
        raise ConfigProblem(
            "`hermes acp` speaks with an editor, and this is a terminal.",
            fix="Enter it in the editor as the command of an agent; `hermes` chats here.",
        )
    return asyncio.run(_serve(*take_stdio()))


def is_installed() -> bool:
    return importlib.util.find_spec(LIBRARY) is not None


def name_install() -> str:
    """How to get it; by the packages' own names, since under that of this program an index may have somebody else's."""
    lines = Path(__file__).with_name("requirements.txt").read_text(encoding="utf-8").splitlines()
    return f"Install it: {shlex.join(['pip', 'install', *(line.partition('#')[0].strip() for line in lines)])}"


def take_stdio() -> tuple[int, int]:
    """Stdin and stdout for the protocol alone: what anything else in this process prints goes to stderr, and what it
    reads is empty."""
    source, sink = os.dup(0), os.dup(1)
    empty = os.open(os.devnull, os.O_RDONLY)
    os.dup2(empty, 0)
    os.close(empty)
    os.dup2(2, 1)
    return source, sink


async def _serve(source: int, sink: int) -> int:
    # Loaded here and not above: the library takes half a second, and only this command has it.
    from hermes_cli.acp.editor_agent import serve  # noqa: PLC0415

    return await serve(source, sink)
