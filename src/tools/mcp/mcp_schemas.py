"""What a server says of its tools, made so that every provider takes it: schemas repaired, texts cut and cleaned. Pure.

Whatever a server sends, what comes out is a JSON schema of an object, without references, of bounded depth and size.
"""

import json
import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from hermes_base.text.harmless import is_hidden

DESCRIPTION_CHARS, NOTE_CHARS = 600, 200
DEEPEST = 8
MOST_NODES = 400
MOST_PROPERTIES = 60
MOST_VALUES = 60  # of an enumeration
SCHEMA_BYTES = 6_000
MOST_GIVEN = (
    20_000  # names and values in a schema as a server sent it, a long text counting as several: no tool has so many
)
TEXT_UNIT = 64
TYPES = frozenset({"string", "number", "integer", "boolean", "object", "array", "null"})
#: Keywords that mean the same to all providers, and what a value of them must be.
_KEPT: Mapping[str, type | tuple[type, ...]] = {
    **dict.fromkeys(("minimum", "maximum"), (int, float)),
    **dict.fromkeys(("minLength", "maxLength", "minItems", "maxItems"), int),
    **dict.fromkeys(("pattern", "format"), str),
}
_UNIONS = ("anyOf", "oneOf")
_PROPERTY = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_SCALARS = (str, int, float, bool)

Schema = dict[str, Any]


@dataclass
class _Repair:
    """One schema while it is repaired: what its references lead to, and how much of it there may still be."""

    root: Mapping[str, Any]
    left: int = MOST_NODES
    following: list[str] = field(default_factory=list)  # references that are being followed


def clean_text(text: object, most: int) -> str:
    """A text of a server on one line, without signs that nobody sees, cut."""
    if not isinstance(text, str):
        return ""
    plain = unicodedata.normalize("NFC", text[: most * 4])
    seen = "".join(char for char in plain if char in "\n\t" or not is_hidden(char))
    line = " ".join(seen.split())
    return line if len(line) <= most else line[: most - 1] + "…"


def repair_schema(given: object) -> Schema:
    """The parameters of a tool."""
    root: Mapping[str, Any] = given if isinstance(given, Mapping) and is_bounded(given) else {}
    repaired = _repair({**root, "type": "object"}, _Repair(root), 0)  # the arguments of a call are one, always
    whole: Schema = {"type": "object", "properties": repaired.get("properties", {})}
    if "required" in repaired:
        whole["required"] = repaired["required"]
    if len(json.dumps(whole)) > SCHEMA_BYTES:
        whole = _without_notes(whole)
    if len(json.dumps(whole)) > SCHEMA_BYTES:
        whole = _flatten(whole)
    return whole


