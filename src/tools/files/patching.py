"""Changes to a text, as pure functions: search and replace, and hunks, that tolerate small drift.

What an edit does not name stays as it is, line ends and trailing blanks included.
"""

import bisect
import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from hermes_base.errors import ToolFailure
from tools.files.encodings import find_line_end

KEEP, DROP, ADD = " ", "-", "+"
NEAR_LINES = 3
_NEAR_LIMIT = 20_000  # lines; beyond this no nearest place is looked for
_LISTED = 5
_RETURN = re.compile(r"\r\n")
_LINE = re.compile(r"([^\n]*?)(\r?\n)|([^\n]+)")


@dataclass(frozen=True, slots=True)
class FileLine:
    """One line of a file and how it ends; only the last one may have no end."""

    body: str
    end: str


@dataclass(frozen=True, slots=True)
class PatchStep:
    """One line of a change: kept, dropped or added."""

    kind: str
    body: str


@dataclass(frozen=True, slots=True)
class Hunk:
    """A change of neighbouring lines; `start` is the line it should begin at, from 1, when known.

    `end_old` and `end_new` say that the last line of that side has no line end.
    """

    steps: tuple[PatchStep, ...]
    start: int | None = None
    end_old: bool = False
    end_new: bool = False

    @property
    def old(self) -> list[str]:
        return [step.body for step in self.steps if step.kind != ADD]


@dataclass(frozen=True, slots=True)
class Match:
    """Where a hunk fits, and how its indentation becomes that of the file."""

    at: int
    fit: Callable[[str], str]


def split_lines(text: str) -> list[FileLine]:
    """A text as lines; joined again they give exactly the text. Only \\n and \\r\\n end a line."""
    return [FileLine(*((m[1], m[2]) if m[2] else (m[3], ""))) for m in _LINE.finditer(text)]


def join_lines(lines: Iterable[FileLine]) -> str:
    return "".join(line.body + line.end for line in lines)


def replace_text(text: str, old: str, new: str, *, every: bool = False) -> str:
    """Replace `old` by `new` where it occurs once (or everywhere); otherwise a ToolFailure that shows where to look."""
    plain_old, plain_new = old.replace("\r\n", "\n"), new.replace("\r\n", "\n")
    if not plain_old:
        raise ToolFailure("The text to replace is empty.", fix="Name the text, or use write_file for a new file.")
    if plain_old == plain_new:
        raise ToolFailure("The old and the new text are the same; there is nothing to change.")
    plain = text.replace("\r\n", "\n")
    starts = [match.start() for match in re.finditer(re.escape(plain_old), plain)]
    if not starts:
        return _replace_drifted(text, plain_old, plain_new, every)
    _refuse_several([plain.count("\n", 0, at) + 1 for at in starts], every)
    # Only what differs between old and new is touched, so that line ends around it stay.
    head = _count_common(plain_old, plain_new)
    tail = _count_common(plain_old[head:][::-1], plain_new[head:][::-1])
    middle = plain_new[head : len(plain_new) - tail]
    # Where in the plain text a carriage return is missing. One before a place, but not right before it, is counted.
    missing = [match.start() - count for count, match in enumerate(_RETURN.finditer(text))]
    parts, done = [], 0
    for at in starts:
        start, stop = (n + bisect.bisect_left(missing, n) for n in (at + head, at + len(plain_old) - tail))
        whole = text[start:stop]
        end = find_line_end(whole if "\n" in whole else text)
        parts += [text[done:start], middle.replace("\n", end)]
        done = stop
    return "".join([*parts, text[done:]])


def apply_hunks(text: str, hunks: Sequence[Hunk]) -> str:
    """Apply the hunks of one file in order; a line number that is off is corrected by what the lines say."""
    lines, moved, first = split_lines(text), 0, 0
    for hunk in hunks:
        match = _place_hunk(lines, hunk, moved, first)
        before = len(lines)
        lines = _splice(lines, match, hunk)
        grown = len(lines) - before
        moved = match.at + 1 - hunk.start + grown if hunk.start and hunk.old else moved + grown
        first = match.at + len(hunk.old) + grown
    return join_lines(lines)


