"""Knows a request again that a client sends once more because it heard no answer: OpenAI's clients do that by
themselves, and say so in a header. The repetition gets the answer of the run that is there; nothing is paid twice."""

import hashlib
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from gateway.http.api.formats.asking import Ask
from gateway.http.api.runs.run_record import Record
from hermes_base.query_values import Caller

HEADER = "x-stainless-retry-count"
#: A client that heard nothing comes again within a minute; whoever asks the same later wants another answer.
HEARD_SECONDS = 120.0
KEPT_SECONDS = 900.0
MOST_KEPT = 500


def count_repetitions(headers: Mapping[str, str]) -> int | None:
    """How often the client says that it has sent this before; None: it would not say."""
    count = headers.get(HEADER, "")
    return int(count[:4]) if count.isascii() and count.isdigit() else None


def mark_request(caller: Caller, ask: Ask, place: str) -> str:
    """The same for a request and its repetition, whoever else asks the same."""
    said = repr((caller.person, caller.key, place, ask))
    return hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest()


class Retries:
    """The newest requests of this process and their runs; on the event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._known: OrderedDict[str, tuple[Record, float]] = OrderedDict()

    def knows(self, mark: str) -> bool:
        return mark in self._known

    def find(self, mark: str) -> Record | None:
        """The run that this request began, if its answer may not have been heard."""
        record, at = self._known.get(mark, (None, 0.0))
        if record is None or (record.closing and record.outcome is None):
            return None
        since = self._clock() - (max(at, record.ended) if record.is_over else at)
        return record if since <= (HEARD_SECONDS if record.is_over else KEPT_SECONDS) else None

    def keep(self, mark: str, record: Record) -> None:
        self._known[mark] = record, self._clock()
        self._known.move_to_end(mark)
        while len(self._known) > MOST_KEPT:
            self._known.popitem(last=False)
