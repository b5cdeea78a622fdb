"""Tool results that are more than text: they travel as JSON with a mark, and each format takes them apart."""

import json
from typing import Any

MARK = '"_multimodal"'
_NO_IMAGE = "(an image, which this model cannot be shown in the result of a tool)"


def find_parts(content: object) -> list[Any] | None:
    """The parts of such a result; None when it is plain text, whatever else it looks like."""
    if isinstance(content, list):
        return content
    if not isinstance(content, str) or MARK not in content:
        return None
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        return None
    parts = value.get("content") if isinstance(value, dict) and value.get("_multimodal") is True else None
    return parts if isinstance(parts, list) else None


def as_words(parts: list[Any]) -> str:
    """The texts of the parts, and a word in the place of each image, for formats whose tool results are text."""
    words: list[str] = []
    for part in parts:
        if isinstance(part, dict) and part.get("type") == "text":
            words.append(str(part.get("text", "")))
        else:
            words.append(part if isinstance(part, str) else _NO_IMAGE)
    return "\n".join(words)
