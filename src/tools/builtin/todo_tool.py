"""The list of what a task still has to do; it is kept in a file, so it outlives the agent and the process."""

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.turn.tool_context import ToolContext
from hermes_cli.config.own_files import replace_file
from hermes_constants import get_hermes_home
from tools.memory_tool import clean_text, hold_for_change
from tools.registry import make_schema, registry, tool_result

TOOLSET = "todo"
STATUSES = ("pending", "in_progress", "done", "cancelled")
MAX_ITEMS = 50
TEXT_CHARS = 300
ID_CHARS = 40

_FIELDS = {
    "id": {"type": "string"},
    "text": {"type": "string"},
    "status": {"type": "string", "enum": list(STATUSES)},
}
SCHEMA = make_schema(
    "todo",
    "Your list for this task. Without items: read it. With items: replace it; with merge: change those.",
    (),
    items={"type": "array", "items": {"type": "object", "properties": _FIELDS}},
    merge={"type": "boolean"},
)

Item = dict[str, str]


def manage_todo(args: Mapping[str, Any], *, context: ToolContext) -> str:
    """Read the list, replace it, or merge some items into it; the whole list comes back."""
    # A task id that cannot be a file's name is kept under its hash.
    plain = re.fullmatch(r"[A-Za-z0-9_-][A-Za-z0-9._-]{0,99}", context.task)
    hashed = hashlib.sha256(context.task.encode("utf-8", "surrogatepass")).hexdigest()[:32]
    home = context.own or context.home or get_hermes_home()
    path = home / "todos" / f"{context.task if plain else f'task-{hashed}'}.json"
    given = args.get("items")
    if given is None:
        return _report(_read(path))
    parsed = _read_items(given, context.redact)
    with hold_for_change(path):
        items = _complete(_merge(_read(path), parsed) if args.get("merge") is True else parsed)
        replace_file(path, json.dumps(items, ensure_ascii=False, indent=1))
    return _report(items)


def _read(path: Path) -> list[Item]:
    try:
        return _complete(_read_items(json.loads(path.read_bytes()), str))
    except FileNotFoundError:
        return []
    except (OSError, ValueError, ToolFailure) as problem:
        raise ToolFailure("The list cannot be read.", fix="Give the whole list anew, without merge.") from problem


def _read_items(given: object, redact: Callable[[str], str]) -> list[Item]:
    """Items with the fields that were given, checked; some models send the array as text."""
    if isinstance(given, str):
        try:
            given = json.loads(given)
        except ValueError:
            given = None
    if not isinstance(given, list) or not all(isinstance(item, Mapping) for item in given):
        raise ToolFailure("Items are a list of objects with id, text and status.")
    if len(given) > MAX_ITEMS:
        raise ToolFailure(f"A list holds at most {MAX_ITEMS} items; these are {len(given)}.")
    items = []
    for fields in given:
        number = fields.get("id")
        item = {
            "id": clean_text(str(number) if isinstance(number, int) else number, redact),
            "text": clean_text(fields.get("text"), redact),
            "status": fields.get("status") or "",
        }
        if item["status"] not in ("", *STATUSES):
            raise ToolFailure(f"'{item['status']}' is no status; use {', '.join(STATUSES)}.")
        for field, limit in (("id", ID_CHARS), ("text", TEXT_CHARS)):
            text = item[field]
            if len(text) > limit:
                raise ToolFailure(f"The {field} of an item has at most {limit} characters: '{text[:ID_CHARS]}…'.")
        items.append({field: value for field, value in item.items() if value})
    return items


def _merge(known: Sequence[Item], given: Sequence[Item]) -> list[Item]:
    """Items with a known id change in place, field by field; the others are added at the end."""
    changes = {item["id"]: item for item in given if "id" in item}
    ids = {item["id"] for item in known}
    changed = [item | changes.get(item["id"], {}) for item in known]
    return changed + [item for item in given if item.get("id") not in ids]


def _complete(items: Sequence[Item]) -> list[Item]:
    """Each item with an id of its own, a text and a status."""
    if len(items) > MAX_ITEMS:
        raise ToolFailure(f"A list holds at most {MAX_ITEMS} items; these would be {len(items)}.")
    taken = [item["id"] for item in items if "id" in item]
    if len(taken) != len(set(taken)):
        raise ToolFailure("Two items have the same id.")
    free = (str(number) for number in range(1, 2 * MAX_ITEMS + 1) if str(number) not in taken)
    complete = []
    for item in items:
        if "text" not in item:
            raise ToolFailure(f"Item '{item.get('id', '')}' has no text.")
        id = item.get("id") or next(free)
        complete.append({"id": id, "text": item["text"], "status": item.get("status", STATUSES[0])})
    return complete


def _report(items: Sequence[Item]) -> str:
    if not items:
        return tool_result(items=[], note="The list is empty.")
    open_items = sum(item["status"] in STATUSES[:2] for item in items)
    return tool_result(items=list(items), open=open_items)


registry.register("todo", TOOLSET, SCHEMA, manage_todo, emoji="📋")
