"""The fields of a manifest, in whatever form they were written: what can be meant is taken, and what should stand there
instead is said. Pure."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

_TEXTS = ("name", "version", "description", "author", "kind")
_LISTS = ("requires_env", "provides_tools", "provides_hooks")
_MANY = (list, tuple, set)
_VARIABLE = re.compile(r"[A-Za-z_]\w*", re.ASCII)


@dataclass(slots=True)
class ManifestFields:
    """What a manifest says, and what is wrong with how it says it."""

    texts: dict[str, str] = field(default_factory=dict)
    lists: dict[str, list[Any]] = field(default_factory=dict)
    faults: list[str] = field(default_factory=list)


def read_fields(fields: Mapping[Any, Any]) -> ManifestFields:
    read = ManifestFields()
    for name in _TEXTS:
        read.texts[name] = _read_text(name, fields.get(name), read.faults)
    for name in _LISTS:
        read.lists[name] = list(_read_list(name, fields.get(name), read.faults))
    return read


def _read_text(name: str, value: Any, faults: list[str]) -> str:
    """One line of text; a list of lines is joined, and what is no text at all counts as not given."""
    if value is None or isinstance(value, str | int | float):
        return "" if value is None else str(value).strip()
    if isinstance(value, _MANY) and name not in ("name", "kind"):
        faults.append(f"plugin.yaml: {name} is a list and should be a text; it is read as one")
        return ", ".join(str(each).strip() for each in value)
    if isinstance(value, Mapping) and isinstance(value.get("name"), str):
        faults.append(f"plugin.yaml: {name} has fields and should be a text; its name is read")
        return str(value["name"]).strip()
    if not isinstance(value, Mapping | list | tuple | set):  # a date, for example
        return str(value).strip()
    faults.append(f"plugin.yaml: {name} is no text; it is left out")
    return ""


def _read_list(name: str, value: Any, faults: list[str]) -> Iterator[Any]:
    """Names, and of variables also what is told of them; one alone, or names with values, are read as a list."""
    if value is None or value == "":
        return
    if isinstance(value, Mapping) and "name" in value:
        value, form = [value], "one entry"
    elif isinstance(value, Mapping):
        value, form = [_join(name, key, told) for key, told in value.items()], "a mapping"
    elif isinstance(value, str):
        value, form = [part for part in value.replace(",", " ").split() if part], "a text"
    elif not isinstance(value, _MANY):
        value, form = [], f"of another kind ({type(value).__name__})"
    else:
        form = ""
    if form:
        how = "read as one" if value else "left out"
        faults.append(f"plugin.yaml: {name} is {form} and should be a list; it is {how}")
    for entry in value:
        meant = _read_entry(name, entry)
        if meant is None:
            faults.append(f"plugin.yaml: {name} holds {entry!r:.40}, which is no name; it is left out")
            continue
        variable = meant.get("name") if isinstance(meant, Mapping) else meant
        if name == "requires_env" and not _VARIABLE.fullmatch(str(variable)):
            faults.append(f"plugin.yaml: {name} names {variable!r:.40}, which no variable can be called")
        yield meant


def _join(name: str, key: Any, told: Any) -> Any:
    """One entry of a mapping that should be a list."""
    if name != "requires_env":
        return str(key)
    return {"name": str(key), **(told if isinstance(told, Mapping) else {"description": str(told or "")})}


def _read_entry(name: str, entry: Any) -> Any:
    if isinstance(entry, str):
        return entry.strip() or None
    if isinstance(entry, Mapping) and isinstance(entry.get("name"), str):
        return dict(entry) if name == "requires_env" else entry["name"].strip() or None
    return None
