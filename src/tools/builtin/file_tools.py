"""The file tools: read, write, patch and search, inside the allowed folders, with what they change kept for undo."""

import os
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.tool_context import ToolContext
from tools.files.encodings import FileText, decode, find_line_end, with_line_ends
from tools.files.file_changes import Rewrite
from tools.files.file_views import read_file
from tools.files.patch_plans import find_places, plan_rewrites, read_edits
from tools.files.roots import WRITE, find_place, read_bytes
from tools.files.searching import search_files
from tools.files.writing import FILE_BYTES, change_files, refuse_unknown
from tools.registry import make_schema, registry

TOOLSET = "files"


TEXT, NUMBER, YES_NO = {"type": "string"}, {"type": "integer"}, {"type": "boolean"}

READ_SCHEMA = make_schema(
    "read_file",
    "Read a file with line numbers, see an image, or list a folder.",
    ("path",),
    path=TEXT,
    offset={"type": "integer", "description": "First line, from 1."},
    limit={"type": "integer", "description": "Lines, at most 1000."},
)
WRITE_SCHEMA = make_schema(
    "write_file",
    "Write a whole file; folders are created. Read an existing file first. To change parts, use patch.",
    ("path", "content"),
    path=TEXT,
    content=TEXT,
    overwrite={"type": "boolean", "description": "Replace it unread."},
)
PATCH_SCHEMA = make_schema(
    "patch",
    "Change files, all or nothing. Each edit is {path, old, new}, where old fits one place (all: every place), "
    "or {diff}: a unified diff, which may also create, delete and rename.",
    ("edits",),
    edits={
        "type": "array",
        "items": {
            "type": "object",
            "properties": {"path": TEXT, "old": TEXT, "new": TEXT, "all": YES_NO, "diff": TEXT},
        },
    },
)
SEARCH_SCHEMA = make_schema(
    "search_files",
    "Search file contents (regular expression, RE2) or file names (glob, or a part of the name) below a folder.",
    ("pattern",),
    pattern=TEXT,
    path=TEXT,
    kind={"type": "string", "enum": ["content", "name"]},
    glob={"type": "string", "description": "Only files like *.py."},
    limit=NUMBER,
)


def write_file(args: Mapping[str, Any], *, context: ToolContext) -> str:
    """Replace or create a file; one that exists keeps its encoding, line ends and mode."""
    content = args.get("content")
    if not isinstance(content, str):
        raise ToolFailure("write_file needs the content as text.")
    place = find_place(context, args.get("path"), WRITE)

    def plan() -> list[Rewrite]:
        before = read_bytes(place, FILE_BYTES)
        known = (decode(before.data) if before is not None else None) or FileText("")
        if before is not None and args.get("overwrite") is not True:
            refuse_unknown(context.task, place.path, before)
            if context.redact(known.text) != known.text:  # who was not shown the secrets would write it without them
                raise ToolFailure(
                    f"{place.path} holds secrets that you were not shown; writing it whole would lose them.",
                    fix="Use patch for the lines to change.",
                )
        text = with_line_ends(content, find_line_end(known.text)) if "\n" in known.text else content
        return [Rewrite(place, before, known.encode(text, place.path))]

    (made,) = change_files(context, plan)
    if not made.changes:
        return f"{place.path} already holds this; nothing was written."
    return f"{'Wrote' if made.before else 'Created'} {place.path} ({len(made.after or b''):,} bytes)."


def patch(args: Mapping[str, Any], *, context: ToolContext) -> str:
    """Apply all edits or none; says for each file what became of it."""
    edits = read_edits(args)
    places = find_places(context, edits)
    try:
        rewrites = change_files(context, lambda: plan_rewrites(context.task, edits, places))
    except ToolFailure as failure:
        # The nearest place is text of the file (G6).
        raise ToolFailure(context.redact(str(failure))) from failure
    return "\n".join(_describe(rewrite, context.folder) for rewrite in rewrites)


def _describe(rewrite: Rewrite, folder: str) -> str:
    path = rewrite.place.path
    inside = os.path.relpath(path, os.path.realpath(folder))
    name = path if inside.startswith("..") else inside  # as the person would name it
    if rewrite.after is None:
        return f"deleted {name}"
    old = Counter((rewrite.before.data if rewrite.before else b"").split(b"\n"))
    new = Counter(rewrite.after.split(b"\n"))
    added, dropped = (new - old).total(), (old - new).total()
    return f"{'changed' if rewrite.before else 'created'} {name} (+{added} -{dropped})"


TOOLS: tuple[tuple[Mapping[str, Any], Callable[..., Any], str], ...] = (
    (READ_SCHEMA, read_file, "📄"),
    (WRITE_SCHEMA, write_file, "📝"),
    (PATCH_SCHEMA, patch, "🩹"),
    (SEARCH_SCHEMA, search_files, "🔎"),
)
for _tool_schema, _handler, _emoji in TOOLS:
    registry.register(_tool_schema["name"], TOOLSET, _tool_schema, _handler, emoji=_emoji)
