"""How an editor is shown a tool: what kind of work it is, which files it touches, and what it changed there. Pure."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from acp import schema

from hermes_base.text.tool_views import CODE, DIFF, JSON, OUTPUT, PATCHES, ToolPart
from hermes_constants.ordinary_files import expand_home

WRITERS = frozenset({"write_file", *PATCHES})
PLAN = "todo"
KINDS: Mapping[str, schema.ToolKind] = MappingProxyType(
    {
        "read_file": "read",
        "write_file": "edit",
        "patch": "edit",
        "search_files": "search",
        "session_search": "search",
        "web_search": "search",
        "terminal": "execute",
        "process": "execute",
        "execute_code": "execute",
        "web_extract": "fetch",
        "todo": "think",
        "clarify": "think",
        "memory": "think",
    }
)
#: Tools that come as a family, by how their names begin.
_FAMILIES: Mapping[str, schema.ToolKind] = MappingProxyType({"browser_": "fetch", "web_": "fetch"})
_OTHER: schema.ToolKind = "other"
#: Files that a patch names in the heads of its diffs.
_HEADS = re.compile(r"^(?:\+\+\+|---) (?:[ab]/)?([^\t\n]+)", re.MULTILINE)
_STATES: Mapping[str, schema.PlanEntryStatus] = MappingProxyType(
    {"in_progress": "in_progress", "done": "completed", "cancelled": "completed"}
)
_MARKED = re.compile(r"(☐|☑|▶|☒) (.*)")
_BY_MARK: Mapping[str, str] = MappingProxyType({"☑": "done", "▶": "in_progress", "☒": "cancelled"})
#: What parts of a tool's result are, between fences.
_LANGUAGES: Mapping[str, str] = MappingProxyType({OUTPUT: "", CODE: "", DIFF: "diff", JSON: "json"})


def find_kind(name: str) -> schema.ToolKind:
    family = next((kind for beginning, kind in _FAMILIES.items() if name.startswith(beginning)), _OTHER)
    return KINDS.get(name, family)


def write_title(name: str, preview: str) -> str:
    """A call on one line; what it was called with where that reads as words."""
    return name if preview.startswith("{") else f"{name} {preview}".strip()


def list_files(name: str, args: Mapping[str, Any], folder: str) -> list[str]:
    """The files that a call names, as whole paths."""
    edits = args.get("edits") if name in PATCHES else None
    named = [args.get("path"), *(path for edit in _objects(edits) for path in _name_files(edit))]
    paths = (path for path in named if isinstance(path, str) and path.strip() and path != os.devnull)
    return list(dict.fromkeys(os.path.normpath(os.path.join(folder, expand_home(path))) for path in paths))


def _name_files(edit: Mapping[str, Any]) -> Iterator[Any]:
    yield edit.get("path")
    diff = edit.get("diff")
    yield from _HEADS.findall(diff) if isinstance(diff, str) else ()


def _objects(value: object) -> list[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, Mapping)] if isinstance(value, list) else []


def list_places(name: str, args: Mapping[str, Any], folder: str) -> list[schema.ToolCallLocation]:
    """Where an editor that follows along looks."""
    line = args.get("offset") if name == "read_file" else None
    line = line if isinstance(line, int) and line > 0 else None
    return [schema.ToolCallLocation(path=path, line=line) for path in list_files(name, args, folder)]


def make_diff(path: str, before: str, after: str) -> schema.FileEditToolCallContent:
    return schema.FileEditToolCallContent(type="diff", path=path, old_text=before or None, new_text=after)


def list_edits(name: str, args: Mapping[str, Any], folder: str) -> list[schema.FileEditToolCallContent]:
    """What a call of long ago changed, as far as it says so itself: the pieces that it put in the place of others."""
    pieces = (
        (edit.get("path"), edit.get("old"), edit.get("new"))
        for edit in _objects(args.get("edits") if name in PATCHES else None)
    )
    return [
        make_diff(os.path.normpath(os.path.join(folder, path)), old, new)
        for path, old, new in pieces
        if isinstance(path, str) and isinstance(old, str) and isinstance(new, str)
    ]


def make_text(text: str) -> schema.ContentToolCallContent:
    block = schema.TextContentBlock(type="text", text=text)
    return schema.ContentToolCallContent(type="content", content=block)


def fence(text: str, language: str = "") -> str:
    """A text between fences that it does not have itself, so that an editor shows it as it is."""
    longest = max((len(found) for found in re.findall(r"^`{3,}", text, re.MULTILINE)), default=2)
    marks = "`" * (longest + 1)
    return f"{marks}{language}\n{text.rstrip()}\n{marks}"


def write_parts(parts: Sequence[ToolPart]) -> str:
    """What came of a call as markdown."""
    written = (
        "\n".join(filter(None, (part.label, fence(part.text, _LANGUAGES[part.kind]))))
        if part.kind in _LANGUAGES
        else "\n\n".join(filter(None, (part.label, part.text)))
        for part in parts
    )
    return "\n\n".join(written)


def find_plan(args: Mapping[str, Any], shown: str) -> schema.AgentPlanUpdate | None:
    """The list of what is to be done: as it was given whole, else as the tool's result shows it; None: it is empty."""
    items = [] if args.get("merge") is True else _objects(args.get("items"))
    marked = filter(None, map(_MARKED.fullmatch, shown.splitlines()))
    entries = [_make_entry(str(item.get("text") or ""), str(item.get("status") or "")) for item in items] or [
        _make_entry(found[2], _BY_MARK.get(found[1], "")) for found in marked
    ]
    return schema.AgentPlanUpdate(session_update="plan", entries=entries) if entries else None


def _make_entry(text: str, status: str) -> schema.PlanEntry:
    return schema.PlanEntry(content=text, priority="medium", status=_STATES.get(status, "pending"))
