"""What became of our own messages, as far as it is known. What is in doubt is looked up in an archive before it is sent
again."""

import time
from dataclasses import dataclass

MOST_KNOWN = 5_000
ARRIVED, UNSURE = "arrived", "unsure"


@dataclass(slots=True)
class _Sent:
    chat: str
    state: str
    at: float  # time.time() of the last try


class SentBook:
    def __init__(self) -> None:
        self._sent: dict[str, _Sent] = {}

    def note_try(self, id_: str, chat: str) -> None:
        """It is about to be sent: until somebody says more, it is in doubt."""
        self._sent[id_] = _Sent(chat, UNSURE, time.time())
        while len(self._sent) > MOST_KNOWN:
            del self._sent[next(iter(self._sent))]

    def note_arrived(self, id_: str, chat: str) -> None:
        self._sent.setdefault(id_, _Sent(chat, ARRIVED, time.time())).state = ARRIVED

    def note_unsent(self, id_: str) -> None:
        """It certainly did not arrive."""
        self._sent.pop(id_, None)

    def has_arrived(self, id_: str) -> bool:
        return id_ in self._sent and self._sent[id_].state == ARRIVED

    def find_doubt(self, id_: str) -> float:
        """When a message in doubt was sent; 0.0: it is not in doubt."""
        sent = self._sent.get(id_)
        return sent.at if sent is not None and sent.state == UNSURE else 0.0

    def find_chat(self, id_: str) -> str:
        """Where a message went; empty: it is none that we know of."""
        return self._sent[id_].chat if id_ in self._sent else ""

    def find_oldest_doubt(self) -> float:
        """0.0: nothing is in doubt."""
        return min((sent.at for sent in self._sent.values() if sent.state == UNSURE), default=0.0)
