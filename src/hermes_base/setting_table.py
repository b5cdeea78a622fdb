"""The table of settings as people see it, made of the fields of `Settings`, and pure functions that say what is wrong
with a mapping and read it into that class."""

import copy
import difflib
import json
import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, get_args, get_origin, get_type_hints

from hermes_base.errors import ConfigProblem
from hermes_base.secret_files import names_secret
from hermes_base.setting_values import ValueKind, holds, is_number, read_bool, read_list, read_number
from hermes_base.settings import AT_ONCE, NEW_CONVERSATION, NEXT_MESSAGE, Fallback, Settings


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting as people see it. A kind that ends in `?` also takes null."""

    key: str
    kind: str
    default: Any
    doc: str
    takes_effect: str
    choices: tuple[str, ...] = ()
    breaks_prefix: bool = False  # a change makes a running conversation send its prompt anew, at full price
    at_least: float = -math.inf
    at_most: float = math.inf


@dataclass(frozen=True, slots=True)
class Problem:
    """Something in the settings that is not as it should be; an unknown key is a warning, anything else an error."""

    key: str
    what: str
    fix: str
    warning: bool = False

    def __str__(self) -> str:
        return f"{self.what} {self.fix}"


# --- kinds of values

_WHOLE = partial(is_number, types=int)
_KINDS: Mapping[Any, ValueKind] = {
    str: ValueKind("str", "text", lambda value: isinstance(value, str), str),
    bool: ValueKind("bool", "true or false", lambda value: isinstance(value, bool), read_bool),
    int: ValueKind("int", "a whole number", _WHOLE, read_number),
    float: ValueKind("float", "a number", is_number, read_number),
    int | None: ValueKind("int?", "a whole number or null", _WHOLE, read_number),
    tuple[str, ...]: ValueKind("list[str]", "a list of names", holds(str), read_list),
    tuple[Fallback, ...]: ValueKind("list[dict]", "a list of entries", holds(dict), read_list),
}
_BY_NAME = {kind.name: kind for kind in _KINDS.values()}


# --- the table


def _make_row(key: str, hint: Any, default: Any, **facts: Any) -> Setting:
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    shown = list(default) if isinstance(default, tuple) else default
    return Setting(key, "str" if choices else _KINDS[hint].name, shown, choices=choices, **facts)


_SECTIONS: Mapping[str, Any] = {each.name: each.type for each in fields(Settings) if is_dataclass(each.type)}
SETTINGS: tuple[Setting, ...] = tuple(
    _make_row(f"{section}.{each.name}", each.type, each.default, **each.metadata)
    for section, kind in _SECTIONS.items()
    for each in fields(kind)
    if each.metadata
)
_BY_KEY: Mapping[str, Setting] = MappingProxyType({row.key: row for row in SETTINGS})
#: What stands in an entry of a `list[dict]`.
_ENTRY = {name: _make_row(name, hint, None, doc="", takes_effect="") for name, hint in get_type_hints(Fallback).items()}

#: Where plugins and providers own the keys: what matches may hold anything. `*` stands for one name.
OPEN_SECTIONS: tuple[str, ...] = (
    *(
        "plugins.entries.*",
        "skills.platform_disabled.*",
        "memory.*.*",
        "auxiliary.*",
        "providers.*",
        "platforms.*",
        "mcp_servers.*",
    ),
)
_OPEN_PARENTS = frozenset(section[:-2] for section in OPEN_SECTIONS if section.count("*") == 1)
#: What platforms and their chats may set of what holds for all.
_OF_CHATS = {
    "model": NEXT_MESSAGE,
    "provider": NEXT_MESSAGE,
    "instructions": NEW_CONVERSATION,
    "toolsets": NEW_CONVERSATION,
}
_NULL_WORDS = frozenset({"null", "none", "~", ""})


def defaults() -> dict[str, Any]:
    """All defaults as a fresh nested dict."""
    tree: dict[str, Any] = {}
    for row in SETTINGS:
        section, name = row.key.split(".")
        tree.setdefault(section, {})[name] = copy.deepcopy(row.default)
    return tree


def find(key: str) -> Setting | None:
    return _BY_KEY.get(key)


def section_keys(section: str) -> list[str]:
    """The settings of a section, in the order of the table."""
    return [key for key in _BY_KEY if key.startswith(section + ".")]


def suggest(key: str) -> str:
    """What to do about a key that nobody knows: the setting that was probably meant, if one is close."""
    names = {row.key.rpartition(".")[2]: row.key for row in reversed(SETTINGS)}
    whole = difflib.get_close_matches(key.lower(), _BY_KEY, n=1, cutoff=0.6)
    last = difflib.get_close_matches(key.lower().rpartition(".")[2], names, n=1, cutoff=0.8)
    section = difflib.get_close_matches(key.lower(), {*_SECTIONS, *_OPEN_PARENTS}, n=1, cutoff=0.8)
    near = whole[0] if whole else names[last[0]] if last else section[0] if section else ""
    return f"Did you mean {near}?" if near else "`hermes config list` shows all settings."


def is_open(key: str) -> bool:
    """Whether a plugin or a provider owns this key."""
    patterns = (pattern.replace(".", r"\.").replace("*", "[^.]*") for pattern in OPEN_SECTIONS)
    return key not in _BY_KEY and any(re.match(rf"{pattern}(\.|$)", key) for pattern in patterns)


def when_owned(key: str) -> str:
    """When a change of a key takes effect that no row of the table is about."""
    if key.startswith("platforms."):
        return _OF_CHATS.get(key.rpartition(".")[2], AT_ONCE)
    if key.startswith("mcp_servers."):
        return NEW_CONVERSATION
    return "when its owner reads it"


def is_secret(key: str) -> bool:
    """Whether the value must not be shown: named like a key where others own it. No setting of ours is a secret."""
    return key not in _BY_KEY and names_secret(key)


def walk(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every value inside sections and lists, with its dotted key."""
    if isinstance(value, Mapping):
        for name, inner in value.items():
            yield from walk(inner, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from walk(inner, f"{key}[{number}]")
    else:
        yield key, value


# --- reading


def read_settings(config: Mapping[Any, Any]) -> Settings:
    """The settings that a mapping holds over the defaults; what is wrong first is a ConfigProblem."""
    for problem in check(config):
        if not problem.warning:
            raise ConfigProblem(problem.what, fix=problem.fix)
    return make_settings(config)


def make_settings(config: Mapping[Any, Any]) -> Settings:
    """The same of a mapping that was checked; null, and what is left out, stand for the default."""
    given = _pick(config, Settings)
    for name in given.keys() & _SECTIONS:
        given[name] = _SECTIONS[name](**_pick(given[name], _SECTIONS[name]))
    known = tuple(_BY_KEY)
    foreign = {key: value for key, value in walk(config) if value is not None and not key.startswith(known)}
    return Settings(**given | {"foreign": foreign})


def _pick(given: Mapping[Any, Any], kind: Any) -> dict[str, Any]:
    """What is given for the fields of a class; lists become tuples, which nobody changes."""
    found = ((name, value) for name, value in given.items() if value is not None and name in kind.__dataclass_fields__)
    return {name: tuple(value) if isinstance(value, list) else value for name, value in found}


# --- checking


def check(config: Mapping[Any, Any], path: str = "") -> Iterator[Problem]:
    """Everything that is wrong with a config: errors for values, warnings for keys that nobody here knows."""
    for name, value in config.items():
        key = f"{path}{name}"
        row = find(key)
        if row is not None:
            yield from check_value(row, value)
        elif key in _SECTIONS or key in _OPEN_PARENTS:
            if isinstance(value, Mapping):
                yield from check(value, key + ".")
            elif value is not None:  # a section whose lines are all commented out reads as null
                example = f" such as {section_keys(key)[0]}" if key in _SECTIONS else ""
                what = f"{key} holds {_show(value)}, but it is a section."
                yield Problem(key, what, f"Put settings{example} under it.")
        # `memory.<provider>` is a plugin's when it holds a section; as a plain value it is a misspelt setting.
        elif not is_open(key) and not (isinstance(value, Mapping) and is_open(f"{key}.any")):
            yield Problem(key, f"{key} is not a known setting; it is kept and ignored.", suggest(key), warning=True)


def check_value(row: Setting, value: Any) -> list[Problem]:
    """What is wrong with one value; null stands for the default."""
    if fault := _find_fault(row, value):
        fix = f"`hermes config set {row.key} VALUE` puts it right."
        return [Problem(row.key, f"{row.key} is {_show(value)}, but it must be {fault}.", fix)]
    entries = enumerate(value or ()) if row.kind == "list[dict]" else ()
    return [problem for number, entry in entries for problem in _check_entry(f"{row.key}[{number}]", entry)]


def _check_entry(place: str, entry: Mapping[Any, Any]) -> Iterator[Problem]:
    """One entry of a list of sections, such as a fallback."""
    for name, value in entry.items():
        key, row = f"{place}.{name}", _ENTRY.get(str(name))
        if row is None:
            fix = f"It takes {', '.join(_ENTRY)}."
            yield Problem(key, f"{key} is not known; it is kept and ignored.", fix, warning=True)
        elif fault := _find_fault(row, value):
            yield Problem(key, f"{key} is {_show(value)}, but it must be {fault}.", "Correct it in the file.")


def _find_fault(row: Setting, value: Any) -> str:
    """What a value must be and is not; empty: nothing is wrong with it."""
    kind = _BY_NAME[row.kind]
    if value is None:
        return ""
    if not kind.takes(value):
        return "text: put quotes around it" if row.kind == "str" and isinstance(value, int | float) else kind.words
    if row.choices and value not in row.choices:
        return "one of " + ", ".join(choice or '""' for choice in row.choices)
    if is_number(value) and not row.at_least <= value <= row.at_most:
        limits = (("at least", row.at_least), ("at most", row.at_most))
        return " and ".join(f"{word} {limit:g}" for word, limit in limits if math.isfinite(limit))
    return ""


def _show(value: Any) -> str:
    """A value in a sentence, short."""
    text = json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 60 else text[:57] + "…"


def coerce(row: Setting, text: str) -> Any:
    """The value that a text stands for; raises ValueError with a sentence when it is none of the setting's kind."""
    kind = _BY_NAME[row.kind]
    if row.kind.endswith("?") and text.strip().lower() in _NULL_WORDS:
        return None
    value = kind.read(text)
    for problem in check_value(row, value):
        if not problem.warning:
            raise ValueError(problem.what)
    if value is None:
        raise ValueError(f"{row.key} is {_show(text)}, but it must be {kind.words}.")
    return value