def describe_nearest(lines: Sequence[FileLine], old: Sequence[str]) -> str:
    """The lines that come closest to what was looked for, with their numbers: where most of the wanted lines follow,
    else the line most like the first of them."""
    wanted = [body.strip() for body in old]
    bodies = [line.body.strip() for line in lines[:_NEAR_LIMIT]]
    places = {body: i for i, body in reversed(list(enumerate(wanted))) if body}
    best, most = None, 0
    for at, body in enumerate(bodies):
        if body in places:
            rest = wanted[places[body] :]
            count = sum(a == b for a, b in zip(bodies[at : at + len(rest)], rest, strict=False) if a)
            if count > most:
                best, most = max(0, at - places[body]), count
    if best is None:
        first = next((body for body in wanted if body), "")
        close = difflib.get_close_matches(first[:200], [body[:200] for body in bodies[:2000]], 1, 0.5)
        best = next((i for i, body in enumerate(bodies) if body[:200] == close[0]), None) if close else None
    if best is None:
        return ""
    shown = range(max(0, best - 1), min(len(lines), best + max(NEAR_LINES, min(len(wanted), 12)) + 1))
    return "The nearest place is:\n" + "\n".join(f"{n + 1}| {lines[n].body[:300]}" for n in shown)


def _refuse_several(numbers: Sequence[int], every: bool) -> None:
    if len(numbers) > 1 and not every:
        listed = ", ".join(map(str, numbers[:_LISTED])) + (" …" if len(numbers) > _LISTED else "")
        raise ToolFailure(
            f"The old text fits {len(numbers)} places (lines {listed}).",
            fix="Add lines around it until it fits one place, or set all to true.",
        )


def _count_common(one: str, other: str) -> int:
    count = 0
    for a, b in zip(one, other, strict=False):
        if a != b:
            break
        count += 1
    return count


def _replace_drifted(text: str, old: str, new: str, every: bool) -> str:
    """Whole lines that differ from the old text in trailing blanks or by one indentation."""
    ended = old.endswith("\n")
    old_lines = (old[:-1] if ended else old).split("\n")
    new_lines = [] if not new else (new.removesuffix("\n") if ended else new).split("\n")
    steps: list[PatchStep] = []
    for kind, i, j, k, m in difflib.SequenceMatcher(None, old_lines, new_lines, autojunk=False).get_opcodes():
        if kind == "equal":
            steps += [PatchStep(KEEP, body) for body in old_lines[i:j]]
        else:
            steps += [PatchStep(DROP, body) for body in old_lines[i:j]]
            steps += [PatchStep(ADD, body) for body in new_lines[k:m]]
    lines, hunk = split_lines(text), Hunk(tuple(steps))
    matches = _match_lines([line.body for line in lines], hunk.old)
    if not matches:
        raise ToolFailure(
            "The old text is not in the file.", fix=describe_nearest(lines, hunk.old) or "Read the file again."
        )
    _refuse_several([match.at + 1 for match in matches], every)
    apart: list[Match] = []
    for match in matches:
        if not apart or match.at >= apart[-1].at + len(hunk.old):
            apart.append(match)
    for match in reversed(apart):
        lines = _splice(lines, match, hunk)
    return join_lines(lines)


def _match_lines(bodies: Sequence[str], old: Sequence[str], first: int = 0) -> list[Match]:
    """All places where the lines fit, by the strictest way of comparing that finds any."""
    if not any(body.strip() for body in old):
        places = range(first, len(bodies) - len(old) + 1)
        return [Match(at, str) for at in places if _fit_trailing(bodies[at : at + len(old)], old)]
    anchor = next(i for i, body in enumerate(old) if body.strip())
    core = old[anchor].strip()
    last = len(bodies) - len(old)
    starts = [at for at in range(first, last + 1) if bodies[at + anchor].strip() == core]
    for compare in (_fit_exact, _fit_trailing, _fit_indented):
        fits = [(at, compare(bodies[at : at + len(old)], old)) for at in starts]
        found = [Match(at, fit) for at, fit in fits if fit is not None]
        if found:
            return found
    return []


