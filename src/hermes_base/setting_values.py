"""What a value of a setting may be: whether it is of a kind, and what a text that somebody typed stands for. Pure."""

import json
import sys
from collections.abc import Callable
from typing import Any, NamedTuple


class ValueKind(NamedTuple):
    """What the type of a field is to people: its name, in words, which values are of it, and what a text stands for."""

    name: str
    words: str
    takes: Callable[[Any], bool]
    read: Callable[[str], Any]


def guess(text: str) -> Any:
    """The value of a text: JSON when it is JSON, else the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def is_number(value: Any, types: Any = int | float) -> bool:
    """A number that no computer reckons with is none."""
    return isinstance(value, types) and not isinstance(value, bool) and abs(value) <= sys.float_info.max


def read_number(text: str) -> Any:
    """The number; the text itself when it is none."""
    value = guess(text.strip())
    return value if isinstance(value, int | float) else text


def read_bool(text: str) -> Any:
    """True or False; the text itself when it is neither."""
    yes, no = ("true", "yes", "on", "1"), ("false", "no", "off", "0")
    word = text.strip().lower()
    return word in yes if word in yes + no else text


def read_list(text: str) -> Any:
    """JSON, or names with commas between them."""
    names = [item.strip() for item in text.split(",") if item.strip()]
    return guess(text) if text.lstrip().startswith("[") else names


def holds(kind: type) -> Callable[[Any], bool]:
    """Whether a value is a list of such things."""
    return lambda value: isinstance(value, list) and all(isinstance(item, kind) for item in value)