def is_bounded(given: object) -> bool:
    """Whether there is an end to it: a schema that is larger is not read at all, so that none costs much."""
    left, waiting = MOST_GIVEN, [given]
    while waiting and left >= 0:
        value = waiting.pop()
        left -= 1 + (len(value) // TEXT_UNIT if isinstance(value, str) else 0)
        if isinstance(value, Mapping | list):
            left -= len(value)
            if left < 0:
                return False
            waiting += value
            waiting += value.values() if isinstance(value, Mapping) else ()
    return left >= 0


def find_renamed(schema: Mapping[str, Any], given: object) -> dict[str, str]:
    """Parameters that are called otherwise than the server calls them: our name, theirs."""
    properties = given.get("properties") if isinstance(given, Mapping) else None
    names = list(properties) if isinstance(properties, Mapping) else []
    return {
        safe: str(name)
        for name in names
        if not _PROPERTY.fullmatch(str(name)) and (safe := _safe_key(str(name))) in schema["properties"]
    }


def _repair(given: object, work: _Repair, depth: int) -> Schema:
    """A schema, of anything that may stand in the place of one; {} takes everything."""
    work.left -= 1
    if not isinstance(given, Mapping) or work.left < 0 or depth > DEEPEST:
        return {}
    reference = given.get("$ref")
    if isinstance(reference, str):
        return _follow(reference, given, work, depth)
    merged = _merge_all(given, work, depth)
    kind = _find_type(merged)
    found: Schema = {"type": kind} if kind else {}
    note = clean_text(merged.get("description") or merged.get("title"), NOTE_CHARS)
    if note and depth:
        found["description"] = note
    found |= _keep_plain(merged, kind)
    if kind == "object":
        found |= _repair_object(merged, work, depth)
    if kind == "array":
        items = merged.get("items")
        found["items"] = _repair(items[0] if isinstance(items, list) and items else items, work, depth + 1)
    union = next((merged[key] for key in _UNIONS if isinstance(merged.get(key), list) and merged[key]), None)
    if union is not None and not kind and depth:
        found |= _repair_union(union, work, depth)
    return found


def _follow(reference: str, given: Mapping[str, Any], work: _Repair, depth: int) -> Schema:
    """What a reference inside of the schema leads to; one that leads out, nowhere or to itself takes all."""
    target: Any = work.root
    if not reference.startswith("#") or reference in work.following:
        return {}
    for part in reference.removeprefix("#").split("/")[1:]:
        key = part.replace("~1", "/").replace("~0", "~")
        target = target.get(key) if isinstance(target, Mapping) else None
    beside = {key: value for key, value in given.items() if key != "$ref"}
    work.following.append(reference)
    try:
        return _repair({**target, **beside}, work, depth) if isinstance(target, Mapping) else {}
    finally:
        work.following.pop()


def _merge_all(given: Mapping[str, Any], work: _Repair, depth: int) -> dict[str, Any]:
    """With what `allOf` demands beside it; at the top, where no union may stand, with what its branches have."""
    merged = dict(given)
    branches = merged.pop("allOf", None)
    optional = False
    if depth == 0:
        for key in _UNIONS:
            union = merged.pop(key, None)
            if isinstance(union, list) and union:
                branches = [*(branches if isinstance(branches, list) else ()), *union]
                optional = True
    for branch in branches[:MOST_PROPERTIES] if isinstance(branches, list) else ():
        work.left -= 1
        if work.left < 0:
            break
        if isinstance(branch, Mapping) and isinstance(branch.get("$ref"), str):
            branch = _find_target(branch, work)
        if isinstance(branch, Mapping):
            merged = _join(merged, branch, optional=optional)
    return merged


def _find_target(branch: Mapping[str, Any], work: _Repair) -> Mapping[str, Any]:
    target: Any = work.root
    for part in str(branch["$ref"]).removeprefix("#").split("/")[1:]:
        target = target.get(part) if isinstance(target, Mapping) else None
    return target if isinstance(target, Mapping) else {}


def _join(first: Mapping[str, Any], second: Mapping[str, Any], *, optional: bool) -> dict[str, Any]:
    own, other = first.get("properties"), second.get("properties")
    properties = {**(other if isinstance(other, Mapping) else {}), **(own if isinstance(own, Mapping) else {})}
    required = [*_list(first.get("required")), *([] if optional else _list(second.get("required")))]
    joined = {**second, **first}
    if properties:
        joined["properties"] = properties
    joined["required"] = required
    return joined


def _find_type(given: Mapping[str, Any]) -> str:
    named = given.get("type")
    names = named if isinstance(named, list) else [named]
    known = [name for name in names if isinstance(name, str) and name in TYPES]
    plain = [name for name in known if name != "null"] or known
    if plain:
        return plain[0]
    if isinstance(given.get("properties"), Mapping):
        return "object"
    return "array" if "items" in given else ""


def _keep_plain(given: Mapping[str, Any], kind: str) -> Schema:
    """Keywords without schemas in them, where their values are in order."""
    kept: Schema = {}
    for key, wanted in _KEPT.items():
        value = given.get(key)
        if isinstance(value, wanted) and not isinstance(value, bool) and len(str(value)) <= NOTE_CHARS:
            kept[key] = value
    values = [given["const"]] if "const" in given else given.get("enum")
    if isinstance(values, list) and len(values) <= MOST_VALUES * 2 and kind not in ("object", "array"):
        plain = [value for value in values if isinstance(value, _SCALARS) and len(str(value)) <= NOTE_CHARS]
        unique = list({json.dumps(value): value for value in plain}.values())
        if unique and len(unique) <= MOST_VALUES:
            kept["enum"] = unique
    default = given.get("default")
    if isinstance(default, _SCALARS) and len(str(default)) <= NOTE_CHARS:
        kept["default"] = default
    return kept


def _repair_object(given: Mapping[str, Any], work: _Repair, depth: int) -> Schema:
    properties = given.get("properties")
    found: Schema = {}
    named = list(islice(properties.items(), MOST_PROPERTIES)) if isinstance(properties, Mapping) else []
    fields: dict[str, Schema] = {}
    for name, inner in named:
        key = str(name) if _PROPERTY.fullmatch(str(name)) else _safe_key(str(name)) if depth == 0 else ""
        if key and key not in fields:
            fields[key] = _repair(inner, work, depth + 1)
    if fields:
        found["properties"] = fields
    renamed = {str(name): _safe_key(str(name)) for name, _ in named if not _PROPERTY.fullmatch(str(name))}
    required = [renamed.get(name, name) for name in _list(given.get("required"))]
    wanted = [name for name in dict.fromkeys(required) if name in fields]
    if wanted:
        found["required"] = wanted
    values = given.get("additionalProperties")
    if isinstance(values, bool) and not values:
        found["additionalProperties"] = False
    return found


def _repair_union(union: list[Any], work: _Repair, depth: int) -> Schema:
    """A union of one is that one; what takes everything makes the union take everything."""
    branches = [_repair(branch, work, depth + 1) for branch in union[:MOST_VALUES]]
    plain = [branch for branch in branches if branch.get("type") != "null"]
    unique = list({json.dumps(branch, sort_keys=True): branch for branch in plain}.values())
    if not unique or {} in unique:
        return {}
    return unique[0] if len(unique) == 1 else {"anyOf": unique}


def _without_notes(schema: Any) -> Any:
    """Without descriptions and enumerations below the top."""
    if isinstance(schema, list):
        return [_without_notes(item) for item in schema]
    if not isinstance(schema, dict):
        return schema
    return {
        key: {name: _without_notes(inner) for name, inner in value.items()}
        if key == "properties"
        else _without_notes(value)
        for key, value in schema.items()
        if key not in ("description", "enum", "default", "pattern")
    }


def _flatten(schema: Schema) -> Schema:
    """The last resort for a schema that is too large: names and kinds of its parameters."""
    named = list(schema["properties"].items())[:MOST_PROPERTIES]
    fields = {name: {"type": kind} if (kind := inner.get("type")) else {} for name, inner in named}
    for inner in fields.values():
        if inner.get("type") == "array":
            inner["items"] = {}
    required = [name for name in schema.get("required", ()) if name in fields]
    return {"type": "object", "properties": fields, **({"required": required} if required else {})}


def _safe_key(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_.-]", "_", name)[:64]


def _list(value: object) -> list[str]:
    return [item for item in value if isinstance(item, str)] if isinstance(value, list) else []
