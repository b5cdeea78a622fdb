"""Neutral messages as content blocks of the Messages format, in the form that its servers accept."""

import base64
import binascii
import json
import math
import re
import zlib
from collections.abc import Mapping, Sequence
from itertools import takewhile
from typing import Any

from agent.formats.multimodal import find_parts
from agent.formats.repair import repair_arguments
from agent.formats.reply import own_data

Block = dict[str, Any]

THINKING_BLOCKS = frozenset({"thinking", "redacted_thinking"})
#: Stands where there is nothing: the format takes no empty message and no blank text.
EMPTY = "(empty)"
_FORBIDDEN = re.compile(r"[^a-zA-Z0-9_-]")
_LONGEST_NAME = 128
_DATA_URL = re.compile(r"data:(image/[a-z0-9.+-]+);base64,", re.IGNORECASE)
_IMAGE_TYPES: Mapping[str, str] = {
    "image/jpeg": "image/jpeg",
    "image/jpg": "image/jpeg",
    "image/png": "image/png",
    "image/gif": "image/gif",
    "image/webp": "image/webp",
}


def make_blocks(message: Mapping[str, Any], dialect: str) -> list[Block]:
    """The content of a neutral message; never empty."""
    role = message["role"]
    if role == "tool":
        content = message.get("content")
        parts = find_parts(content)
        told: Any = content if isinstance(content, str) and content.strip() else EMPTY
        if parts is not None:
            told = _make_parts(parts) or EMPTY
        return [{"type": "tool_result", "tool_use_id": _make_id(message.get("tool_call_id")), "content": told}]
    blocks = _make_assistant(message, dialect) if role == "assistant" else _make_parts(message.get("content"))
    if not blocks or blocks[-1]["type"] in THINKING_BLOCKS:  # thinking may not come last either
        blocks.append(_make_text(EMPTY))
    return blocks


def parse_arguments(arguments: object) -> dict[str, Any]:
    """Tool arguments as the object that they are; numbers that JSON does not have become text."""
    parsed = json.loads(repair_arguments(arguments), parse_constant=str, parse_float=_parse_float)
    return dict(parsed)


# --- the assistant


def _make_assistant(message: Mapping[str, Any], dialect: str) -> list[Block]:
    """The answer as it came, if this dialect kept it and nothing was changed since.

    Thinking is signed and bound to what stands before it. So behind a block that was changed no thinking is sent, but
    what stood before all of them is: a server that expects thinking before a tool call would refuse its absence.
    """
    kept: list[Block] = list(own_data(message, dialect).get("blocks") or ())
    uses: list[Block] = [
        {
            "type": "tool_use",
            "id": _make_id(call["id"]),
            "name": _FORBIDDEN.sub("_", str(call["function"]["name"]))[:_LONGEST_NAME],
            "input": parse_arguments(call["function"]["arguments"]),
        }
        for call in message.get("tool_calls") or ()
    ]
    if kept and _agree(kept, message):
        next_use = iter(uses)  # with the ids that the results will name
        blocks = (next(next_use) if block["type"] == "tool_use" else block for block in kept)
        return [block for block in blocks if block["type"] != "text" or block["text"].strip()]
    return [
        *takewhile(lambda block: block["type"] in THINKING_BLOCKS, kept),
        *_make_parts(message.get("content")),
        *uses,
    ]


def _agree(kept: Sequence[Block], message: Mapping[str, Any]) -> bool:
    """Whether the kept blocks say what the neutral message says."""
    text = "".join(block["text"] for block in kept if block["type"] == "text")
    uses = [(block["id"], block["name"], block["input"]) for block in kept if block["type"] == "tool_use"]
    calls = [
        (call["id"], call["function"]["name"], parse_arguments(call["function"]["arguments"]))
        for call in message.get("tool_calls") or ()
    ]
    return text == message.get("content") and uses == calls


def _make_id(call_id: object) -> str:
    """Other formats allow any text as the id of a call; two that differ stay different."""
    text = str(call_id)
    valid = _FORBIDDEN.sub("_", text)
    return valid if valid == text and text else f"{valid}_{zlib.crc32(text.encode('utf-8', 'replace')):08x}"


# --- text and images


def _make_parts(content: object) -> list[Block]:
    if isinstance(content, str):
        return [_make_text(content)] if content.strip() else []
    blocks: list[Block] = []
    for part in content if isinstance(content, list) else ():
        if isinstance(part, str):
            part = {"type": "text", "text": part}
        if not isinstance(part, Mapping):
            continue
        kind = part.get("type")
        if kind == "image_url":
            blocks.append(_make_image(part.get("image_url")))
        elif kind != "text":
            blocks.append(_make_text(f"({kind} left out)"))
        elif str(part.get("text") or "").strip():
            blocks.append(_make_text(str(part["text"])))
    return blocks


def _make_text(text: str) -> Block:
    return {"type": "text", "text": text}


def _make_image(image: object) -> Block:
    """An image that the server cannot take would spoil every later request, so it becomes a word."""
    url = str(image.get("url") or "") if isinstance(image, Mapping) else str(image or "")
    if url.startswith(("https://", "http://")):
        return {"type": "image", "source": {"type": "url", "url": url}}
    head = _DATA_URL.match(url)
    media_type = _IMAGE_TYPES.get(head[1].lower()) if head else None
    if head is None or media_type is None:
        return _make_text("(image left out: its kind is not supported)")
    data = "".join(url[head.end() :].split())
    if not data or not _is_base64(data):
        return _make_text("(image left out: its data is broken)")
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}


def _is_base64(data: str) -> bool:
    try:
        base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return False
    return True


def _parse_float(text: str) -> float | str:
    number = float(text)
    return number if math.isfinite(number) else text
