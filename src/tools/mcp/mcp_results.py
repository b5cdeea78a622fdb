"""What a server answered, as the model reads it: text of bounded length, images that are some, and the rest in words.

Takes the answer as the JSON of the protocol. Pure.
"""

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

from hermes_base.image_types import find_image_type
from hermes_base.text.harmless import clean_shown
from tools.registry import tool_error

TEXT_CHARS = 30_000
HEAD_SHARE = 0.7
IMAGE_BYTES = 4 * 1024 * 1024
MOST_IMAGES = 4
MOST_PARTS = 200
MOST_COMPARED = 50  # values of an answer's data that are looked for in its texts

Part = dict[str, Any]


def read_result(server: str, result: Mapping[str, Any]) -> str | dict[str, Any]:
    """The answer to a call. It never begins as JSON: nothing that a server writes is taken for something of ours."""
    texts, images = _sort_parts(result.get("content"))
    structured = result.get("structuredContent")
    if structured is not None and not _is_told(structured, texts):
        texts.append(_dump(structured))
    said = _cut("\n".join(texts).strip()) or ("(nothing)" if not images else "")
    if result.get("isError") is True:
        return tool_error(f"The MCP server {server} reports: {said or '(nothing)'}")
    text = f"[MCP server {server}]\n{said}".rstrip()
    if not images:
        return text
    return {"_multimodal": True, "content": [{"type": "text", "text": text}, *images]}


def _is_told(structured: object, texts: Sequence[str]) -> bool:
    """Whether the texts say the same: as JSON, or every value of it in some words."""
    told = [text for text in texts if text.strip()]
    if not told or any(_read_json(text) == structured for text in told):
        return bool(told)
    said, values = "\n".join(told), list(islice(_list_values(structured), MOST_COMPARED + 1))
    return len(values) <= MOST_COMPARED and all(value in said for value in values)


def _list_values(value: object) -> Iterator[str]:
    if isinstance(value, Mapping | list):
        for inner in value.values() if isinstance(value, Mapping) else value:
            yield from _list_values(inner)
    else:
        yield clean_shown(value).strip() if isinstance(value, str) else json.dumps(value)


def _read_json(text: str) -> object:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def read_contents(server: str, what: str, contents: object) -> str:
    """A resource that was read."""
    rows = [row for row in contents if isinstance(row, Mapping)] if isinstance(contents, list) else []
    texts = [_write_resource(row) for row in rows[:MOST_PARTS]]
    return f"[MCP server {server}: {clean_line(what)}]\n{_cut(chr(10).join(texts)) or '(nothing)'}"


def clean_line(text: object) -> str:
    return " ".join(clean_shown(str(text)).split())[:300]


def read_prompt(server: str, name: str, result: Mapping[str, Any]) -> str:
    """The messages of a prompt, each with who is to say it."""
    lines = []
    for message in _rows(result.get("messages")):
        texts, _ = _sort_parts([message.get("content")])
        lines.append(f"{clean_line(message.get('role', ''))}: {' '.join(texts)}")
    return f"[MCP server {server}: prompt {clean_line(name)}]\n{_cut(chr(10).join(lines)) or '(nothing)'}"


def _sort_parts(content: object) -> tuple[list[str], list[Part]]:
    texts: list[str] = []
    images: list[Part] = []
    rows = _rows(content)
    for row in rows[:MOST_PARTS]:
        if row.get("type") == "image" and len(images) < MOST_IMAGES:
            image = _read_image(row)
            if image is not None:
                images.append(image)
                continue
        texts.append(_write_part(row))
    if len(rows) > MOST_PARTS:
        texts.append(f"[{len(rows) - MOST_PARTS} more parts are left out]")
    return texts, images


def _read_image(row: Mapping[str, Any]) -> Part | None:
    """An image that is one, by its bytes; None: it is something else, or too large."""
    data = row.get("data")
    if not isinstance(data, str) or len(data) > IMAGE_BYTES * 4 // 3 + 4:
        return None
    try:
        raw = base64.b64decode(data, validate=True)
    except (binascii.Error, ValueError):
        return None
    kind = find_image_type(raw)
    url = f"data:{kind};base64,{base64.b64encode(raw).decode()}"
    return {"type": "image_url", "image_url": {"url": url}} if kind else None


def _write_part(row: Mapping[str, Any]) -> str:
    kind = row.get("type")
    if kind == "text":
        return clean_shown(str(row.get("text", "")))
    if kind == "resource" and isinstance(row.get("resource"), Mapping):
        return _write_resource(row["resource"])
    if kind == "resource_link":
        about = clean_line(row.get("description") or row.get("name") or "")
        return f"[resource {clean_line(row.get('uri', ''))}: {about}]"
    size = len(row["data"]) * 3 // 4 if isinstance(row.get("data"), str) else 0
    return f"[{clean_line(kind)} {clean_line(row.get('mimeType', ''))} of {size:,} bytes, which is not shown]"


def _write_resource(row: Mapping[str, Any]) -> str:
    where = clean_line(row.get("uri", ""))
    if isinstance(row.get("text"), str):
        return f"[resource {where}]\n{clean_shown(row['text'])}"
    size = len(row["blob"]) * 3 // 4 if isinstance(row.get("blob"), str) else 0
    return f"[resource {where}: {clean_line(row.get('mimeType', 'bytes'))}, {size:,} bytes, which are not shown]"


def _cut(text: str) -> str:
    """Beginning and end of a long text."""
    if len(text) <= TEXT_CHARS:
        return text
    head = int(TEXT_CHARS * HEAD_SHARE)
    tail = TEXT_CHARS - head
    return f"{text[:head]}\n[{len(text) - TEXT_CHARS:,} characters are left out]\n{text[-tail:]}"


def _rows(value: object) -> Sequence[Mapping[str, Any]]:
    return [row for row in value if isinstance(row, Mapping)] if isinstance(value, list) else []


def _dump(value: object) -> str:
    return clean_shown(json.dumps(value, ensure_ascii=False, default=str))
