"""Middleware: stands around each call of a tool, and notes how long it took."""

import logging
import time

log = logging.getLogger(__name__)
took = []  # tool, seconds


def around_tool(tool_name="", next_call=None, **_):
    """`next_call()` runs the tool, once; what is returned here is its result."""
    begun = time.monotonic()
    try:
        return next_call()
    finally:
        took.append((tool_name, time.monotonic() - begun))
        log.info("%s took %.3f s", *took[-1])


def register(ctx):
    ctx.register_middleware("tool_execution", around_tool)
