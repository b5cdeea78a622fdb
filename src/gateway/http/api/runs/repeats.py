"""Knows a request again that a client sends once more, because it says so with a key of its own, or because it heard no
answer: OpenAI's clients repeat themselves, and tell it in a header. The repetition gets the answer of the run that is
there; nothing is paid twice. Where the first went (a conversation, a run) stands in the store, for after a restart and
for whichever gateway the next one comes to."""

import hashlib
import time
from collections.abc import Mapping

from gateway.http.api.formats.asking import Ask
from gateway.http.api.runs.run_record import Record
from hermes_base.query_values import Caller

KEPT_SECONDS = 3 * 24 * 3600.0
HEADER = "x-stainless-retry-count"
#: A client that heard nothing comes again within a minute; whoever asks the same later wants another answer.
HEARD_SECONDS = 120.0
GOING_SECONDS = 900.0  # so long a run that goes on is found again


def count_repetitions(headers: Mapping[str, str]) -> int | None:
    """How often the client says that it has sent this before; None: it would not say."""
    count = headers.get(HEADER, "")
    return int(count[:4]) if count.isascii() and count.isdigit() else None


def mark_request(caller: Caller, ask: Ask, place: str) -> str:
    """The same for a request and its repetition, whoever else asks the same."""
    said = repr((caller.person, caller.key, place, ask))
    return hashlib.sha256(said.encode("utf-8", "backslashreplace")).hexdigest()


def may_be_unheard(record: Record) -> bool:
    """Whether the answer of the run that a request began may not have been heard. One that this process does not live
    to see is asked for anew."""
    if not record.is_over:
        return True
    return record.outcome is not None and time.monotonic() - record.ended <= HEARD_SECONDS
