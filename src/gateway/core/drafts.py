"""What a chat shows of an answer while it grows: one message that is edited now and then, or a typing sign where the
platform cannot edit. Pure: the draft and the time go in, one step comes out."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType

from gateway.core.markup.dialects import NO_TEXT, PLAIN, WrittenText, write_literally
from gateway.core.text.lengths import measure
from gateway.core.text.render import write_text
from gateway.platforms.face import PlatformSpec
from hermes_base.chat import ToolEnded, ToolStarted

TYPING_SECONDS = 4.0  # platforms show the sign for about five
MAX_LINES = 6  # of tool progress under the text
#: Edits that a draft leaves where they are few: for its answer, for that once more after a cut, and for the word that
#: its turn goes on after a restart.
KEPT_EDITS = 3
#: A draft always ends with this, so that it is never taken for the answer.
UNFINISHED = "…"

OFF, SHORT, FULL = "off", "short", "full"


KEY = "draft:"  # begins the key of a draft
_ATTEMPT = "~"


def name_attempt(turn: str, attempts: int) -> str:
    """What the draft of a turn is called that was tried so often before: another one each time."""
    return f"{turn}{_ATTEMPT}{attempts}" if attempts else turn


def find_turn(name: str) -> str:
    """The turn whose draft is called so."""
    conversation, mark, number = name.rpartition("#")
    return f"{conversation}{mark}{number.partition(_ATTEMPT)[0]}"


@dataclass(frozen=True, slots=True)
class Draft:
    """The answer of a turn so far, and what the chat shows of it."""

    turn: str = ""
    text: str = ""
    lines: tuple[str, ...] = ()  # tool progress
    message: str = ""  # the platform's id of the draft; empty: not sent yet
    shown: str = ""
    plain: bool = False  # the platform did not take its markup
    shown_at: float = -math.inf
    edits: int = 0  # that were made, or may have been
    typed_at: float = -math.inf
    given_up: bool = False  # the platform does not take it, or it is unknown whether it did
    unsure: bool = False  # it is on its way, or may have arrived; its key tells under which id, if keys are taken
    ended: bool = False  # the turn is over; only the answer comes

    @property
    def key(self) -> str:
        """The same after a restart: whoever goes on with the turn finds its draft again where keys are taken."""
        return f"{KEY}{self.turn}" if self.turn else ""

    @property
    def is_lost(self) -> bool:
        """Whether it may stand there, and nobody knows under which id."""
        return self.unsure and not self.message

    @property
    def place(self) -> str:
        """Where its answer goes, for `Outgoing.draft`: the platform's id, or the key when it may stand there under an
        id that nobody knows. Empty: nothing of it stands there."""
        return self.message or (self.key if self.unsure else "")


def read_place(place: str, turn: str) -> Draft | None:
    """The draft that an answer was stored with, for whoever sends it: perhaps another process than the one that drew
    the draft. None: there is none."""
    if place.startswith(KEY):
        return Draft(place.removeprefix(KEY), unsure=True)
    return Draft(turn, message=place) if place else None


def begin_draft(draft: Draft, *, takes_keys: bool) -> Draft:
    """The draft from the moment on in which it is sent. However that ends, be it that its process is stopped or cut off
    meanwhile, it may stand there (C7); it is not sent a second time, unless its key tells."""
    return replace(draft, unsure=True, given_up=not (takes_keys and draft.key))


def end_draft(drafts: Mapping[str, Draft], own: Draft) -> dict[str, Draft]:
    """The drafts of a chat when the answer of one of them is next: what the chat may show of that one waits for it.
    Turns before it in its conversation are over, and no answer of theirs is to come."""
    names = list(drafts)
    over = {name for name in names[: names.index(own.turn)] if _name_talk(name) == _name_talk(own.turn)}
    kept = {own.turn: replace(own, ended=True)} if own.message or own.unsure else {}
    return {
        name: kept.get(name, draft)
        for name, draft in drafts.items()
        if name not in over and (name != own.turn or name in kept)
    }


def settle_draft(draft: Draft, message: str, *, certain: bool = True) -> Draft:
    """The draft when its sending has ended, under this id. Empty: it was refused; not `certain`: nobody knows whether
    it stands there."""
    if not certain:
        return draft
    return replace(draft, message=message, unsure=False, given_up=not message)


def _name_talk(turn: str) -> str:
    """The conversation of a turn: its turns come one after the other."""
    return turn.rpartition("#")[0]


@dataclass(frozen=True, slots=True)
class SendDraft:
    written: WrittenText


@dataclass(frozen=True, slots=True)
class EditDraft:
    message: str
    written: WrittenText


@dataclass(frozen=True, slots=True)
class ShowTyping:
    pass


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing before so many seconds; infinity: nothing until the draft changes."""

    seconds: float


DraftStep = SendDraft | EditDraft | ShowTyping | Wait


def next_step(draft: Draft, spec: PlatformSpec, now: float, pause: float = 0.0) -> DraftStep:
    """What to do for the draft now; `pause`: at least so many seconds between two steps of any kind."""
    slow = max(draft.shown_at, draft.typed_at) + pause
    typing_at = max(draft.typed_at + TYPING_SECONDS, slow) if spec.has_typing else math.inf
    text_at = max(draft.shown_at + _pause_edit(draft, spec), slow)
    has_text = spec.can_edit and not draft.given_up and bool(draft.text or draft.lines) and _may_edit(draft, spec)
    if has_text and text_at <= now:
        written = show_draft(draft, spec)
        if written.text and written.text != draft.shown:
            return EditDraft(draft.message, written) if draft.message else SendDraft(written)
        text_at = math.inf
    if typing_at <= now:
        return ShowTyping()
    return Wait(min(text_at if has_text else math.inf, typing_at) - now)


def _may_edit(draft: Draft, spec: PlatformSpec) -> bool:
    return not (spec.most_edits and draft.message) or draft.edits < spec.most_edits - KEPT_EDITS


def _pause_edit(draft: Draft, spec: PlatformSpec) -> float:
    """Where edits are few each waits longer than the one before, so that they last for a long answer."""
    return spec.edit_seconds * (1 + draft.edits if spec.most_edits else 1)


def show_draft(draft: Draft, spec: PlatformSpec) -> WrittenText:
    """The draft in the platform's markup: what fits into one message; the rest comes with the answer."""
    if draft.plain:
        spec = replace(spec, markup=PLAIN)
    unit, limit = spec.length_unit, spec.max_length
    lines = write_literally("\n".join(draft.lines[-MAX_LINES:]), spec.markup)
    ends = measure(f"\n\n\n{UNFINISHED}", unit)
    beside = ends + max(measure(lines.shown, unit), measure(lines.plain, unit))
    if limit and beside * 2 > limit:
        lines, beside = NO_TEXT, ends
    room = max(1, limit - beside) if limit else 0
    # Splitting costs what the text is long, and only the first message is looked at.
    body = next(write_text(draft.text[: 2 * room] if room else draft.text, room, spec), NO_TEXT)
    return WrittenText(
        _end_draft(body.text, lines.text), _end_draft(body.plain, lines.plain), _end_draft(body.shown, lines.shown)
    )


def _end_draft(body: str, lines: str) -> str:
    """Text and progress, with the sign that more will come."""
    text = "\n\n".join(filter(None, (body, lines)))
    if not text:
        return ""
    return f"{text}\n{UNFINISHED}" if text.endswith(("```", "~~~")) else f"{text} {UNFINISHED}"


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
