"""What a value must be, in the words of the formats' error answers."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

Rule = tuple[Callable[[Any], bool], str]


class Shape(NamedTuple):
    """The fields of an object: which it must have, which it may have."""

    required: Mapping[str, Rule]
    optional: Mapping[str, Rule] = {}


def is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def within(least: float, most: float) -> Rule:
    return (lambda value: is_number(value) and least <= value <= most), f"a number from {least:g} to {most:g}"


def at_least(least: int) -> Rule:
    return (lambda value: is_whole(value) and value >= least), f"an integer of at least {least}"


def one_of(*known: str) -> Rule:
    return (lambda value: isinstance(value, str) and value in known), "one of " + ", ".join(f"'{it}'" for it in known)


TEXT: Rule = (lambda value: isinstance(value, str), "a string")
FILLED_TEXT: Rule = (lambda value: isinstance(value, str) and value != "", "a string that is not empty")
FLAG: Rule = (lambda value: isinstance(value, bool), "a boolean")
OBJECT: Rule = (lambda value: isinstance(value, dict), "an object")
LIST: Rule = (lambda value: isinstance(value, list), "an array")
FILLED_LIST: Rule = (lambda value: isinstance(value, list) and len(value) > 0, "an array with at least one item")
COUNT: Rule = at_least(1)
WHOLE: Rule = (is_whole, "an integer")
ANY: Rule = (lambda value: True, "anything")
TEXT_OR_OBJECT: Rule = (lambda value: isinstance(value, str | dict), "a string or an object")
TEXT_OR_LIST: Rule = (lambda value: isinstance(value, str | list), "a string or an array")
NULL_OR_TEXT: Rule = (lambda value: value is None or isinstance(value, str), "a string or null")
TEXT_LIST: Rule = (
    lambda value: isinstance(value, list) and all(isinstance(item, str) for item in value),
    "an array of strings",
)
