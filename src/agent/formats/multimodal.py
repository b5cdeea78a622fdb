"""Tool results that are more than text: they travel as JSON with a mark, and each format takes them apart."""

import base64
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from hermes_base.image_types import find_image_type

MARK = '"_multimodal"'
_NO_IMAGE = "(an image, which this model cannot be shown here)"
_DATA_ADDRESS = re.compile(r"data:([^;,]*);base64,")
_HEAD_CHARS = 32  # of the data: enough to tell its kind


def is_image(part: object) -> bool:
    return isinstance(part, Mapping) and part.get("type") == "image_url"


def label_image(part: Mapping[str, Any]) -> dict[str, Any]:
    """A part of a message; if it is an image, with the media type that its bytes have, whatever it was said to be."""
    image = part.get("image_url") if is_image(part) else None
    url = image.get("url") if isinstance(image, Mapping) else None
    head = _DATA_ADDRESS.match(url) if isinstance(url, str) else None
    if image is None or url is None or head is None:
        return dict(part)
    try:
        kind = find_image_type(base64.b64decode(url[head.end() : head.end() + _HEAD_CHARS]))
    except ValueError:  # whoever reads all of it will say that it is broken
        kind = ""
    return {**part, "image_url": {**image, "url": f"data:{kind or head[1]};base64,{url[head.end() :]}"}}


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


def fit_words(content: str, fit: Callable[[str], str]) -> str:
    """A result in parts with its words as they fit (E9); the very same when they do. What is no text stays."""
    parts = find_parts(content) or []
    words = as_words([part for part in parts if _is_text(part)])
    fitted = fit(words)
    if fitted == words:
        return content
    rest = [part for part in parts if not _is_text(part)]
    return json.dumps({"_multimodal": True, "content": [{"type": "text", "text": fitted}, *rest]}, ensure_ascii=False)


def _is_text(part: object) -> bool:
    return isinstance(part, str) or (isinstance(part, dict) and part.get("type") == "text")


def as_words(parts: list[Any]) -> str:
    """The texts of the parts, and a word in the place of each image, for whoever takes text only."""
    words: list[str] = []
    for part in parts:
        if isinstance(part, dict) and part.get("type") == "text":
            words.append(str(part.get("text", "")))
        else:
            words.append(part if isinstance(part, str) else _NO_IMAGE)
    return "\n".join(words)
