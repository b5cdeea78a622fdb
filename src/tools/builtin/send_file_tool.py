"""Hands a file over to the person in the chat: resolved and checked first, then sent as the platform can (G7)."""

import mimetypes
from collections.abc import Mapping
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.inbound import FileRef
from hermes_base.turn.tool_context import ToolContext
from tools.files.roots import SEND, find_place, read_bytes
from tools.registry import make_schema, registry, tool_result

TOOLSET = "files"
MOST_BYTES = 50_000_000
CAPTION_CHARS = 1_000
_SEEN_OR_HEARD = ("image", "audio")

SCHEMA = make_schema(
    "send_file",
    "Send a file to the person in this chat.",
    ("path",),
    path={"type": "string"},
    caption={"type": "string"},
)


def send_file(args: Mapping[str, Any], *, context: ToolContext) -> str:
    """Send it; what is said about it goes along."""
    if context.send_file is None:
        raise ToolFailure("Nobody is there to take a file.", fix="Say where the file is instead.")
    file, data = read_for_sending(context, args.get("path"))
    context.send_file(file, context.redact(str(args.get("caption") or "")[:CAPTION_CHARS]), data)
    return tool_result(sent=file.name, bytes=file.size)


def read_for_sending(context: ToolContext, path: object) -> tuple[FileRef, bytes]:
    """A file that may be sent, and what it holds now (G7)."""
    place = find_place(context, path, SEND)
    found = read_bytes(place, MOST_BYTES)
    if found is None:
        raise ToolFailure(f"There is no file {place.path}.")
    kind = (mimetypes.guess_type(place.name)[0] or "").partition("/")[0]
    return FileRef(place.path, place.name, kind if kind in _SEEN_OR_HEARD else "file", len(found.data)), found.data


registry.register("send_file", TOOLSET, SCHEMA, send_file, emoji="📎")
