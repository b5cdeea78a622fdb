"""What a person typed as the answer to a field that a server asks for: read by the field's schema, or told what is
expected. Pure."""

import math
import re
from collections.abc import Callable, Iterator, Mapping
from datetime import date, datetime
from enum import Enum
from types import MappingProxyType
from typing import Any
from urllib.parse import urlsplit

MOST_FIELDS = 8
NAMED_CHOICES = 20
YES, NO = "yes", "no"
#: How the keys of bounds end.
_BOUNDS: Mapping[str, str] = MappingProxyType({"integer": "imum", "number": "imum", "array": "Items"})
_WORDS: Mapping[str, bool] = MappingProxyType(
    {**dict.fromkeys((YES, "y", "true"), True), **dict.fromkeys((NO, "n", "false"), False)}
)
_KINDS: Mapping[str, str] = MappingProxyType(
    {"integer": "a whole number", "number": "a number", "array": "a list, its parts separated by commas"}
)

#: Texts of a form, by its name: what is one, and how it is called.
_FORMATS: Mapping[str, tuple[Callable[[str], Any], str]] = MappingProxyType(
    {
        "email": (re.compile(r"[^@\s]+@[^@\s]+").fullmatch, "an e-mail address"),
        "uri": (
            lambda said: urlsplit(said).scheme and not re.search(r"\s", said),
            "an address like https://example.org",
        ),
        "date": (date.fromisoformat, "a date like 2026-11-19"),
        "date-time": (datetime.fromisoformat, "a date and a time like 2026-11-19T08:30:00Z"),
    }
)

Value = str | int | float | bool | list[str] | None


class WayOut(Enum):
    """What a person can say instead of an answer."""

    SKIP = "skip"
    DECLINE = "decline"


#: As it stands below a question.
_OFFERED: Mapping[WayOut, str] = MappingProxyType(
    {WayOut.SKIP: 'Say "skip" to leave it out{default}.', WayOut.DECLINE: 'Say "decline" to answer nothing.'}
)


def read_fields(schema: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The fields that are asked for, each with its schema."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    for name, given in properties.items() if isinstance(properties, Mapping) else ():
        yield str(name), given if isinstance(given, Mapping) else {}


def find_ways_out(form: object, name: str, schema: Mapping[str, Any]) -> tuple[WayOut, ...]:
    """What may be said instead of an answer, unless it is one; an answer that has to be given cannot be left out."""
    needed = form.get("required") if isinstance(form, Mapping) else None
    has_to_be = name in needed if isinstance(needed, list) else False
    ways = (WayOut.DECLINE,) if has_to_be and "default" not in schema else (WayOut.SKIP, WayOut.DECLINE)
    taken = {choice.lower() for choice in find_choices(schema)}
    return tuple(way for way in ways if way.value not in taken)


def offer_ways_out(ways: tuple[WayOut, ...], schema: Mapping[str, Any]) -> str:
    default = f": then it is {schema['default']}" if "default" in schema else ""
    return " ".join(_OFFERED[way].format(default=default) for way in ways)


def read_way_out(text: str, ways: tuple[WayOut, ...]) -> WayOut | None:
    return next((way for way in ways if way.value == text.strip().lower()), None)


def describe_choices(schema: Mapping[str, Any]) -> str:
    """What the choices stand for, where that is said apart."""
    options = [option for key in ("oneOf", "anyOf") for option in _read_options(schema.get(key))]
    told = [(option["const"], option.get("title")) for option in options]
    names = schema.get("enumNames")
    told += zip(find_choices(schema), names, strict=False) if isinstance(names, list) and not options else ()
    return ", ".join(f"{value}: {title}" for value, title in told[:NAMED_CHOICES] if title and title != value)


def find_choices(schema: Mapping[str, Any]) -> Iterator[str]:
    """What can be chosen; nothing: anything of its kind."""
    if schema.get("type") == "boolean":
        yield from (YES, NO)
        return
    values = schema.get("enum")
    yield from (value for value in values if isinstance(value, str)) if isinstance(values, list) else ()
    for key in ("oneOf", "anyOf"):
        yield from (option["const"] for option in _read_options(schema.get(key)))


def read_answer(text: str, schema: Mapping[str, Any]) -> Value:
    """What a typed answer means to a field; None: it is none of its kind."""
    said, kind = text.strip(), schema.get("type")
    if kind == "boolean":
        return _WORDS.get(said.lower())
    if kind in ("integer", "number"):
        return _read_number(said, schema)
    if kind == "array":
        return _read_list(said, schema)
    if not _fits(len(said), schema, "Length") or not _has_form(said, schema):
        return None
    return _choose(said, tuple(find_choices(schema)))


def describe_answer(schema: Mapping[str, Any]) -> str:
    """What is expected, to stand behind "it has to be"."""
    items = schema.get("items")
    choices = list(find_choices(items if isinstance(items, Mapping) else schema))
    named = f"one of {', '.join(choices[:NAMED_CHOICES])}{' …' if len(choices) > NAMED_CHOICES else ''}"
    kind = _KINDS.get(str(schema.get("type"))) or _FORMATS.get(str(schema.get("format")), (None, "a text"))[1]
    is_list = kind == _KINDS["array"]
    if choices and not is_list:
        return named
    suffix = _BOUNDS.get(str(schema.get("type")), "Length")
    bounds = [
        f"at {word} {schema[key]}{' characters' if suffix == 'Length' else ''}"
        for word, key in (("least", f"min{suffix}"), ("most", f"max{suffix}"))
        if _is_number(schema.get(key))
    ]
    return " ".join((kind, *([f"of {' and '.join(bounds)}"] if bounds else []))) + (
        f", each {named}" if choices else ""
    )


def _read_number(said: str, schema: Mapping[str, Any]) -> int | float | None:
    try:
        value = int(said) if schema.get("type") == "integer" else float(said)
        finite = math.isfinite(value)
    except (ValueError, OverflowError):
        return None
    return value if finite and _fits(value, schema, "imum") else None


def _read_list(said: str, schema: Mapping[str, Any]) -> list[str] | None:
    items = schema.get("items")
    choices = tuple(find_choices(items)) if isinstance(items, Mapping) else ()
    parts = [_choose(part.strip(), choices) for part in said.split(",") if part.strip()]
    found = [part for part in parts if part is not None]
    return found if len(found) == len(parts) and _fits(len(found), schema, "Items") else None


def _has_form(said: str, schema: Mapping[str, Any]) -> bool:
    check, _ = _FORMATS.get(str(schema.get("format")), (bool, ""))
    try:
        return bool(check(said))
    except ValueError:
        return False


def _read_options(given: object) -> list[Mapping[str, Any]]:
    rows = given if isinstance(given, list) else []
    return [row for row in rows if isinstance(row, Mapping) and isinstance(row.get("const"), str)]


def _choose(said: str, choices: tuple[str, ...]) -> str | None:
    """The text, or the choice that is meant, in whichever case it was typed."""
    if not choices:
        return said or None
    near = [choice for choice in choices if choice.lower() == said.lower()]
    return said if said in choices else near[0] if len(near) == 1 else None


def _fits(value: float, schema: Mapping[str, Any], suffix: str) -> bool:
    least: Any = schema.get(f"min{suffix}")
    most: Any = schema.get(f"max{suffix}")
    return (not _is_number(least) or value >= least) and (not _is_number(most) or value <= most)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
