"""What the owner of an account has to know, each until it is over. Time is given."""

import math
from dataclasses import dataclass

# --- what they are about; beside these, the chats
ACCOUNT, PATIENCE, NUMBER, MODE = "account", "patience", "number", "mode"
MOST_TOLD = 3
MOST_KEPT = 100


@dataclass(frozen=True, slots=True)
class Worry:
    sentence: str
    until: float


class AccountWorries:
    """One sentence on each thing that is wrong."""

    def __init__(self) -> None:
        self._worries: dict[str, Worry] = {}

    def note(self, about: str, sentence: str, until: float = math.inf) -> None:
        if about in self._worries or len(self._worries) < MOST_KEPT:
            self._worries[about] = Worry(sentence, until)

    @property
    def is_cut_off(self) -> bool:
        """Whether nothing works before the owner has put something right."""
        return not self._worries.keys().isdisjoint((ACCOUNT, NUMBER))

    def find(self, about: str) -> str:
        """The sentence on this; empty: nothing is wrong with it."""
        worry = self._worries.get(about)
        return worry.sentence if worry else ""

    def end(self, *about: str) -> bool:
        """Whether there was any of these."""
        ended = [self._worries.pop(one, None) for one in about]
        return any(ended)

    def describe(self, now: float) -> str:
        """What is wrong now, in a few sentences; empty: nothing."""
        self._worries = {about: worry for about, worry in self._worries.items() if worry.until > now}
        told = list(dict.fromkeys(worry.sentence for worry in self._worries.values()))
        more = len(told) - MOST_TOLD
        rest = [f"And {more} more; the log names them."] if more > 0 else []
        return " ".join([*told[:MOST_TOLD], *rest])
