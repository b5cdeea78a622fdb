"""Regular expressions that others wrote: of the model, or made of a line in a file. They cost what the text is long.

Python's own engine tries again and again where a pattern is ambiguous, for hours, and holds the interpreter meanwhile.
RE2 reads the text once and lets other threads work. What it cannot do that way it refuses.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

import re2

from hermes_base.errors import ToolFailure
from hermes_constants.ordinary_files import open_file

_NOT_LINEAR = re.compile(r"invalid perl operator: \(\?(P|<?[=!])|invalid escape sequence: \\[1-9gk]")
_RULE_BYTES = 100_000
_LINE_CHARS = 4_096  # no path is longer
_PARTS = re.compile(r"\*\*/|/\*\*$|\*\*|\*|\?|\[!?[^\]/]+\]|\\.|.", re.DOTALL)
_WILD = {"**/": "(?:.*/)?", "/**": "/.*", "**": ".*", "*": "[^/]*", "?": "[^/]"}


class LinearPattern:
    """A compiled pattern; raises ToolFailure for one that cannot be used."""

    def __init__(self, pattern: str) -> None:
        options = re2.Options()
        options.log_errors = False
        options.never_capture = True
        try:
            self._expression = re2.compile(_encode(pattern), options)
        except re2.error as problem:
            said = problem.args[0] if problem.args else ""
            reason = said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)
            if _NOT_LINEAR.search(reason):
                raise ToolFailure(
                    "The pattern uses look-around or a back-reference, which searching does not know.",
                    fix="Search for the plain part of it, and look at the hits.",
                ) from None
            raise ToolFailure(
                f"The pattern is no regular expression: {reason}.", fix="Escape special letters."
            ) from None

    def finds(self, text: str) -> bool:
        """Whether it fits somewhere in the text."""
        return self._expression.search(_encode(text)) is not None

    def fits(self, text: str) -> bool:
        """Whether it fits the text as a whole."""
        return self._expression.fullmatch(_encode(text)) is not None


def _encode(text: str) -> bytes:
    """Names of files may hold bytes that are no UTF-8."""
    return text.encode("utf-8", "surrogatepass")


# --- the rules of .gitignore files, as far as searching needs them


@dataclass(frozen=True, slots=True)
class Rule:
    """One line of a .gitignore, as an expression over the path below the searched folder."""

    expression: LinearPattern
    ignores: bool
    folders_only: bool


def is_ignored(rules: Sequence[Rule], path: str, *, folder: bool) -> bool:
    """Rules come from the outermost folder inwards: the last that fits decides."""
    for rule in reversed(rules):
        if (folder or not rule.folders_only) and rule.expression.fits(path):
            return rule.ignores
    return False


def read_rules(base: str, descriptor: int) -> list[Rule]:
    """The rules of the .gitignore in an open folder; `base` is its path with a slash, empty for the first one."""
    try:
        with open_file(".gitignore", folder=descriptor) as file:
            text = file.read(_RULE_BYTES).decode("utf-8", "replace")
    except OSError:
        return []
    return [rule for line in text.splitlines() if (rule := make_rule(line, base)) is not None]


def make_rule(line: str, base: str = "") -> Rule | None:
    """The rule of one line; None for comments, empty lines and what cannot be read."""
    line = line.rstrip()
    if not line or line.startswith("#") or len(line) > _LINE_CHARS:
        return None
    ignores = not line.startswith("!")
    line = line.removeprefix("!")
    folders_only = line.endswith("/")
    line = line.rstrip("/")
    anywhere = "" if "/" in line else "(?:.*/)?"
    body = ""
    for part in _PARTS.findall(line.lstrip("/")):
        if part in _WILD:
            body += _WILD[part]
        elif part.startswith("[") and len(part) > 2:
            body += "[^" + part[2:] if part[1] == "!" else part
        else:
            body += re.escape(part[1:] if part.startswith("\\") and len(part) == 2 else part)
    try:
        return Rule(LinearPattern(re.escape(base) + anywhere + body), ignores, folders_only) if body else None
    except ToolFailure:
        return None