def _fit_exact(there: Sequence[str], old: Sequence[str]) -> Callable[[str], str] | None:
    return str if list(there) == list(old) else None


def _fit_trailing(there: Sequence[str], old: Sequence[str]) -> Callable[[str], str] | None:
    return str if all(a.rstrip() == b.rstrip() for a, b in zip(there, old, strict=True)) else None


def _fit_indented(there: Sequence[str], old: Sequence[str]) -> Callable[[str], str] | None:
    """One and the same indentation more, or less, on every line that is not blank."""
    pairs = [(a.rstrip(), b.rstrip()) for a, b in zip(there, old, strict=True)]
    if any(a.lstrip() != b.lstrip() for a, b in pairs):
        return None
    indents = [(a[: len(a) - len(a.lstrip())], b[: len(b) - len(b.lstrip())]) for a, b in pairs if a]
    there_indent, old_indent = indents[0]
    if len(there_indent) >= len(old_indent):
        more = there_indent[: len(there_indent) - len(old_indent)]
        return (lambda body: more + body if body.strip() else body) if _all_shifted(indents, more) else None
    less = old_indent[: len(old_indent) - len(there_indent)]
    return (lambda body: body.removeprefix(less)) if _all_shifted([(b, a) for a, b in indents], less) else None


def _all_shifted(indents: Iterable[tuple[str, str]], shift: str) -> bool:
    return all(longer == shift + shorter for longer, shorter in indents)


def _place_hunk(lines: Sequence[FileLine], hunk: Hunk, moved: int, first: int) -> Match:
    """Where a hunk belongs: at its line number when it fits there, else at the one place where it fits."""
    expected = None if hunk.start is None else hunk.start - 1 + moved
    if not hunk.old:
        at = 0 if expected is None else expected + 1
        if not first <= at <= len(lines) or (expected is None and lines):
            raise ToolFailure("A hunk adds lines and does not say where.", fix="Put lines of the file around them.")
        return Match(at, str)
    matches = _match_lines([line.body for line in lines], hunk.old, first)
    for match in matches:
        if match.at == expected:
            return match
    if not matches:
        near = describe_nearest(lines, hunk.old)
        where = f" for line {hunk.start}" if hunk.start else ""
        raise ToolFailure(f"The hunk{where} does not fit the file.", fix=near or "Read the file again.")
    _refuse_several([match.at + 1 for match in matches], False)
    return matches[0]


def _splice(lines: Sequence[FileLine], match: Match, hunk: Hunk) -> list[FileLine]:
    """The lines with the hunk applied; lines it keeps stay as the file has them."""
    stop = match.at + len(hunk.old)
    there = list(lines[match.at : stop])
    # The line end of the neighbours, else the one that most lines of the file have.
    end = next((line.end for line in there if line.end), "") or find_line_end(join_lines(lines))
    made: list[FileLine] = []
    taken = 0
    for step in hunk.steps:
        if step.kind == ADD:
            made.append(FileLine(match.fit(step.body), end))
            continue
        if step.kind == KEEP:
            made.append(there[taken])
        else:
            end = there[taken].end or end
        taken += 1
    done = [*lines[: match.at], *made, *lines[stop:]]
    adds_last = [step.kind for step in hunk.steps if step.kind != DROP][-1:] == [ADD]
    if made and adds_last and stop == len(lines):
        had_end = not lines or bool(lines[-1].end)
        wants_end = not hunk.end_new and (had_end or hunk.end_old)
        done[-1] = FileLine(done[-1].body, done[-1].end if wants_end else "")
    # What was the last line of the file may not be it any more.
    return [line if line.end else FileLine(line.body, end) for line in done[:-1]] + done[-1:]
