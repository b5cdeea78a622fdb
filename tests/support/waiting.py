"""Small things that several test folders use."""

import time
from collections.abc import Callable


def wait_until(is_true: Callable[[], bool], seconds: float = 20.0) -> None:
    """Wait for something that happens on another thread."""
    end = time.monotonic() + seconds
    while not is_true():
        assert time.monotonic() < end, "it did not happen"
        time.sleep(0.01)
