"""Knows a request again that a client sends once more because it heard no answer: OpenAI's clients do that by
themselves, and say so in a header. The repetition gets the answer of the run that is there; nothing is paid twice."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from gateway.api.asking import Ask
from gateway.api.records import Record
from hermes_base.cockpit import Caller

HEADER = "x-stainless-retry-count"
KEPT_SECONDS = 900.0
MOST_KEPT = 500


def is_repetition(headers: Mapping[str, str]) -> bool:
    """Whether the client says that it has sent this before."""
    count = headers.get(HEADER, "")
    return count.isascii() and count.isdigit() and int(count[:4]) > 0


def mark_request(caller: Caller, ask: Ask, place: str) -> str:
    """The same for a request and its repetition, whoever else asks the same."""
    said = repr((caller.person, caller.key, place, ask))
    return hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest()


class Retries:
    """The newest requests of this process and their runs; on the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[str, tuple[Record, float]] = OrderedDict()

    def find(self, mark: str) -> Record | None:
        """The run that this request began; None: it is not known here, or long ago."""
        record, at = self._known.get(mark, (None, 0.0))
        return record if self._clock() - at <= KEPT_SECONDS else None

    def keep(self, mark: str, record: Record) -> None:
        self._known[mark] = record, self._clock()
        self._known.move_to_end(mark)
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
