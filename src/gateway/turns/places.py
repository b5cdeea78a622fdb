"""A few places for many: whoever finds none is called when there is one, and asks again."""

from collections.abc import Callable


class Places:
    """On the event loop. Nobody holds a place while they wait, so whoever does not want it any more just never asks."""

    def __init__(self, count: int) -> None:
        self._free = count
        self._waiting: dict[Callable[[], None], None] = {}  # in the order in which they asked first

    def take(self, call: Callable[[], None]) -> bool:
        """Whether there was a place, which has to be given back; otherwise `call` is called when there may be one."""
        if not self._free:
            self._waiting[call] = None
            return False
        self._free -= 1
        return True

    def give_back(self) -> None:
        self._free += 1
        called, self._waiting = self._waiting, {}
        for call in called:
            call()
