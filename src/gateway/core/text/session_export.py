"""A session as a document: markdown for people, JSON for programs."""

import json
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from types import MappingProxyType
from typing import Any

from hermes_base.turn.journal import Row, shown_text
from hermes_state.store import SessionInfo


def write_markdown(info: SessionInfo, rows: Sequence[Row]) -> str:
    begun = time.strftime("%Y-%m-%d %H:%M", time.localtime(info.started))
    lines = [f"# {name_session(info)}", "", f"{info.id}, {begun}, {info.model or 'no model'}"]
    for row in rows:
        calls = [str((call.get("function") or {}).get("name")) for call in row.message.get("tool_calls") or ()]
        text = shown_text(row).strip()
        if calls:
            text = f"{text}\n\n(calls {', '.join(calls)})".strip()
        lines.append(f"\n## {row.message.get('role', row.kind)}\n\n{text}")
    return "\n".join(lines)


def write_json(info: SessionInfo, rows: Sequence[Row]) -> str:
    messages = [dict(row.message) | ({"shown": row.shown} if row.shown is not None else {}) for row in rows]
    return dump({"session": asdict(info), "messages": messages})


def dump(value: Any) -> str:
    """As JSON; a mapping of any kind is an object, and what JSON does not know is text."""

    def write_odd(value: object) -> Any:
        return dict(value) if isinstance(value, Mapping) else str(value)

    return json.dumps(value, ensure_ascii=False, indent=2, default=write_odd)


def name_session(info: SessionInfo) -> str:
    return info.title or info.preview or "(untitled)"


FORMS: Mapping[str, Callable[[SessionInfo, Sequence[Row]], str]] = MappingProxyType(
    {"json": write_json, "markdown": write_markdown, "md": write_markdown}
)
