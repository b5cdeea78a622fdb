"""Waits for a descriptor."""

import select


def becomes_readable(descriptor: int, seconds: float) -> bool:
    """Whether there is something to read before the time is over; `select` itself takes no descriptor above 1,024."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    return bool(waiting.poll(seconds * 1000))
