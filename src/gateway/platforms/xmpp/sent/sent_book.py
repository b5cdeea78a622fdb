"""What became of our own messages, as far as it is known. What is in doubt is looked up in an archive before it is sent
again. The order of tries is counted: a clock may be set back, and then the last would be the first."""

import time
from dataclasses import dataclass

MOST_KNOWN = 5_000
ARRIVED, UNSURE = "arrived", "unsure"


@dataclass(slots=True)
class _Sent:
    chat: str
    state: str
    number: int  # of the last try, among all
    at: float  # time.monotonic() of it


class SentBook:
    def __init__(self) -> None:
        self._sent: dict[str, _Sent] = {}
        self.tries = 0  # so far

    def note_try(self, id_: str, chat: str) -> None:
        """It is about to be sent: until somebody says more, it is in doubt."""
        self.tries += 1
        self._sent[id_] = _Sent(chat, UNSURE, self.tries, time.monotonic())
        while len(self._sent) > MOST_KNOWN:
            del self._sent[next(iter(self._sent))]

    def note_arrived(self, id_: str, chat: str) -> None:
        self._sent.setdefault(id_, _Sent(chat, ARRIVED, self.tries, time.monotonic())).state = ARRIVED

    def note_unsent(self, id_: str) -> None:
        """It certainly did not arrive."""
        self._sent.pop(id_, None)

    def has_arrived(self, id_: str) -> bool:
        return id_ in self._sent and self._sent[id_].state == ARRIVED

    def find_doubt(self, id_: str) -> int:
        """The number of the try after which a message is in doubt; 0: it is not in doubt."""
        sent = self._sent.get(id_)
        return sent.number if sent is not None and sent.state == UNSURE else 0

    def find_chat(self, id_: str) -> str:
        """Where a message went; empty: it is none that we know of."""
        return self._sent[id_].chat if id_ in self._sent else ""

    def measure_oldest_doubt(self) -> float:
        """For how many seconds something has been in doubt; 0.0: nothing is."""
        oldest = min((sent.at for sent in self._sent.values() if sent.state == UNSURE), default=None)
        return 0.0 if oldest is None else time.monotonic() - oldest
