"""A stored transcript as updates of a session, for an editor that loads one. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from acp import schema

from gateway.core.timeline import list_entries
from hermes_base.inbound import FileRef
from hermes_base.query_values import ASSISTANT, TOOL, USER, TimelineEntry
from hermes_base.text.tool_views import RESULT, read_object
from hermes_cli.acp import tool_shapes as shapes
from hermes_cli.acp.turn_telling import Update, hear, say, think
from hermes_state.store import PagedRow


def replay(rows: Sequence[PagedRow], folder: str) -> Iterator[Update]:
    """What was said and done, in order."""
    calls = _list_calls(rows)
    for entry in list_entries(rows):
        if entry.kind == USER:
            yield from _replay_question(entry)
        elif entry.kind == ASSISTANT:
            yield from _replay_answer(entry)
        elif entry.kind == TOOL:
            id, args = calls.get(entry.id, (entry.id, {}))
            yield _replay_call(entry, id, args, folder)


def list_answers(rows: Sequence[PagedRow]) -> set[str]:
    """The texts that Hermes has answered."""
    return {entry.text.strip() for entry in list_entries(rows) if entry.kind == ASSISTANT and entry.text.strip()}


def _list_calls(rows: Sequence[PagedRow]) -> dict[str, tuple[str, Mapping[str, Any]]]:
    """The ids and arguments of the calls, by the names of their entries."""
    return {
        f"m{paged.row.position}.{number}": (
            str(call.get("id") or ""),
            read_object(str((call.get("function") or {}).get("arguments") or "")) or {},
        )
        for paged in rows
        for number, call in enumerate(paged.row.message.get("tool_calls") or ())
    }


def _replay_question(entry: TimelineEntry) -> Iterator[Update]:
    if entry.text:
        yield hear(entry.text)
    for file in entry.files:
        yield schema.UserMessageChunk(session_update="user_message_chunk", content=_link(file))


def _link(file: FileRef) -> schema.ResourceContentBlock:
    return schema.ResourceContentBlock(type="resource_link", name=file.name, uri=Path(file.path).as_uri())


def _replay_answer(entry: TimelineEntry) -> Iterator[Update]:
    if entry.reasoning.strip():
        yield think(entry.reasoning)
    told = "\n\n".join(filter(None, (entry.text.strip(), entry.detail)))
    if told:
        yield say(told)


def _replay_call(entry: TimelineEntry, id: str, args: Mapping[str, Any], folder: str) -> schema.ToolCallStart:
    shown = shapes.write_parts([part for part in entry.parts if part.of == RESULT])
    diffs = shapes.list_edits(entry.name, args, folder) if entry.ok else []
    return schema.ToolCallStart(
        session_update="tool_call",
        tool_call_id=id,
        title=shapes.write_title(entry.name, entry.detail.partition("\n")[0]),
        kind=shapes.find_kind(entry.name),
        status="completed" if entry.ok else "in_progress" if entry.ok is None else "failed",
        content=[*diffs] if diffs else [shapes.make_text(shown)] if shown else None,
        locations=shapes.list_places(entry.name, args, folder),
        raw_input=dict(args) or None,
    )
