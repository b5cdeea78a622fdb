"""Ports for servers that are told theirs before they listen."""

import random
import socket

_chance = random.Random()  # not the one that tests seed: no two processes choose alike


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on now, and that no connection is given meanwhile: those come from higher up."""
    free: list[int] = []
    while len(free) < count:
        port = _chance.randrange(10_000, 32_000)
        with socket.socket() as one:
            if port not in free and one.connect_ex(("127.0.0.1", port)):
                free.append(port)
    return free
