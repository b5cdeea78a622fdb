"""What an editor is told of a turn: events of the chat in, updates of the session out. Pure.

Nothing that was told can be taken back here. A text that does not count any more is followed by a word on that, as in a
terminal without a screen.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from acp import schema

from hermes_base.chat import (
    Event,
    FileSent,
    Notice,
    ReasoningDelta,
    Said,
    TextDelta,
    TextEnded,
    ToolEnded,
    ToolStarted,
    TurnEnded,
)
from hermes_base.text.tool_views import CODE, JSON, OUTPUT, cut_parts, view_result
from hermes_base.turn.journal import CUT, FILTERED
from hermes_cli.acp import tool_shapes as shapes
from hermes_cli.chat import terminal_words as words

Update = (
    schema.UserMessageChunk
    | schema.AgentMessageChunk
    | schema.AgentThoughtChunk
    | schema.ToolCallStart
    | schema.ToolCallProgress
    | schema.AgentPlanUpdate
    | schema.AvailableCommandsUpdate
)
EARLY: Mapping[str, schema.StopReason] = {CUT: "max_tokens", FILTERED: "refusal"}
GAP = "\n\n"
MOST_SHOWN = 100_000  # characters of what came of a call
#: Tools whose results are no markdown.
_PLAIN = {"terminal": OUTPUT, "process": OUTPUT, "read_file": CODE, "search_files": JSON}


@dataclass(frozen=True, slots=True)
class RunningCall:
    """A tool at work: what it was called with, and for which task."""

    name: str
    args: Mapping[str, Any] = field(default_factory=dict)
    task: str = ""


class TurnTelling:
    """One session's words as they come; what differs from turn to turn is forgotten by `begin`."""

    def __init__(self) -> None:
        self._open: list[str] = []  # the text under way
        self._gap = False  # words were told before: what comes next is a paragraph of its own
        self.errors: list[str] = []  # why there is no answer; told as an error, or as words when there is one
        self.ended: TurnEnded | None = None
        self.cancelled = False

    def begin(self) -> None:
        self._open, self._gap, self.errors, self.ended, self.cancelled = [], False, [], None, False

    @property
    def stop_reason(self) -> schema.StopReason:
        if self.cancelled or (self.ended is not None and self.ended.interrupted):
            return "cancelled"
        return EARLY.get(self.ended.reason, "end_turn") if self.ended is not None else "end_turn"

    @property
    def failure(self) -> str:
        """Why there is no answer; empty: there is one, or nobody waits for one."""
        answered = self.ended is not None and (self.ended.completed or self.ended.interrupted)
        return "" if answered or self.cancelled else "\n".join(self.errors)

    def tell(self, event: Event) -> Iterator[Update]:
        tell = _TELLERS.get(type(event))
        if tell is not None:
            yield from tell(self, event)

    def tell_late(self) -> Iterator[Update]:
        """Errors beside an answer that came all the same."""
        errors, self.errors = self.errors, []
        for error in errors:
            yield from self._say(error)

    def _tell_text(self, event: TextDelta) -> Iterator[Update]:
        if not self._open:
            yield from self._part()
        self._open.append(event.text)
        yield say(event.text)

    def _tell_end_of_text(self, event: TextEnded) -> Iterator[Update]:
        text, self._open = "".join(self._open), []
        self._gap = self._gap or bool(text)
        if text and not event.kept:
            yield from self._say(words.BEGINS_ANEW)

    def _tell_thought(self, event: ReasoningDelta) -> Iterator[Update]:
        yield think(event.text)

    def _tell_notice(self, event: Notice) -> Iterator[Update]:
        if event.level == "error":
            self.errors.append(event.text)
        else:
            yield from self._say(keep_lines(event.text))

    def _tell_said(self, event: Said) -> Iterator[Update]:
        yield hear(event.text)

    def _tell_file(self, event: FileSent) -> Iterator[Update]:
        yield from self._say(event.text)
        link = schema.ResourceContentBlock(type="resource_link", name=event.name, uri=Path(event.path).as_uri())
        yield schema.AgentMessageChunk(session_update="agent_message_chunk", content=link)

    def _tell_end(self, event: TurnEnded) -> Iterator[Update]:
        self.ended = event
        shown, self._open = "".join(self._open), []
        missing = words.find_missing(shown, event.answer) if event.answer else ""
        self._gap = self._gap or bool(shown)
        if missing is None:
            yield from self._say(words.BEGINS_ANEW)
            yield from self._say(event.answer)
        elif missing:
            if not shown:
                yield from self._part()
            yield say(missing)
            self._gap = True
        ending = words.describe_ending(event, stopped_here=self.cancelled, explained=bool(self.errors))
        if ending and not self.cancelled:
            yield from self._say(ending)

    def _say(self, text: str) -> Iterator[Update]:
        """A word of the house, as a paragraph of its own."""
        if not text.strip():
            return
        if self._open:
            self._gap = True
        yield from self._part()
        yield say(text)
        self._gap = True

    def _part(self) -> Iterator[Update]:
        if self._gap:
            yield say(GAP)
        self._gap = False


