"""What a model server may send: how much of it, and how JSON is read. The server is not trusted with our
memory or our stack. The limits are far above any real answer."""

import json
import math
from typing import Any

_MEGABYTE = 1024 * 1024
#: One answer as it comes over the wire. The longest ones of today, piece by piece, take a third of it.
MOST_ANSWER_BYTES = 128 * _MEGABYTE
#: One event of a stream, or an answer in one document.
MOST_PIECE_BYTES = 8 * _MEGABYTE
#: Events of one answer: a token each.
MOST_PIECES = 1_000_000
#: The body of an error. What is longer is cut: the status says what happened.
MOST_ERROR_BYTES = 256 * 1024
#: One inside the other. Writers of JSON recurse, so what is read here can be written anywhere.
MOST_DEPTH = 100


class NotUnderstood(ValueError):
    """A server sent something that its format does not have; the text says what, in half a sentence."""


#: What reading a value of another form than the format promises ends in, wherever it is read.
FORM_ERRORS = (TypeError, ValueError, LookupError, AttributeError, ArithmeticError, RecursionError)


def read_json(text: str) -> Any:
    """Any JSON value, without the numbers that JSON does not have; ValueError or RecursionError."""
    return _decoder.decode(text)


def is_shallow(value: object) -> bool:
    """Whether a value is nested no deeper than what can be written again."""
    level = [value]
    for _ in range(MOST_DEPTH):
        inner = [list(each.values()) if isinstance(each, dict) else each for each in level]
        level = [part for each in inner if isinstance(each, list) for part in each]
        if not level:
            return True
    return False


def _read_float(text: str) -> float:
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is no number of JSON")
    return number


def _refuse_constant(name: str) -> float:
    raise ValueError(f"{name} is no value of JSON")


_decoder = json.JSONDecoder(parse_float=_read_float, parse_constant=_refuse_constant)
scan_json = _decoder.scan_once  # type: ignore[attr-defined]  # the parser itself, without the steps around it
