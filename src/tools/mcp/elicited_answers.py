"""What a person typed as the answer to a field that a server asks for: read by the field's schema, or told what is
expected. Pure."""

import math
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

MOST_FIELDS = 8
NAMED_CHOICES = 20
YES, NO = "yes", "no"
_WORDS: Mapping[str, bool] = MappingProxyType(
    {**dict.fromkeys((YES, "y", "true"), True), **dict.fromkeys((NO, "n", "false"), False)}
)
_KINDS: Mapping[str, str] = MappingProxyType(
    {"integer": "a whole number", "number": "a number", "array": "a list, its parts separated by commas"}
)

Value = str | int | float | bool | list[str] | None


def read_fields(schema: object) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The fields that are asked for, each with its schema."""
    properties = schema.get("properties") if isinstance(schema, Mapping) else None
    for name, given in list(properties.items() if isinstance(properties, Mapping) else ())[:MOST_FIELDS]:
        yield str(name), given if isinstance(given, Mapping) else {}


def find_choices(schema: Mapping[str, Any]) -> Iterator[str]:
    """What can be chosen; nothing: anything of its kind."""
    if schema.get("type") == "boolean":
        yield from (YES, NO)
        return
    values = schema.get("enum")
    yield from (value for value in values if isinstance(value, str)) if isinstance(values, list) else ()
    for key in ("oneOf", "anyOf"):
        options = schema.get(key)
        for option in options if isinstance(options, list) else ():
            if isinstance(option, Mapping) and isinstance(option.get("const"), str):
                yield option["const"]


def read_answer(text: str, schema: Mapping[str, Any]) -> Value:
    """What a typed answer means to a field; None: it is none of its kind."""
    said, kind = text.strip(), schema.get("type")
    if kind == "boolean":
        return _WORDS.get(said.lower())
    if kind in ("integer", "number"):
        return _read_number(said, schema)
    if kind == "array":
        return _read_list(said, schema)
    return _choose(said, tuple(find_choices(schema))) if _fits(len(said), schema, "Length") else None


def describe_answer(schema: Mapping[str, Any]) -> str:
    """What is expected, to stand behind "it has to be"."""
    items = schema.get("items")
    choices = list(find_choices(items if isinstance(items, Mapping) else schema))
    named = f"one of {', '.join(choices[:NAMED_CHOICES])}{' …' if len(choices) > NAMED_CHOICES else ''}"
    kind = _KINDS.get(str(schema.get("type")), "a text")
    if kind == _KINDS["array"]:
        return f"{kind}{f', each {named}' if choices else ''}"
    if choices:
        return named
    suffix = "imum" if str(schema.get("type")) in ("integer", "number") else "Length"
    bounds = [
        f"at {word} {schema[key]}{' characters' if suffix == 'Length' else ''}"
        for word, key in (("least", f"min{suffix}"), ("most", f"max{suffix}"))
        if _is_number(schema.get(key))
    ]
    return " ".join((kind, *([f"of {' and '.join(bounds)}"] if bounds else [])))


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
    return [part for part in parts if part is not None] if None not in parts else None


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
