"""Memory: short notes in MEMORY.md and USER.md that later conversations find in their system prompt.

The prompt of the running conversation stays as it is; its model hears of a change by a note (A4).
"""

import re
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from hermes_base.errors import ToolFailure
from hermes_base.files.note_merge import ENTRY_DELIMITER as ENTRY_DELIMITER
from hermes_base.files.note_merge import split_notes
from hermes_base.turn.tool_context import ToolContext
from hermes_base.turn.turn_context import current_turn
from hermes_cli.config.own_files import hold_folder, replace_file
from hermes_constants import get_hermes_home
from tools.approval import ask_approval
from tools.registry import make_schema, registry, tool_result

NAME = TOOLSET = "memory"
FOLDER = "memories"
NOTE_CHARS = 240
TEXT_CHARS = 10_000

SCHEMA = make_schema(
    "memory",
    "Short notes for later conversations, about the work (memory) or the person (user).",
    ("action",),
    action={"type": "string", "enum": ["add", "replace", "remove", "list"]},
    target={"type": "string", "enum": ["memory", "user"]},
    content={"type": "string"},
    old_text={"type": "string", "description": "Words of the note."},
)


@dataclass(frozen=True, slots=True)
class Target:
    """A file of notes and how many characters of it the prompt takes."""

    file: str
    limit: int


TARGETS = {"memory": Target("MEMORY.md", 4_000), "user": Target("USER.md", 3_000)}

#: What model formats use to tell who speaks; in a note it could pass for the end of the system prompt.
_MARKERS = re.compile(
    r"<\|[^|<>]*\|>|\[/?INST\]|<</?SYS>>|</?s>|</?(?:system|user|assistant|tool|tool_call|tool_response|think)\b[^<>]*>"
    r"|</?memory-context\b[^<>]*>|`{3,}",
    re.IGNORECASE,
)
_BULLET = re.compile(r"^(?:(?:[-*>]|#+)\s+)+")
_JOINERS = "\u200c\u200d"  # invisible, but part of words in some scripts and of many emoji


def manage_memory(args: Mapping[str, Any], *, context: ToolContext) -> str:
    """Show the notes or change one; with foreign text in sight, a change needs the person's consent (G9)."""
    action, target = args.get("action"), TARGETS.get(args.get("target") or "memory")
    if target is None:
        raise ToolFailure("The target is 'memory' or 'user'.")
    path = (context.own or context.home or get_hermes_home()) / FOLDER / target.file
    if action == "list":
        return _report(target, _read_blocks(path), context)
    if action not in NEEDS:
        raise ToolFailure("The action is 'add', 'replace', 'remove' or 'list'.")
    texts = {name: clean_text(args.get(name), context.redact) for name in ("content", "old_text")}
    missing = [name for name in NEEDS[action] if not texts[name]]
    if missing:
        raise ToolFailure(f"To {action} a note, give {' and '.join(missing)}.")
    change = NoteChange(action, texts["content"], texts["old_text"])
    # It is tried before the person is asked: nobody agrees to what cannot be done.
    before = _read_blocks(path)
    _check_limit(target, before, change.apply(before))
    bound = change.bound_to(before) if context.foreign else change
    if context.foreign:
        what = context.redact(f"Change memory: {bound.describe(target)}")
        reason = f"this conversation holds {' and '.join(context.foreign.origins)}"
        consent = ask_approval(context, what, reason, "confirmation")
        if not consent:
            raise ToolFailure(f"This note was not written: {consent.why} ({reason}).", kept="Nothing was changed.")
    with hold_for_change(path):
        before = _read_blocks(path)
        after = bound.apply(before)
        _check_limit(target, before, after)
        replace_file(path, _join(after) + "\n" if after else "")
    done = change.describe(target)
    if context.tell_model is not None:
        told = done if len(done) <= NOTE_CHARS else done[: NOTE_CHARS - 1] + "…"
        context.tell_model(f"Memory was changed: {told}")
    return _report(target, after, context, done=done)


# --- changes

#: What each action has to be given, and what is said of it.
NEEDS = {"add": ("content",), "replace": ("content", "old_text"), "remove": ("old_text",)}
WORDS = {
    "add": "added to {file}: {content}",
    "replace": "replaced in {file}: '{old}' is now: {content}",
    "remove": "removed from {file}: {old}",
}


