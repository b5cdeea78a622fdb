"""Small things that several test folders use."""

import asyncio
import time
from collections.abc import Callable


def wait_until(is_true: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait for something that happens on another thread. What takes long to look at is looked at less often: what is
    waited for needs the processor, too."""
    end = time.monotonic() + seconds
    while True:
        begun = time.monotonic()
        if is_true():
            return
        looked = time.monotonic()
        assert looked < end, "it did not happen"
        time.sleep(min(max(0.01, 4 * (looked - begun)), 0.5))


async def until(is_true: Callable[[], bool], seconds: float = 120.0) -> None:
    """Wait on the event loop for something that happens there."""
    async with asyncio.timeout(seconds):
        while not is_true():  # noqa: ASYNC110 - seen from outside, where nobody sets an event for it
            await asyncio.sleep(0.005)
