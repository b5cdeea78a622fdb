"""The file tools: read, write, patch and search, inside the allowed folders, with what they change kept for undo."""

import base64
import difflib
import os
import stat
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.image_types import find_image_type
from hermes_base.turn.tool_context import ToolContext
from tools.files.encodings import FileText, decode, find_line_end, printable, with_line_ends
from tools.files.file_changes import Rewrite
from tools.files.patch_plans import find_places, plan_rewrites, read_edits
from tools.files.patching import FileLine, split_lines
from tools.files.roots import READ, WRITE, FilePlace, explain, find_place, open_listing, read_bytes
from tools.files.searching import search_files
from tools.files.writing import FILE_BYTES, change_files, note_read, refuse_unknown
from tools.registry import make_schema, registry

TOOLSET = "files"
PAGE_LINES = 1000
PAGE_CHARS = 30_000
LINE_CHARS = 2000
LISTED = 500
IMAGE_BYTES = 4 * 1024 * 1024
_REDACT_AHEAD = 4096  # a secret that lies across the cut of a long line is still seen whole
_KINDS = ((stat.S_ISDIR, "/"), (stat.S_ISLNK, " (link)"), (stat.S_ISREG, ""))

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


# --- reading


def read_file(args: Mapping[str, Any], *, context: ToolContext) -> str | dict[str, Any]:
    """The page of a file that was asked for, or what else is at the path."""
    place = find_place(context, args.get("path"), READ)
    if os.path.isdir(place.path):
        try:
            with open_listing(place.path) as folder, os.scandir(folder) as entries:
                kinds = [(entry.name, entry.stat(follow_symlinks=False).st_mode) for entry in entries]
        except OSError as problem:
            raise explain(place.path, problem) from problem
        marked = [(name, next((mark for test, mark in _KINDS if test(mode)), " (special)")) for name, mode in kinds]
        names = sorted(printable(name) + mark for name, mark in marked)
        left_out = [f"[{len(names) - LISTED} more; use search_files]"] if len(names) > LISTED else []
        return "\n".join([f"{place.path}/ (folder, {len(names)} entries)", *names[:LISTED], *left_out])
    file = read_bytes(place, FILE_BYTES)
    if file is None:
        raise ToolFailure(f"There is no file {place.path}.", fix=_suggest(place))
    size, media_type = len(file.data), find_image_type(file.data)
    if media_type and size > IMAGE_BYTES:
        return f"{place.path} is an image ({media_type}) of {size:,} bytes; up to {IMAGE_BYTES:,} are shown."
    if media_type:
        url = f"data:{media_type};base64,{base64.b64encode(file.data).decode()}"
        said = {"type": "text", "text": f"{place.path} ({media_type}, {size:,} bytes)"}
        return {"_multimodal": True, "content": [said, {"type": "image_url", "image_url": {"url": url}}]}
    text = decode(file.data)
    if text is None:
        return f"{place.path} is a binary file of {size:,} bytes; it is not shown."
    note_read(context.task, place.path, file)
    return _show_page(context, place, text, args)


def _show_page(context: ToolContext, place: FilePlace, text: FileText, args: Mapping[str, Any]) -> str:
    lines = split_lines(text.text)
    first = _whole_number(args, "offset", 1)
    count = min(_whole_number(args, "limit", PAGE_LINES), PAGE_LINES)
    if lines and first > len(lines):
        raise ToolFailure(f"{place.path} has {len(lines)} lines; offset {first} is past its end.")
    # As many lines as fit, at least one; in a small window a page takes at most about a quarter of it (E9).
    chars_left = max(2000, min(PAGE_CHARS, context.window_tokens)) if context.window_tokens else PAGE_CHARS
    page: list[FileLine] = []
    for line in lines[first - 1 : first - 1 + count]:
        chars_left -= min(len(line.body), LINE_CHARS) + 8
        if chars_left < 0 and page:
            break
        page.append(line)
    last = first - 1 + len(page)
    # How it is written, where that is not plain UTF-8 with \\n.
    encoding = text.encoding if text.encoding != "utf-8" else "utf-8 with BOM" if text.mark else ""
    ends = "CRLF" if "\r\n" in text.text and find_line_end(text.text) == "\r\n" else ""
    head = ", ".join(word for word in (f"{place.path} ({len(lines)} lines", encoding, ends) if word) + ")"
    tail = [] if last >= len(lines) else [f"[lines {first}-{last} of {len(lines)}; go on with offset {last + 1}]"]
    return "\n".join([head, *_number(context, page, first), *tail])


def _number(context: ToolContext, page: list[FileLine], first: int) -> list[str]:
    """Numbered lines without secrets (G6); a secret over several lines is taken out of the page as a whole."""
    if not page:
        return []
    bodies = [line.body[: LINE_CHARS + _REDACT_AHEAD] for line in page]
    safe = context.redact("\n".join(bodies)).split("\n")
    cut = [_cut(body, max(len(line.body), len(body))) for body, line in zip(safe, page, strict=False)]
    if len(safe) == len(page):
        return [f"{n}| {body}" for n, body in enumerate(cut, first)]
    return [_cut(body, len(body)) for body in safe]


def _cut(body: str, length: int) -> str:
    return body if length <= LINE_CHARS else f"{body[:LINE_CHARS]}… [{length - LINE_CHARS} characters left out]"


def _suggest(place: FilePlace) -> str:
    """Names in the same folder that are close to the one that is not there."""
    try:
        with open_listing(place.folder) as folder:
            close = difflib.get_close_matches(place.name, map(printable, os.listdir(folder)), 3)
    except (OSError, ToolFailure):
        return "Its folder is not there either; look with search_files."
    return f"Close to it: {', '.join(close)}." if close else "Look for it with search_files."


def _whole_number(args: Mapping[str, Any], name: str, default: int) -> int:
    value = args.get(name)
    if value is None:
        return default
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise ToolFailure(f"{name} must be a whole number from 1.")
    return value


# --- writing


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
