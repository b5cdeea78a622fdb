"""What the model sees of a file: numbered lines by page, an image, a folder's names, or what kind of file it is."""

import base64
import difflib
import os
import stat
from collections.abc import Mapping
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.tool_context import ToolContext
from tools.files.encodings import FileText, decode, find_image_type, find_line_end, printable
from tools.files.patching import FileLine, split_lines
from tools.files.roots import READ, FileBytes, FilePlace, explain, find_place, open_listing, read_bytes
from tools.files.writing import FILE_BYTES, note_read

PAGE_LINES = 1000
PAGE_CHARS = 30_000
LINE_CHARS = 2000
LISTED = 500
IMAGE_BYTES = 4 * 1024 * 1024
_REDACT_AHEAD = 4096  # a secret that lies across the cut of a long line is still seen whole
_KINDS = ((stat.S_ISDIR, "/"), (stat.S_ISLNK, " (link)"), (stat.S_ISREG, ""))


def show_path(context: ToolContext, args: Mapping[str, Any]) -> str | dict[str, Any]:
    """The page of a file that was asked for, or what else is at the path."""
    place = find_place(context, args.get("path"), READ)
    if os.path.isdir(place.path):
        return _list_folder(place)
    file = read_bytes(place, FILE_BYTES)
    if file is None:
        raise ToolFailure(f"There is no file {place.path}.", fix=_suggest(place))
    media_type = find_image_type(file.data)
    if media_type:
        return _show_image(place, file, media_type)
    text = decode(file.data)
    if text is None:
        return f"{place.path} is a binary file of {len(file.data):,} bytes; it is not shown."
    note_read(context.task, place.path, file)
    return _show_page(context, place, text, args)


def _show_page(context: ToolContext, place: FilePlace, text: FileText, args: Mapping[str, Any]) -> str:
    lines = split_lines(text.text)
    first = _whole_number(args, "offset", 1)
    count = min(_whole_number(args, "limit", PAGE_LINES), PAGE_LINES)
    if lines and first > len(lines):
        raise ToolFailure(f"{place.path} has {len(lines)} lines; offset {first} is past its end.")
    page = _fit_page(lines[first - 1 : first - 1 + count], _page_chars(context))
    last = first - 1 + len(page)
    head = f"{place.path} ({len(lines)} lines{_describe_writing(text)})"
    tail = [] if last >= len(lines) else [f"[lines {first}-{last} of {len(lines)}; go on with offset {last + 1}]"]
    return "\n".join([head, *_number(context, page, first), *tail])


def _fit_page(lines: list[FileLine], room: int) -> list[FileLine]:
    """As many lines as fit, at least one (E9)."""
    for i, line in enumerate(lines):
        room -= min(len(line.body), LINE_CHARS) + 8
        if room < 0:
            return lines[: max(i, 1)]
    return lines


def _page_chars(context: ToolContext) -> int:
    """A small window gets small pages: a page takes at most about a quarter of it (E9)."""
    return max(2000, min(PAGE_CHARS, context.window_tokens)) if context.window_tokens else PAGE_CHARS


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


def _describe_writing(text: FileText) -> str:
    """What is not plain UTF-8 with \\n."""
    encoding = text.encoding if text.encoding != "utf-8" else "utf-8 with BOM" if text.mark else ""
    ends = "CRLF" if "\r\n" in text.text and find_line_end(text.text) == "\r\n" else ""
    return "".join(f", {word}" for word in (encoding, ends) if word)


def _show_image(place: FilePlace, file: FileBytes, media_type: str) -> str | dict[str, Any]:
    size = len(file.data)
    if size > IMAGE_BYTES:
        return f"{place.path} is an image ({media_type}) of {size:,} bytes; up to {IMAGE_BYTES:,} are shown."
    url = f"data:{media_type};base64,{base64.b64encode(file.data).decode()}"
    text = f"{place.path} ({media_type}, {size:,} bytes)"
    content = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]
    return {"_multimodal": True, "content": content}


def _list_folder(place: FilePlace) -> str:
    try:
        with open_listing(place.path) as folder, os.scandir(folder) as entries:
            names = sorted(_name_entry(entry) for entry in entries)
    except OSError as problem:
        raise explain(place.path, problem) from problem
    left_out = [f"[{len(names) - LISTED} more; use search_files]"] if len(names) > LISTED else []
    return "\n".join([f"{place.path}/ (folder, {len(names)} entries)", *names[:LISTED], *left_out])


def _name_entry(entry: os.DirEntry[str]) -> str:
    mode = entry.stat(follow_symlinks=False).st_mode
    return printable(entry.name) + next((mark for test, mark in _KINDS if test(mode)), " (special)")


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
