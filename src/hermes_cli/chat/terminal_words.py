"""The words of the terminal chat: what is shown for an event, and what a typed answer means; no input or output."""

from dataclasses import replace

from hermes_base import command_table
from hermes_base.chat import FileSent, Question, Said, ToolEnded, ToolStarted, TurnEnded
from hermes_base.settings import DisplaySettings
from hermes_base.text.harmless import clean_shown as clean_shown
from hermes_base.text.tool_views import PATCHES
from hermes_base.turn.consent import WITH_A_WORD, describe_ways, find_language, is_consent, label_choices, read_consent

_LONGEST_ASKED = 60  # characters, so that the time and the fault behind it still fit
_YES = frozenset({"y", "yes", "ok", "okay", "once", "allow", "approve", "accept", "confirm", "continue"})
_NO = frozenset({"n", "no", "deny", "refuse", "reject", "cancel", "decline", "stop", "abort"})


Display = DisplaySettings  # how much is shown, and how


def clean_typed(text: str) -> str:
    """A text from the keyboard or the command line, with bytes that were no UTF-8 replaced."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def read_command(text: str) -> command_table.Command | None:
    """The slash command that a typed text is; None: it is a message, or there is no such command."""
    parsed = command_table.parse(text)
    return parsed[0] if parsed else None


def is_answered_by_note(text: str) -> bool:
    """Whether it is a slash command, of whoever, that begins no turn."""
    parsed = command_table.parse(text)
    return parsed is not None and not (parsed[0] and parsed[0].begins_turn)


def squeeze(text: str) -> str:
    """A text on one line."""
    return " ".join(clean_shown(text).split())


def describe_start(event: ToolStarted) -> str:
    return f"→ {squeeze(event.name)} {squeeze(event.preview)}".rstrip()


def describe_end(event: ToolEnded, asked: str = "") -> str:
    """A finished call on one line: tool, what it was asked for, time, and what came of it when that is news."""
    call = f"{'✓' if event.ok else '✗'} {squeeze(event.name)} {_shorten(squeeze(asked))}".rstrip()
    told = squeeze(event.preview) if not (event.ok and asked) else ""
    return " · ".join(part for part in (call, describe_seconds(event.seconds), told) if part)


def describe_outcome(event: ToolEnded, asked: str = "") -> list[str]:
    """A finished call with what came of it, line by line."""
    told = clean_shown(event.preview).splitlines()
    return [describe_end(replace(event, preview=""), asked), *(f"  {line}" for line in told)]


def find_colour(event: ToolEnded, line: str) -> str:
    """Of a line of `describe_outcome`: what a patch took and what it put in its place differ."""
    changed = {"  +": "green", "  -": "red"}.get(line[:3], "") if event.name in PATCHES else ""
    return changed or ("dim" if event.ok else "red")


def describe_said(event: Said) -> str:
    """What somebody else wrote in the same conversation."""
    by = squeeze(event.by) or "another terminal"
    return f"{by} › {clean_shown(event.text).rstrip()}"


def describe_file(event: FileSent) -> str:
    told = f": {squeeze(event.text)}" if event.text.strip() else ""
    return f"File {squeeze(event.name)}{told} ({squeeze(event.path)})"


def _shorten(text: str) -> str:
    return text if len(text) <= _LONGEST_ASKED else text[: _LONGEST_ASKED - 1] + "…"


#: What is said where the beginning of an answer that does not count any more cannot be taken off the screen.
BEGINS_ANEW = "The answer above broke off and does not count; it begins anew."


def describe_seconds(seconds: float) -> str:
    if seconds < 10:
        return f"{seconds:.1f} s"
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"


def describe_ending(event: TurnEnded, *, stopped_here: bool, explained: bool) -> str:
    """What to say when a turn ended without its answer; empty when there is nothing to add."""
    if event.interrupted:
        return (
            "Interrupted by you." if stopped_here else "" if explained else event.reason or "The turn was interrupted."
        )
    if event.completed or explained:
        return ""
    return "The turn ended without an answer. What was said is kept; /retry asks again."


def find_missing(shown: str, answer: str) -> str | None:
    """The part of the answer that has not been shown yet; None: what was shown is not the beginning of it."""
    shown, answer = shown.strip(), answer.strip()
    return answer[len(shown) :] if answer.startswith(shown) else None


def describe_question(question: Question) -> list[str]:
    """The question and its numbered choices, line by line."""
    labels = label_choices(question.kind, question.choices)
    choices = [f"  {number}. {clean_shown(label)}" for number, label in enumerate(labels, start=1)]
    why = [f"  ({clean_shown(question.reason)})"] if question.reason else []
    word = [f"  ({WITH_A_WORD})"] if is_consent(question.kind, question.choices) else []
    return [*clean_shown(question.text).splitlines(), *why, *choices, *word]


def colour_question(question: Question, line: str) -> str:
    """Of a line of `describe_question`: what a change takes from a file and what it puts there differ."""
    if question.kind != "approval" or find_language(question.text) != "diff":
        return ""
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")


_UNASKED = {
    "approval": "Not allowed, since nobody can be asked here: {}",
    "confirmation": "Not confirmed, since nobody can be asked here: {}",
}


def describe_unasked(question: Question) -> str:
    """What became of a question that nobody could be asked, in one sentence."""
    asked = " ; ".join(map(squeeze, question.text.splitlines()))
    return _UNASKED.get(question.kind, "Not answered, since nobody can be asked here: {}").format(asked)


def describe_ways_to_answer(question: Question) -> str:
    """The hint after an answer that was not understood."""
    return f"{clean_shown(describe_ways(question.kind, question.choices))} (or a number)."


def read_answer(question: Question, typed: str) -> str | None:
    """The answer that was meant; None when it is none of the choices and the question leaves no other way."""
    typed = typed.strip()
    if not question.choices:
        return typed or None
    if is_consent(question.kind, question.choices):
        return read_consent(question.choices, typed) or None
    chosen = _choose(question.choices, typed.lower())
    if chosen is None and question.kind == "clarification":
        return typed or None  # the choices are suggestions
    return chosen


def _choose(choices: tuple[str, ...], typed: str) -> str | None:
    """By name, by number, by y or n, or by a beginning that only one choice has."""
    by_name = {choice.lower(): choice for choice in reversed(choices)}
    if typed in by_name:
        return by_name[typed]
    if typed.isascii() and typed.isdigit() and 1 <= int(typed) <= len(choices):
        return choices[int(typed) - 1]
    for short, words in ((("y", "yes"), _YES), (("n", "no"), _NO)):
        if typed in short:
            first_words = ((choice, choice.lower().split()[:1]) for choice in choices)
            return next((choice for choice, first in first_words if first and first[0].strip(",.:;!") in words), None)
    begun = [choice for choice in choices if typed and choice.lower().startswith(typed)]
    return begun[0] if len(begun) == 1 else None
