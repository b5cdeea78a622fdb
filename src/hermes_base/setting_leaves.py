"""The values in a file of settings one by one, each by the names on the way to it."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from hermes_base import setting_table as table
from hermes_base.setting_owners import is_for_all

Names = tuple[str, ...]


def list_leaves(section: Mapping[Any, Any], above: Names = ()) -> Iterator[tuple[Names, Any]]:
    """A list is one value, and so is a section that holds nothing; what only says null is none."""
    for name, value in section.items():
        names = (*above, str(name))
        if isinstance(value, Mapping) and value:
            yield from list_leaves(value, names)
        elif value is not None or len(names) > 2:
            yield names, value


def list_for_all(section: Mapping[Any, Any]) -> Iterator[tuple[Names, Any]]:
    """Those that concern all gateways, without those that are called like a secret."""
    for names, value in list_leaves(section):
        key = ".".join(names)
        inner = table.walk(value, key) if isinstance(value, list) else ((key, value),)
        is_told = is_for_all(key, known=table.find(key) is not None)
        if is_told and not any(table.is_secret(one.replace("[", ".")) for one, _ in inner):
            yield names, value


def write_value(value: Any) -> str | None:
    """As it is kept; None: it is nothing that can be kept so, such as a date."""
    try:
        return json.dumps(value, ensure_ascii=False, sort_keys=True)
    except (TypeError, ValueError):
        return None


def write_names(names: Names) -> str:
    return json.dumps(names, ensure_ascii=False)


def read_names(key: str) -> Names:
    return tuple(json.loads(key))