_TELLERS: Mapping[type, Callable[[TurnTelling, Any], Iterator[Update]]] = {
    TextDelta: TurnTelling._tell_text,
    TextEnded: TurnTelling._tell_end_of_text,
    ReasoningDelta: TurnTelling._tell_thought,
    Notice: TurnTelling._tell_notice,
    Said: TurnTelling._tell_said,
    FileSent: TurnTelling._tell_file,
    TurnEnded: TurnTelling._tell_end,
}


# --- single updates


def keep_lines(text: str) -> str:
    """A text that is no markdown, so that an editor, which takes it for some, keeps its lines."""
    return text if "```" in text else text.replace("\n", "  \n")


def say(text: str) -> schema.AgentMessageChunk:
    return schema.AgentMessageChunk(session_update="agent_message_chunk", content=_write(text))


def think(text: str) -> schema.AgentThoughtChunk:
    return schema.AgentThoughtChunk(session_update="agent_thought_chunk", content=_write(text))


def hear(text: str) -> schema.UserMessageChunk:
    return schema.UserMessageChunk(session_update="user_message_chunk", content=_write(text))


def _write(text: str) -> schema.TextContentBlock:
    return schema.TextContentBlock(type="text", text=text)


def begin_call(event: ToolStarted, call: RunningCall, folder: str) -> schema.ToolCallStart:
    return schema.ToolCallStart(
        session_update="tool_call",
        tool_call_id=event.id,
        title=shapes.write_title(event.name, event.preview),
        kind=shapes.find_kind(event.name),
        status="in_progress",
        locations=shapes.list_places(event.name, call.args, folder),
        raw_input=dict(call.args) or None,
    )


def end_call(event: ToolEnded, diffs: list[schema.FileEditToolCallContent]) -> schema.ToolCallProgress:
    """What came of it: what it changed, else its output."""
    told = shapes.fence(event.preview) if event.name in _PLAIN else event.preview
    content = [*diffs] if diffs and event.ok else [shapes.make_text(told)] if event.preview else []
    return schema.ToolCallProgress(
        session_update="tool_call_update",
        tool_call_id=event.id,
        status="completed" if event.ok else "failed",
        content=list(content),
    )


def is_cut(event: ToolEnded) -> bool:
    """Whether more came of it than was told."""
    return event.preview.endswith("…")


def tell_whole(id: str, name: str, result: str) -> schema.ToolCallProgress:
    """What came of a call in full, once it is stored."""
    shown = shapes.write_parts(cut_parts(view_result(name, result), MOST_SHOWN))
    return schema.ToolCallProgress(
        session_update="tool_call_update", tool_call_id=id, content=[shapes.make_text(shown)]
    )


def break_call(id: str) -> schema.ToolCallProgress:
    """Its turn is over, and nobody told its end."""
    return schema.ToolCallProgress(session_update="tool_call_update", tool_call_id=id, status="failed")
