"""Reads unified diffs, git's among them: which files they create, change, delete or rename, and the hunks."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from hermes_base.errors import ToolFailure
from tools.files.patching import ADD, DROP, KEEP, Hunk, PatchStep

_HUNK = re.compile(r"@@(?: -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))?)? ?.*@@|@@")
_NOTHING = "/dev/null"
_NO_END = "\\"
_GIT_NAMES = re.compile(r'diff --git ("a/.+"|a/.+?) ("b/.+"|b/.+)')
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2}|.)")
_LETTERS = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


@dataclass
class FileDiff:
    """What a diff does to one file; `old` None: it creates the file, `new` None: it deletes it."""

    old: str | None
    new: str | None
    hunks: list[Hunk] = field(default_factory=list)


def read_diff(text: str) -> list[FileDiff]:
    """The files of a diff in order; a ToolFailure says what is missing in one that cannot be read."""
    lines = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    files: list[FileDiff] = []
    at = 0
    while at < len(lines):
        if _is_header(lines, at):
            at = _read_names(lines, at, files)
        elif lines[at].startswith("diff --git "):
            at = _read_git_header(lines, at, files)
        elif lines[at].startswith("@@"):
            at = _read_hunk(lines, at, files)
        else:
            at += 1  # words around a diff, index lines and modes
    files = [file for file in files if file.old != file.new or file.hunks]
    if not files:
        raise ToolFailure("This is no unified diff.", fix="Start it with --- a/FILE, +++ b/FILE and @@ -L,N +L,N @@.")
    return files


def _is_header(lines: Sequence[str], at: int) -> bool:
    return lines[at].startswith("--- ") and at + 1 < len(lines) and lines[at + 1].startswith("+++ ")


def _read_names(lines: Sequence[str], at: int, files: list[FileDiff]) -> int:
    old, new = _clean_name(lines[at][4:]), _clean_name(lines[at + 1][4:])
    if old is None and new is None:
        raise ToolFailure("The diff names /dev/null on both sides.", fix="Name the file on one of them.")
    # `a/` and `b/` are git's only when both are there; without them two names may be a copy and its original.
    if old is None or new is None or (old.startswith("a/") and new.startswith("b/")):
        old, new = old and old.removeprefix("a/"), new and new.removeprefix("b/")
    elif old != new:
        raise ToolFailure(
            f"The diff names {old} and {new}.", fix="Use the same name twice, or a/ and b/ before them for a rename."
        )
    known = files[-1] if files and not files[-1].hunks and lines[at - 1 : at] else None
    if known and (old is None or known.old in (None, old)) and (new is None or known.new in (None, new)):
        files.pop()  # the same file, announced by a git header
    files.append(FileDiff(old, new))
    return at + 2


def _clean_name(name: str) -> str | None:
    """A name without the time that diff puts behind a tab, and without quotes."""
    name = _unquote(name.split("\t")[0].strip())
    return None if name == _NOTHING else name


def _unquote(name: str) -> str:
    """git writes names with unusual letters in quotes, byte by byte."""
    if len(name) < 2 or not name[0] == name[-1] == '"':
        return name
    raw = _ESCAPE.sub(
        lambda code: bytes([int(code[1], 8)]) if code[1].isdigit() else _LETTERS.get(code[1], code[1]),
        name[1:-1].encode(),
    )
    return raw.decode("utf-8", "surrogateescape")


def _read_git_header(lines: Sequence[str], at: int, files: list[FileDiff]) -> int:
    """A file that git announces: renames and empty files have no names but these."""
    names = _GIT_NAMES.fullmatch(lines[at])
    file = FileDiff(_unquote(names[1])[2:], _unquote(names[2])[2:]) if names else FileDiff("", "")
    at += 1
    while at < len(lines) and not lines[at].startswith(("diff --git ", "@@")) and not _is_header(lines, at):
        line = lines[at]
        if line.startswith("rename from "):
            file.old = _unquote(line[12:])
        elif line.startswith("rename to "):
            file.new = _unquote(line[10:])
        elif line.startswith("new file mode"):
            file.old = None
        elif line.startswith("deleted file mode"):
            file.new = None
        elif line.startswith(("GIT binary patch", "Binary files ")):
            raise ToolFailure("A diff cannot change binary files here.", fix="Use the terminal for those.")
        at += 1
    files.append(file)
    return at


def _read_hunk(lines: Sequence[str], at: int, files: list[FileDiff]) -> int:
    header = _HUNK.match(lines[at])
    if header is None or not files:
        raise ToolFailure(
            f"The diff's line {at + 1} starts a hunk that cannot be read: {lines[at][:80]}",
            fix="Name the file with --- and +++ lines first and write @@ -L,N +L,N @@.",
        )
    start = int(header[1]) if header[1] else None
    left = {"old": int(header[2] or 1), "new": int(header[4] or 1)} if header[1] else {"old": 0, "new": 0}
    steps, ends, at = _read_steps(lines, at + 1, left)
    if not any(step.kind != KEEP for step in steps):
        raise ToolFailure("A hunk of the diff changes nothing.", fix="Mark lines with - and +.")
    files[-1].hunks.append(Hunk(tuple(steps), start, "old" in ends, "new" in ends))
    return at


_SIDES = {KEEP: ("old", "new"), DROP: ("old",), ADD: ("new",)}


def _read_steps(lines: Sequence[str], at: int, left: dict[str, int]) -> tuple[list[PatchStep], set[str], int]:
    """The lines of a hunk; the counts of its header help, but lines that go on past them belong to it too."""
    steps: list[PatchStep] = []
    ends: set[str] = set()
    while at < len(lines):
        line = lines[at]
        counted = left["old"] > 0 or left["new"] > 0
        if line.startswith(_NO_END):
            ends.update(_SIDES[steps[-1].kind] if steps else ())
        elif line[:1] in _SIDES and (counted or not _is_header(lines, at)):
            steps.append(PatchStep(line[0], line[1:]))
        elif not line and (counted or _goes_on(lines, at)):
            steps.append(PatchStep(KEEP, ""))  # many editors and models drop the blank of an empty line
        else:
            break
        if not line.startswith(_NO_END):
            for side in _SIDES[steps[-1].kind]:
                left[side] -= 1
        at += 1
    return steps, ends, at


def _goes_on(lines: Sequence[str], at: int) -> bool:
    """Whether an empty line is followed by more of the hunk."""
    after = next((i for i in range(at, len(lines)) if lines[i]), None)
    return after is not None and lines[after][:1] in _SIDES and not _is_header(lines, after)
