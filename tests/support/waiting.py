"""Small things that several test folders use."""

import asyncio
import time
from collections.abc import Callable


def wait_until(is_true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait for something that happens on another thread."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)


async def until(is_true: Callable[[], bool], seconds: float = 60.0) -> None:
    """Wait on the event loop for something that happens there."""
    async with asyncio.timeout(seconds):
        while not is_true():  # noqa: ASYNC110 - seen from outside, where nobody sets an event for it
            await asyncio.sleep(0.005)