@dataclass(frozen=True, slots=True)
class NoteChange:
    """One change of a file of notes, with texts that are clean already."""

    action: str
    content: str
    old_text: str
    whole: bool = False  # the words are all of the note, not some of it

    def apply(self, blocks: Sequence[str]) -> list[str]:
        """The notes after it, or a ToolFailure that says why not."""
        place = len(blocks) if self.action == "add" else self.find(blocks)
        if self.action == "remove":
            return [*blocks[:place], *blocks[place + 1 :]]
        if self.content.casefold() in (_text_of(block).casefold() for block in blocks):
            raise ToolFailure("This is there already; nothing was changed.")
        return [*blocks[:place], f"- {self.content}", *blocks[place + 1 :]]

    def bound_to(self, blocks: Sequence[str]) -> "NoteChange":
        """The same change, naming the note it is about in full: that one and no other."""
        if self.action == "add":
            return self
        return replace(self, old_text=_text_of(blocks[self.find(blocks)]), whole=True)

    def describe(self, target: Target) -> str:
        return WORDS[self.action].format(file=target.file, content=self.content, old=self.old_text)

    def find(self, blocks: Sequence[str]) -> int:
        """The one note that is meant: equal to the words, or the only one that holds them."""
        texts = [_text_of(block).casefold() for block in blocks]
        wanted = self.old_text.casefold()
        if texts.count(wanted) == 1:
            return texts.index(wanted)
        places = [place for place, text in enumerate(texts) if wanted in text and not self.whole]
        if len(places) == 1:
            return places[0]
        if places:
            found = _show([blocks[place] for place in places])
            raise ToolFailure(f"{len(places)} notes hold these words; give more of the one you mean:\n{found}")
        raise ToolFailure(f"No note holds these words. What is there:\n{_show(blocks)}")


def _check_limit(target: Target, before: Sequence[str], after: Sequence[str]) -> None:
    """A file that grew too long by hand may still be made shorter."""
    used, needed = len(_join(before)), len(_join(after))
    if needed > target.limit and needed > used:
        what = f"{target.file} is full: {used} of {target.limit} characters, {needed} with this."
        raise ToolFailure(f"{what} Replace or remove notes first. What is there:\n{_show(before)}")


# --- texts


def clean_text(value: object, redact: Callable[[str], str]) -> str:
    """One line without secrets (G6), control characters and signs that could pass for a part of the prompt."""
    if not isinstance(value, str):
        return ""
    if len(value) > TEXT_CHARS:
        raise ToolFailure(f"A text here has at most {TEXT_CHARS} characters; this one has {len(value)}.")
    visible = [
        sign
        for sign in redact(value)
        if sign.isspace() or sign in _JOINERS or unicodedata.category(sign) not in ("Cc", "Cf", "Cs")
    ]
    text, before = " ".join("".join(visible).split()), ""
    while text != before:  # what is left can be another marker
        # A marker keeps its word and loses its signs: a note may well speak of `/home/<user>`.
        before, text = text, _MARKERS.sub(lambda marker: re.sub(r"[^\w\s=.-]", "", marker[0]), text)
    # Twice: cleaning can take a secret apart that stood in the text, or put one together.
    return redact(_BULLET.sub("", " ".join(text.split())))


def _join(blocks: Sequence[str]) -> str:
    return "\n".join(blocks).strip()


def _text_of(block: str) -> str:
    return " ".join(block.removeprefix("- ").split())


def _show(blocks: Sequence[str]) -> str:
    """The notes for reading; bytes that are no text become question marks."""
    return _join(blocks).encode("utf-8", "surrogateescape").decode("utf-8", "replace") or "(nothing)"


def _report(target: Target, blocks: Sequence[str], context: ToolContext, **more: str) -> str:
    used = f"{len(_join(blocks))} of {target.limit} characters"
    return tool_result(**more, file=target.file, used=used, notes=context.redact(_show(blocks)))


# --- files


def _read_blocks(path: Path) -> list[str]:
    """The notes as they stand in the file."""
    try:
        text = path.read_bytes().decode("utf-8", "surrogateescape")
    except FileNotFoundError:
        return []
    except OSError as problem:
        raise ToolFailure(f"{path.name} cannot be read: {problem.strerror}.") from problem
    return split_notes(text)


def get_memory_dir() -> Path:
    """Where the owner's notes are; in the turn of another person, theirs."""
    turn = current_turn.get()
    own = turn.tools.own if turn is not None and turn.tools is not None else None
    return (own or get_hermes_home()) / FOLDER


@contextmanager
def hold_for_change(path: Path) -> Iterator[None]:
    """One writer at a time; what the disk refuses is said to the model."""
    try:
        with hold_folder(path.parent):
            yield
    except OSError as problem:
        raise ToolFailure(f"{path.name} cannot be written: {problem.strerror}. It is as it was.") from problem


registry.register(NAME, TOOLSET, SCHEMA, manage_memory, emoji="🧠")
