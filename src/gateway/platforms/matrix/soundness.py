"""What a homeserver passes on is whatever strangers wrote. Only what has the form of an event gets further. Pure."""

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

JsonObject = Mapping[str, Any]
MOST_DEPTH = 64  # of what is in an event; what people write is a few levels deep
WHOLE_DEPTH = 2 * MOST_DEPTH  # of an answer that is too deep to be read as it is
MOST_NUMBER = 2**53 - 1  # as the JSON of Matrix has them
_SIGNS = re.compile(r'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[\[\]{}]', re.DOTALL)
_KIND = re.compile(r"[A-Za-z0-9_.]{1,64}")
_FORMS: Mapping[str, type] = {
    "type": str,
    "event_id": str,
    "sender": str,
    "state_key": str,
    "content": dict,
    "unsigned": dict,
    "origin_server_ts": int,
}


def read_json(data: bytes) -> dict[str, Any]:
    """An answer as JSON; empty where it is none. What is nested too deep is taken out of it."""
    text = data.decode("utf-8", "replace")
    try:
        try:
            found = json.loads(text)
        except RecursionError:
            found = json.loads(cut_deep(text, WHOLE_DEPTH))
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def cut_deep(text: str, most: int) -> str:
    """JSON with null in the place of what lies deeper than so many levels."""
    kept, start, depth = [], 0, 0
    for sign in _SIGNS.finditer(text):
        if sign[0] in ("{", "["):
            depth += 1
            if depth == most + 1:
                kept += [text[start : sign.start()], "null"]
        elif sign[0] in ("}", "]"):
            if depth == most + 1:
                start = sign.end()
            depth -= 1
    return "".join([*kept, text[start:]])


def is_sound(event: Any) -> bool:
    """Whether its fields are of the types that an event has, and it is not nested deeper than anything reads."""
    if not isinstance(event, dict):
        return False
    has_form = all(isinstance(event[name], form) for name, form in _FORMS.items() if name in event)
    return has_form and 0 <= event.get("origin_server_ts", 0) <= MOST_NUMBER and not _is_deep(event)


def _is_deep(value: Any) -> bool:
    level, depth = [value], 0
    while level and depth <= MOST_DEPTH:
        inner = (one.values() if isinstance(one, dict) else one for one in level if isinstance(one, dict | list))
        level, depth = [value for values in inner for value in values], depth + 1
    return bool(level)


def list_sound(events: Any, left_out: Counter[str]) -> list[JsonObject]:
    """The sound ones of what should be a list of events; the others are counted by their types."""
    given = events if isinstance(events, list) else []
    left_out.update(name_kind(event) for event in given if not is_sound(event))
    return [event for event in given if is_sound(event)]


def name_kind(event: Any) -> str:
    """The type of an event, for a log: a stranger chose it."""
    kind = event.get("type") if isinstance(event, Mapping) else None
    return kind if isinstance(kind, str) and _KIND.fullmatch(kind) else "?"


def describe(left_out: Counter[str]) -> str:
    """How many of each type."""
    return ", ".join(f"{kind} ({count})" for kind, count in sorted(left_out.items()))


def section(value: Any, *names: str) -> JsonObject:
    """An object within objects; empty where there is none."""
    for name in names:
        value = value.get(name) if isinstance(value, Mapping) else None
    return value if isinstance(value, Mapping) else {}


def list_texts(value: Any) -> list[str]:
    return [one for one in value if isinstance(one, str)] if isinstance(value, Iterable) else []
