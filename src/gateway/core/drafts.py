"""What a chat shows of an answer while it grows: one message that is edited now and then, or a typing sign where the
platform cannot edit. Pure: the draft and the time go in, one step comes out."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from gateway.core.blocks import strip_markdown
from gateway.core.lengths import measure
from gateway.core.render import split_text
from gateway.platforms.face import PlatformSpec
from hermes_base.chat import ToolEnded, ToolStarted

TYPING_SECONDS = 4.0  # platforms show the sign for about five
MAX_LINES = 6  # of tool progress under the text
#: A draft always ends with this, so that it is never taken for the answer.
UNFINISHED = "…"

OFF, SHORT, FULL = "off", "short", "full"


@dataclass(frozen=True, slots=True)
class Draft:
    """The answer of a turn so far, and what the chat shows of it."""

    turn: str = ""
    text: str = ""
    lines: tuple[str, ...] = ()  # tool progress
    message: str = ""  # the platform's id of the draft; empty: not sent yet
    shown: str = ""
    shown_at: float = -math.inf
    typed_at: float = -math.inf
    given_up: bool = False  # the platform does not take it, or it is unknown whether it did
    unsure: bool = False  # it may have arrived; its key tells under which id
    ended: bool = False  # the turn is over; only the answer comes

    @property
    def key(self) -> str:
        """The same after a restart: the turn that goes on finds its draft again where keys are taken."""
        return f"draft:{self.turn}" if self.turn else ""

    @property
    def place(self) -> str:
        """Where its answer goes, for `Outgoing.draft`: the platform's id, or the key while nobody knows the id. Empty:
        there is nothing to show."""
        return self.message or (self.key if (self.text or self.lines) and not self.given_up else "")


@dataclass(frozen=True, slots=True)
class SendDraft:
    text: str


@dataclass(frozen=True, slots=True)
class EditDraft:
    message: str
    text: str


@dataclass(frozen=True, slots=True)
class ShowTyping:
    pass


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing before so many seconds; infinity: nothing until the draft changes."""

    seconds: float


DraftStep = SendDraft | EditDraft | ShowTyping | Wait


def next_step(draft: Draft, spec: PlatformSpec, now: float) -> DraftStep:
    """What to do for the draft now."""
    text = show_draft(draft, spec) if spec.can_edit and not draft.given_up else ""
    until_typing = draft.typed_at + TYPING_SECONDS - now if spec.has_typing else math.inf
    until_text = draft.shown_at + spec.edit_seconds - now if text and text != draft.shown else math.inf
    if until_text <= 0:
        return EditDraft(draft.message, text) if draft.message else SendDraft(text)
    if until_typing <= 0:
        return ShowTyping()
    return Wait(min(until_text, until_typing))


def show_draft(draft: Draft, spec: PlatformSpec) -> str:
    """The draft's text: what fits into one message; the rest comes with the answer."""
    lines = "\n".join(draft.lines[-MAX_LINES:])
    room = spec.max_length - measure(f"\n\n{lines} {UNFINISHED}", spec.length_unit) if spec.max_length else 0
    if spec.max_length and room < spec.max_length // 2:
        lines, room = "", spec.max_length - measure(f" {UNFINISHED}", spec.length_unit)
    # Splitting costs what the text is long, and only the first message is looked at.
    head = draft.text[: 2 * room] if room else draft.text
    head = head if spec.markup == "markdown" else strip_markdown(head)
    texts = split_text(head, room, spec.length_unit, spec.markup)[:1]
    body = "\n\n".join([*texts, *([lines] if lines else [])])
    if not body:
        return ""
    return f"{body}\n{UNFINISHED}" if body.endswith(("```", "~~~")) else f"{body} {UNFINISHED}"


def add_line(draft: Draft, line: str) -> Draft:
    """The draft with one more line of progress."""
    return replace(draft, lines=(*draft.lines, line)[-MAX_LINES:]) if line else draft


def describe_progress(event: ToolStarted | ToolEnded, mode: str) -> str:
    """One line on what a tool does; empty when this mode does not tell it."""
    return _WORDS[mode](event)


def _describe_full(event: ToolStarted | ToolEnded) -> str:
    line = " ".join(event.preview.split())
    line = line if len(line) <= 100 else line[:99] + UNFINISHED
    preview = f": {line}" if event.preview else ""
    if isinstance(event, ToolStarted):
        return f"⚙ {event.name}{preview}"
    return f"{'✓' if event.ok else '✗'} {event.name} ({event.seconds:.1f} s){preview}"


_WORDS: Mapping[str, Callable[[ToolStarted | ToolEnded], str]] = MappingProxyType(
    {
        OFF: lambda _: "",
        SHORT: lambda event: f"⚙ {event.name}" if isinstance(event, ToolStarted) else "",
        FULL: _describe_full,
    }
)
