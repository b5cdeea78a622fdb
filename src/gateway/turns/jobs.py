"""What a lane hands to a thread, and what comes back; the few places of turns that broke off."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from gateway.core.bursts import Item
from hermes_state.turns import Claim

BY_NEW_MESSAGE = "a new message came"  # why a turn was stopped


@dataclass(frozen=True, slots=True)
class Again:
    """A question that is asked once more, with all that came along with it (`/retry`)."""

    text: str
    parts: tuple[Mapping[str, Any], ...] = ()  # images
    foreign: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Job:
    """What is done next, as it is handed to a thread."""

    claim: Claim
    items: tuple[Item, ...]
    depth: int = 0
    again: Again | None = None
    failed: bool = False  # it was tried here before, and something was in the way

    @property
    def turn(self) -> str:
        """The one name of its turn, from the inbox to the log: the same for every attempt, so that a turn that goes on
        takes up the draft that it had."""
        return f"{self.claim.conversation}#{self.first.row.seq}"

    @property
    def seqs(self) -> tuple[int, ...]:
        return tuple(item.row.seq for item in self.items)

    @property
    def first(self) -> Item:
        return self.items[0]


@dataclass(frozen=True, slots=True)
class JobDone:
    """What became of a job."""

    closed: tuple[int, ...] = ()  # messages that are dealt with
    again: Again | None = None  # of a command: what is asked as the turn of the same message
    moved: str = ""  # of a command: the conversation that its sender goes on in


class Places:
    """A few places for many: whoever finds none is called when there is one, and asks again. On the event loop. Nobody
    holds a place while they wait, so whoever does not want it any more just never asks."""

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
